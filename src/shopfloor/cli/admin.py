"""shopfloor admin rotate"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor
from shopfloor.cli.output import format_count, print_result
from shopfloor.settings import Settings
from shopfloor.transports.server import OPERATOR_TOKEN_FILE, write_private

app = create_app("Rotate the operator's token and the signing key.")


@app.callback()
def describe_group() -> None:
    """Rotate the operator's token and the signing key."""


@command(app, "rotate", existing=True)
def rotate(
    settings: Settings,
    what: Annotated[Literal["operator-token", "signing-key"], typer.Argument(help="What to replace.")],
    as_json: AsJson = False,
) -> None:
    """Replace the operator's token, or the key that signs user tokens. The old one stops working immediately.

    The operator's new token is in operator.token in the data folder. After the signing key was replaced, issue a new
    token to each user.
    """
    with open_shopfloor(settings) as shopfloor:
        if what == "operator-token":
            response = call_desk(shopfloor, "token_rotate_operator")
            path = settings.data / OPERATOR_TOKEN_FILE
            write_private(path, response["token"] + "\n")
            done = f"Revoked {format_count(response['revoked'], 'operator token')}; the new one is in {path}"
        else:
            response = call_desk(shopfloor, "signing_key_rotate")
            done = (
                f"Revoked {format_count(response['revoked'], 'user token')}."
                " Issue a new one to each user: shopfloor token issue --user NAME"
            )
    print_result({"rotated": what, "revoked": response["revoked"]}, as_json, done)

"""shopfloor token issue|list|revoke"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from shopfloor.cli.connect import FIRST_CREDENTIAL_NOTICE, is_open, print_client_commands
from shopfloor.cli.options import AsJson, call_desk, command, create_app, list_desk, open_shopfloor
from shopfloor.cli.output import format_age, format_table, print_result
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

app = create_app("Issue, list and revoke tokens.")

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60}
_MAX_DAYS = 3650


@command(app, "issue")
def issue_token(
    settings: Settings,
    agent: Annotated[str | None, typer.Option("--agent", help="Agent that the token is for.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="User that the token is for.")] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", help="Lifetime: 90s, 30m, 1h, 7d. Agent tokens do not expire by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token for an agent or a user, and print it. It is shown only once.

    Once the first token is issued, every call requires one. This cannot be undone.
    """
    if (agent is None) == (user is None):
        raise InvalidInput("Give either --agent or --user")
    seconds = None if ttl is None else parse_lifetime(ttl)
    with open_shopfloor(settings) as shopfloor:
        was_open = is_open(shopfloor)
        response = call_desk(shopfloor, "token_issue", agent=agent, user=user, lifetimeSeconds=seconds)
        issued, text = response["issued"], response["token"]
        print_result({"id": issued["id"], "token": text, "expiresAt": issued["expiresAt"]}, as_json, text)
        if not as_json:
            if was_open:
                print(FIRST_CREDENTIAL_NOTICE, file=sys.stderr)
            print_client_commands(shopfloor, settings, text)


@command(app, "list", read_only=True)
def list_tokens(settings: Settings, as_json: AsJson = False) -> None:
    """List the tokens of agents and users, without their secrets."""
    with open_shopfloor(settings) as shopfloor:
        rows = [_row(token) for token in list_desk(shopfloor, "token_list", "tokens")]
    lines = [
        {
            "id": row["id"],
            "kind": row["kind"],
            "owner": row["owner"],
            "state": "revoked" if row["revokedAt"] else "valid",
            "created": format_age(row["createdAt"]),
            "expires": "never" if row["expiresAt"] is None else format_age(row["expiresAt"]),
        }
        for row in rows
    ]
    empty = "There are no tokens yet: shopfloor token issue --agent NAME"
    print_result(rows, as_json, format_table(lines, empty, optional=("created", "expires", "kind")))


@command(app, "revoke")
def revoke_token(
    settings: Settings, id: Annotated[str, typer.Argument(help="Id of the token.")], as_json: AsJson = False
) -> None:
    """Revoke a token. It stops working immediately, on other replicas within a second."""
    with open_shopfloor(settings) as shopfloor:
        row = _row(call_desk(shopfloor, "token_revoke", id=id)["revoked"])
    print_result(row, as_json, f"{id} is revoked")


def parse_lifetime(text: str) -> int:
    """Return the seconds of a duration such as 30m."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if not match:
        raise InvalidInput(f"--ttl must be a duration such as 90s, 30m, 1h or 7d, not '{text}'", field="ttl")
    seconds = int(match[1]) * _UNIT_SECONDS[match[2]]
    if seconds > _MAX_DAYS * _UNIT_SECONDS["d"]:
        raise InvalidInput(f"--ttl must be at most {_MAX_DAYS}d, not '{text}'", field="ttl")
    return seconds


def _row(token: dict[str, Any]) -> dict[str, Any]:
    return {key: token[key] for key in ("id", "kind", "owner", "createdAt", "expiresAt", "revokedAt")}

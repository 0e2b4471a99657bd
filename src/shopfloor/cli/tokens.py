"""shopfloor token issue|list|revoke"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.domain.times import DAY, HOUR, MINUTE, SECOND, iso_or_none
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

app = typer.Typer(help="Tokens: issue, list and revoke them.", no_args_is_help=True)

_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_LONGEST = 3650 * DAY


@command(app, "issue")
def issue(
    settings: Settings,
    agent: Annotated[str | None, typer.Option("--agent", help="The agent it is for.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The user it is for.")] = None,
    ttl: Annotated[str | None, typer.Option("--ttl", help="How long it lives: 90s, 30m, 1h, 7d.")] = None,
    as_json: AsJson = False,
) -> None:
    """Issue a token and print it, which is shown only this once."""
    if (agent is None) == (user is None):
        raise InvalidInput("Name either --agent or --user")
    lifetime = None if ttl is None else parse_ttl(ttl)
    with opened(settings) as shopfloor:
        issued, text = shopfloor.issue_token(agent=agent, user=user, lifetime=lifetime)
    answer = {"id": issued.id, "token": text, "expiresAt": iso_or_none(issued.expires_at)}
    show(answer, as_json, text)


@command(app, "list")
def list_tokens(settings: Settings, as_json: AsJson = False) -> None:
    """List the tokens of agents and users, without their secrets."""
    with opened(settings) as shopfloor:
        rows = [_row(token) for token in shopfloor.tokens()]
    show(rows, as_json, table(rows, "There are no tokens yet: shopfloor token issue --agent NAME"))


@command(app, "revoke")
def revoke(
    settings: Settings, id: Annotated[str, typer.Argument(help="The token's id.")], as_json: AsJson = False
) -> None:
    """Revoke a token; it opens nothing from now on."""
    with opened(settings) as shopfloor:
        row = _row(shopfloor.revoke_token(id))
    show(row, as_json, f"{id} is revoked")


def parse_ttl(text: str) -> int:
    """A time span in microseconds."""
    match = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    if not match:
        raise InvalidInput(f"'{text}' is not a time span; write 90s, 30m, 1h or 7d", field="ttl")
    span = int(match[1]) * _UNITS[match[2]]
    if span > _LONGEST:
        raise InvalidInput(f"'{text}' is too long; a token lives at most 3650d", field="ttl")
    return span


def _row(token: Any) -> dict[str, Any]:
    return {
        "id": token.id,
        "kind": token.kind.value,
        "owner": token.owner,
        "createdAt": iso_or_none(token.created_at),
        "expiresAt": iso_or_none(token.expires_at),
        "revokedAt": iso_or_none(token.revoked_at),
    }

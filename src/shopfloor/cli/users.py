"""shopfloor user add|list"""

from __future__ import annotations

from typing import Annotated

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.settings import Settings

app = typer.Typer(help="Users: the people who keep their own lists here.", no_args_is_help=True)


@command(app, "add")
def add(
    settings: Settings, name: Annotated[str, typer.Argument(help="The user's name.")], as_json: AsJson = False
) -> None:
    """Add a user and print a token, which is shown only this once."""
    with opened(settings) as shopfloor:
        person, token = shopfloor.add_user(name)
    show({"id": person.name, "token": token}, as_json, f"{person.name}\n{token}")


@command(app, "list")
def list_users(settings: Settings, as_json: AsJson = False) -> None:
    """List the users."""
    with opened(settings) as shopfloor:
        rows = [{"id": person.name} for person in shopfloor.users() if person.removed_at is None]
    show(rows, as_json, table(rows, "There are no users yet: shopfloor user add NAME"))

"""shopfloor user add|password|list|remove"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shopfloor.cli.options import AsJson, command, opened, show, table
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

app = typer.Typer(help="Users: the people who keep their own lists here.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.")]


@command(app, "add")
def add(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Add a user and print a token, which is shown only this once."""
    with opened(settings) as shopfloor:
        person, token = shopfloor.add_user(name)
    show({"id": person.name, "token": token}, as_json, f"{person.name}\n{token}")


@command(app, "password")
def password(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Set the password that NAME signs in with on the page; it is asked for, or read from the standard input."""
    with opened(settings) as shopfloor:
        person = shopfloor.set_password(name, _ask())
    show({"id": person.name}, as_json, f"{person.name} can sign in with the new password")


@command(app, "list")
def list_users(settings: Settings, as_json: AsJson = False) -> None:
    """List the users."""
    with opened(settings) as shopfloor:
        rows = [{"id": person.name} for person in shopfloor.users() if person.removed_at is None]
    show(rows, as_json, table(rows, "There are no users yet: shopfloor user add NAME"))


@command(app, "remove")
def remove(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Remove a user, who is signed out everywhere; the list is kept for 30 days, in case the user is added again."""
    with opened(settings) as shopfloor:
        person = shopfloor.remove_user(name)
    show({"id": person.name, "removed": True}, as_json, f"{person.name} is removed")


def _ask() -> str:
    """The password, never from an argument: those are seen by everybody on the machine."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first: str = typer.prompt("Password", hide_input=True)
    if first != typer.prompt("The same again", hide_input=True):
        raise InvalidInput("The two passwords differ; nothing was changed")
    return first

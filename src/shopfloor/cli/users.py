"""shopfloor user add|password|list|remove"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from shopfloor.cli.connect import FIRST_CREDENTIAL_NOTICE, is_open
from shopfloor.cli.options import AsJson, call_desk, command, create_app, list_desk, open_shopfloor
from shopfloor.cli.output import format_table, print_result
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

app = create_app("Add, list and remove users.")

Name = Annotated[str, typer.Argument(help="Name of the user.")]


@command(app, "add")
def add_user(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Add a user and print a token, which is shown only once.

    Once the first token is issued, every call requires one. This cannot be undone.
    """
    with open_shopfloor(settings) as shopfloor:
        was_open = is_open(shopfloor)
        added = call_desk(shopfloor, "user_add", name=name)
    print_result({"id": name, "token": added["token"]}, as_json, f"{name} added\n{added['token']}")
    if not as_json:
        print(f"To sign in to the pages: shopfloor link --user {shlex.quote(name)}", file=sys.stderr)
    if was_open and not as_json:
        print(FIRST_CREDENTIAL_NOTICE, file=sys.stderr)


@command(app, "password")
def set_password(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Set the password of a user for the sign-in page. It is prompted for, or read from standard input."""
    with open_shopfloor(settings) as shopfloor:
        # Not an option: every user of the machine can see the arguments of a process.
        if sys.stdin.isatty():
            password = typer.prompt("Password", hide_input=True)
            if password != typer.prompt("Repeat the password", hide_input=True):
                raise InvalidInput("The passwords do not match; nothing was changed")
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        call_desk(shopfloor, "user_set_password", name=name, password=password)
    print_result({"id": name}, as_json, f"{name} can sign in with the new password")


@command(app, "list", read_only=True)
def list_users(settings: Settings, as_json: AsJson = False) -> None:
    """List the users, with their desk roles."""
    with open_shopfloor(settings) as shopfloor:
        users = [user for user in list_desk(shopfloor, "user_list", "users") if user["removedAt"] is None]
    rows = [{"id": user["id"], "role": user["role"]} for user in users]
    print_result(rows, as_json, format_table(rows, "There are no users yet: shopfloor user add NAME"))


@command(app, "remove")
def remove_user(settings: Settings, name: Name, as_json: AsJson = False) -> None:
    """Remove a user and end all of their sessions. A user who is added again within 30 days gets their list back."""
    with open_shopfloor(settings) as shopfloor:
        call_desk(shopfloor, "user_remove", name=name)
    print_result({"id": name, "removed": True}, as_json, f"{name} is removed")

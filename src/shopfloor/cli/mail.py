"""shopfloor mail send|list|read"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from shopfloor.cli.inbox import format_mail
from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor
from shopfloor.cli.output import format_age, format_table, paint, print_result
from shopfloor.errors import InvalidInput
from shopfloor.settings import Settings

app = create_app("Send mail to agents, and list and read your own.")

SUBJECT_CHARACTERS = 200
STANDARD_INPUT = "-"


@command(app, "send")
def send_mail(
    settings: Settings,
    agent: Annotated[str, typer.Argument(help="Name of the agent.")],
    body: Annotated[str, typer.Argument(help="Text of the mail; - reads it from standard input.")],
    subject: Annotated[
        str | None, typer.Option("--subject", "-s", help="Subject; by default the first line of the text.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a mail to an agent, which sees it with its next call."""
    text = sys.stdin.read() if body == STANDARD_INPUT else body
    if not text.strip():
        raise InvalidInput("The mail has no text", hint='Write it: shopfloor mail send AGENT "TEXT"')
    title = subject or text.strip().partition("\n")[0][:SUBJECT_CHARACTERS]
    with open_shopfloor(settings) as shopfloor:
        sent = call_desk(shopfloor, "inbox_write", agentId=agent, subject=title, body=text)
    print_result(sent, as_json, f"Sent {paint(sent['mailId'], 'bold')} to {agent}")


@command(app, "list", read_only=True)
def list_mail(
    settings: Settings,
    unread: Annotated[bool, typer.Option("--unread", help="Show only unread mail.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of mails.", min=1, max=200)] = 30,
    as_json: AsJson = False,
) -> None:
    """List the mail that you received, newest first. To see what waits for an answer, use shopfloor inbox."""
    with open_shopfloor(settings) as shopfloor:
        page = call_desk(shopfloor, "inbox_list", includeDone=True, unread=unread, limit=limit)
    mails = page["mails"]
    more = f"\nThere are more: shopfloor mail list --limit {min(limit * 2, 200)}" if "nextCursor" in page else ""
    empty = "No unread mail." if unread else "No mail yet. Write to an agent: shopfloor mail send AGENT TEXT"
    table = format_table([_format_row(mail) for mail in mails], empty, optional=("state", "received", "from"))
    print_result(mails, as_json, table + more)


@command(app, "read")
def read_mail(
    settings: Settings,
    mail: Annotated[str, typer.Argument(help="Id of a mail, such as mail-12, or its number.")],
    as_json: AsJson = False,
) -> None:
    """Show a mail and mark it as read."""
    id = f"mail-{mail}" if mail.isdecimal() else mail
    with open_shopfloor(settings) as shopfloor:
        found = call_desk(shopfloor, "inbox_read", mailId=id)
    print_result(found, as_json, format_mail(found))


def _format_row(mail: dict[str, Any]) -> dict[str, Any]:
    question = mail.get("question") or {}
    state = "question" if question.get("state") == "OPEN" else "unread" if mail["readAt"] is None else "read"
    return {
        "id": mail["id"],
        "from": mail["from"],
        "state": state,
        "subject": mail["subject"],
        "received": format_age(mail["createdAt"]),
    }

"""shopfloor inbox [read|reply|answer|ack]"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from shopfloor.cli.options import AsJson, Follow, again, ask, command, default, opened, printable, show, table
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.settings import Settings

app = typer.Typer(
    help="What waits for a person: mail, questions, what runs ask, and alarms.", invoke_without_command=True
)

REQUEST = "request-"

Id = Annotated[str, typer.Argument(help="The mail's id, such as mail-12.")]
AnyId = Annotated[str, typer.Argument(help="The id of a mail, such as mail-12, or of what a run asks: request-3.")]
Everything = Annotated[bool, typer.Option("--all", help="Also what has been dealt with.")]


@default(app)
def inbox(settings: Settings, everything: Everything = False, as_json: AsJson = False, follow: Follow = False) -> None:
    """List what waits for a person: what runs ask, then mail, questions and alarms; newest first."""
    with opened(settings) as shopfloor:
        for seen in again(follow, lambda: ask(shopfloor, "inbox_waiting", includeDone=everything)):
            rows = [*(_asked(request) for request in seen["requests"]), *(_row(mail) for mail in seen["mails"])]
            more = "\nand more, older ones" if "nextCursor" in seen else ""
            show(seen, as_json, table(rows, "No mail has come yet." if everything else "Nothing waits for you.") + more)


@command(app, "read")
def read(settings: Settings, id: AnyId, as_json: AsJson = False) -> None:
    """Read one mail and mark it as read, or see what a run asks."""
    if id.startswith(REQUEST):
        request = _request(settings, _number(id))
        show(request, as_json, _question(request))
        return
    mail = _call(settings, "inbox_read", {"mailId": id})
    show(mail, as_json, _letter(mail))


@command(app, "reply")
def reply(
    settings: Settings, id: Id, body: Annotated[str, typer.Argument(help="What to write.")], as_json: AsJson = False
) -> None:
    """Reply to a mail."""
    answer = _call(settings, "inbox_reply", {"mailId": id, "body": body})
    show(answer, as_json, f"{answer['mailId']} was sent")


@command(app, "answer")
def answer(
    settings: Settings,
    id: AnyId,
    text: Annotated[str, typer.Argument(help="The answer.")],
    as_json: AsJson = False,
) -> None:
    """Answer an agent's question, or what a run asks."""
    if id.startswith(REQUEST):
        given = _call(settings, "inbox_decide", {"request": _number(id), "answer": text})
    else:
        given = _call(settings, "inbox_answer", {"mailId": id, "answer": text})
    show(given, as_json, f"{id} is answered")


@command(app, "ack")
def ack(settings: Settings, id: Id, as_json: AsJson = False) -> None:
    """Acknowledge a mail."""
    acknowledged = _call(settings, "inbox_ack", {"mailId": id})
    show(acknowledged, as_json, f"{id} is acknowledged")


def _call(settings: Settings, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with opened(settings) as shopfloor:
        return ask(shopfloor, tool, **arguments)


def _number(id: str) -> int:
    digits = id.removeprefix(REQUEST)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"'{id}' is no request; they look like request-3")
    return int(digits)


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    wants = " or ".join(request["options"]) or "answer"
    subject = request["question"].partition("\n")[0][:60]
    id = f"{REQUEST}{request['request']}"
    return {"id": id, "from": f"run:{request['run']}", "wants": wants, "subject": subject, "at": request["createdAt"]}


def _request(settings: Settings, number: int) -> dict[str, Any]:
    requests: list[dict[str, Any]] = _call(settings, "inbox_waiting", {})["requests"]
    for request in requests:
        if request["request"] == number:
            return request
    raise NotFound(f"{REQUEST}{number} does not wait for an answer", hint="See what does: shopfloor inbox")


def _question(request: dict[str, Any]) -> str:
    options = ", ".join(request["options"]) or "any answer"
    lines = [f"From:    run:{request['run']}", f"Date:    {request['createdAt']}"]
    lines.append(f"Answer:  {options}: shopfloor inbox answer {REQUEST}{request['request']} TEXT")
    return "\n".join([*lines, "", *(printable(line) for line in request["question"].split("\n"))])


def _row(mail: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": mail["id"],
        "from": mail["from"],
        "wants": _wants(mail),
        "subject": mail["subject"][:60],
        "at": mail["createdAt"],
    }


def _wants(mail: dict[str, Any]) -> str:
    if mail.get("question", {}).get("state") == "OPEN":
        return "answer"
    if mail["acknowledgeBefore"] and not mail["actedAt"]:
        return "acknowledgement"
    return "reading" if mail["readAt"] is None else "-"


def _letter(mail: dict[str, Any]) -> str:
    lines = [f"From:    {printable(mail['from'])} ({mail['fromType']})", f"Subject: {printable(mail['subject'])}"]
    lines.append(f"Date:    {mail['createdAt']}")
    if question := mail.get("question"):
        options = ", ".join(printable(option) for option in question["options"]) or "any answer"
        lines.append(f"Answer:  {options} (until {question['deadline']}): shopfloor inbox answer {mail['id']} TEXT")
    return "\n".join([*lines, "", *(printable(line) for line in mail["body"].split("\n"))])

"""shopfloor inbox [read|reply|answer|ack]"""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from shopfloor.cli.options import (
    AsJson,
    Follow,
    call_desk,
    command,
    create_app,
    default_command,
    open_shopfloor,
    poll_changes,
)
from shopfloor.cli.output import format_age, format_first_line, format_table, print_result, to_printable, wrap
from shopfloor.errors import InvalidInput, NotFound
from shopfloor.settings import Settings

app = create_app("List what waits for a person, and respond to it.", invoke_without_command=True)

REQUEST = "request-"
READ = "Read:   "
ANSWER = "Answer: "
DONE = "Done:   "
MAX_ANSWER_COMMANDS = 3
# The most that the tool returns at once.
MAX_MAILS = 200

Id = Annotated[str, typer.Argument(help="Id of a mail, such as mail-12.")]
AnyId = Annotated[str, typer.Argument(help="Id of a mail, such as mail-12, or of a run's request, such as request-3.")]
Everything = Annotated[bool, typer.Option("--all", help="Include items that are done.")]


@default_command(app)
def list_inbox(
    settings: Settings,
    everything: Everything = False,
    limit: Annotated[int | None, typer.Option(min=1, max=MAX_MAILS, help="Maximum number of mails.")] = None,
    as_json: AsJson = False,
    follow: Follow = False,
) -> None:
    """List what waits for a person: requests from runs, then questions, then other mail, newest first."""
    with open_shopfloor(settings) as shopfloor:
        for seen in poll_changes(
            follow, lambda: call_desk(shopfloor, "inbox_list", includeDone=everything, limit=limit)
        ):
            rows = [
                {
                    "id": f"{REQUEST}{request['request']}",
                    "from": f"run:{request['run']}",
                    "wants": "permission" if request["kind"] == "permission" else "answer",
                    "subject": format_first_line(request["question"]),
                    "received": format_age(request["createdAt"]),
                }
                for request in seen["requests"]
            ]
            rows += [_format_mail_row(mail) for mail in seen["mails"]]
            empty = "No mail yet." if everything else "Nothing is waiting for you."
            more = f"\nand older ones: --limit {MAX_MAILS}" if "nextCursor" in seen else ""
            more += _format_commands(seen)
            print_result(
                seen,
                as_json,
                format_table(rows, empty, optional=("from", "received")) + more,
            )


@command(app, "read")
def read_item(settings: Settings, id: AnyId, as_json: AsJson = False) -> None:
    """Show a mail and mark it as read, or show a request from a run."""
    if id.startswith(REQUEST):
        number = _parse_request_id(id)
        requests = _call_desk_once(settings, "inbox_list", {})["requests"]
        request = next((each for each in requests if each["request"] == number), None)
        if request is None:
            raise NotFound(f"{REQUEST}{number} is not open", hint="List open requests: shopfloor inbox")
        lines = [f"From:    run:{request['run']}", f"Date:    {format_age(request['createdAt'])}"]
        lines += [*_format_answer_lines(f"{REQUEST}{number}", request["options"]), ""]
        lines += [to_printable(line) for line in request["question"].split("\n")]
        print_result(request, as_json, "\n".join(lines))
        return
    mail = _call_desk_once(settings, "inbox_read", {"mailId": id})
    print_result(mail, as_json, format_mail(mail))


@command(app, "reply")
def reply_to_mail(
    settings: Settings, id: Id, body: Annotated[str, typer.Argument(help="Text of the reply.")], as_json: AsJson = False
) -> None:
    """Reply to a mail."""
    answer = _call_desk_once(settings, "inbox_reply", {"mailId": id, "body": body})
    print_result(answer, as_json, f"{answer['mailId']} was sent")


@command(app, "answer")
def answer(
    settings: Settings,
    id: AnyId,
    text: Annotated[str, typer.Argument(help="The answer.")],
    as_json: AsJson = False,
) -> None:
    """Answer an agent's question or a run's request, with one of its options if it has any."""
    if id.startswith(REQUEST):
        given = _call_desk_once(settings, "inbox_decide", {"request": _parse_request_id(id), "answer": text})
    else:
        given = _call_desk_once(settings, "inbox_answer", {"mailId": id, "answer": text})
    text = f"{id} answered: {to_printable(given['answer'])}"
    options = given.get("options", [])
    if options and given["answer"] not in options:
        text += f"\n  Not one of its options: {', '.join(to_printable(option) for option in options)}"
    print_result(given, as_json, text)


@command(app, "ack")
def acknowledge_mail(settings: Settings, id: Id, as_json: AsJson = False) -> None:
    """Acknowledge a mail: it no longer waits for you. Reading alone leaves it in the inbox."""
    acknowledged = _call_desk_once(settings, "inbox_ack", {"mailId": id})
    print_result(acknowledged, as_json, f"{id} is acknowledged")


def _format_commands(seen: dict[str, Any]) -> str:
    """Return the commands that answer the first open questions, each with all of its options, and the one that removes
    a mail from the list."""
    asked = [(f"{REQUEST}{request['request']}", request["options"]) for request in seen["requests"]]
    asked += [(mail["id"], mail["question"]["options"]) for mail in seen["mails"] if _is_open_question(mail)]
    commands = []
    for id, options in asked[:MAX_ANSWER_COMMANDS]:
        words = " | ".join(shlex.quote(to_printable(option)) for option in options) or "TEXT"
        commands += wrap(f"shopfloor inbox answer {id} {words}", indent=len(ANSWER))
    lines = [f"{READ}shopfloor inbox read {asked[0][0]}"] if asked else []
    lines += [ANSWER + "\n".join(commands).lstrip()] if commands else []
    waiting = next((mail["id"] for mail in seen["mails"] if _is_waiting(mail) and not _is_open_question(mail)), None)
    if waiting is not None:
        lines.append(f"{DONE}shopfloor inbox ack {waiting}")
    return "\n\n" + "\n".join(lines) if lines else ""


def _format_answer_lines(id: str, options: list[str]) -> list[str]:
    """Return the options of a question, and the command that answers it."""
    listed = [f"Options: {' | '.join(to_printable(option) for option in options)}"] if options else []
    return [*listed, f"Answer:  shopfloor inbox answer {id} TEXT"]


def _is_waiting(mail: dict[str, Any]) -> bool:
    """Return whether the mail stays in the list. It does until it is acknowledged or replied to, even after it was
    read."""
    return mail["actedAt"] is None


def _is_open_question(mail: dict[str, Any]) -> bool:
    return bool(mail.get("question", {}).get("state") == "OPEN")


def _call_desk_once(settings: Settings, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with open_shopfloor(settings) as shopfloor:
        return call_desk(shopfloor, tool, **arguments)


def _parse_request_id(id: str) -> int:
    digits = id.removeprefix(REQUEST)
    # 18 digits fit into a 64-bit column.
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise InvalidInput(f"Expected an id such as request-3, not '{id}'")
    return int(digits)


def _format_mail_row(mail: dict[str, Any]) -> dict[str, Any]:
    wants = "-"
    if _is_open_question(mail):
        wants = "answer"
    elif _is_waiting(mail):
        wants = "reading" if mail["readAt"] is None and not mail["acknowledgeBefore"] else "acknowledgement"
    return {
        "id": mail["id"],
        "from": mail["from"],
        "wants": wants,
        "subject": format_first_line(mail["subject"]),
        "received": format_age(mail["createdAt"]),
    }


def format_mail(mail: dict[str, Any]) -> str:
    """Format a mail with its header lines and its body."""
    lines = [f"From:    {to_printable(mail['from'])} ({mail['fromType']})", f"Subject: {to_printable(mail['subject'])}"]
    lines.append(f"Date:    {format_age(mail['createdAt'])}")
    if question := mail.get("question"):
        if question["state"] == "ANSWERED":
            place = f"in the client of {question['answeredBy']}"
            by = place if question["answeredIn"] == "client" else f"by {question['answeredBy']}"
            lines.append(f"Answer:  {to_printable(question['answer'])} ({by}, {format_age(question['answeredAt'])})")
        else:
            lines.append(f"Expires: {format_age(question['deadline'])}")
            lines += _format_answer_lines(mail["id"], question["options"])
    body = [to_printable(line) for line in mail["body"].split("\n")]
    done = ["", f"{DONE}shopfloor inbox ack {mail['id']}"] if _is_waiting(mail) and not _is_open_question(mail) else []
    return "\n".join([*lines, "", *body, *done])

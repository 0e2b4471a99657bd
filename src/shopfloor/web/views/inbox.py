"""The inbox: a list of what waits for a person, and the open item."""

from __future__ import annotations

import re

from shopfloor.errors import NotFound
from shopfloor.toolkit import Json
from shopfloor.web.views.view import Given, list_active_agents, parse_number
from shopfloor.web.visitor import Visitor, format_badge

# The label of each answer to a permission request, and its scope.
ANSWERS = {
    "allow": ("Allow once", "This time only."),
    "always": (
        "Allow for this run",
        "The same request is allowed without asking in this run and its crew; other runs still ask.",
    ),
    "deny": ("Deny", "The request is denied, and the agent continues without it."),
}
# The states of a task in which a question may be about its changes.
WORKED_ON_STATES = ("IN_PROGRESS", "REVIEW", "BLOCKED")
# A question from a crew's agent begins with the agent and its run.
_PERMISSION = re.compile(r"(?:[\w.-]+, [\w.-]+: )?May the agent (\w+): (.*?)\?(?:\n(.*))?", re.DOTALL)


async def load_inbox(visitor: Visitor, given: Given) -> Json:
    """Load what waits for a person, or with `show=all` everything that ever did, and the open item."""
    show_all = given.get("show") == "all"
    seen = await visitor.ask("inbox_list", includeDone=show_all, cursor=given.get("cursor"))
    items = [summarize_request(each) for each in seen["requests"]] + [summarize_mail(each) for each in seen["mails"]]
    done = [summarize_request(each) for each in seen["answered"]]
    # Pending requests hold up a run and come first. The tool has sorted what waits; everything is in chronological order.
    if show_all:
        later = items[len(seen["requests"]) :] + done
        items = items[: len(seen["requests"])] + sorted(later, key=lambda item: str(item["at"]), reverse=True)
    chosen = given.get("item")
    shown = chosen or (items[0]["id"] if items else None)
    return {
        "seen": seen,
        "items": items,
        "chosen": chosen,
        "open": None if shown is None else await _load_item(visitor, shown, read=chosen is not None),
        "shown": shown,
        "show": "all" if show_all else "waiting",
        "agents": await list_active_agents(visitor),
        "answers": ANSWERS,
        "badge": format_badge(await visitor.ask("inbox_count")),
    }


async def _load_item(visitor: Visitor, item: str, *, read: bool) -> Json:
    """Load a mail or a request. Opening a mail marks it as read, but does not acknowledge it."""
    kind, _, number = item.partition("-")
    if kind == "request" and (request := parse_number(number)):
        found = await visitor.ask("inbox_request", request=request)
        return {
            **found,
            "type": "request",
            "permission": parse_permission(found),
            "changes": await _load_changes(visitor, found["context"]),
        }
    if kind != "mail" or not parse_number(number):
        raise NotFound(f"Inbox item {item[:40]} not found")
    mail = await visitor.ask("inbox_show", mailId=item)
    if read and mail["readAt"] is None and visitor.may("inbox_read"):
        await visitor.ask("inbox_read", mailId=item)
    first, *replies = mail["thread"]
    if _flatten(first["body"]) == _flatten(mail["subject"]):
        # It is in the heading.
        first = {**first, "body": ""}
    changes = await _load_changes(visitor, mail["context"])
    return {**mail, "type": "mail", "thread": [first, *replies], "changes": changes}


def find_further_text(subject: str, body: str) -> str:
    """Return what a body says beyond its subject. The subject of a question is by default its beginning."""
    title, text = _flatten(subject), _flatten(body)
    if title.endswith("…") and text.startswith(title[:-1]):
        return "…" + text[len(title) - 1 :]
    first_line, _, rest = body.strip().partition("\n")
    return "" if text == title else rest.strip() if _flatten(first_line) == title else body


def _flatten(text: str) -> str:
    return " ".join(text.split())


async def _load_changes(visitor: Visitor, context: Json) -> dict[str, Json]:
    """Return the changes made for each task of a context, by task id."""
    worked_on = [task for task in context["tasks"] if task["kind"] == "epic" and task["state"] in WORKED_ON_STATES]
    return {task["id"]: await visitor.ask("task_changes", number=task["number"]) for task in worked_on}


def parse_permission(request: Json) -> Json | None:
    """Return the subject of a permission request, as `{kind, title, details}`, or None for another request."""
    found = _PERMISSION.fullmatch(request["question"])
    if request["kind"] != "permission" or found is None:
        return None
    return {"kind": found[1], "title": found[2], "details": found[3] or ""}


def summarize_request(request: Json) -> Json:
    """Return a run's request as shown in lists."""
    permission = parse_permission(request)
    return {
        "id": f"request-{request['request']}",
        "symbol": "permission" if request["kind"] == "permission" else "question",
        "tone": "" if request["answer"] else "warning",
        "from": request["run"],
        "title": permission["title"] if permission else request["question"].splitlines()[0],
        "at": request["answeredAt"] or request["createdAt"],
        "unread": request["answer"] is None,
        "label": format_answer(request["answer"]),
        "muted": False,
    }


def summarize_mail(mail: Json) -> Json:
    """Return a mail as shown in lists."""
    question = mail.get("question")
    is_open = question is not None and question["state"] == "OPEN"
    label = ""
    if question is not None and not is_open:
        label = question["answer"] or "expired"
    elif mail["actedAt"]:
        label = "done"
    is_alert = mail["fromType"] == "SYSTEM" and mail["importance"] == "high"
    symbol = "question" if question is not None else "alert" if is_alert else "mail"
    return {
        "id": mail["id"],
        "symbol": symbol,
        "tone": "warning" if is_open else "danger" if symbol == "alert" and not mail["actedAt"] else "",
        "from": mail["from"],
        "title": mail["subject"],
        "at": mail["createdAt"],
        "unread": mail["readAt"] is None,
        "label": label,
        "muted": mail["muted"],
    }


def format_answer(answer: str | None) -> str:
    """Format the answer to a request for people; empty without one."""
    return (
        ""
        if answer is None
        else {"allow": "allowed", "always": "allowed for the run", "deny": "denied"}.get(answer, answer)
    )

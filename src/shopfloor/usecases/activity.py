"""Activity: recent events as sentences, who did what to which thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from shopfloor.domain.events import StoredEvent
from shopfloor.domain.mail import CLIENT_PREFIX, SYSTEM
from shopfloor.domain.tasks import Task
from shopfloor.errors import NotFound
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases.claims import RECONCILER

# Most events of a run are steps of one iteration and give no sentence, so more events are read than shown.
EVENTS_PER_SENTENCE = 8
MAX_EVENTS = 200

_TASK_VERBS = {
    "ASSIGNED": "was assigned",
    "IN_PROGRESS": "started",
    "REVIEW": "handed in",
    "BLOCKED": "is blocked on",
    "COMPLETED": "finished",
    "FAILED": "gave up on",
    "CANCELLED": "cancelled",
}
_EPIC_VERBS = {"PLANNING": "created", "COMPLETED": "completed", "BLOCKED": "blocked", "IN_PROGRESS": "started"}
_AGENT_VERBS = {
    "retired": "was retired",
    "silent": "has gone silent",
    "failed": "crashed too often and is in back-off",
    "recovered": "recovered",
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """One event: `who` `did` something to the thing of this kind, id and title, with a note."""

    event: StoredEvent
    who: str
    did: str
    kind: str | None = None
    id: str | None = None
    title: str | None = None
    note: str | None = None


def list_recent(uow: UnitOfWork, limit: int) -> list[Sentence]:
    """Return the latest events that people care about, newest first; repeated ones are listed once."""
    events = uow.outbox.list_recent(min(MAX_EVENTS, limit * EVENTS_PER_SENTENCE))
    writer = _Writer(uow, events)
    sentences: dict[tuple[str, str, str | None], Sentence] = {}
    for event in events:
        write = _WRITERS.get(event.name)
        if write is None or (sentence := write(writer, event, event.data)) is None:
            continue
        # Events come newest first. Of repeated events, keep the earliest, in its own position.
        sentences.pop(key := (sentence.who, sentence.did, sentence.id), None)
        sentences[key] = sentence
    return list(sentences.values())[:limit]


class _Writer:
    """Writes sentences; it looks up the titles of all tasks, mails and decisions at once."""

    def __init__(self, uow: UnitOfWork, events: list[StoredEvent]) -> None:
        self._uow = uow
        tasks = uow.tasks.find_many(_collect_ids(events, "taskId", "task-"))
        self._tasks: dict[str, Task] = {f"task-{task.number}": task for task in tasks}
        mails = uow.mail.find_many(_collect_ids(events, "mailId", "mail-"))
        self._senders = {f"mail-{mail.id}": mail.sender.name for mail in mails}
        self._subjects = {f"mail-{mail.id}": mail.subject for mail in mails}
        entries = uow.decisions.find_many(_collect_ids(events, "logId", "log-"))
        self._decisions = {f"log-{entry.id}": entry.decision for entry in entries}

    def write_task(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        task = self._tasks.get(data["taskId"])
        if task is None:
            return None
        by, state = _short(data["by"]), data["state"]
        who, note = by, None
        if data["by"] == RECONCILER:
            who, did, note = SYSTEM.name, "returned", "to the queue"
            if state == "FAILED":
                did, note = "gave up on", f"after {task.attempts} attempts"
        elif state == "PENDING":
            did = "created" if event.created_at - task.created_at < 1_000_000 else "changed"
        elif state == "ASSIGNED" and task.assignee and by != task.assignee:
            did, note = "assigned", f"to {task.assignee}"
        elif state == "ASSIGNED":
            did = "claimed"
        else:
            did = _TASK_VERBS.get(state, "changed")
            if state == "COMPLETED" and task.assignee and task.assignee != by:
                who, note = task.assignee, f"accepted by {by}"
        return Sentence(event, who, did, "task", data["taskId"], task.title, note)

    def write_epic(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        try:
            title = self._uow.epics.get(int(data["epicId"].removeprefix("epic-"))).title
        except NotFound:
            return None
        return Sentence(
            event, _short(data["by"]), _EPIC_VERBS.get(data["state"], "changed"), "epic", data["epicId"], title
        )

    def write_mail(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        mail = data["mailId"]
        to = "to you" if data["isForHuman"] else f"to {data['toAgentId']}"
        who = self._senders.get(mail, SYSTEM.name)
        if who == SYSTEM.name:
            # What it is about, such as a silent agent, has a sentence of its own.
            return None
        # Only the mail to people has a page.
        kind = "mail" if data["isForHuman"] else None
        return Sentence(event, who, f"wrote {to}:", kind, mail, data["subject"])

    def write_answer(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        mail = data["mailId"]
        note = "in its client" if data["by"].startswith(CLIENT_PREFIX) else None
        return Sentence(event, _short(data["by"]), "answered", "mail", mail, self._subjects.get(mail, mail), note)

    def write_decision(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(
            event, _short(data["by"]), "decided:", "call", data["logId"], self._decisions.get(data["logId"], "")
        )

    def write_agent(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(event, data["agentId"], _AGENT_VERBS.get(data["change"], "joined"), id=data["agentId"])

    def write_escalation(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(event, _short(data["subject"]), "ran into a server error in", "call", None, data["tool"])

    def write_discovery(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(event, _short(data["by"]), "recorded a discovery", id=data["discoveryId"])

    def write_run_start(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        return None if self._is_of_crew(data["run"]) else Sentence(event, data["run"], "started", "run", data["run"])

    def write_run_end(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        if self._is_of_crew(data["run"]):
            return None
        return Sentence(event, data["run"], f"ended: {data['state']}", "run", data["run"])

    def _is_of_crew(self, name: str) -> bool:
        """Return whether a run belongs to a crew. Its agents' task events say more."""
        run = self._uow.runs.find(name)
        return run is not None and run.crew is not None

    def write_crew_start(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(event, data["crew"], "started", id=data["crew"])

    def write_crew_end(self, event: StoredEvent, data: dict[str, Any]) -> Sentence:
        return Sentence(event, data["crew"], f"ended: {data['state']}", id=data["crew"])

    def write_run_question(self, event: StoredEvent, data: dict[str, Any]) -> Sentence | None:
        try:
            request = self._uow.run_requests.get(data["request"])
        except NotFound:
            return None
        asked = {"permission": "asked for permission:", "stuck": "is stuck:"}.get(request.kind, "asked:")
        title = request.question.splitlines()[0]
        return Sentence(event, data["run"], asked, "request", f"request-{request.number}", title)


_WRITERS: dict[str, Callable[[_Writer, StoredEvent, dict[str, Any]], Sentence | None]] = {
    "task.changed": _Writer.write_task,
    "epic.changed": _Writer.write_epic,
    "mail.sent": _Writer.write_mail,
    "question.answered": _Writer.write_answer,
    "decision.logged": _Writer.write_decision,
    "agent.changed": _Writer.write_agent,
    "call.escalated": _Writer.write_escalation,
    "discovery.recorded": _Writer.write_discovery,
    "run.started": _Writer.write_run_start,
    "run.ended": _Writer.write_run_end,
    "crew.started": _Writer.write_crew_start,
    "crew.ended": _Writer.write_crew_end,
    "run.asked": _Writer.write_run_question,
}


def _collect_ids(events: Iterable[StoredEvent], field: str, prefix: str) -> list[int]:
    texts = {str(event.data[field]) for event in events if field in event.data}
    return [int(text.removeprefix(prefix)) for text in texts]


def _short(key: str) -> str:
    """Return builder-1 for agent:builder-1."""
    return key.partition(":")[2] or key

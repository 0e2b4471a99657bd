"""Runs: an agent is driven from iteration to iteration until the work is verified done."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from shopfloor.domain.mail import Mail
from shopfloor.domain.tasks import PRIORITIES, State
from shopfloor.errors import InvalidInput, NotFound

TASK_PREFIX, NOTE_PREFIX = "TAS-", "NOT-"

STATUSES: dict[str, State] = {
    "remaining": State.PENDING,
    "in_progress": State.IN_PROGRESS,
    "completed": State.COMPLETED,
    "blocked": State.BLOCKED,
    "cancelled": State.CANCELLED,
}
"""How a loop spells the states of a task, in the order of its lists."""

NOTE_TYPES = ("learning", "stuck", "tip", "decision")
PRIORITY_WORDS = ("critical", "high", "medium", "low", "backlog")

COMMAND_LIMIT = 1000
_PROPOSED = re.compile(r"^[ \t]*acceptance command:[ \t]*(.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE)

_SPELLED = {state: status for status, state in STATUSES.items()}
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RunState(StrEnum):
    """Where a run is: under way (or waiting to be resumed), or at its end."""

    ACTIVE = "active"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"


class Wanted(StrEnum):
    """What the people in charge want of a run."""

    GO = "go"
    PAUSE = "pause"
    STOP = "stop"


class RunNotFound(NotFound):
    """There is no run '{run}'"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the store knows it."""

    name: str
    state: RunState
    wanted: Wanted
    reason: str | None
    spec: str
    project: str
    options: str
    iteration: int
    session: str | None
    process: int | None
    wish: int
    wished_in: int | None
    judged: int
    verdict: str | None
    tokens: int
    cost: int
    spent: int
    created_at: int
    updated_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Iteration:
    """One turn of the agent, from its prompt to its end."""

    number: int
    attempts: int
    summary: str | None
    outcome: str | None
    failure: str | None
    board: str | None
    retold: int
    tokens: int
    cost: int
    started_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a run learned."""

    number: int
    run: str
    iteration: int
    type: str
    content: str
    created_at: int

    @property
    def id(self) -> str:
        return f"{NOTE_PREFIX}{self.number}"


@dataclass(frozen=True, slots=True)
class Request:
    """Something that a run wants to know from a person."""

    number: int
    run: str
    kind: str
    question: str
    options: tuple[str, ...]
    about: str | None
    answer: str | None
    answered_by: str | None
    created_at: int
    answered_at: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """Something that a person said to a run."""

    number: int
    sender: str
    body: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a prompt carries of what others wrote, and whether there is more for the next one."""

    messages: tuple[Message, ...] = ()
    mails: tuple[Mail, ...] = ()
    more: bool = False


def task_id(number: int) -> str:
    """A task's number as the loop spells it."""
    return f"{TASK_PREFIX}{number}"


def spell(state: State) -> str:
    """A task's state as the loop spells it."""
    return _SPELLED[state]


def read_status(text: str) -> State:
    """The state behind a loop's word for it."""
    try:
        return STATUSES[text]
    except KeyError:
        raise InvalidInput(f"'{text[:40]}' is not a status", hint=f"Use one of {', '.join(STATUSES)}") from None


def read_priority(number: float) -> int:
    """A whole number from 0 to 4, written as 2 or as 2.0."""
    if number not in PRIORITIES:
        raise InvalidInput(
            f"{number:g} is not a priority",
            hint="Use a whole number: " + ", ".join(f"{at} {word}" for at, word in enumerate(PRIORITY_WORDS)),
        )
    return int(number)


def read_note_type(text: str) -> str:
    """The type of a note."""
    if text not in NOTE_TYPES:
        raise InvalidInput(f"'{text[:40]}' is not a type of note", hint=f"Use one of {', '.join(NOTE_TYPES)}")
    return text


def split_command(text: str) -> tuple[str, ...]:
    """A command line as an argument vector; no shell ever sees it."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise ValueError(f"the quotes of {text[:80]!r} do not match") from None
    if not words:
        raise ValueError("a command must not be empty")
    return words


def proposed_command(content: str) -> tuple[str, ...] | None:
    """The command that a task's content proposes for its acceptance, in a line of its own."""
    found = _PROPOSED.search(content)
    if found is None:
        return None
    line = found[1].strip("`")
    try:
        if len(line) > COMMAND_LIMIT or not line.isprintable():
            raise ValueError(f"a command has at most {COMMAND_LIMIT} characters, all of them printable")
        return split_command(line)
    except ValueError as error:
        raise InvalidInput(
            f"the acceptance command cannot be read: {error}",
            hint="Nothing was added. Write it in one line: Acceptance command: PROGRAM ARGUMENTS",
        ) from None


def content_key(content: str) -> str:
    """The same for the same content, whatever its case and the space around it."""
    return hashlib.sha256(content.strip().casefold().encode()).hexdigest()


def run_name(name: str) -> str:
    """The name, if a run may be called that."""
    if not _RUN_NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name[:80]}' cannot be the name of a run",
            hint="Use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        )
    return name


def topic(run: str) -> str:
    """What those listen to who wait for something to happen to a run."""
    return f"run:{run}"


@dataclass(frozen=True, slots=True)
class _OfRun:
    """A fact about a run."""

    name: ClassVar[str]
    run: str

    def data(self) -> dict[str, Any]:
        return {"run": self.run}

    def topics(self) -> tuple[str, ...]:
        return (topic(self.run), "run")


@dataclass(frozen=True, slots=True)
class RunStarted(_OfRun):
    """A run was begun, or taken up again."""

    name: ClassVar[str] = "run.started"


@dataclass(frozen=True, slots=True)
class RunEnded(_OfRun):
    """A run came to its end."""

    name: ClassVar[str] = "run.ended"
    state: str

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "state": self.state}


@dataclass(frozen=True, slots=True)
class RunSteered(_OfRun):
    """A person said something to a run, paused it, let it go on or stopped it."""

    name: ClassVar[str] = "run.steered"


@dataclass(frozen=True, slots=True)
class RunAsked(_OfRun):
    """A run wants to know something from a person."""

    name: ClassVar[str] = "run.asked"
    request: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "request": self.request}


@dataclass(frozen=True, slots=True)
class RunAnswered(_OfRun):
    """A person answered a run."""

    name: ClassVar[str] = "run.answered"
    request: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "request": self.request}


@dataclass(frozen=True, slots=True)
class CompletionWished(_OfRun):
    """The agent says that all is done."""

    name: ClassVar[str] = "run.completion_wished"


@dataclass(frozen=True, slots=True)
class CompletionJudged(_OfRun):
    """The runner has checked whether all is done."""

    name: ClassVar[str] = "run.completion_judged"


@dataclass(frozen=True, slots=True)
class RunTaskChanged(_OfRun):
    """A task of a run was added or changed."""

    name: ClassVar[str] = "run.task_changed"
    task: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "task": task_id(self.task)}


@dataclass(frozen=True, slots=True)
class NoteAdded(_OfRun):
    """A run wrote down what it learned."""

    name: ClassVar[str] = "run.note_added"
    note: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "note": f"{NOTE_PREFIX}{self.note}"}


@dataclass(frozen=True, slots=True)
class IterationSummarised(_OfRun):
    """An iteration of a run has its summary."""

    name: ClassVar[str] = "run.iteration_summarised"
    iteration: int

    def data(self) -> dict[str, Any]:
        return {"run": self.run, "iteration": self.iteration}

"""Runs: an agent works, iteration by iteration, until its work is verified."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from shopfloor.domain.mail import Mail
from shopfloor.domain.tasks import PRIORITIES, State, Task
from shopfloor.errors import ClientError, InvalidInput, InvalidState, NotFound

TASK_PREFIX, NOTE_PREFIX = "TAS-", "NOT-"

# The loop contract's words for the states of a task, in the order of its lists.
STATUSES: dict[str, State] = {
    "remaining": State.PENDING,
    "in_progress": State.IN_PROGRESS,
    "completed": State.COMPLETED,
    "blocked": State.BLOCKED,
    "cancelled": State.CANCELLED,
}

NOTE_TYPES = ("learning", "stuck", "tip", "decision")
PRIORITY_WORDS = ("critical", "high", "medium", "low", "backlog")

MAX_COMMAND_CHARACTERS = 1000
_PROPOSED_COMMAND = re.compile(r"^[ \t]*acceptance command:(.*)$", re.IGNORECASE | re.MULTILINE)

REPEATED_OUTCOMES = frozenset({"rate_limited", "without_tools"})
"""Outcomes of iterations in which the agent could not work. Such an iteration is repeated and does not count."""

_STATUS_OF = {state: status for status, state in STATUSES.items()}
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class RunState(StrEnum):
    """The state of a run. An active run is driven, or was interrupted and can be resumed.

    Three states mean that nothing failed but the work is not done: the agent planned no task, every open task is
    blocked, or a person did not answer.
    """

    ACTIVE = "active"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    EMPTY = "empty"
    BLOCKED = "blocked"
    UNANSWERED = "unanswered"


class Wanted(StrEnum):
    """What the people in charge want a run to do."""

    GO = "go"
    PAUSE = "pause"
    STOP = "stop"


class RunNotFound(NotFound):
    """Run '{run}' not found"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored.

    `wish` counts the agent's requests for completion, `wished_in` is the iteration of the open one, `judged` the request
    that has a `verdict`, None when it was accepted. `cost` is in millionths, `spent` in microseconds. `waiting` says
    what it waits for. `verified_before` is 1 when the acceptance commands passed before the first iteration, `start_tree`
    the files of the project at that time, as a tree of git. `plan_approved` is 1 once a person has approved the plan.
    A run of a `crew` has the agent `worker` work on a `task` of an epic.
    """

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
    fence: int
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
    waiting: str | None = None
    verified_before: int | None = None
    start_tree: str | None = None
    plan_approved: int | None = None
    crew: str | None = None
    worker: str | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Iteration:
    """One turn of the agent. `board` is a fingerprint of the tasks at its end."""

    number: int
    attempts: int
    summary: str | None
    outcome: str | None
    failure: str | None
    board: str | None
    prompt_changed: int
    tokens: int
    cost: int
    started_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a run for its later iterations."""

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
    """A question of a run to a person."""

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
    """A message of a person to a run."""

    number: int
    sender: str
    body: str
    created_at: int


@dataclass(frozen=True, slots=True)
class PromptMail:
    """The messages that a prompt includes, and whether more wait for the next one."""

    messages: tuple[Message, ...] = ()
    mails: tuple[Mail, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Number of latest iterations without progress or with the same failure, and whether a changed prompt was tried."""

    stalled: int
    stalled_despite_change: bool
    failed: int
    failed_despite_change: bool


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Everything that decides how a run continues. `questions` are open questions of the agent, not permissions."""

    run: Run
    last_iteration: Iteration | None
    next_number: int
    progress: Progress
    tasks: tuple[Task, ...]
    questions: tuple[Request, ...]
    has_unread: bool


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status that the driver of a run reacts to at once."""

    state: RunState
    wanted: Wanted
    wish: int
    judged: int
    task: str
    requests: tuple[Request, ...]
    has_unread: bool

    @property
    def version(self) -> str:
        """A short text that changes with the status."""
        requests = [request.number for request in self.requests]
        text = f"{self.state} {self.wanted} {self.wish} {self.judged} {self.task} {requests} {self.has_unread}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def format_task_id(number: int) -> str:
    """Format a task's number as the loop contract does."""
    return f"{TASK_PREFIX}{number}"


def describe_status(run: Run, driven: bool) -> str:
    """Return the state of a run as the one word that every page and command shows."""
    if run.state is not RunState.ACTIVE:
        return run.state.value
    # A run without a process is still active in the store: after a crash, no process is left to end it.
    if not driven:
        return "interrupted"
    if run.waiting is not None and run.wanted is Wanted.GO:
        return "waiting"
    return {Wanted.GO: "running", Wanted.PAUSE: "paused", Wanted.STOP: "stopping"}[run.wanted]


def format_status(state: State) -> str:
    """Format a task's state as the loop contract does."""
    return _STATUS_OF[state]


def parse_status(text: str) -> State:
    """Parse the loop contract's word for a state."""
    try:
        return STATUSES[text]
    except KeyError:
        raise InvalidInput(f"'{text[:40]}' is not a status", hint=f"Use one of {', '.join(STATUSES)}") from None


def parse_priority(number: float) -> int:
    """Parse a whole number from 0 to 4, written as 2 or as 2.0."""
    if number not in PRIORITIES:
        raise InvalidInput(
            f"{number:g} is not a priority",
            hint="Use a whole number: " + ", ".join(f"{at} {word}" for at, word in enumerate(PRIORITY_WORDS)),
        )
    return int(number)


def parse_note_type(text: str) -> str:
    """Check the type of a note."""
    if text not in NOTE_TYPES:
        raise InvalidInput(f"'{text[:40]}' is not a type of note", hint=f"Use one of {', '.join(NOTE_TYPES)}")
    return text


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line into an argument vector. No shell ever runs it."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        raise ValueError(f"the quotes of {text[:80]!r} do not match") from None
    if not words:
        raise ValueError("a command must not be empty")
    return words


def parse_proposed_command(content: str) -> tuple[str, ...] | None:
    """Find the acceptance command that a task's content proposes on a separate line."""
    found = _PROPOSED_COMMAND.search(content)
    if found is None:
        return None
    line = found[1].strip(" \t").strip("`")
    try:
        if len(line) > MAX_COMMAND_CHARACTERS or not line.isprintable():
            raise ValueError(f"a command has at most {MAX_COMMAND_CHARACTERS} characters, all of them printable")
        return split_command(line)
    except ValueError as error:
        raise InvalidInput(
            f"the acceptance command cannot be read: {error}",
            hint="Nothing was added. Write it in one line: Acceptance command: PROGRAM ARGUMENTS",
        ) from None


def find_proposed_command(content: str) -> tuple[str, ...] | None:
    """Find the acceptance command that a text proposes. A command that cannot be parsed is ignored."""
    try:
        return parse_proposed_command(content)
    except InvalidInput:
        return None


def make_content_key(content: str) -> str:
    """Hash a task's content, ignoring case and surrounding white space, to find duplicates."""
    return hashlib.sha256(content.strip().casefold().encode()).hexdigest()


def check_run_name(name: str) -> str:
    """Return the name, or raise InvalidInput."""
    if not _RUN_NAME.fullmatch(name):
        raise InvalidInput(
            f"'{name[:80]}' cannot be the name of a run",
            hint="Use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        )
    return name


def check_content(text: str, what: str) -> str:
    """Return the text without surrounding white space, or raise InvalidInput when it is blank."""
    text = text.strip()
    if not text:
        raise InvalidInput(f"the content of {what} must not be blank", hint="Nothing was added. Provide some text")
    return text


@contextmanager
def name_batch_item(what: str, position: int, total: int) -> Iterator[None]:
    """Name the item of a batch in the error that rejects it. A batch of one needs no name."""
    try:
        yield
    except ClientError as error:
        if total > 1:
            error.message = f"{what} {position} of {total}: {error.message}"
            error.args = (error.message,)
        raise


def check_fence(run: Run, fence: int) -> None:
    """Reject a driver whose run another driver has taken over."""
    if fence != run.fence:
        raise InvalidState(
            f"another process drives the run '{run.name}' now (this driver's fence is {fence}, the run's is {run.fence})",
            hint="This driver stops.",
        )


def shorten(text: str) -> str:
    """Shorten a text to one line of 80 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def run_topic(run: str) -> str:
    """Return the topic that is notified when something happens to a run."""
    return f"run:{run}"

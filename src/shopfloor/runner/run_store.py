"""The store as the runner uses it. Everything goes through the `run` toolset, so every write is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter

from shopfloor.domain.principals import OPERATOR, Kind, Principal
from shopfloor.domain.reviews import Review
from shopfloor.domain.runs import Iteration, PromptMail, Run, RunSnapshot, RunState, RunStatus
from shopfloor.domain.tasks import Task
from shopfloor.domain.text import make_storable
from shopfloor.domain.transcripts import NewEntry
from shopfloor.errors import Unavailable
from shopfloor.serving import Shopfloor
from shopfloor.toolkit import CallResult, Credential, Request

RETRY_PAUSE_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts while the store is unavailable, beyond those of the pipeline: an agent's work is at
stake."""

WAIT_SECONDS = 600.0
"""Duration of one wait for a change. Each wait is a call with its own row in the log."""

T = TypeVar("T")

_adapters: dict[Any, TypeAdapter[Any]] = {}
"""Cached, because building one takes 10 ms, and a task of a crew converts 25 responses."""


@dataclass(frozen=True, slots=True)
class BegunIteration:
    """An iteration at its beginning: the run, the iteration, and others' texts for its prompt.

    `dirty_before` are the files that were dirty before the first uncommitted iteration.
    """

    run: Run
    iteration: Iteration
    inbound: PromptMail
    dirty_before: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class PromptSections:
    """The sections of a prompt that come from the store."""

    tasks: str
    notes: str
    history: str
    has_tasks: bool


class RunStore:
    """One run in the store, for its driver. Calls are made as the principal `runner:NAME`."""

    def __init__(self, shopfloor: Shopfloor, name: str) -> None:
        self._shopfloor = shopfloor
        self.name = name
        self.fence = 0

    @property
    def agent_requests(self) -> int:
        """Number of requests that the run's own server has received from the agent."""
        return self._shopfloor.engine.identity.accepted_tokens

    async def drive(self, options: str, spec: str | None) -> tuple[Run, str]:
        """Take the run over as its driver. Return the run and a token for its agent."""
        while True:
            result = await self._attempt("run_drive", {"options": options, "spec": spec}, None)
            if not result.record.replayed:
                break
            # The result of a repeated call is stored without its secret. Driving again gives a new fence and token.
        run = convert(result.body["run"], Run)
        self.fence = run.fence
        return run, result.body["token"]

    async def wait_for_change(self, version: str = "", seconds: float = WAIT_SECONDS) -> RunStatus:
        """Return the status of the run once it differs from the known version, or after `seconds`."""
        given = {"fence": self.fence, "version": version, "seconds": seconds}
        return convert(await self._read("run_wait", **given), RunStatus)

    async def list_neighbours(self) -> list[str]:
        """Return the names of other runs that work in the same folder."""
        return convert(await self._read("run_neighbours"), list[str])

    async def load_snapshot(self) -> RunSnapshot:
        """Load everything that decides how the run continues."""
        return convert(await self._read("run_snapshot"), RunSnapshot)

    async def begin_iteration(self, *, prompt_changed: bool) -> BegunIteration:
        """Begin the next iteration, or repeat the last one if it was cut off."""
        return convert(await self._write("iteration_begin", prompt_changed=prompt_changed), BegunIteration)

    async def read_prompt_sections(self) -> PromptSections:
        """Return the sections of a prompt about tasks, notes and history."""
        return convert(await self._read("iteration_prompt"), PromptSections)

    async def set_session(self, session: str) -> None:
        """Store the agent's session."""
        await self._write("iteration_session", session=session)

    async def record_prompt_delivery(self, number: int, inbound: PromptMail) -> None:
        """Record that the agent has received the prompt of this iteration, with these texts of others."""
        messages, mails = [message.number for message in inbound.messages], [mail.id for mail in inbound.mails]
        await self._write("iteration_prompted", number=number, messages=messages, mails=mails)

    async def find_next_entry(self) -> int:
        """Return the number of the next entry of the run's transcript."""
        return int(await self._read("transcript_next"))

    async def record_entries(self, session: str, iteration: int, entries: Sequence[NewEntry]) -> None:
        """Store entries of the run's transcript."""
        given = [asdict(entry) for entry in entries]
        await self._write("transcript_record", session=session, iteration=iteration, entries=given)

    async def record_usage(self, tokens: int, cost: int) -> None:
        """Record the usage of the current iteration since the last report."""
        await self._write("iteration_usage", tokens=tokens, cost=cost)

    async def set_start_tree(self, tree: str) -> None:
        """Record the project's files before the run, as a git tree."""
        await self._write("run_start_tree", tree=tree)

    async def list_completed_tasks(self, since: int) -> list[Task]:
        """Return the tasks completed since a given time."""
        return convert(await self._read("iteration_completed_tasks", since=since), list[Task])

    async def set_dirty_files(self, number: int, files: dict[str, str]) -> None:
        """Store the files that are dirty before an iteration."""
        await self._write("iteration_dirty", number=number, files=files)

    async def find_dirty_files(self) -> dict[str, str] | None:
        """Return the files that were dirty before the first uncommitted iteration, or None if all are committed."""
        files = await self._read("iteration_uncommitted")
        return None if files is None else convert(files, dict[str, str])

    async def record_commit(self) -> None:
        """Record that the changes of all iterations so far are committed."""
        await self._write("iteration_committed")

    async def set_waiting(self, waiting: str | None) -> None:
        """Record what the run waits for, or that it is working again."""
        await self._write("run_waiting", waiting=waiting)

    async def set_verified_before(self, *, passed: bool) -> None:
        """Record the result of the acceptance commands before the first iteration."""
        await self._write("run_verified_before", passed=passed)

    async def end_iteration(
        self, *, outcome: str, failure: str | None, tokens: int, cost: int, spent: int, tree: str = ""
    ) -> Iteration:
        """Record how the current iteration ended, and its usage."""
        usage = {"tokens": tokens, "cost": cost, "spent": spent, "tree": tree}
        return convert(await self._write("iteration_end", outcome=outcome, failure=failure, **usage), Iteration)

    async def set_failure(self, number: int, failure: str) -> None:
        """Record that the work of an iteration did not pass."""
        await self._write("iteration_fail", number=number, failure=failure)

    async def record_verdict(self, wish: int, verdict: str | None) -> None:
        """Record the verdict on the work; None accepts it."""
        await self._write("run_verdict", wish=wish, verdict=verdict)

    async def finish(self, state: RunState, reason: str, *, alert: bool = False) -> None:
        """End the run; with `alert`, mail the reason to the operator."""
        await self._write("run_finish", state=state.value, reason=reason, alert=alert)

    async def ask_permission(
        self, question: str, options: tuple[str, ...], subject: str
    ) -> tuple[int | None, str | None]:
        """Ask a person; return the number of the question. If `always` was answered before, return that instead."""
        given = {"question": question, "options": list(options), "subject": subject}
        response = await self._write("request_permission", **given)
        return response["number"], response["answer"]

    async def ask_decision(self, kind: str, question: str) -> int:
        """Ask a person to approve something; return the number of the question."""
        return int((await self._write("request_decision", kind=kind, question=question))["number"])

    async def reopen_task(self, number: int) -> None:
        """Reopen a completed task."""
        await self._write("iteration_reopen_task", task=number)

    async def open_review(self) -> tuple[int, str]:
        """Open a review of the run's work; return its number and a token for the reviewer."""
        result = await self._attempt("review_open", {"fence": self.fence}, None)
        return result.body["number"], result.body["token"]

    async def close_review(self, number: int) -> Review:
        """End a review and return it with its verdict."""
        return convert(await self._write("review_close", number=number), Review)

    async def list_rejections(self) -> list[Review]:
        """Return the reviews that rejected the work since a person last decided about it, oldest first."""
        return convert(await self._read("review_rejections"), list[Review])

    async def wait_for_answer(self, number: int, seconds: float) -> str | None:
        """Return a person's answer, or None if the time is up or the question was withdrawn."""
        answer: str | None = (await self._write("request_wait", number=number, seconds=seconds))["answer"]
        return answer

    async def withdraw_request(self, number: int) -> None:
        """Withdraw a question."""
        await self._write("request_withdraw", number=number)

    async def answer_request(self, number: int, text: str) -> None:
        """Answer a question as the person at the terminal, who is the operator."""
        await self._call("desk", "inbox_decide", {"request": number, "answer": text}, OPERATOR, uuid4().hex)

    async def read_file(self, path: str) -> str:
        """Return the text of a file of the project."""
        return str((await self._read("file_read", fence=self.fence, path=path))["text"])

    async def write_file(self, path: str, text: str, *, permitted: bool) -> None:
        """Replace the text of a project file; without permission, have the write rejected and logged."""
        # Not as `_write` does it: a file is written as it is, or not at all.
        given = {"fence": self.fence, "path": path, "text": text, "permitted": permitted}
        await self._attempt("file_write", given, uuid4().hex)

    async def _read(self, tool: str, **arguments: Any) -> Any:
        return (await self._attempt(tool, arguments, None)).body

    async def _write(self, tool: str, **arguments: Any) -> Any:
        # The fence rejects this driver once another has taken the run over. The key makes a write safe to repeat when
        # the outcome of its commit is unknown, as after a lost connection: it takes effect once.
        # Much of what is stored are an agent's own words, or the output of a command. A NUL in an error of the agent
        # ended the run, and one in a tool's output lost a hundred entries of the transcript.
        given = {"fence": self.fence, **make_storable(arguments)}
        return (await self._attempt(tool, given, uuid4().hex)).body

    async def _attempt(self, tool: str, arguments: Mapping[str, Any], key: str | None) -> CallResult:
        return await self._call("run", tool, arguments, Principal(Kind.RUNNER, self.name), key)

    async def _call(
        self, toolset: str, tool: str, arguments: Mapping[str, Any], caller: Principal, key: str | None
    ) -> CallResult:
        return await call_tool(self._shopfloor, toolset, tool, arguments, caller, key)


async def call_tool(
    shopfloor: Shopfloor,
    toolset: str,
    tool: str,
    arguments: Mapping[str, Any],
    caller: Principal,
    key: str | None,
    pauses: Iterable[float] | None = None,
) -> CallResult:
    """Call a tool as a principal of this process; while the store is unavailable, retry with the same key."""
    request = Request(
        shopfloor.engine.toolsets[toolset],
        tool,
        dict(arguments),
        Credential(trusted=caller),
        "runner",
        idempotency_key=key,
    )
    for pause in RETRY_PAUSE_SECONDS if pauses is None else pauses:
        result = await shopfloor.engine.acall(request)
        if not isinstance(result.error, Unavailable):
            break
        await asyncio.sleep(pause)
    else:
        result = await shopfloor.engine.acall(request)
    if result.error is not None:
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class CreatedRun:
    """A newly created run, and the folder that it works in."""

    name: str
    project: str


def create_run(
    shopfloor: Shopfloor,
    name: str | None,
    wanted_name: str,
    spec: str,
    options: str,
    *,
    worktrees: tuple[str, str] | None = None,
    always_worktree: bool = False,
) -> CreatedRun:
    """Create a run as the operator. `worktrees` are the folder for worktrees and the project's path in each."""
    arguments: dict[str, Any] = {"name": name, "wanted_name": wanted_name, "spec": spec, "options": options}
    arguments["project"] = str(shopfloor.settings.project)
    arguments |= {"worktrees": None if worktrees is None else list(worktrees), "always_worktree": always_worktree}
    result = shopfloor.answer("run", "run_create", arguments, transport="cli")
    if result.error is not None:
        raise result.error
    return convert(result.body, CreatedRun)


def get_run(shopfloor: Shopfloor, name: str) -> Run:
    """Return the run of that name, or raise RunNotFound."""
    credential = Credential(trusted=Principal(Kind.RUNNER, name))
    result = shopfloor.engine.call(Request(shopfloor.engine.toolsets["run"], "run_get", {}, credential, "cli"))
    if result.error is not None:
        raise result.error
    return convert(result.body, Run)


def convert(value: Any, kind: type[T]) -> T:
    """Convert the JSON of a response to a domain type."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    converted: T = _adapters[kind].validate_python(value)
    return converted

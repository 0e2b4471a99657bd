"""perform: the last step. It opens the work, runs the tool, and writes the rows of the log with it.

A tool that only touches the store is one transaction: invocation, effect, events, result, one commit.
A tool that refuses is rolled back to where it began; its rows in the log stay.
A tool that only reads has its rows written by the next commit. A tool that waits on the outside, or for
something to happen, leaves an open invocation first, so that a crash can be told from silence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json

from shopfloor.domain.actors import Kind, Principal
from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.masks import mask
from shopfloor.domain.times import SECOND
from shopfloor.errors import KeyReused, Refused
from shopfloor.pipeline.record import result_context, write_error, write_invocation, write_result
from shopfloor.repositories.work import Outside, Work, Works
from shopfloor.toolkit import Call, Waiting

SEEN_EVERY = 5 * SECOND
"""How often the presence of an agent is written down while it calls and calls."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A refusal that is already in the log."""

    error: Refused


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call that waits, and its open row in the log."""

    waiting: Waiting
    opened: int | None


@dataclass(slots=True)
class Perform:
    """The step behind all others. `notice` is what else an agent should know, in one line."""

    works: Works
    clock: Callable[[], int]
    notice: Callable[[Work], str | None]
    seen: dict[str, int] = field(default_factory=dict)

    def __call__(self, call: Call) -> Any:
        assert call.tool is not None and call.caller is not None
        if call.tool.outside:
            return self._outside(call, call.caller)
        if call.tool.read_only and not call.tool.waits:
            return self._read(call, call.caller)
        return self._write(call, call.caller)

    def _write(self, call: Call, caller: Principal) -> Any:
        key = call.key or (spell_reference(call.reference) if self.works.store.commit_may_be_unknown else None)
        outcome = self.works.write(partial(self._attempt, call, key), caller, call.reference)
        if isinstance(outcome, _Pending):
            call.opened, call.waited = outcome.opened, outcome.waiting
            return outcome.waiting
        call.logged = True
        if isinstance(outcome, _Refusal):
            raise outcome.error
        return outcome

    def _attempt(self, call: Call, key: str | None, work: Work) -> Any:
        opened = write_invocation(work, call)
        self._was_here(work)
        try:
            with work.savepoint():
                value = _once(call, key, work) if key else _run(call, work)
        except Refused as error:
            write_error(work, call, error, work.now)
            self._finish(call, work)
            return _Refusal(error)
        if isinstance(value, Waiting):
            if opened is not None:
                work.decisions.leave_open(opened, work.process)
            return _Pending(value, opened or call.opened)
        write_result(work, call, result_context(call, value), work.now)
        self._finish(call, work)
        return value

    def _finish(self, call: Call, work: Work) -> None:
        """What belongs to every answer: the notice, what follows from it, and which task the rows are about."""
        self._notify(call, work)
        _follow(call, work, work)

    def _read(self, call: Call, caller: Principal) -> Any:
        def reading(work: Work) -> tuple[Any, Work]:
            value = _run(call, work)
            self._notify(call, work)
            return value, work

        value, seen = self.works.read(reading, caller, call.reference)
        context, now = result_context(call, value), self.clock()

        def rows(work: Work) -> None:
            write_invocation(work, call)
            self._was_here(work)
            write_result(work, call, context, now)
            _follow(call, seen, work)

        self.works.later(rows, caller, call.reference)
        call.logged = True
        return value

    def _outside(self, call: Call, caller: Principal) -> Any:
        """Invocation first, result after: in between the tool opens work of its own."""
        assert call.tool is not None
        key = None if call.tool.read_only else call.key

        def invocation(work: Work) -> tuple[int | None, str | None]:
            self._was_here(work)
            return write_invocation(work, call, open=True), None if key is None else _answered(call, key, work)

        call.opened, first = self.works.write(invocation, caller, call.reference)
        call.replayed = first is not None
        if first is not None:
            value = from_json(first)
        else:
            value = call.tool.run(Outside(self.works, caller, call.reference, call.progress), **call.arguments)
        seen = self.works.read(partial(self._notify, call), caller, call.reference)
        context, now = result_context(call, value), self.clock()

        def rows(work: Work) -> None:
            write_result(work, call, context, now)
            _follow(call, seen, work)
            if key is not None and not call.replayed and work.answers.claim(key, _digest(call), now) is None:
                work.answers.keep(key, to_json(value).decode())

        self.works.later(rows, caller, call.reference)
        call.logged = True
        return value

    def _was_here(self, work: Work) -> None:
        """Write down that the calling agent is alive; its leases hang on it."""
        agent = work.actor
        if agent.kind is Kind.AGENT and work.now - self.seen.get(agent.name, 0) >= SEEN_EVERY:
            work.agents.touch(agent.name, work.now)
            self.seen[agent.name] = work.now

    def _notify(self, call: Call, work: Work) -> Work:
        if work.actor.kind is Kind.AGENT:
            call.notice = self.notice(work)
        return work


def _follow(call: Call, seen: Work, work: Work) -> None:
    """Do in this work what followed from one that only read."""
    for deed in seen.deeds:
        deed(work)
    if seen.task is not None:
        work.decisions.concern(call.reference, seen.task)


def _run(call: Call, work: Work) -> Any:
    assert call.tool is not None
    if call.tool.waits:
        return call.tool.run(work, **call.arguments, waited=call.waited)
    return call.tool.run(work, **call.arguments)


def _once(call: Call, key: str, work: Work) -> Any:
    """The first answer to this key, given now or then; who asks again for one that waits, waits with it."""
    digest = _digest(call)
    kept = work.answers.claim(key, digest, work.now)
    if kept is not None and kept.digest != digest:
        raise KeyReused
    if kept is not None and kept.answer is not None:
        call.replayed = call.waited is None
        return from_json(kept.answer)
    if kept is not None and kept.waiting is not None and call.waited is None:
        call.waited = Waiting(*from_json(kept.waiting))
    value = _run(call, work)
    if isinstance(value, Waiting):
        work.answers.keep_waiting(key, to_json([value.topic, value.until, value.state]).decode())
    else:
        kept_answer = to_json(value).decode()
        work.answers.keep(key, mask(kept_answer) if call.tool is not None and call.tool.secret else kept_answer)
    return value


def _answered(call: Call, key: str, work: Work) -> str | None:
    """The first answer to this key, if there is one; what was never answered may be done again."""
    kept = work.answers.find(key)
    if kept is not None and kept.digest != _digest(call):
        raise KeyReused
    return None if kept is None else kept.answer


def _digest(call: Call) -> bytes:
    """What a key stands for: the call as the tool sees it, to which an explicit null is nothing."""
    given = {name: value for name, value in call.input.items() if value is not None}
    return hashlib.sha256(to_json([call.toolset.name, call.name, _sorted(given)], fallback=str)).digest()


def _sorted(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True, default=str))

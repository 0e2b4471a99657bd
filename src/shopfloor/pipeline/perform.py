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
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json

from shopfloor.domain.decisions import spell_reference
from shopfloor.errors import KeyReused, Refused
from shopfloor.pipeline import Next
from shopfloor.pipeline.record import result_context, write_error, write_invocation, write_result
from shopfloor.repositories.work import Outside, Work, Works
from shopfloor.toolkit import Call, Waiting


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A refusal that is already in the log."""

    error: Refused


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call that waits, and its open row in the log."""

    waiting: Waiting
    opened: int | None


def perform(works: Works, clock: Callable[[], int]) -> Next:
    """The step behind all others."""

    def last(call: Call) -> Any:
        assert call.tool is not None and call.caller is not None
        if call.tool.outside:
            return _outside(works, call, clock)
        if call.tool.read_only and not call.tool.waits:
            return _read(works, call, clock)
        return _write(works, call)

    return last


def _write(works: Works, call: Call) -> Any:
    assert call.caller is not None
    key = call.key or (spell_reference(call.reference) if works.store.commit_may_be_unknown else None)
    outcome = works.write(partial(_attempt, call, key), call.caller, call.reference)
    if isinstance(outcome, _Pending):
        call.opened, call.waited = outcome.opened, outcome.waiting
        return outcome.waiting
    call.logged = True
    if isinstance(outcome, _Refusal):
        raise outcome.error
    return outcome


def _attempt(call: Call, key: str | None, work: Work) -> Any:
    opened = write_invocation(work, call)
    try:
        with work.savepoint():
            value = _once(call, key, work) if key and call.waited is None else _run(call, work)
    except Refused as error:
        write_error(work, call, error, work.now)
        return _Refusal(error)
    if isinstance(value, Waiting):
        if opened is not None:
            work.decisions.leave_open(opened, work.process)
        return _Pending(value, opened or call.opened)
    write_result(work, call, result_context(call, value), work.now)
    return value


def _run(call: Call, work: Work) -> Any:
    assert call.tool is not None
    if call.tool.waits:
        return call.tool.run(work, **call.arguments, waited=call.waited)
    return call.tool.run(work, **call.arguments)


def _once(call: Call, key: str, work: Work) -> Any:
    """The first answer to this key, given now or then."""
    digest = hashlib.sha256(to_json([call.toolset.name, call.name, _sorted(call.input)], fallback=str)).digest()
    kept = work.answers.claim(key, digest, work.now)
    if kept is None:
        value = _run(call, work)
        if not isinstance(value, Waiting):
            work.answers.keep(key, to_json(value).decode())
        return value
    first, answer = kept
    if first != digest:
        raise KeyReused
    call.replayed = True
    return from_json(answer or "null")


def _sorted(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True, default=str))


def _read(works: Works, call: Call, clock: Callable[[], int]) -> Any:
    assert call.caller is not None
    value = works.read(partial(_run, call), call.caller, call.reference)
    context, now = result_context(call, value), clock()

    def rows(work: Work) -> None:
        write_invocation(work, call)
        write_result(work, call, context, now)

    works.later(rows, call.caller, call.reference)
    call.logged = True
    return value


def _outside(works: Works, call: Call, clock: Callable[[], int]) -> Any:
    """Invocation first, result after: in between the tool opens work of its own."""
    assert call.caller is not None and call.tool is not None
    if call.opened is None:
        call.opened = works.write(lambda work: write_invocation(work, call, open=True), call.caller, call.reference)
    value = call.tool.run(Outside(works, call.caller, call.reference, call.progress), **call.arguments)
    context, now = result_context(call, value), clock()
    works.later(lambda work: write_result(work, call, context, now), call.caller, call.reference)
    call.logged = True
    return value

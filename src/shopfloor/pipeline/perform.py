"""perform: the last step. Open the unit of work, run the tool, and write the log rows with it.

A tool that only touches the store is one transaction: invocation, effect, events, result, one commit. A tool that
rejects the call is rolled back to a savepoint; its log rows stay. A tool that only reads uses a snapshot; its rows join
the next commit. A tool that waits on something outside the store, or for an event, first leaves an open invocation row,
so that the log shows a call that a crash cut off.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json

from shopfloor.domain.decisions import format_reference
from shopfloor.domain.principals import Kind
from shopfloor.domain.redaction import redact
from shopfloor.domain.times import DAY, MINUTE, SECOND
from shopfloor.errors import ClientError, IdempotencyKeyReused
from shopfloor.pipeline.record import log_result, write_error, write_invocation, write_result
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.search.index import SearchIndex
from shopfloor.toolkit import Context, Waiting
from shopfloor.usecases.external import ExternalContext

TOUCH_INTERVAL = 5 * SECOND
"""How often an agent's last activity is written while it keeps calling."""
AUTOMATIC_KEY_AGE = DAY - 10 * MINUTE
"""Keys are kept for a day. One for every write of a busy server would be millions."""


# Two replicas may give two calls in the same millisecond the same reference.
_PROCESS_KEY = secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class _Rejection:
    """An error that is already in the log."""

    error: ClientError


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call that waits, and its open row in the log."""

    waiting: Waiting
    entry_id: int | None


@dataclass(slots=True)
class Perform:
    """The innermost step. `notice` returns a line for the agent next to the result, such as its unread mail."""

    database: Database
    search: SearchIndex
    notice: Callable[[UnitOfWork], str | None]
    _touched_at: dict[str, int] = field(default_factory=dict)

    def __call__(self, context: Context) -> Any:
        if context.tool.external:
            return self._run_external(context)
        if context.tool.read_only and not context.tool.waits:
            return self._read(context)
        return self._write(context)

    def _write(self, context: Context) -> Any:
        record = context.record
        key = context.request.idempotency_key
        # On PostgreSQL a connection can be lost between COMMIT and its answer. SQLite always knows the outcome, so it
        # does not pay for this. Neither does a tool that waits and then only reads.
        is_automatic = key is None and not context.tool.read_only and self.database.store.commit_may_be_unknown
        if is_automatic:
            # Lets a retry after a lost COMMIT find its own result. References are unique only within their process.
            key = f"{_PROCESS_KEY}:{format_reference(record.reference)}"
        # No other call has the key, so the first attempt need not claim it first.
        claim = not (is_automatic and record.retries == 0 and not context.tool.waits)
        attempt = partial(self._attempt, context, key, claim)
        outcome, deferred = self.database.write(attempt, context.caller, record.reference)
        if deferred:
            # After the commit: on PostgreSQL concurrent calls of one agent would abort each other on these rows. With
            # 64 callers, 8 of them as the agent that all write to, 7 of 100 calls ran twice.
            self.database.later(lambda uow: _run_all(deferred, uow), context.caller, record.reference, may_repeat=True)
        if isinstance(outcome, _Pending):
            record.open_entry_id = outcome.entry_id
            return outcome.waiting
        record.logged = True
        if isinstance(outcome, _Rejection):
            raise outcome.error
        return outcome

    def _attempt(
        self, context: Context, key: str | None, claim: bool, uow: UnitOfWork
    ) -> tuple[Any, list[Callable[[UnitOfWork], None]]]:
        """Run the tool with its log rows, and return its outcome and what it deferred."""
        request, record = context.request, context.record
        entry_id = write_invocation(uow, request, record, needs_id=context.tool.waits)
        self._touch_agent(uow)
        try:
            # A rejected call must have no effect but still have its log rows, in one transaction.
            with uow.savepoint():
                value = self._run(context, key, claim, uow)
        except ClientError as error:
            write_error(uow, request, record, error, uow.now)
            value = _Rejection(error)
        else:
            if isinstance(value, Waiting):
                if entry_id is not None:
                    uow.decisions.mark_open(entry_id, uow.process)
                return _Pending(value, entry_id or record.open_entry_id), []
            write_result(uow, request, record, log_result(context, value), uow.now)
        self._set_notice(context, uow)
        _set_task(context, uow, uow)
        # SQLite has one writer, so nothing can conflict: a separate commit would only make a mail cost a tenth more.
        if self.database.store.engine == "sqlite":
            _run_all(uow.deferred, uow)
            return value, []
        return value, uow.deferred

    def _run(self, context: Context, key: str | None, claim: bool, uow: UnitOfWork) -> Any:
        if key is None:
            return _run_tool(context, uow, context.resumed)
        if claim:
            return _run_idempotent(context, key, uow)
        value = _run_tool(context, uow, None)
        # Only this call's own retry reads it, within seconds. It is backdated so that it is purged after minutes.
        stored_at = uow.now - AUTOMATIC_KEY_AGE
        uow.idempotency.add_answer(key, _digest(context), _format_answer(context, value), stored_at)
        return value

    def _read(self, context: Context) -> Any:
        request, record = context.request, context.record

        def run(uow: UnitOfWork) -> tuple[Any, UnitOfWork]:
            value = _run_tool(context, uow, None)
            self._set_notice(context, uow)
            return value, uow

        value, snapshot = self.database.read(run, context.caller, record.reference)
        text, now = log_result(context, value), self.database.clock()

        def write_rows(uow: UnitOfWork) -> None:
            write_invocation(uow, request, record)
            self._touch_agent(uow)
            write_result(uow, request, record, text, now)
            _set_task(context, snapshot, uow)
            _run_all(snapshot.deferred, uow)

        # A read is answered before its log rows are durable. They share the next commit, so that a read costs no fsync.
        self.database.log_end_later(write_rows, context.caller, record.reference)
        record.logged = True
        return value

    def _run_external(self, context: Context) -> Any:
        """Write the invocation, run the tool, write the result; the tool opens its own units of work."""
        request, record, caller = context.request, context.record, context.caller
        key = None if context.tool.read_only else request.idempotency_key

        def begin(uow: UnitOfWork) -> tuple[int | None, str | None]:
            self._touch_agent(uow)
            entry_id = write_invocation(uow, request, record, needs_id=True, open=True)
            return entry_id, None if key is None else _find_stored_result(context, key, uow)

        entry_id, stored = self.database.write(begin, caller, record.reference)
        # A retry writes no row: the first attempt's row is still open.
        record.open_entry_id = entry_id or record.open_entry_id
        record.replayed = stored is not None
        deferred: list[Callable[[UnitOfWork], None]] = []
        if stored is not None:
            value = from_json(stored)
        else:
            external = ExternalContext(
                self.database,
                self.search,
                caller,
                record.reference,
                report=request.progress,
                is_abandoned=request.is_abandoned,
                client_session=request.session,
                read_only=context.tool.read_only,
            )
            value = context.tool.run(external, **context.arguments)
            deferred = external.deferred
        # The tool ran outside a transaction, so the notice needs its own snapshot.
        snapshot = self.database.read(partial(self._set_notice, context), caller, record.reference)
        text, now = log_result(context, value), self.database.clock()

        def write_rows(uow: UnitOfWork) -> None:
            write_result(uow, request, record, text, now)
            _set_task(context, snapshot, uow)
            _run_all([*snapshot.deferred, *deferred], uow)
            if key is not None and not record.replayed and uow.idempotency.claim(key, _digest(context), now) is None:
                uow.idempotency.store_answer(key, to_json(value).decode())

        self.database.log_end_later(write_rows, caller, record.reference)
        record.logged = True
        return value

    def _touch_agent(self, uow: UnitOfWork) -> None:
        """Record that the calling agent is alive: its leases depend on it."""
        agent = uow.actor
        # At most every five seconds: otherwise every read would update a row.
        if agent.kind is Kind.AGENT and uow.now - self._touched_at.get(agent.name, 0) >= TOUCH_INTERVAL:
            uow.agents.touch(agent.name, uow.now)
            self._touched_at[agent.name] = uow.now

    def _set_notice(self, context: Context, uow: UnitOfWork) -> UnitOfWork:
        if uow.actor.kind is Kind.AGENT:
            context.record.notice = self.notice(uow)
        return uow


def _run_all(deferred: Sequence[Callable[[UnitOfWork], None]], uow: UnitOfWork) -> None:
    for operation in deferred:
        operation(uow)


def _set_task(context: Context, source: UnitOfWork, uow: UnitOfWork) -> None:
    """Set the task of the call, which the tool found in `source`, in its log rows."""
    if source.task is not None:
        uow.decisions.set_task(context.record.reference, source.task)


def _run_tool(context: Context, uow: UnitOfWork, resumed: Waiting | None) -> Any:
    arguments = context.arguments
    if context.tool.waits:
        arguments = {**arguments, "resumed": resumed}
    if context.tool.elicits:
        arguments = {**arguments, "elicited": context.request.elicited}
    return context.tool.run(uow, **arguments)


def _run_idempotent(context: Context, key: str, uow: UnitOfWork) -> Any:
    """Run the tool at most once per idempotency key. A repeated call waits if the first one still waits."""
    digest, resumed = _digest(context), context.resumed
    # The claim is a row with a unique key, so one of two concurrent calls waits for the other to commit.
    stored = uow.idempotency.claim(key, digest, uow.now)
    if stored is not None and stored.digest != digest:
        raise IdempotencyKeyReused
    if stored is not None and stored.answer is not None:
        context.record.replayed = resumed is None
        return from_json(stored.answer)
    if stored is not None and stored.waiting is not None and resumed is None:
        resumed = Waiting(*from_json(stored.waiting))
    value = _run_tool(context, uow, resumed)
    if isinstance(value, Waiting):
        uow.idempotency.store_waiting(key, to_json([value.topic, value.until, value.state]).decode())
    else:
        uow.idempotency.store_answer(key, _format_answer(context, value))
    return value


def _format_answer(context: Context, value: Any) -> str:
    text = to_json(value).decode()
    # A token is shown once. A replay returns it redacted, so that the table never holds a usable secret.
    return redact(text) if context.tool.secret else text


def _find_stored_result(context: Context, key: str, uow: UnitOfWork) -> str | None:
    stored = uow.idempotency.find(key)
    if stored is not None and stored.digest != _digest(context):
        raise IdempotencyKeyReused
    return None if stored is None else stored.answer


def _digest(context: Context) -> bytes:
    """Return the digest of a call with an idempotency key; an explicit null counts as absent."""
    given = {name: value for name, value in context.request.input.items() if value is not None}
    # Sorted, because a client may serialize the same arguments in a different order when it retries.
    in_order = json.loads(json.dumps(given, sort_keys=True, default=str))
    return hashlib.sha256(to_json([context.request.toolset.name, context.tool.name, in_order], fallback=str)).digest()

"""Engine: runs calls. It owns the pipeline, the executors, admission and waits, and starts and stops the background threads.

`app.build` constructs it; every transport calls it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from shopfloor.background.dispatcher import Dispatcher
from shopfloor.background.housekeeping import Housekeeper
from shopfloor.background.indexer import Indexer
from shopfloor.background.launcher import Launcher
from shopfloor.background.topics import TopicHub
from shopfloor.domain.principals import OPERATOR, SERVER
from shopfloor.domain.times import SECOND
from shopfloor.errors import InvalidInput, ShopfloorError, StoreBusy, TooBusy, Unavailable
from shopfloor.pipeline.authenticate import Identity
from shopfloor.pipeline.build import Pipeline
from shopfloor.pipeline.record import write_error
from shopfloor.repositories.uow import Database
from shopfloor.search.index import SearchIndex
from shopfloor.settings import Settings
from shopfloor.store import cooperative
from shopfloor.telemetry import Telemetry
from shopfloor.toolkit import (
    CallRecord,
    CallResult,
    Credential,
    Json,
    ReportProgress,
    Request,
    Suspended,
    Tool,
    Toolset,
    Waiting,
)
from shopfloor.usecases.page_sessions import Sessions

IMPORT_LOCK = threading.Lock()
"""Held while a heavy package is imported on a thread: packages that import each other could be seen half loaded."""

READ_THREADS = {"sqlite": 4, "postgres": 8}
"""More threads would only compete for the interpreter. PostgreSQL has more because its reads wait for round trips."""

WAIT_PROGRESS_SECONDS = 5
"""How often a call that waits reports its progress."""

ISSUER_THREADS = 4
"""Threads for tokens whose key must be fetched from an external issuer. One fetches, the others wait for it."""

T = TypeVar("T")

_log = logging.getLogger("shopfloor.engine")

_CLIENT_DISCONNECTED = Unavailable("The caller disconnected before there was a result")


class Admission:
    """Counts the calls in flight and the calls that wait, and decides whether one more may start."""

    def __init__(self, max_calls: int, max_waits: int) -> None:
        self._max_calls = max_calls
        self._max_waits = max_waits
        self._lock = threading.Lock()
        self.in_flight = 0
        self.waiting = 0

    def admits(self, tool: Tool | None) -> bool:
        """Return whether a new call may start. A call that resumes is always admitted: its log row is open."""
        if tool is not None and tool.waits and self.waiting >= self._max_waits:
            return False
        return self.in_flight < self._max_calls

    def enter(self) -> None:
        """Count a call that starts or resumes."""
        with self._lock:
            self.in_flight += 1

    def leave(self) -> None:
        """Release the slot of a call that has ended or waits. Thread-safe."""
        with self._lock:
            self.in_flight -= 1

    def is_busy(self) -> bool:
        """Return whether calls are in flight; background work then yields to them."""
        return self.in_flight > 0


class Engine:
    """The parts of a running server, and the calls that go through them."""

    def __init__(
        self,
        *,
        settings: Settings,
        database: Database,
        toolsets: dict[str, Toolset],
        pipeline: Pipeline,
        identity: Identity,
        telemetry: Telemetry,
        admission: Admission,
        sessions: Sessions,
        topics: TopicHub,
        dispatcher: Dispatcher,
        housekeeper: Housekeeper,
        launcher: Launcher,
        search: SearchIndex,
        indexer: Indexer,
    ) -> None:
        self.settings = settings
        self.database = database
        self.toolsets = toolsets
        self.identity = identity
        self.telemetry = telemetry
        self.sessions = sessions
        self.topics = topics
        self.dispatcher = dispatcher
        self.housekeeper = housekeeper
        self._launcher = launcher
        self.search = search
        self.indexer = indexer
        self._pipeline = pipeline
        self._admission = admission
        self._resumptions = asyncio.Semaphore(settings.calls)
        self._executor = ThreadPoolExecutor(settings.calls, thread_name_prefix="shopfloor-call")
        self._read_executor = ThreadPoolExecutor(
            READ_THREADS[database.store.engine], thread_name_prefix="shopfloor-read"
        )
        self.issuer_executor = ThreadPoolExecutor(ISSUER_THREADS, thread_name_prefix="shopfloor-issuer")
        self._started = False
        self._stopping = False
        self._stopped = False

    @property
    def profile(self) -> list[Toolset]:
        """The toolsets that /mcp and /mcp/execute serve."""
        return [self.toolsets[name] for name in self.settings.profile]

    @property
    def stopping(self) -> bool:
        """True once shutdown has begun."""
        return self._stopping

    def start(self, kind: str, url: str | None = None) -> None:
        """Start the background threads."""
        self._started = True
        self.housekeeper.start(kind, url)
        self.topics.start()
        self.dispatcher.start()
        if kind == "serve" and self.settings.launch_runs:
            self._launcher.start()
        self.indexer.start(at_once=kind == "serve" and "context" in self.settings.profile)

    def stop(self) -> None:
        """Stop everything. All accepted writes are durable afterwards. Stopping twice is harmless."""
        if self._stopped:
            return
        self._stopped = True
        self._launcher.stop()
        # Waiting calls return first: they hold no thread, but their log rows are open, and the writer must still run.
        self.cancel_waits()
        # Calls before the indexer, the indexer before the readers: each may still need what is stopped after it.
        self.issuer_executor.shutdown(wait=False, cancel_futures=True)
        self._executor.shutdown(wait=True)
        self.indexer.stop()
        self._read_executor.shutdown(wait=True)
        self.topics.stop()
        store = self.database.store
        try:
            if self._started:
                self.dispatcher.stop()
                self.housekeeper.stop()
            # Log rows of finished calls may still be queued. They are durable before the store closes.
            store.flush()
        except StoreBusy as error:
            # Another program has held the lock for longer than a stop may take.
            _log.warning("log rows of finished calls are not written: %s", error)
        except ShopfloorError:
            # A store that has failed permanently must not prevent the stop, and reports the reason itself.
            if store.failure is None:
                raise
        finally:
            store.close()
            self.telemetry.stop()

    def cancel_waits(self) -> None:
        """Make waiting calls return now, as if their deadline had passed."""
        self._stopping = True
        self.topics.wake_all()

    def new_request(
        self,
        toolset: str,
        tool: str,
        input: Json,
        credential: Credential,
        transport: str,
        claimed_name: str | None = None,
    ) -> Request:
        """Return a request for a tool of the named toolset."""
        if toolset not in self.toolsets:
            raise InvalidInput(f"Unknown toolset '{toolset}'; expected one of {', '.join(self.toolsets)}")
        return Request(self.toolsets[toolset], tool, input, credential, transport, claimed_name)

    def call(self, request: Request) -> CallResult:
        """Run a call on this thread."""
        suspended: Suspended | None = None
        while True:
            # Taken before the tool reads the rows, so that no commit between the read and the wait is missed.
            checkpoint = self.topics.checkpoint()
            outcome = self._pipeline(request, suspended)
            if isinstance(outcome, CallResult):
                return self._finish(outcome)
            suspended = self._at_shutdown(outcome)
            if self.topics.start():
                continue  # not subscribed yet: run once more, then wait
            self.topics.wait_blocking(outcome.waiting.topic, checkpoint, self._seconds_until(suspended.waiting))

    async def acall(self, request: Request) -> CallResult:
        """Run a call off the event loop. While it waits it holds no thread, no connection and no slot."""
        suspended: Suspended | None = None
        while True:
            checkpoint = self.topics.checkpoint()
            # A call that resumes is not counted again: rejecting it now would lose a wait that was admitted.
            if suspended is None and not self._admission.admits(request.tool):
                return self.reject_overload(request)
            if suspended is None:
                outcome = await self._run_pipeline(request, suspended)
            else:
                outcome = await self._resume(request, suspended)
            if isinstance(outcome, CallResult):
                return self._finish(outcome)
            suspended = self._at_shutdown(outcome)
            question = suspended.waiting.elicitation
            if request.elicit is not None and question is not None and request.elicit(question):
                suspended = _without_wait(suspended)
            self._admission.waiting += 1
            try:
                await self._wait(request, suspended, checkpoint)
            except asyncio.CancelledError:
                self._close_entry(request, suspended.record, _CLIENT_DISCONNECTED)
                raise
            finally:
                self._admission.waiting -= 1

    async def _resume(self, request: Request, suspended: Suspended) -> CallResult | Suspended:
        """Run a call that has waited again, once there is a slot."""
        # When notifications may have been lost, every waiting call reads its rows again: not all 10,000 at once.
        try:
            await self._resumptions.acquire()
        except asyncio.CancelledError:
            # Of 8,000 callers that left, 469 did so here, and their rows in the log stayed open.
            self._close_entry(request, suspended.record, _CLIENT_DISCONNECTED)
            raise
        try:
            return await self._run_pipeline(request, suspended)
        finally:
            self._resumptions.release()

    async def _wait(self, request: Request, suspended: Suspended, checkpoint: int) -> None:
        """Wait for the topic or the deadline, reporting progress if the caller asked for it."""
        waiting, reporting = suspended.waiting, None
        if request.progress is not None:
            reporting = asyncio.create_task(self._report_wait(request.progress, suspended))
        try:
            await self.topics.wait(waiting.topic, checkpoint, self._seconds_until(waiting))
        finally:
            if reporting is not None:
                reporting.cancel()

    async def _report_wait(self, report: ReportProgress, suspended: Suspended) -> None:
        started = suspended.record.started_at
        total = (suspended.waiting.until - started) / SECOND
        while True:
            # Clients cancel a call that sends nothing, most of them after 60 s.
            report((self.database.clock() - started) / SECOND, total, "Waiting")
            await asyncio.sleep(WAIT_PROGRESS_SECONDS)

    def reject_overload(self, request: Request) -> CallResult:
        """Return the result of a call that is not admitted."""
        # No log row: the point of admission is that an overload costs nothing. The metric counts it.
        error, now = TooBusy(hint="Try again in a second"), self.database.clock()
        self.telemetry.call_not_admitted(request, error)
        record = CallRecord(reference=0, started_at=now, finished_at=now)
        return CallResult(request.toolset.render_error(error, request, now), request, record, error)

    async def _run_pipeline(self, request: Request, suspended: Suspended | None) -> CallResult | Suspended:
        executor = self._executor_for(request)
        running: asyncio.Future[CallResult | Suspended] | Future[CallResult | Suspended]
        if executor is None:
            running = cooperative.spawn(self._pipeline, request, suspended)
        else:
            running = executor.submit(self._pipeline, request, suspended)
        self._admission.enter()
        # When the call ends, not when its caller disconnects: it holds its thread or connection until then.
        running.add_done_callback(lambda _: self._admission.leave())
        try:
            # Shielded: when the client disconnects, asyncio cancels this coroutine, but a write that has begun must end
            # and its result must be logged. A greenlet cannot be cancelled in the middle of a commit.
            return await (
                asyncio.shield(running) if isinstance(running, asyncio.Future) else asyncio.wrap_future(running)
            )
        except asyncio.CancelledError:
            # The call cannot be interrupted, but its caller no longer waits for it.
            running.add_done_callback(lambda done: self._abandon(request, done))
            raise

    def _executor_for(self, request: Request) -> ThreadPoolExecutor | None:
        """Return the threads that a call needs, or None for a write, which runs as a greenlet on the loop.

        A greenlet switches away while a writer thread commits, so such a call needs no thread of its own
        (store/cooperative.py).
        """
        tool = request.tool
        # The keys of an external issuer may have to be fetched over HTTP, which would block the event loop.
        if (tool is not None and tool.external) or not self.identity.resolves_locally(request.credential):
            return self._executor
        return self._read_executor if tool is not None and tool.read_only and not tool.waits else None

    def _finish(self, result: CallResult) -> CallResult:
        if result.error is not None:
            self._close_entry(result.request, result.record, result.error)
        return result

    def _abandon(
        self,
        request: Request,
        running: asyncio.Future[CallResult | Suspended] | Future[CallResult | Suspended],
    ) -> None:
        if not running.cancelled() and isinstance(outcome := running.result(), Suspended):
            self._close_entry(request, outcome.record, _CLIENT_DISCONNECTED)

    def _close_entry(self, request: Request, record: CallRecord, error: ShopfloorError) -> None:
        """Close the log row of a call that waited and ended outside the pipeline."""
        if record.open_entry_id is not None and not record.logged:
            record.logged = True
            self.database.log_end_later(
                lambda uow: write_error(uow, request, record, error, uow.now), SERVER, record.reference
            )

    def _at_shutdown(self, suspended: Suspended) -> Suspended:
        """Move the deadline to now once shutdown has begun."""
        return _without_wait(suspended) if self._stopping else suspended

    def _seconds_until(self, waiting: Waiting) -> float:
        return (waiting.until - self.database.clock()) / SECOND

    def call_desk(
        self,
        tool: str,
        input: Json,
        transport: str,
        progress: ReportProgress | None = None,
        *,
        token: str | None = None,
        attended: bool = True,
    ) -> Json:
        """Call a desk tool as the operator and return its response; raise its error.

        A given `token` is always checked: with a wrong one, the call does not fall back to this process's operator.
        """
        credential = Credential(token) if token else Credential(trusted=OPERATOR, attended=attended)
        request = self.new_request("desk", tool, input, credential, transport)
        result = self.call(replace(request, progress=progress))
        if result.error is not None:
            raise result.error
        response: Json = result.body
        return response

    def schemas(self, toolset: str, for_model: bool = False) -> list[Json]:
        """Return the toolset's tools in the format of function-calling models."""
        return [
            _describe_tool(self.toolsets[toolset], tool, for_model)
            for tool in self.toolsets[toolset].tools.values()
            if tool.listed
        ]

    def list_unready(self) -> list[str]:
        """Return the reasons why this server is not ready; usually none."""
        problems = []
        try:
            self.database.store.check()
        except ShopfloorError as error:
            problems.append(f"store: {error.message}")
        if not self.dispatcher.running:
            problems.append("dispatcher: not running")
        if not self.housekeeper.running:
            problems.append("housekeeper: no heartbeat")
        if self._stopping:
            problems.append("stopping")
        return problems


def _without_wait(suspended: Suspended) -> Suspended:
    """Move the deadline to now."""
    return Suspended(Waiting(suspended.waiting.topic, 0, suspended.waiting.state), suspended.record)


def _describe_tool(toolset: Toolset, tool: Tool, for_model: bool) -> Json:
    schema = tool.schema
    if for_model and toolset.caller_argument:
        schema = {
            **schema,
            "properties": {k: v for k, v in schema["properties"].items() if k != toolset.caller_argument},
            "required": [name for name in schema.get("required", []) if name != toolset.caller_argument],
        }
    return {"name": tool.name, "description": tool.description, "parameters": schema}

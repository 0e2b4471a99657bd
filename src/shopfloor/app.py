"""The composition root: the only place where real things are chosen and wired."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from shopfloor.background import mailer, outlets, reconciler
from shopfloor.background.dispatcher import Dispatcher, Subscriber, by_event
from shopfloor.background.housekeeping import Housekeeper, chores
from shopfloor.background.indexer import Indexer
from shopfloor.background.live import Live
from shopfloor.background.wake import Wake
from shopfloor.domain import todos
from shopfloor.domain.actors import AGENT_TYPES, LOCAL, OPERATOR, Kind, Principal
from shopfloor.domain.decisions import spell_reference
from shopfloor.domain.rules import Rules
from shopfloor.domain.times import DAY, SECOND
from shopfloor.errors import BadSettings, ShopfloorError, StartRefused, TooBusy, Unavailable
from shopfloor.gateways import clock
from shopfloor.gateways.embeddings import Embeddings, Local, Off, OpenAI
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep
from shopfloor.gateways.metrics import Metrics
from shopfloor.gateways.resolve import Resolver
from shopfloor.gateways.tokens import Issuer, UserTokens
from shopfloor.gateways.traces import Traces
from shopfloor.gateways.tree import Tree
from shopfloor.gateways.vectors import Vectors
from shopfloor.pipeline import compose
from shopfloor.pipeline.escalate import escalate
from shopfloor.pipeline.identify import Identity, identify
from shopfloor.pipeline.limit import limit
from shopfloor.pipeline.perform import Perform
from shopfloor.pipeline.permit import permit
from shopfloor.pipeline.record import record, write_error
from shopfloor.pipeline.refuse import refuse
from shopfloor.pipeline.retry import retry
from shopfloor.pipeline.validate import validate
from shopfloor.repositories.work import Work, Works
from shopfloor.settings import Settings
from shopfloor.store import aside
from shopfloor.store.database import open_store
from shopfloor.toolkit import Answer, Call, Json, Resource, Tool, Toolset, Waiting
from shopfloor.toolsets import context, desk, factory, loop, personal, todo, todo_direct
from shopfloor.toolsets.factory import permissions
from shopfloor.usecases import identity as identities
from shopfloor.usecases import links, mail, sessions
from shopfloor.usecases.sessions import Sessions

TOOLSETS: dict[str, Toolset] = {
    toolset.name: toolset
    for toolset in [
        factory.toolset,
        loop.toolset,
        todo.toolset,
        todo_direct.toolset,
        personal.toolset,
        context.toolset,
        desk.toolset,
    ]
}
RATE_LIMITS: dict[str, int] = {"context_search": 30, "read_file": 100, "grep_codebase": 60}
SUBSCRIBERS: Sequence[Subscriber] = mailer.subscribers()
READERS = 4

LOADING = threading.Lock()
"""Held by whoever loads a heavy kit on a thread: of two that import each other, both could be found half loaded."""

now = clock.now
topic_of = todos.topic_of

T = TypeVar("T")

_GONE = Unavailable("The caller went away before there was an answer")
_calls = logging.getLogger("shopfloor.calls")


@dataclass
class Floor:
    """A floor at work: the store, the pipeline over it, and what runs beside it."""

    settings: Settings
    works: Works
    identity: Identity
    user_tokens: UserTokens
    metrics: Metrics
    traces: Traces | None
    wake: Wake
    live: Live
    dispatcher: Dispatcher
    housekeeper: Housekeeper
    indexer: Indexer
    toolsets: dict[str, Toolset]
    rights: dict[str, frozenset[str]]
    walk: Callable[[Call], Answer | Waiting]
    sessions: Sessions
    _hands: ThreadPoolExecutor = field(init=False)
    _readers: ThreadPoolExecutor = field(init=False)
    _under_way: int = field(default=0, init=False)
    _waiting: int = field(default=0, init=False)
    _stopping: bool = field(default=False, init=False)
    _stopped: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._hands = ThreadPoolExecutor(self.settings.calls, thread_name_prefix="shopfloor-call")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="shopfloor-read")

    @property
    def agent_types(self) -> tuple[str, ...]:
        """The types that an agent may have."""
        return self.works.rules.agent_types

    @property
    def files(self) -> Files:
        """The way to the project's files."""
        files: Files = self.works.gateways[Files]
        return files

    @property
    def profile(self) -> list[Toolset]:
        """The toolsets that /mcp and /mcp/execute serve."""
        return [self.toolsets[name] for name in self.settings.profile]

    def start(self, kind: str, url: str | None = None) -> None:
        """Begin what runs beside the calls."""
        self.housekeeper.start(kind, url)
        self.wake.start()
        self.works.store.listen(lambda topics: self.identity.forget() if not topics or "token" in topics else None)
        self.dispatcher.start()
        self.indexer.start(at_once=kind == "serve" and context.toolset.name in self.settings.profile)

    def stop(self) -> None:
        """End it again; everything that was handed in is durable afterwards. To end it twice is fine."""
        if self._stopped:
            return
        self._stopped = True
        self.interrupt()
        self._hands.shutdown(wait=True)
        self.indexer.stop()
        self._readers.shutdown(wait=True)
        if self.dispatcher.running:
            self.wake.stop()
            self.dispatcher.stop()
            self.housekeeper.stop()
        try:
            self.works.store.flush()
        finally:
            self.works.store.close()
            if self.traces is not None:
                self.traces.stop()

    def interrupt(self) -> None:
        """Calls that wait give the answer of their deadline, now."""
        self._stopping = True
        self.wake.rouse()
        self.live.stop()

    def call(self, call: Call) -> Answer:
        """Walk the whole way on this thread."""
        while True:
            mark = self.wake.mark()
            outcome = self.walk(call)
            if isinstance(outcome, Answer):
                return self._ended(outcome)
            if self.wake.start():
                continue  # nothing was heard yet: look once more, then wait
            self.wake.wait_here(outcome.topic, mark, self._remaining(call, outcome))

    async def acall(self, call: Call) -> Answer:
        """Walk the way off the event loop. A call that waits holds no thread and no place among those under way."""
        while True:
            mark = self.wake.mark()
            if call.waited is None and self._full(call):
                return self.turn_away(call)
            outcome = await self._walked(call)
            if isinstance(outcome, Answer):
                return self._ended(outcome)
            self._waiting += 1
            try:
                await self.wake.wait(outcome.topic, mark, self._remaining(call, outcome))
            except asyncio.CancelledError:
                self._close(call, _GONE)
                raise
            finally:
                self._waiting -= 1

    @property
    def stopping(self) -> bool:
        """Whether what goes on and on has to end now."""
        return self._stopping

    async def _walked(self, call: Call) -> Answer | Waiting:
        hands = self._hands_for(call)
        walking = aside.begin(self.walk, call) if hands is None else hands.submit(self.walk, call)
        self._under_way += 1
        try:
            return await (
                asyncio.shield(walking) if isinstance(walking, asyncio.Future) else asyncio.wrap_future(walking)
            )
        except asyncio.CancelledError:
            walking.add_done_callback(lambda done: None if done.cancelled() else self._close(call, _GONE))
            raise
        finally:
            self._under_way -= 1

    def _hands_for(self, call: Call) -> ThreadPoolExecutor | None:
        """The threads that a call needs: none for a write to SQLite, which steps aside while the writer works.

        Few for what only reads SQLite: it waits for nobody, and many would fight for the interpreter.
        """
        tool = call.toolset.tools.get(call.name)
        if (tool is not None and tool.outside) or not self._at_hand(call):
            return self._hands
        return self._readers if tool is not None and tool.read_only and not tool.waits else None

    def _at_hand(self, call: Call) -> bool:
        return self.works.store.engine == "sqlite" and self.identity.at_hand(call.credential)

    def _full(self, call: Call) -> bool:
        """Whether there is no place for a new call; one that has waited is let in, for its log entry is open."""
        tool = call.toolset.tools.get(call.name)
        waits = tool is not None and tool.waits
        return self._under_way >= self.settings.calls or (waits and self._waiting >= self.settings.waits)

    def turn_away(self, call: Call) -> Answer:
        """The answer to a call too many."""
        error = TooBusy(hint="Try again in a second")
        call.finished = clock.now()
        self.metrics.called(call.toolset.name, _counted_as(call), error.code, 0)
        return Answer(call.toolset.refuse(error, call), call, error)

    def _ended(self, answer: Answer) -> Answer:
        if answer.error is not None:
            self._close(answer.call, answer.error)
        return answer

    def _close(self, call: Call, error: ShopfloorError) -> None:
        """Close the row of a call that waited, and that ends where the pipeline does not see it."""
        if call.opened is not None and not call.logged:
            call.logged = True
            self.works.later(lambda work: write_error(work, call, error, work.now), OPERATOR, call.reference)

    def _remaining(self, call: Call, waiting: Waiting) -> float:
        if self._stopping:
            call.waited = Waiting(waiting.topic, 0, waiting.state)
            return 0
        return (waiting.until - clock.now()) / SECOND

    def may(self, toolset: Toolset, caller: Principal, tool: str) -> bool:
        """Whether the caller may use the tool."""
        if toolset is factory.toolset:
            if caller.kind is Kind.RUN:
                return tool.startswith(permissions.FOR_RUNS)
            return caller.kind is Kind.AGENT and tool in self.rights.get(caller.role, ())
        return toolset.may(caller, tool)

    def tools_for(self, actor: Principal, toolsets: Sequence[Toolset]) -> list[tuple[Toolset, Tool]]:
        """What this principal sees of these toolsets, in a stable order."""
        return [
            (toolset, tool)
            for toolset in toolsets
            for tool in toolset.tools.values()
            if tool.listed and self.may(toolset, self.acting_as(toolset, actor), tool.name)
        ]

    def resources_for(self, actor: Principal, toolsets: Sequence[Toolset]) -> list[tuple[Toolset, Resource]]:
        """What this principal may read at an address."""
        return [
            (toolset, resource)
            for toolset in toolsets
            for resource in toolset.resources
            if self.may(toolset, self.acting_as(toolset, actor), resource.tool)
        ]

    def acting_as(self, toolset: Toolset, actor: Principal) -> Principal:
        """As whom a principal who claims nothing acts."""
        if actor.kind is not Kind.OPERATOR:
            return actor
        match toolset.acts_as:
            case Kind.AGENT:
                return Principal(Kind.AGENT, LOCAL, "SUPERVISOR")
            case Kind.USER:
                return Principal(Kind.USER, LOCAL)
        return actor

    def guides(self, toolset: Toolset, caller: Principal) -> bool:
        """Whether a toolset's instructions are meant for the caller: a run goes by those of its own."""
        return caller.kind is not Kind.RUN or toolset.acts_as in (None, Kind.RUN)

    def administer(self, fn: Callable[[Work], T]) -> T:
        """Do something that only the operator may do, in one work. It counts at once: nobody is remembered."""
        try:
            return self.works.write(fn, OPERATOR)
        finally:
            self.identity.forget()

    def look(self, fn: Callable[[Work], T]) -> T:
        """Look at something as the operator."""
        return self.works.read(fn, OPERATOR)

    def schemas(self, toolset: str, for_model: bool = False) -> list[Json]:
        """The toolset's tools as function-calling models take them."""
        return [
            _described(self.toolsets[toolset], tool, for_model)
            for tool in self.toolsets[toolset].tools.values()
            if tool.listed
        ]

    def ready(self) -> list[str]:
        """What keeps this floor from serving; nothing, usually."""
        missing = []
        try:
            self.works.store.check()
        except ShopfloorError as error:
            missing.append(f"store: {error.message}")
        if not self.dispatcher.running:
            missing.append("dispatcher: not running")
        if self._stopping:
            missing.append("stopping")
        return missing


def build(
    settings: Settings,
    *,
    toolsets: dict[str, Toolset] | None = None,
    subscribers: Sequence[Subscriber] | None = None,
    only: Principal | None = None,
    sleep: Callable[[float], object] = aside.pause,
) -> Floor:
    """A floor as the settings say, not yet started; with `only`, its doors open to that one principal."""
    toolsets = TOOLSETS if toolsets is None else toolsets
    if subscribers is None:
        subscribers = [*SUBSCRIBERS, *outlets.subscribers(settings.webhooks, settings.webhook_secret, settings.inngest)]
    check_profile(settings, toolsets)
    prepare_data_folder(settings)
    store = open_store(settings.database_url)
    works = Works(store, clock.now, subscribers=by_event(subscribers), rules=_rules(settings), heard=mailer.log_sent)
    works.workspace = works.write(lambda work: work.workspaces.ensure(settings.workspace, work.now), OPERATOR)
    works.root = str(settings.project)
    works.gateways |= project_gateways(settings)
    key = works.write(lambda work: identities.settle(work, secrets.token_bytes(32)), OPERATOR)
    pages_key = works.write(lambda work: sessions.settle(work, secrets.token_bytes(32)), OPERATOR)
    issuer = Issuer(settings.issuer, settings.jwks_url) if settings.issuer and settings.jwks_url else None
    user_tokens = UserTokens(key, settings.audience, issuer)
    identity = Identity(
        works,
        user_tokens,
        always_closed=issuer is not None or only is not None,
        only=only,
    )
    dispatcher = Dispatcher(works, subscribers)
    metrics = Metrics(lambda: _gauges(works))
    store.on_batch(metrics.committed)
    works.gateways |= {Metrics: metrics, UserTokens: user_tokens}
    rights = permissions.compiled(list(factory.toolset.tools), settings.roles)  # type: ignore[arg-type]
    floor = Floor(
        settings=settings,
        works=works,
        identity=identity,
        user_tokens=user_tokens,
        metrics=metrics,
        traces=Traces() if settings.traces else None,
        wake=Wake(works),
        live=Live(works),
        dispatcher=dispatcher,
        housekeeper=Housekeeper(
            works, [*chores([subscriber.name for subscriber in subscribers]), *reconciler.chores()]
        ),
        indexer=Indexer(works),
        toolsets=toolsets,
        rights=rights,
        walk=lambda call: None,  # type: ignore[arg-type,return-value]
        sessions=Sessions(works, clock.now, settings.session_days * DAY, pages_key),
    )
    floor.indexer.busy = lambda: floor._under_way > 0
    floor.walk = _way(floor, sleep)
    return floor


def _way(floor: Floor, sleep: Callable[[float], object]) -> Callable[[Call], Answer | Waiting]:
    """The way of a call: every step, in its order."""
    settings, works, metrics = floor.settings, floor.works, floor.metrics

    def ended(call: Call, error: ShopfloorError | None) -> None:
        _ended(metrics, call, error)
        if floor.traces is not None:
            _traced(floor.traces, call, error)

    return compose(
        [
            refuse(clock.now, _began, ended),
            identify(floor.identity),
            limit(
                {**RATE_LIMITS, "begin_turn": settings.chat_turns, **settings.rate_limits},
                clock.elapsed,
                works,
                metrics.limited,
            ),
            record(works, clock.now),
            permit(works, floor.may),
            validate(),
            escalate(works, metrics.escalated),
            retry(settings.retries, pause=settings.retry_pause, sleep=sleep, counted=metrics.retried),
        ],
        Perform(works, clock.now, mail.notice),
    )


def issue_operator_token(floor: Floor) -> str:
    """A new token for the operator."""
    return floor.administer(identities.issue_for_operator)


def one_time_link(floor: Floor, who: Principal = OPERATOR) -> str:
    """The way to the pages for somebody who proved who they are elsewhere: good once, and not for long."""
    return floor.administer(lambda work: links.make(work, who))


def enter(floor: Floor, key: str) -> str:
    """The session of a page for whoever brings the key of a one-time link, which is used up by that."""
    return floor.administer(lambda work: links.exchange(work, key, floor.sessions.seconds * SECOND))


def _rules(settings: Settings) -> Rules:
    further = tuple(role for role in settings.roles if role not in AGENT_TYPES)
    return Rules(silence=settings.agent_silence_seconds * SECOND, agent_types=(*AGENT_TYPES, *further))


def project_gateways(settings: Settings) -> dict[type, object]:
    """The things outside of the store that a floor has: the project's files and what looks into them."""
    files = Files(settings.project, settings.data, settings.secret_names)
    grep = Grep(files)
    embeddings: Embeddings = Off()
    if settings.embeddings == "local":
        embeddings = Local(settings.model_cache)
    elif settings.embeddings == "openai":
        embeddings = OpenAI(settings.openai_base_url, settings.embeddings_key, settings.embeddings_model)
    return {
        Files: files,
        Grep: grep,
        Resolver: Resolver(files),
        Tree: Tree(files, grep),
        Vectors: Vectors(),
        Embeddings: embeddings,
    }


def check_profile(settings: Settings, toolsets: dict[str, Toolset]) -> None:
    """Refuse a profile that names no toolset, or in which two names collide."""
    owner: dict[str, str] = {}
    for name in settings.profile:
        toolset = toolsets.get(name)
        if toolset is None or not toolset.served:
            served = ", ".join(other.name for other in toolsets.values() if other.served)
            raise BadSettings(f"profile: '{name}' is not a toolset that can be served; there are {served}")
        for tool in toolset.tools:
            if tool in owner:
                raise BadSettings(f"profile: '{owner[tool]}' and '{name}' both have a tool '{tool}'; serve one of them")
            owner[tool] = name


def prepare_data_folder(settings: Settings) -> None:
    """Make the data folder: for its owner only, and out of git's sight."""
    data = settings.data
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(data.stat().st_mode) & 0o077:
            data.chmod(0o700)
        ignore = data / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise StartRefused(f"The data folder {data} cannot be used: {error.strerror or error}") from error
    if not os.access(data, os.W_OK | os.X_OK):
        raise StartRefused(f"The data folder {data} is not writable")


def _gauges(works: Works) -> dict[str, float]:
    waiting, dead = works.read(lambda work: work.outbox.backlog(), OPERATOR)
    return {
        **{f"store_{name}": value for name, value in works.store.gauges().items()},
        "deliveries_waiting": waiting,
        "deliveries_dead": dead,
        **_index_gauges(works),
        "threads": threading.active_count(),
    }


def _index_gauges(works: Works) -> dict[str, float]:
    tree: Tree = works.gateways[Tree]
    return {"index_files": tree.total, "index_files_pending": len(tree.pending)}


def _began(call: Call) -> None:
    if _calls.isEnabledFor(logging.INFO):
        _calls.info(
            "call started",
            extra={
                "tool": call.name,
                "toolset": call.toolset.name,
                "parameters": call.context[:1000],
                "door": call.door,
                "session": call.session,
                "reference": spell_reference(call.reference),
            },
        )


def _ended(metrics: Metrics, call: Call, error: ShopfloorError | None) -> None:
    duration = call.finished - call.started
    name = _counted_as(call)
    metrics.called(call.toolset.name, name, error.code if error else "ok", duration / SECOND)
    slow_after = call.toolset.slow_after(call)
    if slow_after is not None and duration > slow_after * SECOND:
        metrics.was_slow(name)
        _calls.warning("call was slow", extra={"tool": name, "ms": round(duration / 1000), "limit": slow_after * 1000})
    if _calls.isEnabledFor(logging.INFO):
        _calls.info(
            "call ended",
            extra={
                "tool": call.name,
                "toolset": call.toolset.name,
                "caller": _calling(call),
                "session": call.session,
                "success": error is None,
                "code": error.code if error else None,
                "ms": round(duration / 1000, 2),
                "size": call.size,
                "reference": spell_reference(call.reference),
            },
        )


def _traced(traces: Traces, call: Call, error: ShopfloorError | None) -> None:
    name = _counted_as(call)
    facts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "shopfloor.toolset": call.toolset.name,
        "shopfloor.caller": _calling(call),
        "shopfloor.door": call.door,
        "shopfloor.reference": spell_reference(call.reference),
        "shopfloor.retries": call.retries or None,
        "error.type": error.code if error else None,
    }
    traces.span(f"execute_tool {name}", call.started, call.finished, call.trace, facts)


def _calling(call: Call) -> str | None:
    """As whom the call was made; nobody, when that was not found out."""
    caller = call.caller or call.actor
    return None if caller is None else caller.key


def _counted_as(call: Call) -> str:
    """The tool; names that callers made up are counted as one."""
    return call.name if call.name in call.toolset.tools else "unknown"


def _described(toolset: Toolset, tool: Tool, for_model: bool) -> Json:
    schema = tool.schema
    if for_model and toolset.caller_argument:
        schema = {
            **schema,
            "properties": {k: v for k, v in schema["properties"].items() if k != toolset.caller_argument},
            "required": [name for name in schema.get("required", []) if name != toolset.caller_argument],
        }
    return {"name": tool.name, "description": tool.description, "parameters": schema}

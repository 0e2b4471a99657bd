"""The composition root: the only place where implementations are chosen and wired. It builds, and does nothing else."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shopfloor import access
from shopfloor.background import event_sinks, mailer, reconciler
from shopfloor.background.dispatcher import Dispatcher, Subscriber, map_subscribers_by_event
from shopfloor.background.housekeeping import Housekeeper, list_periodic_jobs, list_periodic_tasks
from shopfloor.background.indexer import Indexer
from shopfloor.background.launcher import Launcher
from shopfloor.background.topics import TopicHub
from shopfloor.domain.limits import Limits
from shopfloor.domain.principals import AGENT_TYPES, Principal
from shopfloor.domain.times import DAY, HOUR, SECOND
from shopfloor.engine import Admission, Engine
from shopfloor.errors import BadSettings, StartupError
from shopfloor.gateways import Gateways, clock
from shopfloor.gateways.archive import Archive
from shopfloor.gateways.copies import Copies
from shopfloor.gateways.embedding_model import ModelCache
from shopfloor.gateways.embeddings import Embeddings, Local, Off, OpenAI
from shopfloor.gateways.files import Files
from shopfloor.gateways.grep import Grep
from shopfloor.gateways.import_resolver import ImportResolver
from shopfloor.gateways.logs import count_dropped_lines
from shopfloor.gateways.metrics import Metrics
from shopfloor.gateways.notifications import Notifier
from shopfloor.gateways.project_tree import ProjectTree
from shopfloor.gateways.run_processes import RunProcesses
from shopfloor.gateways.tokens import Issuer, UserTokens
from shopfloor.gateways.traces import Traces
from shopfloor.pipeline.authenticate import FailedAuthentications, Identity
from shopfloor.pipeline.build import Counters, build_pipeline
from shopfloor.repositories.agents import Agents
from shopfloor.repositories.outbox import Outbox
from shopfloor.repositories.uow import Database
from shopfloor.repositories.workspaces import Workspaces
from shopfloor.runner.known_agents import KNOWN_AGENTS
from shopfloor.search.file_index import FileIndex
from shopfloor.search.index import SearchIndex
from shopfloor.settings import DATA_FOLDER, Settings
from shopfloor.store import cooperative, open_store
from shopfloor.store.backups import create_backup, write_export_file
from shopfloor.store.protocol import Connection, Store
from shopfloor.telemetry import Telemetry
from shopfloor.toolkit import Toolset
from shopfloor.toolsets import context, crew, desk, factory, loop, personal, review, run, todo, todo_direct
from shopfloor.usecases import credentials, page_sessions
from shopfloor.usecases.page_sessions import Sessions
from shopfloor.usecases.retention import RetentionRules

TOOLSETS: dict[str, Toolset] = {
    toolset.name: toolset
    for toolset in [
        factory.toolset,
        loop.toolset,
        review.toolset,
        todo.toolset,
        todo_direct.toolset,
        personal.toolset,
        context.toolset,
        desk.toolset,
        run.toolset,
        crew.toolset,
    ]
}
RATE_LIMITS: dict[str, int] = {"context_search": 30, "read_file": 100, "grep_codebase": 60}
"""Calls per minute that the context contract promises."""
SUBSCRIBERS: Sequence[Subscriber] = mailer.subscribers()


def build(
    settings: Settings,
    *,
    toolsets: dict[str, Toolset] | None = None,
    subscribers: Sequence[Subscriber] | None = None,
    only: Principal | None = None,
    migrate: bool = False,
    sleep: Callable[[float], object] = cooperative.sleep,
) -> Engine:
    """Build an engine from the settings without starting it. With `only`, it accepts tokens of that principal alone.

    An older database is refused unless `migrate` is set: a command must not change the schema under a server.
    """
    toolsets = _apply_roles(TOOLSETS if toolsets is None else toolsets, settings)
    check_profile(settings, toolsets)
    notifiers = _build_notifiers(settings)
    if subscribers is None:
        subscribers = _build_subscribers(settings, notifiers)
    # Settings are checked before anything is created on disk.
    prepare_data_folder(settings)
    store = open_store(settings.database_url, migrate=migrate, direct_url=settings.database_direct)
    shared_clock = clock.DatabaseClock(store.read_clock)
    keys = _load_keys(store, settings.workspace)
    # From here on, this process sees only its own workspace.
    store.fence(keys.workspace)
    search: SearchIndex  # assigned below; the lambda reads it later
    gateways = _build_gateways(settings, store, keys, lambda: search.files, notifiers)
    database = Database(
        store,
        shared_clock.now,
        workspace=keys.workspace,
        root=str(settings.project),
        gateways=gateways,
        subscribers=map_subscribers_by_event(subscribers),
        limits=_build_limits(settings),
        on_committed_event=mailer.log_sent,
    )
    store.on_batch(gateways.metrics.count_commit)
    search = _build_search(settings, database, gateways)
    identity = _build_identity(database, gateways, only)
    topics = TopicHub(database)
    telemetry = Telemetry(gateways.metrics, Traces() if settings.traces else None)
    admission = Admission(settings.calls, settings.waits)
    metrics = gateways.metrics
    return Engine(
        settings=settings,
        database=database,
        toolsets=toolsets,
        pipeline=build_pipeline(
            database,
            search,
            identity,
            access.allows,
            telemetry,
            Counters(metrics.count_rate_limited, metrics.count_escalation, metrics.count_retry),
            rate_limits={**RATE_LIMITS, "begin_turn": settings.chat_turns, **settings.rate_limits},
            elapsed=clock.read_monotonic,
            retries=settings.retries,
            retry_pause=settings.retry_pause,
            sleep=sleep,
            notice=factory.describe_unread_mail,
        ),
        identity=identity,
        telemetry=telemetry,
        admission=admission,
        sessions=Sessions(shared_clock.now, settings.session_days * DAY, keys.pages),
        topics=topics,
        dispatcher=Dispatcher(database, subscribers, topics),
        housekeeper=_build_housekeeper(settings, database, subscribers, shared_clock.synchronise),
        launcher=Launcher(database, topics, RunProcesses(settings.project, settings.data, _name_store(settings))),
        search=search,
        indexer=Indexer(search, settings.project, admission.is_busy),
    )


def _build_subscribers(settings: Settings, notifiers: tuple[Notifier, ...]) -> list[Subscriber]:
    sinks = event_sinks.subscribers(
        settings.webhooks,
        settings.webhook_secret,
        settings.inngest,
        previous_secret=settings.webhook_previous_secret,
        private_addresses=settings.webhook_private_addresses,
    )
    return [*SUBSCRIBERS, *sinks, *event_sinks.notifying_subscribers(notifiers)]


def _build_search(settings: Settings, database: Database, gateways: Gateways) -> SearchIndex:
    tree = ProjectTree(gateways.files, gateways.grep)
    embeddings = _build_embeddings(settings)
    return SearchIndex(database, gateways.files, tree, embeddings, embed_chunks=settings.embed_chunks)


def _build_identity(database: Database, gateways: Gateways, only: Principal | None) -> Identity:
    # With an issuer anyone may present a token, and the server of a run has exactly one caller: both require
    # credentials.
    closed = gateways.user_tokens.has_issuer or only is not None
    failures = FailedAuthentications(database, clock.read_monotonic, gateways.metrics.count_failed_authentication)
    return Identity(database, gateways.user_tokens, always_closed=closed, only=only, failures=failures)


def _build_housekeeper(
    settings: Settings, database: Database, subscribers: Sequence[Subscriber], synchronise: Callable[[], None]
) -> Housekeeper:
    rules = _build_retention_rules(settings)
    archive = Archive(settings.data / "archive" if settings.archive else None)
    tasks = [
        *list_periodic_tasks([subscriber.name for subscriber in subscribers], rules),
        *reconciler.list_periodic_tasks(),
    ]
    return Housekeeper(database, tasks, list_periodic_jobs(archive, rules), synchronise)


def _name_store(settings: Settings) -> dict[str, str]:
    """Return the environment in which a run works on the same project and store as this server."""
    # In the environment, because a database URL may contain a password, and arguments are public.
    return {
        "SHOPFLOOR_PROJECT": str(settings.project),
        "SHOPFLOOR_DATA": str(settings.data),
        "SHOPFLOOR_DATABASE": settings.database,
        "SHOPFLOOR_WORKSPACE": settings.workspace,
    }


@dataclass(frozen=True, slots=True)
class _Keys:
    """The workspace and its secrets, as stored."""

    workspace: int
    user_tokens: bytes
    pages: bytes


def _load_keys(store: Store, name: str) -> _Keys:
    """Find or create the workspace with its secrets and its built-in agent."""
    now = clock.now()

    def find(connection: Connection) -> _Keys | None:
        workspaces = Workspaces(connection)
        workspace = workspaces.find(name)
        if workspace is None or not credentials.has_local_agent(Agents(connection, workspace)):
            return None
        user_tokens = workspaces.find_secret(workspace, credentials.SIGNING_KEY)
        pages = workspaces.find_secret(workspace, page_sessions.SIGNING_KEY)
        return None if user_tokens is None or pages is None else _Keys(workspace, user_tokens, pages)

    def create(connection: Connection) -> _Keys:
        workspaces = Workspaces(connection)
        workspace = workspaces.ensure(name, now)
        credentials.ensure_local_agent(Agents(connection, workspace), now)
        # `ensure` keeps the first value, so replicas that start at the same time agree on one key.
        return _Keys(
            workspace,
            workspaces.ensure_secret(workspace, credentials.SIGNING_KEY, secrets.token_bytes(32), now),
            workspaces.ensure_secret(workspace, page_sessions.SIGNING_KEY, secrets.token_bytes(32), now),
        )

    # Commands that read work on a full disk, and while another process keeps the database locked.
    return store.read(find) or store.write(create)


def _build_embeddings(settings: Settings) -> Embeddings:
    if settings.embeddings == "local":
        return Local(settings.model_cache)
    if settings.embeddings == "openai":
        return OpenAI(settings.openai_base_url, settings.embeddings_key, settings.embeddings_model)
    return Off()


def _build_notifiers(settings: Settings) -> tuple[Notifier, ...]:
    page_url = settings.public_url or f"http://{settings.host}:{settings.port}"
    return tuple(Notifier(address, page_url, settings.smtp_url) for address in settings.notify)


def _build_gateways(
    settings: Settings,
    store: Store,
    keys: _Keys,
    indexed_files: Callable[[], FileIndex],
    notifiers: tuple[Notifier, ...],
) -> Gateways:
    files = Files(settings.project, settings.data, settings.secret_names)
    issuer = Issuer(settings.issuer, settings.jwks_url) if settings.issuer and settings.jwks_url else None
    return Gateways(
        files=files,
        grep=Grep(files),
        import_resolver=ImportResolver(files),
        user_tokens=UserTokens(keys.user_tokens, settings.audience, issuer),
        metrics=Metrics(lambda: _read_gauges(store, keys.workspace, indexed_files())),
        model_cache=ModelCache(settings.model_cache),
        copies=Copies(partial(create_backup, store), partial(write_export_file, store), store.find_damage),
        notifiers=notifiers,
    )


def _build_limits(settings: Settings) -> Limits:
    further = tuple(role for role in settings.roles if role not in AGENT_TYPES)
    return Limits(
        silence=settings.agent_silence_seconds * SECOND,
        user_token_lifetime=settings.user_token_days * DAY,
        page_session_lifetime=settings.session_days * DAY,
        agent_types=(*AGENT_TYPES, *further),
        search_tokens=settings.search_tokens,
        launches_runs=settings.launch_runs,
        run_agents=tuple(agent.command for agent in KNOWN_AGENTS),
        has_default_run_agent=settings.run.get("agent") is not None,
    )


def _build_retention_rules(settings: Settings) -> RetentionRules:
    return RetentionRules(
        log=settings.keep_log_days * DAY or None,
        log_rows=settings.max_log_rows,
        mail=settings.keep_mail_days * DAY or None,
        transcripts=settings.keep_transcript_days * DAY or None,
        events=settings.keep_event_days * DAY,
        answers=settings.keep_answer_hours * HOUR,
    )


def _apply_roles(toolsets: dict[str, Toolset], settings: Settings) -> dict[str, Toolset]:
    """Add the configured roles to the factory toolset."""
    if not settings.roles or factory.toolset.name not in toolsets:
        return toolsets
    return {**toolsets, factory.toolset.name: factory.with_roles(settings.roles)}


def check_profile(settings: Settings, toolsets: dict[str, Toolset]) -> None:
    """Refuse a profile that names an unknown toolset, or in which two tool names collide."""
    owner: dict[str, str] = {}
    for name in settings.profile:
        toolset = toolsets.get(name)
        if toolset is None or not toolset.served:
            served = ", ".join(other.name for other in toolsets.values() if other.served)
            raise BadSettings(f"profile: unknown toolset '{name}'; expected any of {served}")
        for tool in toolset.tools:
            if tool in owner:
                raise BadSettings(f"profile: '{owner[tool]}' and '{name}' both have a tool '{tool}'; serve one of them")
            owner[tool] = name


def prepare_data_folder(settings: Settings) -> None:
    """Create the data folder, readable by its owner only and ignored by git."""
    data = settings.data
    try:
        # An existing folder with another name may hold other files: `--data .` once hid a whole project from git. The
        # files we write are readable by their owner only, in any folder.
        is_ours = data.name == DATA_FOLDER or not data.exists()
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_ours:
            data.chmod(0o700)
            ignore = data / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
    except OSError as error:
        message = f"The data folder {data} cannot be used: {error.strerror or error}"
        raise StartupError(message, rule="data_folder_unusable") from error
    if not os.access(data, os.W_OK | os.X_OK):
        raise StartupError(f"The data folder {data} is not writable", rule="data_folder_unusable")


def _read_gauges(store: Store, workspace: int, files: FileIndex) -> dict[str, float]:
    waiting, dead = store.read(lambda connection: Outbox(connection, workspace).count_backlog())
    return {
        **{f"store_{name}": value for name, value in store.gauges().items()},
        "deliveries_waiting": waiting,
        "deliveries_dead": dead,
        "index_files": files.total,
        "index_files_pending": files.pending,
        "threads": threading.active_count(),
        "log_lines_dropped": count_dropped_lines(),
    }

"""Call every method of every repository on a filled database, and measure the work of each statement.

Arguments are chosen by the name of their parameter. An optional parameter is first left out, then given alone, so
that each form of a statement is sent. Everything is rolled back.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from shopfloor import repositories
from shopfloor.domain.conversations import Conversation
from shopfloor.domain.crews import MergeState, Phase
from shopfloor.domain.decisions import LogFilter
from shopfloor.domain.epics import EpicState
from shopfloor.domain.events import TaskChanged
from shopfloor.domain.index import IndexedChunk, IndexedFile, Scope, WordMatches
from shopfloor.domain.mail import Participant
from shopfloor.domain.principals import Kind, Token
from shopfloor.domain.reviews import ReviewState
from shopfloor.domain.seals import create_seal
from shopfloor.domain.tasks import BoardKind, State, Task
from shopfloor.domain.times import DAY, SECOND
from shopfloor.domain.transcripts import EntryKind, NewEntry
from shopfloor.domain.usage import UsageKind
from shopfloor.errors import InvalidState, NotFound
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.store.protocol import Row
from tests.repositories.filled_database import START

SOURCE = Path(repositories.__file__).parent
STEPS_PER_ROW = 20
"""Steps of SQLite's virtual machine for one row that is read and rejected."""

BOARD_ONLY = ("count", "delete_all", "find_by_content", "list_numbers_with_prefix")
"""Methods of Tasks that the program calls for one board only."""


@dataclass(slots=True)
class Statement:
    """A statement with its plan, and the most rows that one execution read beyond those it returned or changed."""

    function: str
    sql: str
    plan: str
    wasted_rows: int


class MeasuredConnection:
    """A connection that measures each statement before it passes it on."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.sites: set[tuple[str, int]] = set()
        self.statements: dict[str, Statement] = {}
        self.rows_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def execute(self, sql: str, /, **params: Any) -> int:
        count: int = self._measure(self.inner.execute, sql, params, lambda count: count)
        return count

    def send(self, sql: str, /, **params: Any) -> None:
        self._measure(self.inner.execute, sql, params, lambda count: count)

    def fetch_one(self, sql: str, /, **params: Any) -> Row | None:
        row: Row | None = self._measure(self.inner.fetch_one, sql, params, lambda _: 1)
        return row

    def fetch_all(self, sql: str, /, **params: Any) -> list[Row]:
        rows: list[Row] = self._measure(self.inner.fetch_all, sql, params, len)
        return rows

    def _measure(self, run: Callable[..., Any], sql: str, params: dict[str, Any], count: Callable[[Any], int]) -> Any:
        caller = sys._getframe(2)
        self.sites.add((Path(caller.f_code.co_filename).name, caller.f_lineno))
        if self.inner.engine == "sqlite":
            result, rows_read, plan = self._run_on_sqlite(run, sql, params)
            allowed = 12 * count(result)
        else:
            rows_read, plan = self._explain_on_postgres(sql, params)
            result = run(sql, **params)
            allowed = 4 * count(result)
        self.rows_read += rows_read
        text = " ".join(sql.split())
        wasted = max(0, rows_read - allowed)
        known = self.statements.get(text)
        if known is None or known.wasted_rows < wasted:
            self.statements[text] = Statement(caller.f_code.co_qualname, text, plan, wasted)
        return result

    def _run_on_sqlite(self, run: Callable[..., Any], sql: str, params: dict[str, Any]) -> tuple[Any, int, str]:
        raw: apsw.Connection = self.inner._raw
        steps = 0

        def add_steps(event: dict[str, Any]) -> None:
            nonlocal steps
            steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

        raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, add_steps)
        try:
            result = run(sql, **params)
        finally:
            raw.trace_v2(0, None)
        plan = raw.execute(f"EXPLAIN QUERY PLAN {sql}", params).fetchall()
        return result, steps // STEPS_PER_ROW, "; ".join(str(row[3]) for row in plan)

    def _explain_on_postgres(self, sql: str, params: dict[str, Any]) -> tuple[int, str]:
        with roll_back(self.inner):
            row = self.inner.fetch_one(f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {sql}", **params)
        found = json.loads(row[0]) if isinstance(row[0], str) else row[0]
        nodes = list(walk_plan(found[0]["Plan"]))
        plan = "; ".join(
            f"{node['Node Type']} {node.get('Relation Name', '')} {node.get('Index Name', '')}".strip()
            for node in nodes
        )
        return sum(map(count_rows_read, nodes)), plan


def walk_plan(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan of PostgreSQL."""
    yield node
    for child in node.get("Plans", []):
        yield from walk_plan(child)


def count_rows_read(node: dict[str, Any]) -> int:
    """Count the rows that a node of a plan reads from a table or an index."""
    if not node["Node Type"].endswith("Scan") or node["Node Type"] in ("CTE Scan", "Subquery Scan", "WorkTable Scan"):
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


class _RolledBack(Exception):
    pass


@contextmanager
def roll_back(connection: Any) -> Iterator[None]:
    """Undo what happens inside."""
    try:
        with connection.savepoint():
            yield
            raise _RolledBack
    except _RolledBack:
        pass


@dataclass
class Tour:
    """The arguments for the methods of the repositories, on a database that was filled with `rows` rows."""

    rows: int
    now: int
    given: dict[str, list[Any]] = field(init=False)
    used: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        middle = START + self.rows // 2 * SECOND
        digest = b"digest1"
        chunk = IndexedChunk(
            "core", "function", "m", "name1", 1, 2, None, self.now, digest, ("a", "b", "c", "d"), ("name1",)
        )
        file = IndexedFile("src/new.py", "stamp", digest, "Python", "m", "source", self.now)
        agent = Participant("agent:agent1")
        task = Task(
            number=3, kind="epic", board="1", title="title", description=None, state=State.PENDING, priority=2,
            open_blockers=0, assignee=None, attempts=0, fence=0, version=1, worktree_path=None, branch_name=None,
            pr_url=None, acceptance=None, due_at=None, due_zone=None, created_at=1, updated_at=1, completed_at=None,
            deleted_at=None,
        )  # fmt: skip
        # Keyed by Class.method.parameter, Class.parameter or parameter: the first one found is used.
        self.given = {
            "Agents.name": ["agent1"],
            "Agents.add.name": ["agent0"],
            "Agents.type": ["WORKER"],
            "Chunks.name": ["name1"],
            "StoredEmbeddings.chunks": [True, False],
            "StoredEmbeddings.after_id": [self.rows],
            "StoredEmbeddings.before": ["model2", "model"],
            "before_id": [1000],
            "Chunks.scope": [
                Scope(),
                Scope(sources=("mail",)),
                Scope(type="function"),
                Scope(module="m1"),
                Scope(path="src/**"),
                Scope(language="python"),
                Scope(tests=False),
            ],
            "Chunks.terms": [["word1"], ["name7", "word1", "common", "word2"]],
            "Chunks.literal": ["word1"],
            "Chunks.embedded": [True, False],
            "Chunks.matches": [WordMatches(counts={"word1": 20, "common": 9000, "absent": 0})],
            "Conversations.before": [(middle, 1000)],
            "Decisions.before": [1000],
            "Epics.before": [1000],
            "Outbox.list_dead.before": [1000],
            "Runs.list_iterations.before": [1000],
            "Decisions.get.id": [1],
            "Decisions.find_inputs.references": [[START // 1000 * 2097152]],
            "Decisions.values": [_new_entry("manual", self.now)],
            "Decisions.criteria": list(_list_log_filters(middle)),
            "Discoveries.type": ["pattern"],
            "Discoveries.files": [{"src/f.py": digest}],
            "Discoveries.digest": [b"new", digest],
            "Epics.state": [EpicState.PLANNING],
            "Escalations.recipient": ["human"],
            "ForeignIds.add.foreign_id": ["bd-0"],
            "ForeignIds.kind": ["task"],
            "ForeignIds.source": ["beads"],
            "Index.column": ["language"],
            "Index.folder": ["src", ""],
            "Index.name": ["f1"],
            "Index.batch": [[(file, [chunk])]],
            "Index.chunks": [{"7": [chunk]}],
            "Index.source": ["mail"],
            "Index.root": [""],
            "Mails.before": [1000],
            "Mails.list_expired.before": [self.now],
            "Seals.seal": [create_seal(None, [(1, self.now), (2, self.now)], self.now)],
            "Seals.last": [2000],
            "Seals.first": [1001],
            "Mails.list_expired.after": [1000],
            "Mails.recipient": [agent],
            "Mails.sender": [agent],
            "Mails.senders": [[agent, Participant("agent:agent2")]],
            "Mails.reply_to": [agent],
            "Mails.box": ["all", "unread", "waiting"],
            "Mails.add_recipient.mail": [self.rows * 2],
            "Mails.add_question.mail": [self.rows * 2],
            "Mails.what": ["thread:1"],
            "Notes.after": [100],
            "Launches.before": [100],
            "Launches.by": ["operator:operator"],
            "Launches.due_at": [self.now],
            "Launches.launch": [3],
            "Launches.repeat": [None],
            "Launches.update.changes": [{"state": "started", "pid": 1}],
            "Usage.cost": [1],
            "Usage.day": [self.now],
            "Usage.kind": [UsageKind.RUN],
            "Usage.name": ["run1"],
            "Usage.tokens": [1],
            "Tasks.after": [100],
            "Notes.type": ["stuck"],
            "Outbox.event": [2],
            "Outbox.after": [100],
            "Outbox.list_caused_by.reference": [(START + 2 * SECOND) // 1000 * 2097152],
            "IdempotencyKeys.add_answer.key": ["new key"],
            "Outbox.add.subscribers": [(), ("mailer",)],
            "Outbox.add.event": [TaskChanged(1, "PENDING", "operator")],
            "Crews.name": ["crew1"],
            "Crews.add.name": ["crew0"],
            "Crews.phase": [Phase.WORK],
            "Crews.update.changes": [{}, {"wanted": "stop"}],
            "Merges.state": [MergeState.QUEUED],
            "Merges.update.changes": [{}, {"state": "queued"}],
            "Runs.name": ["run1"],
            "Runs.number": [10],
            "Runs.set_dirty_files.files": ["{}"],
            "Runs.update.changes": [{}, {"wanted": "stop"}],
            "Runs.update_iteration.changes": [{"summary": "s"}],
            "Tasks.board": ["1"],
            "Tasks.add_blocker.blocker": [21],
            "Tasks.add.facts": [{}],
            "Tasks.update.changes": [{"title": "New"}],
            "Tasks.transition.changes": [{"assignee": None}],
            "Tasks.transition.state": [State.IN_PROGRESS, State.COMPLETED],
            "Tasks.state": [State.PENDING, State.IN_PROGRESS],
            "Tasks.task": [task],
            "Reviews.owner": ["run:run1"],
            "Reviews.state": [ReviewState.APPROVED],
            "comment": ["comment"],
            "Transcripts.owner": ["run:run1"],
            "Transcripts.entry": [NewEntry(1, EntryKind.MESSAGE, "t", "", "body", "", self.now)],
            "Transcripts.first": [self.rows // 2],
            "Transcripts.before": [self.rows // 2 + 900],
            "Transcripts.after": [self.rows - 50],
            "Tokens.id": ["token4"],
            "Tokens.owner": ["agent1"],
            "Tokens.kind": [Kind.AGENT],
            "Tokens.token": [Token("token0", Kind.AGENT, "agent1", digest, self.now, None, None)],
            "Users.name": ["user1", "user7"],
            "Workspaces.name": ["default"],
            "Workspaces.get_secret.name": ["secret1"],
            "ack_by": [self.now],
            "about": ["about"],
            "active": [True],
            "after": ["agent1"],
            "agent": ["agent1"],
            "answer": ["yes"],
            "asker": [agent],
            "assignee": ["agent1"],
            "author": ["agent1"],
            "before": [middle],
            "blocker": [3],
            "base": ["commit"],
            "body": ["body"],
            "branch": ["branch"],
            "by": [1],
            "claiming": [False],
            "code": ["INTERNAL_ERROR"],
            "commit": ["commit"],
            "content": ["content"],
            "content_key": ["content2"],
            "conversation": [Conversation(1, "t", (), None, (), None, None, self.now, self.now)],
            "crew": ["crew1"],
            "dead_at": [self.now],
            "deadline": [self.now],
            "deleted": [True],
            "description": ["text"],
            "desk": ["READER"],
            "digest": [digest],
            "digests": [[digest, b"digest2"]],
            "digits": ["1"],
            "due_at": [self.now],
            "embeddings": [[(b"digest0", b"value")]],
            "epic": [1],
            "error": ["failed"],
            "foreign_id": ["bd-1"],
            "failures": [1],
            "first": [1],
            "fresh": [b"secret"],
            "hashed": ["hash"],
            "host": ["host"],
            "id": [1],
            "ids": [list(range(1, 51))],
            "importance": ["high"],
            "in_reply_to": [1],
            "iteration": [1],
            "key": ["key10", "key0"],
            "kind": ["manual"],
            "known": [["mailer", "webhook:0"]],
            "latest": [self.now - DAY],
            "limit": [50],
            "among": [500],
            "linear_issue_id": ["L-1"],
            "linear_issue_url": ["https://linear.example"],
            "mail": [1],
            "mails": [list(range(1, 51))],
            "max_tries": [10],
            "message": ["message"],
            "model": ["model"],
            "module": ["m1"],
            "moment": [middle],
            "namespace": ["boot/1"],
            "newest_first": [True],
            "now": [self.now],
            "number": [3],
            "numbers": [list(range(3, 153, 3))],
            "options": ["[]"],
            "overdue_at": [self.now],
            "owner": [agent],
            "path": ["src/f1"],
            "paths": [["src/f1", "src/f2"]],
            "pid": [1],
            "pauses": [[0, 1, 2]],
            "process": [1],
            "project": ["project"],
            "question": ["question"],
            "reader": ["agent:agent1"],
            "reference": [START // 1000 * 2097152],
            "reply": [2],
            "revision": [1],
            "retry_at": [self.now],
            "role": ["user"],
            "run": ["run1"],
            "sender": ["operator"],
            "sender_type": ["WORKER"],
            "session": ["run1"],
            "since": [self.now - DAY],
            "spec": ["spec"],
            "stack": ["stack"],
            "stamp": ["stamp"],
            "start_ticks": [1],
            "subject": ["agent:agent1"],
            "subjects": [[f"agent:agent{number}" for number in range(60)]],
            "subscriber": ["mailer"],
            "subscribers": [["mailer"]],
            "summary": ["summary"],
            "supersedes": [1],
            "supervisor": ["agent2"],
            "target": [9],
            "task": [3],
            "text": ["text"],
            "thread": [1],
            "title": ["title"],
            "tmux_session_name": ["tmux"],
            "tool": ["tool1"],
            "tool_calls": [[]],
            "toolset": ["factory"],
            "until": [self.now],
            "url": ["http://127.0.0.1"],
            "waiting": ["{}"],
            "wanted": [True],
            "worker": ["agent1"],
            "workers": [2],
            "workspace": [1],
        }

    def run(self, uow: UnitOfWork, connection: MeasuredConnection) -> None:
        """Call every public method with every choice of arguments."""
        uow.workspaces.ensure_secret(uow.workspace, "default", b"secret", self.now)
        for repository in list_repositories(uow):
            kind = type(repository).__name__
            for name, method in inspect.getmembers(repository, inspect.ismethod):
                if name.startswith("_") or (name in BOARD_ONLY and getattr(repository, "_board", "") is None):
                    continue
                for arguments in self._choose_arguments(kind, name, method):
                    with roll_back(connection.inner):
                        _call(method, arguments)
        unused = sorted(self.given.keys() - self.used)
        assert not unused, f"no method has the arguments {unused}: remove them from the tour"

    def _choose_arguments(self, kind: str, name: str, method: Callable[..., Any]) -> Iterator[dict[str, Any]]:
        required: dict[str, list[Any]] = {}
        optional: dict[str, list[Any]] = {}
        for parameter in inspect.signature(method).parameters.values():
            names = (f"{kind}.{name}.{parameter.name}", f"{kind}.{parameter.name}", parameter.name)
            key = next((key for key in names if key in self.given), None)
            assert key is not None, f"give {names[0]} in the tour"
            self.used.add(key)
            (required if parameter.default is parameter.empty else optional)[parameter.name] = self.given[key]
        for chosen in itertools.product(*required.values()):
            base = dict(zip(required, chosen, strict=True))
            yield base
            for parameter_name, values in optional.items():
                for value in values:
                    yield base | {parameter_name: value}


def _call(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    plain = dict(arguments)
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            plain |= plain.pop(parameter.name)
    # A method may reject what it read, but no statement may fail.
    with suppress(NotFound, InvalidState):
        method(**plain)


def list_repositories(uow: UnitOfWork) -> Iterator[Any]:
    """Yield every repository of a unit of work, those of boards in each scope that the program uses."""
    for name in dir(type(uow)):
        value = getattr(uow, name) if not name.startswith("_") else None
        if type(value).__module__.startswith("shopfloor.repositories."):
            yield value
    yield uow.tasks_of(BoardKind.LIST, "user1")
    yield uow.tasks_of(BoardKind.LOOP, "run1")
    yield uow.tasks_in(BoardKind.LIST)
    yield uow.conversations_of("user1")


def list_call_sites() -> set[tuple[str, int]]:
    """Return the file and line of every statement in the source of the repositories."""
    return {
        (path.name, node.lineno)
        for path in SOURCE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("execute", "send", "fetch_one", "fetch_all")
    }


def _new_entry(kind: str, now: int) -> dict[str, Any]:
    texts = dict.fromkeys(("subject", "actor", "toolset", "tool", "decision", "reasoning", "context"), "text")
    return {**texts, "kind": kind, "reference": START // 1000 * 2097152, "created_at": now}


def _list_log_filters(middle: int) -> Iterator[LogFilter]:
    yield LogFilter()
    for outcome in ("ok", "error", "decision", "open", "INTERNAL_ERROR"):
        yield LogFilter(outcome=outcome)
    yield LogFilter(subject="agent:agent1")
    yield LogFilter(tool="tool1")
    yield LogFilter(task=9)
    yield LogFilter(since=middle, until=middle + DAY)
    yield LogFilter(text="nothing like it")
    yield LogFilter(desk=True)

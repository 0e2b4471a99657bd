"""Documents mark their changes for the index in the transaction that makes them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.index import Scope
from shopfloor.domain.mail import agent_participant
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.tasks import BoardKind, State
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.search import documents
from shopfloor.search.documents import Source
from shopfloor.serving import Shopfloor
from shopfloor.store import Connection, open_store
from shopfloor.store.migrate import MIGRATIONS
from tests.toolsets.context.support import open_external

VERSION_WITHOUT_MARKS = 7
"""The last schema in which the index looked for changes itself."""


def take_marks(shopfloor: Shopfloor) -> dict[str, list[str]]:
    return shopfloor.engine.database.write(lambda uow: uow.index_marks.take(1000), OPERATOR)


def find_ids(shopfloor: Shopfloor, query: str) -> list[str]:
    body = shopfloor.call("context", "context_search", {"query": query})
    return [result["id"] for result in body["results"]]


def log_decision(uow: UnitOfWork, kind: str) -> None:
    uow.decisions.add(
        reference=1,
        kind=kind,
        subject="s",
        actor="a",
        toolset="t",
        tool="t",
        decision="Use zinc",
        reasoning="r",
        context="{}",
        created_at=uow.now,
    )


def test_every_document_is_marked_when_it_is_written(both: Shopfloor):
    take_marks(both)

    def write(uow: UnitOfWork) -> None:
        task = uow.tasks.add(title="Paint the boat", now=uow.now)
        uow.tasks.add_comment(task.number, "sup", "In blue", uow.now)
        uow.mail.add(sender=agent_participant("w1"), sender_type="WORKER", subject="Paint", body="Where?", now=uow.now)
        uow.runs.add("night", spec="s", project="p", options="{}", now=uow.now)
        uow.runs.open_iteration("night", 1, uow.now)
        uow.runs.set_summary("night", 1, "Painted", uow.now)
        uow.notes.add("night", 1, "tip", "Mix first", uow.now)
        log_decision(uow, "manual")

    both.engine.database.write(write, OPERATOR)
    both.call("context", "record_discovery", {"type": "rule", "content": "Let it dry"})
    marks = take_marks(both)
    assert {source: len(refs) for source, refs in marks.items()} == {
        "task": 1,
        "comment": 1,
        "mail": 1,
        "session": 2,
        "decision": 1,
        "discovery": 1,
    }
    assert sorted(marks["session"]) == ["NOT-1", "night/1"]


def test_changes_that_do_not_affect_search_are_not_marked(both: Shopfloor):
    number = both.engine.database.write(lambda uow: uow.tasks.add(title="Paint", now=uow.now), OPERATOR).number
    both.engine.search.documents.update()

    def write(uow: UnitOfWork) -> None:
        uow.tasks.transition(uow.tasks.get(number), State.IN_PROGRESS, uow.now, assignee="w1")
        own = uow.tasks_of(BoardKind.LIST, "lee").add(title="Breakfast", now=uow.now)
        uow.tasks_of(BoardKind.LIST, "lee").add_comment(own.number, "lee", "Buy marmalade", uow.now)
        log_decision(uow, "result")

    both.engine.database.write(write, OPERATOR)
    assert take_marks(both) == {}


def test_document_and_its_mark_are_rolled_back_together(both: Shopfloor):
    def fail(uow: UnitOfWork) -> None:
        uow.tasks.add(title="Never", now=uow.now)
        raise ValueError("rolled back")

    take_marks(both)
    with pytest.raises(ValueError, match="rolled back"):
        both.engine.database.write(fail, OPERATOR)
    assert take_marks(both) == {}


def test_document_changed_during_indexing_is_indexed_again(both: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    database = both.engine.database
    number = database.write(lambda uow: uow.tasks.add(title="Polish the zeppelin", now=uow.now), OPERATOR).number
    changing = threading.Thread(
        target=lambda: database.write(
            lambda uow: uow.tasks.update(number, uow.now, title="Polish the gyrocopter"), OPERATOR
        )
    )
    load = documents.SOURCES["task"].load

    def load_and_change(uow: UnitOfWork, refs: Any) -> Any:
        loaded = load(uow, refs)
        if not changing.ident:
            changing.start()
            if database.store.engine == "postgres":  # SQLite has one writer, and the change has to wait for it
                changing.join()
        return loaded

    monkeypatch.setitem(documents.SOURCES, "task", Source(load_and_change, documents.SOURCES["task"].load_for_caller))
    both.engine.search.documents.update()
    changing.join()
    both.engine.search.documents.update()
    assert find_ids(both, "gyrocopter") == [f"task-{number}"]
    assert find_ids(both, "zeppelin") == []


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_upgrade_marks_exactly_the_unindexed_documents(tmp_path: Path, request: pytest.FixtureRequest, engine: str):
    postgres = engine == "postgres"
    database = request.getfixturevalue("postgres").create_database() if postgres else f"sqlite://{tmp_path}/floor.db"
    old = tmp_path / "migrations"
    (old / engine).mkdir(parents=True)
    for file in sorted((MIGRATIONS / engine).glob("*.sql"))[:VERSION_WITHOUT_MARKS]:
        shutil.copy(file, old / engine)
    store = open_store(database, migrations=old)
    store.write(_fill_old_store)
    store.close()
    store = open_store(database)
    marks = store.read(
        lambda connection: connection.fetch_all("SELECT source, ref FROM index_mark ORDER BY source, ref")
    )
    chunks = store.read(lambda connection: connection.fetch_all("SELECT source, ref FROM chunk"))
    store.close()
    assert [tuple(mark) for mark in marks] == [("discovery", "2"), ("mail", "2"), ("task", "2"), ("task", "3")]
    assert len(chunks) == 5


def _fill_old_store(connection: Connection) -> None:
    """Write two discoveries, two mails and three tasks, of which one each is indexed; task 2 changed, 3 was deleted."""
    connection.execute("INSERT INTO workspace (id, name, created_at) VALUES (1, 'w', 1)")
    for number in (1, 2):
        connection.execute(
            "INSERT INTO discovery (id, workspace, type, content, author, digest, created_at)"
            " VALUES (:id, 1, 'rule', 'x', 'a', :digest, 10)",
            id=number,
            digest=bytes([number]),
        )
        connection.execute(
            "INSERT INTO mail (id, workspace, sender, sender_type, subject, body, importance, created_at)"
            " VALUES (:id, 1, 'agent:a', 'WORKER', 's', 'b', 'normal', 10)",
            id=number,
        )
    for number, updated_at, deleted_at in ((1, 10, None), (2, 20, None), (3, 20, 20)):
        connection.execute(
            "INSERT INTO task (number, workspace, kind, board, title, state, priority, created_at, updated_at, deleted_at)"
            " VALUES (:number, 1, 'epic', '', 't', 'PENDING', 2, 10, :updated_at, :deleted_at)",
            number=number,
            updated_at=updated_at,
            deleted_at=deleted_at,
        )
    for source, ref in (("discovery", "1"), ("mail", "1"), ("task", "1"), ("task", "2"), ("task", "3")):
        connection.execute(
            "INSERT INTO passage (workspace, root, source, ref, ordinal, type, name, start_line, end_line, changed_at, digest)"
            " VALUES (1, '', :source, :ref, 0, 'x', '', 0, 0, 10, :digest)",
            source=source,
            ref=ref,
            digest=b"d",
        )


def test_search_without_marks_queries_them_once(both: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    caller = open_external(both)
    find_ids(both, "token")
    statements: list[str] = []
    thread = threading.get_ident()

    class Counting:
        """A connection that remembers its statements."""

        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._connection, name)
            if name not in ("execute", "fetch_one", "fetch_all"):
                return found

            def run(sql: str, /, **params: Any) -> Any:
                if threading.get_ident() == thread:  # the background reads too
                    statements.append(sql)
                return found(sql, **params)

            return run

    store = both.engine.database.store
    read = store.read
    with monkeypatch.context() as patch:
        patch.setattr(store, "read", lambda fn: read(lambda connection: fn(Counting(connection))))
        assert both.engine.search.search(caller, "generate a token", Scope(), 5).results
    assert sum("index_mark" in sql for sql in statements) == 1
    assert len(statements) <= 8, statements

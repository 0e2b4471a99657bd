"""A PostgreSQL that stops answering: callers get an error while it is away, and none of them waits for it."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from chaos.faults import list_postgres_processes, suspend
from shopfloor.errors import CommitOutcomeUnknown, StoreUnreachable
from shopfloor.store import Connection, open_store
from tests.postgres import PostgresServer
from tests.store.proxy import Proxy
from tests.store.support import (
    MIGRATIONS,
    increment_counter,
    insert_thing,
    list_titles,
    run_together,
    wait_until,
)


@pytest.fixture
def server():
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture
def store(server):
    store = open_store(server.create_database(), migrations=MIGRATIONS)
    yield store
    store.close()


def test_calls_are_answered_while_the_server_is_suspended(server, store):
    def call(work):
        try:
            return work()
        except StoreUnreachable as error:
            return type(error)

    # More than the writers and readers that each store has: the later ones must not wait for the earlier ones.
    work = [lambda: store.write(insert_thing("lost")), lambda: list_titles(store)] * 10
    store.write(increment_counter)
    with suspend(list_postgres_processes(server)):
        assert run_together(*[lambda each=each: call(each) for each in work]) == [StoreUnreachable] * 20
        with pytest.raises(StoreUnreachable):
            store.check()
    wait_until(lambda: call(lambda: store.write(insert_thing("kept"))) is not StoreUnreachable)
    assert list_titles(store) == ["kept"]


def test_commit_to_a_suspended_server_has_an_unknown_outcome(server, store):
    with ExitStack() as stack:

        def write(conn: Connection) -> None:
            insert_thing("perhaps")(conn)
            stack.enter_context(suspend(list_postgres_processes(server)))

        with pytest.raises(CommitOutcomeUnknown):
            store.write(write)


def test_slow_statement_of_a_server_that_answers_is_not_ended(store):
    assert store.write(lambda conn: conn.fetch_one("SELECT 1 FROM pg_sleep(3)")) == (1,)


class CrowdedProxy(Proxy):
    """A proxy that, once `crowded`, lets new connections wait and serves the others, as a busy machine may."""

    crowded = False

    def _forward(self, what, port, source, target):
        if not self.crowded:
            super()._forward(what, port, source, target)


def test_server_that_answers_statements_is_not_away_although_it_accepts_no_connection(server):
    proxy = CrowdedProxy(server.create_database())
    store = open_store(proxy.url, migrations=MIGRATIONS)
    try:
        # Two connections, which are there before new ones have to wait.
        run_together(*[lambda: store.write(lambda conn: conn.fetch_one("SELECT 1 FROM pg_sleep(0.5)"))] * 2)
        proxy.crowded = True
        asleep = []
        slow = threading.Thread(
            target=lambda: asleep.append(store.write(lambda conn: conn.fetch_one("SELECT 1 FROM pg_sleep(5)")))
        )
        slow.start()
        writes = 0
        while slow.is_alive():
            store.write(increment_counter)
            writes += 1
        slow.join()
        assert asleep == [(1,)]
        assert writes > 0
    finally:
        proxy.close()
        store.close()

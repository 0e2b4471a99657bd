"""One process leads those on a PostgreSQL database; on SQLite each does the work in turn."""

from __future__ import annotations

import psycopg
import pytest

from chaos.takeover import find_leader
from shopfloor.store import open_store
from tests.store.support import MIGRATIONS, run_together, wait_until


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture
def other(url):
    store = open_store(url, migrations=MIGRATIONS)
    yield store
    store.close()


def test_one_of_two_leads_and_the_other_takes_over_when_it_closes(store, other):
    assert store.try_lead(1)
    assert not other.try_lead(1)
    assert store.try_lead(1)
    store.close()
    wait_until(lambda: other.try_lead(1))


def test_threads_that_ask_at_the_same_time_lead_together(store):
    assert run_together(*[lambda: store.try_lead(1)] * 8) == [True] * 8


def test_each_workspace_has_its_own_leader(store, other):
    assert store.try_lead(1)
    assert other.try_lead(2)


def test_leader_that_was_suspended_is_replaced_and_no_longer_leads(store, other):
    assert store.try_lead(1)
    assert not other.try_lead(1)
    # As seen from the database, a suspended process is one that sends nothing.
    leadership = store._leadership[1]
    leadership._stopping.set()
    leadership._thread.join()
    wait_until(lambda: other.try_lead(1))
    assert not store.try_lead(1)


def test_leader_whose_connection_was_cut_leads_again(store, url):
    assert store.try_lead(1)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
    wait_until(lambda: not store.try_lead(1))
    wait_until(lambda: store.try_lead(1))


def test_leader_is_found_by_the_name_of_its_connection(url):
    named = open_store(f"{url}?application_name=replica-7", migrations=MIGRATIONS)
    try:
        with psycopg.connect(url, autocommit=True) as conn:
            assert find_leader(conn) is None
            assert named.try_lead(1)
            assert find_leader(conn) == "replica-7"
    finally:
        named.close()


def test_every_process_on_sqlite_leads(sqlite):
    assert sqlite.try_lead(1)

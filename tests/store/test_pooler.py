"""The store behind PgBouncer in transaction mode, and the settings that keep commits durable."""

from __future__ import annotations

from queue import Queue

import psycopg
import pytest

from shopfloor.store import Connection, open_store
from tests.pgbouncer import PgBouncer
from tests.store.support import MIGRATIONS, PATIENCE, first_value, increment_counter, list_titles, run_together


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture
def pooled(url):
    pooler = PgBouncer(url)
    store = open_store(pooler.url, migrations=MIGRATIONS, direct_url=url)
    yield store
    store.close()
    pooler.stop()


def test_no_update_is_lost_behind_a_pooler(pooled):
    pooled.write(increment_counter)
    results = run_together(*[lambda: [pooled.write(increment_counter) for _ in range(10)]] * 8)
    assert sorted(number for numbers in results for number in numbers) == list(range(2, 82))


def test_savepoints_and_statements_without_result_work_behind_a_pooler(pooled):
    def write(conn: Connection) -> None:
        for title in ("one", "two"):
            with conn.savepoint():
                conn.send("INSERT INTO thing (title) VALUES (:title)", title=title)

    pooled.write(write)
    assert list_titles(pooled) == ["one", "two"]


def test_notifications_and_leadership_go_past_the_pooler(pooled, url):
    notifications: Queue[frozenset[str]] = Queue()
    pooled.listen(notifications.put)
    assert notifications.get(timeout=PATIENCE) == frozenset()
    other = open_store(url, migrations=MIGRATIONS)
    other.write(lambda conn: conn.notify_on_commit("mail"))
    assert notifications.get(timeout=PATIENCE) == {"mail"}
    assert pooled.try_lead(1)
    assert not other.try_lead(1)
    other.close()


@pytest.mark.parametrize(("given", "used"), [("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")])
@pytest.mark.parametrize("through_pooler", [False, True])
def test_commits_are_durable_with_every_setting_of_the_database(url, given, used, through_pooler):
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {url.rsplit('/', 1)[1]} SET synchronous_commit = {given}".encode())
    pooler = PgBouncer(url) if through_pooler else None
    store = open_store(url if pooler is None else pooler.url, migrations=MIGRATIONS, direct_url=url if pooler else None)

    def read_setting(conn: Connection) -> str:
        increment_counter(conn)
        return str(first_value(conn.fetch_one("SHOW synchronous_commit")))

    assert store.write(read_setting) == used
    store.close()
    if pooler is not None:
        pooler.stop()

"""Concurrent writes, on both engines."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from shopfloor.store import Connection, open_store
from tests.store.support import MIGRATIONS, PATIENCE, Child, increment_counter, insert_thing, list_titles, run_together


def test_no_update_is_lost_between_threads(store):
    store.write(increment_counter)
    answers = run_together(*[lambda: [store.write(increment_counter) for _ in range(25)]] * 8)
    assert sorted(n for each in answers for n in each) == list(range(2, 202))
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (201,)


def test_no_update_is_lost_between_processes(url):
    store = open_store(url, migrations=MIGRATIONS)
    store.write(increment_counter)
    others = [Child("increment_many", url, "40") for _ in range(2)]
    for other in others:
        other.start()
    for _ in range(40):
        store.write(increment_counter)
    for other in others:
        assert other.read_rest() == ["done\n"]
    assert store.read(lambda conn: conn.fetch_one("SELECT n FROM counter")) == (121,)
    store.close()


def test_a_claim_has_one_winner(store):
    rounds, callers = 20, 8
    for number in range(rounds):
        store.write(insert_thing(f"task {number}"))
    start = threading.Barrier(callers)

    def claim_all(caller: int) -> list[int]:
        start.wait(PATIENCE)
        won = []
        while task := store.write(lambda conn: claim(conn, caller)):
            won.append(task[0])
        return won

    answers = run_together(*[lambda caller=caller: claim_all(caller) for caller in range(1, callers + 1)])
    assert sorted(task for won in answers for task in won) == list(range(1, rounds + 1))


def claim(conn: Connection, caller: int):
    """Claim the next free task and return its row, or None."""
    task = conn.fetch_one(f"SELECT id FROM thing WHERE at IS NULL ORDER BY id LIMIT 1 {conn.skip_locked}")
    if task is not None:
        conn.execute("UPDATE thing SET at = :caller WHERE id = :id", caller=caller, id=task[0])
    return task


def test_one_of_many_equal_inserts_succeeds(store):
    sql = "INSERT INTO thing (title) VALUES ('the one') ON CONFLICT (title) DO NOTHING"
    answers = run_together(*[lambda: store.write(lambda conn: conn.execute(sql))] * 12)
    assert Counter(answers) == {1: 1, 0: 11}
    assert list_titles(store) == ["the one"]


def test_failing_write_does_not_affect_concurrent_writes(store):
    def write(number: int) -> int:
        def run(conn: Connection) -> int:
            insert_thing(str(number))(conn)
            if number % 3 == 0:
                raise ZeroDivisionError(number)
            return number

        return store.write(run)

    answers = run_together(*[lambda number=number: write(number) for number in range(30)])
    for number, answer in enumerate(answers):
        if number % 3 == 0:
            assert isinstance(answer, ZeroDivisionError)
            assert answer.args == (number,)
        else:
            assert answer == number
    assert {int(title) for title in list_titles(store)} == {number for number in range(30) if number % 3}


@pytest.mark.parametrize("rounds", [3])
def test_acknowledged_writes_survive_kill_9_exactly_once(url, rounds):
    open_store(url, migrations=MIGRATIONS).close()
    acknowledged: set[int] = set()
    for number in range(rounds):
        writer = Child("write_ledger", url, str(number * 1_000_000))
        writer.start()
        said = [writer.read_line() for _ in range(100 + 37 * number)]
        writer.kill()
        acknowledged |= {int(line) for line in [*said, *writer.read_rest()]}
        store = open_store(url, migrations=MIGRATIONS)
        rows = Counter(entry for (entry,) in store.read(lambda conn: conn.fetch_all("SELECT entry FROM ledger")))
        assert acknowledged <= rows.keys()
        assert set(rows.values()) == {1}
        assert store.write(increment_counter) == number + 1
        store.close()

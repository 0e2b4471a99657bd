"""What both engines promise when many write at once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from shopfloor.store.database import Connection, open_store
from tests.store.support import MIGRATIONS, PATIENCE, Child, bump, put, titles, together


def test_no_update_is_lost_between_threads(store):
    store.write(bump)
    answers = together(*[lambda: [store.write(bump) for _ in range(25)]] * 8)
    assert sorted(n for each in answers for n in each) == list(range(2, 202))
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (201,)


def test_no_update_is_lost_between_processes(url):
    store = open_store(url, migrations=MIGRATIONS)
    store.write(bump)
    others = [Child("bumps", url, "40") for _ in range(2)]
    for other in others:
        other.go()
    for _ in range(40):
        store.write(bump)
    for other in others:
        assert other.rest() == ["done\n"]
    assert store.read(lambda conn: conn.one("SELECT n FROM counter")) == (121,)
    store.close()


def test_a_claim_has_one_winner(store):
    rounds, callers = 20, 8
    for number in range(rounds):
        store.write(put(f"task {number}"))
    start = threading.Barrier(callers)

    def claims(caller: int) -> list[int]:
        start.wait(PATIENCE)
        won = []
        while task := store.write(lambda conn: claim(conn, caller)):
            won.append(task[0])
        return won

    answers = together(*[lambda caller=caller: claims(caller) for caller in range(1, callers + 1)])
    assert sorted(task for won in answers for task in won) == list(range(1, rounds + 1))


def claim(conn: Connection, caller: int):
    """The next free task, ours from now on."""
    task = conn.one(f"SELECT id FROM thing WHERE at IS NULL ORDER BY id LIMIT 1 {conn.skip_locked}")
    if task is not None:
        conn.execute("UPDATE thing SET at = :caller WHERE id = :id", caller=caller, id=task[0])
    return task


def test_of_many_equal_inserts_one_wins(store):
    sql = "INSERT INTO thing (title) VALUES ('the one') ON CONFLICT (title) DO NOTHING"
    answers = together(*[lambda: store.write(lambda conn: conn.execute(sql))] * 12)
    assert Counter(answers) == {1: 1, 0: 11}
    assert titles(store) == ["the one"]


def test_a_failure_among_many_writes_is_only_the_failing_ones(store):
    def write(number: int) -> int:
        def run(conn: Connection) -> int:
            put(str(number))(conn)
            if number % 3 == 0:
                raise ZeroDivisionError(number)
            return number

        return store.write(run)

    answers = together(*[lambda number=number: write(number) for number in range(30)])
    for number, answer in enumerate(answers):
        if number % 3 == 0:
            assert isinstance(answer, ZeroDivisionError)
            assert answer.args == (number,)
        else:
            assert answer == number
    assert {int(title) for title in titles(store)} == {number for number in range(30) if number % 3}


@pytest.mark.parametrize("rounds", [3])
def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(url, rounds):
    open_store(url, migrations=MIGRATIONS).close()
    acknowledged: set[int] = set()
    for number in range(rounds):
        writer = Child("ledger", url, str(number * 1_000_000))
        writer.go()
        said = [writer.line() for _ in range(100 + 37 * number)]
        writer.kill()
        acknowledged |= {int(line) for line in [*said, *writer.rest()]}
        store = open_store(url, migrations=MIGRATIONS)
        rows = Counter(entry for (entry,) in store.read(lambda conn: conn.all("SELECT entry FROM ledger")))
        assert acknowledged <= rows.keys()
        assert set(rows.values()) == {1}
        assert store.write(bump) == number + 1
        store.close()

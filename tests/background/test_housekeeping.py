"""Heartbeats, the clean-up after dead processes, and retention."""

from __future__ import annotations

import pytest

from shopfloor.background import housekeeping
from shopfloor.background.housekeeping import (
    DEFAULT_RULES,
    Housekeeper,
    PeriodicTask,
    list_periodic_tasks,
)
from shopfloor.domain.times import DAY, HOUR, MINUTE, SECOND
from shopfloor.errors import StoreBusy
from shopfloor.repositories.outbox import Outbox
from tests.workbench import wait_until


def find_task(name):
    return next(task for task in list_periodic_tasks([]) if task.name == name)


def run_task(shopfloor, name):
    shopfloor.engine.housekeeper.run(find_task(name))


def count_rows(shopfloor, table):
    return shopfloor.rows(f"SELECT count(*) FROM {table}")[0][0]


def read_heartbeats(shopfloor):
    return dict(shopfloor.rows("SELECT id, heartbeat_at FROM process"))


def test_periodic_tasks_are_exactly_these():
    assert {"processes", "open calls", "kept answers", "old events", "lists"} <= {
        task.name for task in list_periodic_tasks([])
    }


def test_process_writes_its_heartbeat(shopfloor):
    process = shopfloor.engine.database.registration.number
    before = read_heartbeats(shopfloor)[process]
    shopfloor.pass_time(10 * SECOND)
    shopfloor.engine.housekeeper.heartbeat()
    assert read_heartbeats(shopfloor)[process] >= before + 10 * SECOND


def test_reaped_process_registers_under_a_new_number_when_it_wakes(open_workbench, monkeypatch):
    monkeypatch.setattr(housekeeping, "HEARTBEAT_SECONDS", 0.01)
    shopfloor = open_workbench()
    old = shopfloor.engine.database.registration.number
    shopfloor.execute("DELETE FROM process")
    wait_until(lambda: shopfloor.engine.database.registration.number != old)
    assert list(read_heartbeats(shopfloor)) == [shopfloor.engine.database.registration.number]


def test_stored_results_are_deleted_after_a_day(shopfloor):
    shopfloor.ask("note", {"text": "old"}, key="old")
    shopfloor.pass_time(DEFAULT_RULES.answers)
    shopfloor.ask("note", {"text": "new"}, key="new")
    run_task(shopfloor, "kept answers")
    assert shopfloor.rows("SELECT key FROM answer WHERE key IN ('old', 'new')") == [("new",)]


def test_delivered_events_are_deleted_after_a_month(shopfloor):
    shopfloor.call("bench", "note", {"text": "old"})
    shopfloor.pass_time(DEFAULT_RULES.events + DAY)
    shopfloor.call("bench", "note", {"text": "new"})
    run_task(shopfloor, "old events")
    assert count_rows(shopfloor, "event") == 1


def test_undelivered_event_is_kept(shopfloor):
    shopfloor.call("bench", "note", {"text": "old"})
    shopfloor.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at) SELECT workspace, id, 'webhook', 0 FROM event"
    )
    shopfloor.pass_time(DEFAULT_RULES.events + DAY)
    run_task(shopfloor, "old events")
    assert count_rows(shopfloor, "event") == 1


def test_dead_letters_do_not_block_the_deletion_of_other_events(shopfloor, monkeypatch):
    monkeypatch.setattr(housekeeping, "BATCH_ROWS", 2)
    for number in range(9):
        shopfloor.call("bench", "note", {"text": str(number)})
    shopfloor.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at, dead_at)"
        " SELECT workspace, id, 'webhook', 0, 1 FROM event ORDER BY id LIMIT 4"
    )
    shopfloor.pass_time(DEFAULT_RULES.events + DAY)
    run_task(shopfloor, "old events")
    assert count_rows(shopfloor, "event") == 4


def test_events_with_dead_letters_are_examined_once(open_workbench, monkeypatch):
    examined = []
    purge = Outbox.purge

    def count_examined(self, *arguments):
        found, after = purge(self, *arguments)
        examined.append(found)
        return found, after

    shopfloor = open_workbench(started=False)
    shopfloor.engine.housekeeper.tasks = []  # its thread would examine and delete the same events
    with shopfloor:
        for number in range(5):
            shopfloor.call("bench", "note", {"text": str(number)})
        shopfloor.execute(
            "INSERT INTO delivery (workspace, event, subscriber, due_at, dead_at)"
            " SELECT workspace, id, 'webhook', 0, 1 FROM event ORDER BY id LIMIT 3"
        )
        shopfloor.pass_time(DEFAULT_RULES.events + DAY)
        monkeypatch.setattr(Outbox, "purge", count_examined)
        task = find_task("old events")
        for _ in range(3):
            shopfloor.engine.housekeeper.run(task)
        assert examined == [5, 0, 0]
        assert count_rows(shopfloor, "event") == 3


def test_deliveries_written_while_the_clock_was_ahead_are_due_at_once(open_workbench):
    shopfloor = open_workbench(started=False)
    now = shopfloor.engine.database.clock()
    for _ in range(4):
        shopfloor.call("bench", "note", {"text": "x"})
    first = shopfloor.rows("SELECT min(id) FROM event")[0][0]
    # An hour ahead: one that is new, one that is leased, one that is postponed by a second, and one by eight hours.
    for number, (tries, pause) in enumerate([(0, 0), (1, MINUTE), (1, SECOND), (9, 8 * HOUR)]):
        shopfloor.execute(
            "INSERT INTO delivery (workspace, event, subscriber, due_at, tries)"
            f" SELECT workspace, id, 'webhook', {now + HOUR + pause}, {tries} FROM event WHERE id = {first + number}"
        )
    run_task(shopfloor, "early deliveries")
    soon = f"delivery WHERE due_at <= {shopfloor.engine.database.clock()}"
    assert count_rows(shopfloor, soon) == 4


@pytest.mark.parametrize(("tries", "pause"), [(1, MINUTE), (1, SECOND), (5, 30 * MINUTE), (9, 8 * HOUR)])
def test_delivery_that_waits_for_its_next_attempt_is_left_alone(open_workbench, tries, pause):
    shopfloor = open_workbench(started=False)
    shopfloor.call("bench", "note", {"text": "x"})
    due_at = shopfloor.engine.database.clock() + pause
    shopfloor.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at, tries)"
        f" SELECT workspace, id, 'webhook', {due_at}, {tries} FROM event"
    )
    run_task(shopfloor, "early deliveries")
    assert shopfloor.rows("SELECT due_at FROM delivery") == [(due_at,)]


def test_statistics_are_updated_at_the_start(open_workbench, monkeypatch):
    updated = []
    shopfloor = open_workbench(started=False)
    monkeypatch.setattr(type(shopfloor.engine.database.store), "update_statistics", lambda store: updated.append("now"))
    with shopfloor:
        wait_until(lambda: updated)


def test_more_than_one_batch_is_deleted_in_one_pass(shopfloor, monkeypatch):
    monkeypatch.setattr(housekeeping, "BATCH_ROWS", 2)
    for number in range(5):
        shopfloor.ask("note", {"text": "x"}, key=f"k{number}")
    shopfloor.pass_time(DEFAULT_RULES.answers + SECOND)
    run_task(shopfloor, "kept answers")
    assert count_rows(shopfloor, "answer") == 0


def test_log_rows_are_never_deleted(shopfloor):
    shopfloor.call("bench", "note", {"text": "x"})
    shopfloor.pass_time(10 * DEFAULT_RULES.events)
    for name in ("kept answers", "old events", "open calls"):
        run_task(shopfloor, name)
    assert [entry.kind for entry in shopfloor.log()] == ["invocation", "manual", "result"]


def test_failing_periodic_task_does_not_stop_the_others(shopfloor, caplog):
    done: list[str] = []

    def fail(uow):
        raise StoreBusy

    keeper = Housekeeper(
        shopfloor.engine.database,
        [PeriodicTask("broken", 1, fail), PeriodicTask("fine", 1, lambda uow: done.append("x"))],
    )
    keeper.start("other")
    wait_until(lambda: done)
    keeper.stop()
    assert "broken: The store is busy" in caplog.text


def test_unexpected_error_does_not_end_the_thread(open_workbench, monkeypatch):
    monkeypatch.setattr(housekeeping, "HEARTBEAT_SECONDS", 0.01)
    shopfloor = open_workbench(started=False)
    attempts = []

    def fail(_):
        attempts.append(1)
        raise ZeroDivisionError

    shopfloor.engine.housekeeper.tasks = [PeriodicTask("broken", 1, fail)]
    with shopfloor:
        wait_until(lambda: len(attempts) > 2)
        assert shopfloor.engine.list_unready() == []


def test_server_without_a_heartbeat_is_not_ready(shopfloor, monkeypatch):
    assert shopfloor.engine.list_unready() == []
    monkeypatch.setattr(housekeeping, "MAX_HEARTBEAT_GAP_SECONDS", -1)
    assert shopfloor.engine.list_unready() == ["housekeeper: no heartbeat"]

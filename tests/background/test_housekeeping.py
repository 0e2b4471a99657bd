"""The heartbeat of this process, the affairs of dead ones, and what is old enough to go."""

from __future__ import annotations

from shopfloor.background import housekeeping
from shopfloor.background.housekeeping import ANSWERS_KEPT, EVENTS_KEPT, Chore, Housekeeper, chores
from shopfloor.domain.times import DAY, SECOND
from shopfloor.errors import StoreBusy
from tests.workbench import until


def chore(name):
    return next(chore for chore in chores([]) if chore.name == name)


def keep(floor, name):
    floor.floor.housekeeper.keep(chore(name))


def count(floor, table):
    return floor.rows(f"SELECT count(*) FROM {table}")[0][0]


def heartbeats(floor):
    return dict(floor.rows("SELECT id, heartbeat_at FROM process"))


def test_there_is_this_much_to_do():
    assert {"processes", "open calls", "kept answers", "old events", "lists"} <= {chore.name for chore in chores([])}


def test_a_process_shows_that_it_lives(floor):
    process = floor.floor.works.process
    before = heartbeats(floor)[process]
    floor.pass_time(10 * SECOND)
    floor.floor.housekeeper.show_life()
    assert heartbeats(floor)[process] >= before + 10 * SECOND


def test_a_process_that_slept_and_was_buried_comes_back_under_a_new_number(opened, monkeypatch):
    monkeypatch.setattr(housekeeping, "_BEAT", 0.01)
    floor = opened()
    old = floor.floor.works.process
    floor.execute("DELETE FROM process")
    until(lambda: floor.floor.works.process != old)
    assert list(heartbeats(floor)) == [floor.floor.works.process]


def test_kept_answers_go_after_a_day(floor):
    floor.ask("note", {"text": "old"}, key="old")
    floor.pass_time(ANSWERS_KEPT)
    floor.ask("note", {"text": "new"}, key="new")
    keep(floor, "kept answers")
    assert floor.rows("SELECT key FROM answer WHERE key IN ('old', 'new')") == [("new",)]


def test_delivered_events_go_after_a_month(floor):
    floor.call("bench", "note", {"text": "old"})
    floor.pass_time(EVENTS_KEPT + DAY)
    floor.call("bench", "note", {"text": "new"})
    keep(floor, "old events")
    assert count(floor, "event") == 1


def test_an_event_that_somebody_has_still_to_hear_of_stays(floor):
    floor.call("bench", "note", {"text": "old"})
    floor.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at) SELECT workspace, id, 'webhook', 0 FROM event"
    )
    floor.pass_time(EVENTS_KEPT + DAY)
    keep(floor, "old events")
    assert count(floor, "event") == 1


def test_dead_letters_do_not_stand_in_the_way_of_what_goes(floor, monkeypatch):
    monkeypatch.setattr(housekeeping, "_BATCH", 2)
    for number in range(9):
        floor.call("bench", "note", {"text": str(number)})
    floor.execute(
        "INSERT INTO delivery (workspace, event, subscriber, due_at, dead_at)"
        " SELECT workspace, id, 'webhook', 0, 1 FROM event ORDER BY id LIMIT 4"
    )
    floor.pass_time(EVENTS_KEPT + DAY)
    keep(floor, "old events")
    assert count(floor, "event") == 4


def test_more_than_one_batch_goes_at_once(floor, monkeypatch):
    monkeypatch.setattr(housekeeping, "_BATCH", 2)
    for number in range(5):
        floor.ask("note", {"text": "x"}, key=f"k{number}")
    floor.pass_time(ANSWERS_KEPT + SECOND)
    keep(floor, "kept answers")
    assert count(floor, "answer") == 0


def test_the_log_is_never_old(floor):
    floor.call("bench", "note", {"text": "x"})
    floor.pass_time(10 * EVENTS_KEPT)
    for name in ("kept answers", "old events", "open calls"):
        keep(floor, name)
    assert [entry.kind for entry in floor.log()] == ["invocation", "manual", "result"]


def test_a_chore_that_fails_does_not_keep_the_others_from_being_done(floor, caplog):
    done: list[str] = []

    def fail(work):
        raise StoreBusy

    keeper = Housekeeper(floor.floor.works, [Chore("broken", 1, fail), Chore("fine", 1, lambda work: done.append("x"))])
    keeper.start("other")
    until(lambda: done)
    keeper.stop()
    assert "broken: The store is busy" in caplog.text

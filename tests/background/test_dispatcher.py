"""The outbox is delivered: exactly once inside the store, at least once outside, and what keeps failing is left to a person."""

from __future__ import annotations

import threading

import pytest

from shopfloor.background.dispatcher import LEASE, TRIES, Dispatcher, Subscriber, by_event
from shopfloor.background.housekeeping import chores
from shopfloor.domain.times import DAY, MINUTE, SECOND
from shopfloor.errors import StoreBusy
from tests.workbench import together, until

LOGGED = frozenset({"decision.logged"})


def hear(work, told):
    """An effect in the store that would show if it happened twice."""
    work.decisions.add(
        reference=told.reference,
        kind="manual",
        subject="subscriber:ear",
        actor="subscriber:ear",
        toolset="",
        tool="heard",
        decision=str(told.id),
        reasoning=told.data["by"],
        context="{}",
        created_at=work.now,
    )


def heard(floor):
    return [int(number) for (number,) in floor.rows("SELECT decision FROM decision WHERE tool = 'heard' ORDER BY id")]


def numbers(floor):
    return [number for (number,) in floor.rows("SELECT id FROM event WHERE name = 'decision.logged' ORDER BY id")]


def deliveries(floor):
    return floor.rows("SELECT event, subscriber, tries, error FROM delivery ORDER BY event, subscriber")


def ear(inside=hear, name="ear"):
    return Subscriber(name, LOGGED, inside=inside)


@pytest.fixture
def still(opened):
    """A floor on which nothing runs by itself, and a dispatcher to be run by hand."""

    def with_subscribers(*subscribers):
        floor = opened(started=False, subscribers=subscribers)
        return floor, Dispatcher(floor.floor.works, subscribers)

    return with_subscribers


def note(floor, times=1):
    for number in range(times):
        floor.call("bench", "note", {"text": f"note {number}"})


def test_events_know_their_subscribers():
    first, second = Subscriber("a", frozenset({"x", "y"})), Subscriber("b", frozenset({"y"}))
    assert by_event([first, second]) == {"x": ("a",), "y": ("a", "b")}


def test_a_delivery_is_struck_out_with_its_effect(still):
    floor, dispatcher = still(ear())
    note(floor, 3)
    assert dispatcher.deliver_due() == 3
    assert (heard(floor), deliveries(floor), dispatcher.deliver_due()) == (numbers(floor), [], 0)


def test_what_was_rolled_back_is_not_told(still):
    floor, dispatcher = still(ear())
    floor.tools.failures = [RuntimeError("no")]
    note(floor)
    assert (dispatcher.deliver_due(), heard(floor)) == (0, [])


def test_each_subscriber_has_a_delivery_of_its_own(still):
    floor, dispatcher = still(ear(), ear(name="other"))
    note(floor)
    assert dispatcher.deliver_due() == 2
    assert heard(floor) == numbers(floor) * 2


def test_a_subscriber_that_is_not_here_is_left_to_the_process_that_has_it(still, opened):
    floor, _ = still(ear(), ear(name="elsewhere"))
    note(floor)
    assert Dispatcher(floor.floor.works, [ear()]).deliver_due() == 1
    assert deliveries(floor) == [(numbers(floor)[0], "elsewhere", 0, None)]


def test_what_nobody_takes_any_more_is_left_to_a_person_after_a_day(still):
    floor, _ = still(ear(), ear(name="gone"))
    note(floor)
    (orphans,) = [chore.do for chore in chores(["ear"]) if chore.name == "orphaned deliveries"]
    assert floor.floor.administer(orphans) == 0
    floor.pass_time(DAY + SECOND)
    assert (floor.floor.administer(orphans), floor.floor.administer(orphans)) == (1, 0)
    (dead,) = floor.floor.look(lambda work: work.outbox.dead(10))
    assert (dead.subscriber, dead.error) == ("gone", "Nobody takes these any more")
    assert Dispatcher(floor.floor.works, [ear()]).deliver_due() == 1


def test_four_dispatchers_deliver_everything_exactly_once(still, opened):
    floor, _ = still(ear())
    note(floor, 80)
    floors = [floor, opened(started=False)]
    dispatchers = [Dispatcher(floors[number % 2].floor.works, [ear()]) for number in range(4)]

    def run(dispatcher):
        def deliver():
            while floor.rows("SELECT 1 FROM delivery LIMIT 1"):
                dispatcher.deliver_due()

        return deliver

    together(*map(run, dispatchers))
    assert sorted(heard(floor)) == numbers(floor)


def test_one_that_fails_is_tried_later_and_holds_up_nobody(still):
    broken = [True]

    def sometimes(work, told):
        hear(work, told)
        if broken and told.id == numbers(floor)[0]:
            raise RuntimeError("not now")

    floor, dispatcher = still(ear(sometimes))
    note(floor, 2)
    first, second = numbers(floor)
    dispatcher.deliver_due()
    assert (heard(floor), deliveries(floor)) == ([second], [(first, "ear", 1, "RuntimeError: not now")])
    assert dispatcher.deliver_due() == 0
    broken.clear()
    floor.pass_time(SECOND)
    assert dispatcher.deliver_due() == 1
    assert (heard(floor), deliveries(floor)) == ([second, first], [])


def test_a_passing_failure_of_the_store_costs_no_try(still):
    failures = [StoreBusy()]

    def sometimes(work, told):
        if failures:
            raise failures.pop()
        hear(work, told)

    floor, dispatcher = still(ear(sometimes))
    note(floor)
    with pytest.raises(StoreBusy):
        dispatcher.deliver_due()
    assert deliveries(floor) == [(numbers(floor)[0], "ear", 0, None)]
    dispatcher.deliver_due()
    assert heard(floor) == numbers(floor)


def always(work, told):
    raise RuntimeError("never")


def test_the_pauses_grow_and_then_it_is_left_to_a_person(still):
    floor, dispatcher = still(ear(always))
    note(floor)
    pauses = []
    at = floor.floor.works.clock()
    floor.floor.works.clock = lambda: at
    while not floor.rows("SELECT 1 FROM delivery WHERE dead_at IS NOT NULL"):
        assert dispatcher.deliver_due() == 1
        ((due,),) = floor.rows("SELECT due_at FROM delivery")
        pauses.append((due - at) / SECOND)
        at = due
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert len(pauses) == TRIES
    at += 10 * MINUTE
    assert dispatcher.deliver_due() == 0
    (dead,) = floor.floor.look(lambda work: work.outbox.dead(10))
    assert (dead.subscriber, dead.event.id, dead.event.tries, dead.error) == (
        "ear",
        numbers(floor)[0],
        TRIES,
        "RuntimeError: never",
    )
    assert floor.floor.look(lambda work: work.outbox.backlog()) == (0, 1)


def test_a_person_can_have_it_tried_again(still):
    floor, dispatcher = still(ear())
    note(floor)
    (number,) = numbers(floor)
    floor.execute("UPDATE delivery SET dead_at = 1, tries = 10")
    assert dispatcher.deliver_due() == 0
    revive = floor.floor.administer(lambda work: work.outbox.revive(number, "ear", work.now))
    again = floor.floor.administer(lambda work: work.outbox.revive(number, "ear", work.now))
    assert (revive, again, dispatcher.deliver_due(), heard(floor)) == (True, False, 1, [number])


def test_an_effect_outside_is_made_without_a_transaction_and_then_struck_out(still):
    reached = []

    def outside(told):
        reached.append((told.id, told.name, told.data, told.tries))
        assert floor.rows("SELECT due_at > created_at FROM delivery JOIN event ON event.id = event")[0][0]

    floor, dispatcher = still(Subscriber("hook", LOGGED, outside=outside))
    note(floor)
    assert dispatcher.deliver_due() == 1
    (number,) = numbers(floor)
    (log,) = [entry for entry in floor.log() if entry.kind == "manual"]
    assert reached == [(number, "decision.logged", {"logId": f"log-{log.id}", "by": "agent:local"}, 1)]
    assert deliveries(floor) == []


def test_while_one_dispatcher_is_outside_no_other_takes_the_same(still):
    seen = []

    def outside(told):
        seen.append(told.id)
        assert other.deliver_due() == 0

    floor, dispatcher = still(Subscriber("hook", LOGGED, outside=outside))
    other = Dispatcher(floor.floor.works, [Subscriber("hook", LOGGED, outside=outside)])
    note(floor)
    dispatcher.deliver_due()
    assert seen == numbers(floor)


def test_a_lease_that_ended_without_a_word_is_taken_over(still):
    reached = []
    floor, dispatcher = still(Subscriber("hook", LOGGED, outside=lambda told: reached.append((told.id, told.tries))))
    note(floor)
    floor.floor.administer(lambda work: work.outbox.lease(["hook"], 10, work.now + LEASE, work.now))  # then it died
    assert dispatcher.deliver_due() == 0
    floor.pass_time(LEASE)
    assert dispatcher.deliver_due() == 1
    assert reached == [(numbers(floor)[0], 2)]


def test_a_failure_outside_is_tried_later(still):
    failures = [OSError("refused")]
    reached = []

    def outside(told):
        if failures:
            raise failures.pop()
        reached.append(told.tries)

    floor, dispatcher = still(Subscriber("hook", LOGGED, outside=outside))
    note(floor)
    dispatcher.deliver_due()
    assert deliveries(floor) == [(numbers(floor)[0], "hook", 1, "OSError: refused")]
    floor.pass_time(SECOND)
    dispatcher.deliver_due()
    assert (reached, deliveries(floor)) == ([2], [])


def test_on_a_floor_at_work_a_commit_is_delivered_without_being_asked(opened):
    floor = opened(subscribers=[ear()])
    note(floor, 5)
    until(lambda: heard(floor) == numbers(floor))


def test_the_commit_of_another_process_is_delivered_as_well(opened):
    other = opened(started=False, subscribers=[ear()])
    floor = opened(subscribers=[ear()])
    note(other, 3)
    until(lambda: heard(floor) == numbers(floor))


def test_what_was_left_undelivered_is_delivered_at_the_next_start(opened):
    opened(started=False, subscribers=[ear()]).call("bench", "note", {"text": "x"})
    floor = opened(subscribers=[ear()])
    until(lambda: heard(floor) == numbers(floor))


def test_a_stopped_dispatcher_does_not_run(opened):
    floor = opened(subscribers=[ear()])
    assert floor.floor.dispatcher.running
    floor.close()
    assert not floor.floor.dispatcher.running
    assert "shopfloor-dispatcher" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}

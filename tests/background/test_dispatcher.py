"""The outbox is delivered exactly once inside the store and at least once outside. Failing deliveries become dead letters."""

from __future__ import annotations

import threading

import pytest

from shopfloor.background import dispatcher, event_sinks
from shopfloor.background.dispatcher import (
    LEASE_DURATION,
    MAX_ATTEMPTS,
    Dispatcher,
    Subscriber,
    map_subscribers_by_event,
)
from shopfloor.background.housekeeping import list_periodic_tasks
from shopfloor.domain.times import DAY, MINUTE, SECOND
from shopfloor.errors import BadSettings, StoreBusy
from shopfloor.repositories.outbox import Outbox
from shopfloor.settings import WebhookTarget
from tests.operator_access import read_as_operator, write_as_operator
from tests.workbench import run_together, wait_until

LOGGED = frozenset({"decision.logged"})


def record_delivery(uow, event):
    """Write a row, which shows a repeated delivery."""
    uow.decisions.add(
        reference=event.reference,
        kind="manual",
        subject="subscriber:recorder",
        actor="subscriber:recorder",
        toolset="",
        tool="recorded",
        decision=str(event.id),
        reasoning=event.data["by"],
        context="{}",
        created_at=uow.now,
    )


def list_recorded(shopfloor):
    return [
        int(number) for (number,) in shopfloor.rows("SELECT decision FROM decision WHERE tool = 'recorded' ORDER BY id")
    ]


def list_event_ids(shopfloor):
    return [number for (number,) in shopfloor.rows("SELECT id FROM event WHERE name = 'decision.logged' ORDER BY id")]


def list_deliveries(shopfloor):
    return shopfloor.rows("SELECT event, subscriber, tries, error FROM delivery ORDER BY event, subscriber")


def new_subscriber(in_transaction=record_delivery, name="recorder"):
    return Subscriber(name, LOGGED, in_transaction=in_transaction)


@pytest.fixture
def open_without_dispatcher(open_workbench):
    """Opens a workbench without background threads, and a dispatcher that the test runs."""

    def with_subscribers(*subscribers):
        shopfloor = open_workbench(started=False, subscribers=subscribers)
        return shopfloor, Dispatcher(shopfloor.engine.database, subscribers, shopfloor.engine.topics)

    return with_subscribers


def write_notes(shopfloor, times=1):
    for number in range(times):
        shopfloor.call("bench", "note", {"text": f"note {number}"})


def test_event_is_stored_with_its_subscribers():
    first, second = Subscriber("a", frozenset({"x", "y"})), Subscriber("b", frozenset({"y"}))
    assert map_subscribers_by_event([first, second]) == {"x": ("a",), "y": ("a", "b")}


def test_delivery_is_completed_in_the_transaction_of_its_effect(open_without_dispatcher):
    shopfloor, dispatcher = open_without_dispatcher(new_subscriber())
    write_notes(shopfloor, 3)
    assert dispatcher.deliver_due() == 3
    assert (list_recorded(shopfloor), list_deliveries(shopfloor), dispatcher.deliver_due()) == (
        list_event_ids(shopfloor),
        [],
        0,
    )


def test_rolled_back_event_is_not_delivered(open_without_dispatcher):
    shopfloor, dispatcher = open_without_dispatcher(new_subscriber())
    shopfloor.tools.failures = [RuntimeError("no")]
    write_notes(shopfloor)
    assert (dispatcher.deliver_due(), list_recorded(shopfloor)) == (0, [])


def test_each_subscriber_has_its_own_delivery(open_without_dispatcher):
    shopfloor, dispatcher = open_without_dispatcher(new_subscriber(), new_subscriber(name="other"))
    write_notes(shopfloor)
    assert dispatcher.deliver_due() == 2
    assert list_recorded(shopfloor) == list_event_ids(shopfloor) * 2


def test_delivery_to_an_absent_subscriber_is_left_to_the_process_that_has_it(open_without_dispatcher, open_workbench):
    shopfloor, _ = open_without_dispatcher(new_subscriber(), new_subscriber(name="elsewhere"))
    write_notes(shopfloor)
    assert Dispatcher(shopfloor.engine.database, [new_subscriber()], shopfloor.engine.topics).deliver_due() == 1
    assert list_deliveries(shopfloor) == [(list_event_ids(shopfloor)[0], "elsewhere", 0, None)]


def test_delivery_without_a_subscriber_becomes_a_dead_letter_after_a_day(open_without_dispatcher):
    shopfloor, _ = open_without_dispatcher(new_subscriber(), new_subscriber(name="gone"))
    write_notes(shopfloor)
    (orphans,) = [task.action for task in list_periodic_tasks(["recorder"]) if task.name == "orphaned deliveries"]
    assert write_as_operator(shopfloor, orphans) == 0
    shopfloor.pass_time(DAY + SECOND)
    assert (write_as_operator(shopfloor, orphans), write_as_operator(shopfloor, orphans)) == (1, 0)
    (dead,) = read_as_operator(shopfloor, lambda uow: uow.outbox.list_dead(10))
    assert (dead.subscriber, dead.error) == ("gone", "Unknown subscriber")
    assert Dispatcher(shopfloor.engine.database, [new_subscriber()], shopfloor.engine.topics).deliver_due() == 1


def test_four_dispatchers_deliver_everything_exactly_once(open_without_dispatcher, open_workbench):
    shopfloor, _ = open_without_dispatcher(new_subscriber())
    write_notes(shopfloor, 80)
    workbenches = [shopfloor, open_workbench(started=False)]
    dispatchers = [
        Dispatcher(workbenches[number % 2].engine.database, [new_subscriber()], workbenches[number % 2].engine.topics)
        for number in range(4)
    ]

    def run(dispatcher):
        def deliver():
            while shopfloor.rows("SELECT 1 FROM delivery LIMIT 1"):
                dispatcher.deliver_due()

        return deliver

    run_together(*map(run, dispatchers))
    assert sorted(list_recorded(shopfloor)) == list_event_ids(shopfloor)


def test_failing_delivery_is_retried_later_and_blocks_no_other(open_without_dispatcher):
    broken = [True]

    def fail_at_first(uow, event):
        record_delivery(uow, event)
        if broken and event.id == list_event_ids(shopfloor)[0]:
            raise RuntimeError("not now")

    shopfloor, dispatcher = open_without_dispatcher(new_subscriber(fail_at_first))
    write_notes(shopfloor, 2)
    first, second = list_event_ids(shopfloor)
    dispatcher.deliver_due()
    assert (list_recorded(shopfloor), list_deliveries(shopfloor)) == (
        [second],
        [(first, "recorder", 1, "RuntimeError: not now")],
    )
    assert dispatcher.deliver_due() == 0
    broken.clear()
    shopfloor.pass_time(SECOND)
    assert dispatcher.deliver_due() == 1
    assert (list_recorded(shopfloor), list_deliveries(shopfloor)) == ([second, first], [])


def test_transient_store_failure_is_not_counted_as_an_attempt(open_without_dispatcher):
    failures = [StoreBusy()]

    def fail_at_first(uow, event):
        if failures:
            raise failures.pop()
        record_delivery(uow, event)

    shopfloor, dispatcher = open_without_dispatcher(new_subscriber(fail_at_first))
    write_notes(shopfloor)
    with pytest.raises(StoreBusy):
        dispatcher.deliver_due()
    assert list_deliveries(shopfloor) == [(list_event_ids(shopfloor)[0], "recorder", 0, None)]
    dispatcher.deliver_due()
    assert list_recorded(shopfloor) == list_event_ids(shopfloor)


def always_fail(uow, event):
    raise RuntimeError("never")


def test_external_subscriber_is_retried_for_hours(open_without_dispatcher):
    def fail(event):
        raise RuntimeError("down")

    shopfloor, dispatcher = open_without_dispatcher(Subscriber("hook", LOGGED, external=fail))
    write_notes(shopfloor)
    pauses = []
    at = shopfloor.engine.database.clock()
    shopfloor.engine.database.clock = lambda: at
    while not shopfloor.rows("SELECT 1 FROM delivery WHERE dead_at IS NOT NULL"):
        assert dispatcher.deliver_due() == 1
        ((due,),) = shopfloor.rows("SELECT due_at FROM delivery")
        pauses.append((due - at) / SECOND)
        at = due
    assert pauses[:-1] == [1, 5, 30, 300, 1_800, 3_600, 7_200, 14_400, 28_800]


def test_back_off_grows_until_the_delivery_becomes_a_dead_letter(open_without_dispatcher):
    shopfloor, dispatcher = open_without_dispatcher(new_subscriber(always_fail))
    write_notes(shopfloor)
    pauses = []
    at = shopfloor.engine.database.clock()
    shopfloor.engine.database.clock = lambda: at
    while not shopfloor.rows("SELECT 1 FROM delivery WHERE dead_at IS NOT NULL"):
        assert dispatcher.deliver_due() == 1
        ((due,),) = shopfloor.rows("SELECT due_at FROM delivery")
        pauses.append((due - at) / SECOND)
        at = due
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert len(pauses) == MAX_ATTEMPTS
    at += 10 * MINUTE
    assert dispatcher.deliver_due() == 0
    (dead,) = read_as_operator(shopfloor, lambda uow: uow.outbox.list_dead(10))
    assert (dead.subscriber, dead.event.id, dead.event.tries, dead.error) == (
        "recorder",
        list_event_ids(shopfloor)[0],
        MAX_ATTEMPTS,
        "RuntimeError: never",
    )
    assert read_as_operator(shopfloor, lambda uow: uow.outbox.count_backlog()) == (0, 1)


def test_dead_letter_can_be_retried(open_without_dispatcher):
    shopfloor, dispatcher = open_without_dispatcher(new_subscriber())
    write_notes(shopfloor)
    (number,) = list_event_ids(shopfloor)
    shopfloor.execute("UPDATE delivery SET dead_at = 1, tries = 10")
    assert dispatcher.deliver_due() == 0
    revive = write_as_operator(shopfloor, lambda uow: uow.outbox.revive(number, "recorder", uow.now))
    again = write_as_operator(shopfloor, lambda uow: uow.outbox.revive(number, "recorder", uow.now))
    assert (revive, again, dispatcher.deliver_due(), list_recorded(shopfloor)) == (True, False, 1, [number])


def test_outside_effect_runs_without_a_transaction_before_its_delivery_is_completed(open_without_dispatcher):
    reached = []

    def deliver_outside(event):
        reached.append((event.id, event.name, event.data, event.tries))
        assert shopfloor.rows("SELECT due_at > created_at FROM delivery JOIN event ON event.id = event")[0][0]

    shopfloor, dispatcher = open_without_dispatcher(Subscriber("hook", LOGGED, external=deliver_outside))
    write_notes(shopfloor)
    assert dispatcher.deliver_due() == 1
    (number,) = list_event_ids(shopfloor)
    (log,) = [entry for entry in shopfloor.log() if entry.kind == "manual"]
    assert reached == [(number, "decision.logged", {"logId": f"log-{log.id}", "by": "agent:local"}, 1)]
    assert list_deliveries(shopfloor) == []


def test_leased_delivery_is_not_taken_by_another_dispatcher(open_without_dispatcher):
    seen = []

    def deliver_outside(event):
        seen.append(event.id)
        assert other.deliver_due() == 0

    shopfloor, dispatcher = open_without_dispatcher(Subscriber("hook", LOGGED, external=deliver_outside))
    other = Dispatcher(
        shopfloor.engine.database, [Subscriber("hook", LOGGED, external=deliver_outside)], shopfloor.engine.topics
    )
    write_notes(shopfloor)
    dispatcher.deliver_due()
    assert seen == list_event_ids(shopfloor)


def test_expired_lease_is_taken_over(open_without_dispatcher):
    reached = []
    shopfloor, dispatcher = open_without_dispatcher(
        Subscriber("hook", LOGGED, external=lambda event: reached.append((event.id, event.tries)))
    )
    write_notes(shopfloor)
    write_as_operator(
        shopfloor, lambda uow: uow.outbox.lease_due(["hook"], 10, uow.now + LEASE_DURATION, uow.now, MAX_ATTEMPTS)
    )  # then it died
    assert dispatcher.deliver_due() == 0
    shopfloor.pass_time(LEASE_DURATION)
    assert dispatcher.deliver_due() == 1
    assert reached == [(list_event_ids(shopfloor)[0], 2)]


def test_event_that_ends_its_process_each_time_becomes_a_dead_letter_and_blocks_no_other(open_without_dispatcher):
    class ProcessEnded(BaseException):
        """As far as the store can see: nothing that comes after the lease is done."""

    reached: list[int] = []

    def deliver_outside(event):
        if event.id == deadly:
            raise ProcessEnded
        reached.append(event.id)

    shopfloor, dispatcher = open_without_dispatcher(Subscriber("hook", LOGGED, external=deliver_outside))
    write_notes(shopfloor, 3)
    events = list_event_ids(shopfloor)
    deadly = events[0]
    ended = 0
    while shopfloor.rows("SELECT 1 FROM delivery WHERE dead_at IS NULL"):
        try:
            dispatcher.deliver_due()
        except ProcessEnded:
            ended += 1
            shopfloor.pass_time(LEASE_DURATION)
    assert (ended, sorted(reached)) == (MAX_ATTEMPTS, events[1:])
    assert list_deliveries(shopfloor) == [
        (deadly, "hook", MAX_ATTEMPTS, "The process ended during the last attempt"),
    ]


@pytest.mark.parametrize("data", ["{", "[]", ""])
@pytest.mark.parametrize("external", [False, True])
def test_damaged_event_becomes_a_dead_letter_and_blocks_no_other(open_without_dispatcher, data, external):
    reached = []
    subscriber = (
        Subscriber("hook", LOGGED, external=lambda event: reached.append(event.id))
        if external
        else new_subscriber(lambda uow, event: reached.append(event.id), "hook")
    )
    shopfloor, dispatcher = open_without_dispatcher(subscriber)
    write_notes(shopfloor, 3)
    events = list_event_ids(shopfloor)
    shopfloor.execute(f"UPDATE event SET data = '{data}' WHERE id = {events[0]}")
    while dispatcher.deliver_due():
        pass
    assert reached == events[1:]
    assert list_deliveries(shopfloor) == [(events[0], "hook", 1, "The event cannot be read")]
    (letter,) = shopfloor.call("desk", "dead_letters")["deadLetters"]
    assert letter["error"] == "The event cannot be read"


def test_failed_outside_effect_is_retried_later(open_without_dispatcher):
    failures = [OSError("refused")]
    reached = []

    def deliver_outside(event):
        if failures:
            raise failures.pop()
        reached.append(event.tries)

    shopfloor, dispatcher = open_without_dispatcher(Subscriber("hook", LOGGED, external=deliver_outside))
    write_notes(shopfloor)
    dispatcher.deliver_due()
    assert list_deliveries(shopfloor) == [(list_event_ids(shopfloor)[0], "hook", 1, "OSError: refused")]
    shopfloor.pass_time(SECOND)
    dispatcher.deliver_due()
    assert (reached, list_deliveries(shopfloor)) == ([2], [])


def test_running_server_delivers_events_after_each_commit(open_workbench):
    shopfloor = open_workbench(subscribers=[new_subscriber()])
    write_notes(shopfloor, 5)
    wait_until(lambda: list_recorded(shopfloor) == list_event_ids(shopfloor))


def test_events_of_another_process_are_delivered(open_workbench):
    other = open_workbench(started=False, subscribers=[new_subscriber()])
    shopfloor = open_workbench(subscribers=[new_subscriber()])
    write_notes(other, 3)
    wait_until(lambda: list_recorded(shopfloor) == list_event_ids(shopfloor))


def test_undelivered_events_are_delivered_at_the_next_start(open_workbench):
    open_workbench(started=False, subscribers=[new_subscriber()]).call("bench", "note", {"text": "x"})
    shopfloor = open_workbench(subscribers=[new_subscriber()])
    wait_until(lambda: list_recorded(shopfloor) == list_event_ids(shopfloor))


def test_a_stopped_dispatcher_does_not_run(open_workbench):
    shopfloor = open_workbench(subscribers=[new_subscriber()])
    assert shopfloor.engine.dispatcher.running
    shopfloor.close()
    assert not shopfloor.engine.dispatcher.running
    assert "shopfloor-dispatcher" not in {thread.name for thread in threading.enumerate() if thread.is_alive()}


def test_server_without_a_dispatcher_is_not_ready(open_workbench):
    shopfloor = open_workbench(subscribers=[new_subscriber()])
    assert shopfloor.engine.list_unready() == []
    shopfloor.engine.dispatcher.stop()
    assert shopfloor.engine.list_unready() == ["dispatcher: not running"]


def test_unexpected_error_does_not_end_a_thread(open_workbench, monkeypatch):
    shopfloor = open_workbench(started=False, subscribers=[new_subscriber()])
    failures = iter([ZeroDivisionError(), ZeroDivisionError()])
    has_due = Outbox.has_due

    def fail_twice(*given):
        for failure in failures:
            raise failure
        return has_due(*given)

    monkeypatch.setattr(Outbox, "has_due", fail_twice)
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 0.01)
    write_notes(shopfloor, 1)
    with shopfloor:
        wait_until(lambda: list_recorded(shopfloor) == list_event_ids(shopfloor))
        assert shopfloor.engine.dispatcher.running


def test_subscriber_with_two_threads_gets_an_event_while_another_is_under_way(open_workbench):
    arrived: list[object] = []
    both = threading.Event()

    def meet(event: object) -> None:
        arrived.append(event)
        if len(arrived) == 2:
            both.set()
        both.wait(60)

    subscriber = Subscriber("slow", frozenset({"decision.logged"}), external=meet, concurrency=2)
    shopfloor = open_workbench(subscribers=[subscriber])
    write_notes(shopfloor)
    wait_until(lambda: arrived)
    write_notes(shopfloor)
    assert both.wait(60)
    wait_until(lambda: not shopfloor.rows("SELECT 1 FROM delivery"))


def test_webhook_gets_only_the_events_that_it_names():
    target = WebhookTarget(url="https://a.example", events=("mail.sent",), concurrency=3)
    (subscriber,) = event_sinks.subscribers([target], "", inngest=False)
    assert (subscriber.events, subscriber.concurrency) == (frozenset({"mail.sent"}), 3)
    (subscriber,) = event_sinks.subscribers([WebhookTarget(url="https://a.example")], "", inngest=False)
    assert subscriber.events == event_sinks.EVERY_EVENT
    assert {"run.ended", "crew.ended"} <= subscriber.events
    assert "todo.changed" not in subscriber.events
    with pytest.raises(BadSettings, match=r"unknown event 'mail\.snet'"):
        event_sinks.subscribers([WebhookTarget(url="https://a.example", events=("mail.snet",))], "", inngest=False)

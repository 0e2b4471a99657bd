"""The overview, the metrics and the dead letters."""

from __future__ import annotations

import os
import re
from typing import Any, cast

from shopfloor.background.dispatcher import Subscriber
from shopfloor.domain.events import StoredEvent
from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import HOUR, MINUTE, format_iso
from shopfloor.gateways.metrics import estimate_quantile
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.store.protocol import Connection
from shopfloor.usecases import overview, recovery
from tests.toolsets.desk.conftest import Desk
from tests.workbench import wait_until


def test_agents_are_shown_by_state_problems_first(desk: Desk) -> None:
    desk("epic_create", title="Ship it")
    for name in ("builder", "tester"):
        number = desk("task_create", title=f"Task of {name}", epic=1)["number"]
        desk("task_assign", number=number, agentId=name)
        desk.call_as_agent(name, "mcp__task__update_status", state="IN_PROGRESS")
    desk.shopfloor.pass_time(5 * MINUTE)
    desk.shopfloor.engine.database.write(lambda uow: uow.agents.touch("tester", uow.now), OPERATOR)
    desk.shopfloor.engine.database.write(
        lambda uow: uow.agents.mark_failed("planner", uow.now + HOUR, 3, uow.now), OPERATOR
    )
    desk.flush_log()
    seen = desk("floor_overview")
    states = {agent["id"]: agent["state"] for agent in seen["agents"]}
    assert states == {"planner": "failed", "builder": "silent", "tester": "working", "lead": "idle"}
    assert [agent["id"] for agent in seen["agents"]] == ["planner", "builder", "tester", "lead"]
    assert seen["counts"] == {"failed": 1, "silent": 1, "waiting": 0, "working": 1, "idle": 1}
    tester = next(agent for agent in seen["agents"] if agent["id"] == "tester")
    assert tester["taskTitle"] == "Task of tester"
    assert tester["leaseExpiresAt"]
    assert tester["lastCall"]["tool"] == "mcp__task__update_status"
    assert seen["events"][0]["name"]


def test_tasks_that_are_handed_in_wait_for_the_person_unless_a_supervisor_reviews(desk: Desk) -> None:
    number = desk("task_create", title="Paint it")["number"]
    desk("task_assign", number=number, agentId="builder")
    for state in ("IN_PROGRESS", "REVIEW"):
        desk.call_as_agent("builder", "mcp__task__update_status", state=state)
    assert desk("floor_overview")["reviews"] == []
    desk("agent_retire", name="lead")
    [task] = desk("floor_overview")["reviews"]
    assert (task["id"], task["title"], task["assignee"]) == (f"task-{number}", "Paint it", "builder")
    desk("task_complete", number=number)
    assert desk("floor_overview")["reviews"] == []


def test_the_server_returns_tasks_of_silent_agents_in_its_own_name(desk: Desk) -> None:
    number = desk("task_create", title="Paint it")["number"]
    desk("task_assign", number=number, agentId="builder")
    # A server was up all the time: time without one does not count as silence.
    desk.shopfloor.write(lambda uow: uow.workspaces.record_heartbeat(uow.workspace, uow.now, 0))
    desk.shopfloor.pass_time(20 * MINUTE)
    desk.shopfloor.write(lambda uow: uow.workspaces.record_heartbeat(uow.workspace, uow.now, 0))
    # The housekeeper may have done it already.
    desk.shopfloor.engine.database.write(recovery.return_tasks_of_silent_agents, OPERATOR)
    sentences = [(each["who"], each["did"], each["title"], each["note"]) for each in desk("floor_overview")["activity"]]
    assert ("shopfloor", "returned", "Paint it", "to the queue") in sentences
    assert ("builder", "has gone silent", None, None) in sentences
    assert not [sentence for sentence in sentences if sentence[:2] == ("operator", "changed")]
    # Its alert says the same.
    assert not [sentence for sentence in sentences if sentence[1].startswith("wrote")]
    summary = next(each["summary"] for each in desk("log_search")["calls"] if each["kind"] == "recovery")
    assert re.fullmatch(rf"task-{number} · pending again: builder was silent for .*", summary)


def test_lease_of_an_assigned_task_begins_with_the_assignment(desk: Desk) -> None:
    number = desk("task_create", title="Paint it")["number"]
    desk.shopfloor.pass_time(20 * MINUTE)
    desk("task_assign", number=number, agentId="builder")
    seen = {agent["id"]: agent for agent in desk("floor_overview")["agents"]}["builder"]
    assert seen["state"] == "working"
    assert seen["heldSince"] is not None
    now = format_iso(desk.shopfloor.engine.database.read(lambda uow: uow.now, OPERATOR))
    assert seen["leaseExpiresAt"] > now
    assert desk("task_show", number=number)["leaseExpiresAt"] == seen["leaseExpiresAt"]


class CountingConnection:
    """A connection that counts the statements that wait for a result."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.statements = 0

    def __getattr__(self, name: str) -> Any:
        self.statements += name in ("execute", "fetch_one", "fetch_all")
        return getattr(self.inner, name)


def test_the_overview_takes_as_many_statements_for_many_agents(desk: Desk) -> None:
    database = desk.shopfloor.engine.database

    def count_statements(inner: Connection) -> int:
        counting = cast("Any", CountingConnection(inner))
        overview.get_overview(UnitOfWork(database, counting, OPERATOR, database.clock(), 1))
        return int(counting.statements)

    counts = []
    for number in range(25):
        name = desk.shopfloor.seed_agent(f"agent{number}")[0].name
        desk.call_as_agent(name, "mcp__mail__send", toHuman=True, subject="Done", body="b")
        counts.append(database.store.read(count_statements))
    assert len(desk("floor_overview")["agents"]) > 25
    assert counts[0] == counts[-1]


def test_calls_are_counted_per_minute_without_those_of_the_desk(desk: Desk) -> None:
    before = sum(minute["calls"] for minute in desk("floor_overview")["callsPerMinute"])
    desk.call_as_agent("builder", "mcp__agent__get_status")
    desk.shopfloor.answer("factory", "mcp__supervisor__list_agents", {}, "builder")
    desk("agent_list")
    minutes = desk("floor_overview")["callsPerMinute"]
    assert sum(minute["calls"] for minute in minutes) - before == 2
    assert sum(minute["failed"] for minute in minutes) == 1
    assert len(minutes) == 60


def test_recent_calls_are_those_of_all_processes(desk: Desk) -> None:
    desk.flush_log()
    before = desk("floor_overview")["recentCalls"]
    desk.call_as_agent("builder", "mcp__agent__get_status")
    desk("agent_list")
    # Another process on the same store has its own metrics, and the same log.
    with Shopfloor(desk.shopfloor.settings) as other:
        other.call("factory", "mcp__agent__get_status", {}, "builder")
        other.engine.database.store.flush()
    desk.flush_log()
    assert desk("floor_overview")["recentCalls"] == {"seconds": 300, "calls": before["calls"] + 2}
    desk.shopfloor.pass_time(6 * MINUTE)
    assert desk("floor_overview")["recentCalls"]["calls"] == 0


def test_metrics_include_quantiles_outcomes_and_the_store(desk: Desk) -> None:
    for _ in range(20):
        desk.call_as_agent("builder", "mcp__agent__get_status")
    metrics = desk("metrics")
    tool = next(tool for tool in metrics["tools"] if tool["tool"] == "mcp__agent__get_status")
    assert tool["calls"] == 20
    assert tool["failed"] == 0
    assert 0 < tool["p50Ms"] <= tool["p95Ms"] <= tool["p99Ms"]
    assert metrics["replica"]["pid"] == os.getpid()
    assert metrics["replicas"] == 0
    assert metrics["gauges"]["deliveries_dead"] == 0
    assert any(name.startswith("store_") for name in metrics["gauges"])
    assert sum(step["calls"] for step in metrics["latency"]) >= 20


def test_quantile_is_between_the_bounds_of_its_bucket() -> None:
    buckets = [(1.0, 50), (2.0, 100), (float("inf"), 100)]
    assert estimate_quantile(buckets, 0.5) == 1.0
    assert estimate_quantile(buckets, 0.75) == 1.5
    assert estimate_quantile([(1.0, 0), (float("inf"), 4)], 0.5) == 1.0
    assert estimate_quantile([], 0.5) is None


def test_dead_letter_is_listed_and_retried(desk: Desk) -> None:
    received: list[str] = []
    broken = True

    def receive(_: object, event: StoredEvent) -> None:
        if broken:
            raise RuntimeError("not reachable")
        received.append(event.name)

    shopfloor = desk.shopfloor.engine
    shopfloor.dispatcher._subscribers = {
        "test": Subscriber("test", frozenset({"decision.logged"}), in_transaction=receive)
    }
    shopfloor.database.subscribers = {"decision.logged": ("test",)}
    desk.call_as_agent("builder", "mcp__system__log_decision", title="t", body="b")

    def is_dead() -> bool:
        shopfloor.dispatcher.deliver_due()  # the dispatcher's own thread may make an attempt in between
        desk.shopfloor.execute("UPDATE delivery SET due_at = due_at - 3600000000 WHERE dead_at IS NULL")
        return desk("dead_letters")["deadLetters"] != []

    wait_until(is_dead)
    letters = desk("dead_letters")["deadLetters"]
    assert [(letter["subscriber"], letter["error"]) for letter in letters] == [("test", "RuntimeError: not reachable")]
    assert desk("floor_overview")["deadLetters"] == 1
    broken = False
    assert desk("dead_letter_retry", event=letters[0]["event"], subscriber="test")["retried"] is True
    shopfloor.dispatcher.deliver_due()
    # By this call, or by the dispatcher's own thread, which may not have committed yet: a retried delivery is no dead
    # letter any more, and its row is there until the commit. On PostgreSQL a re-run calls the subscriber again.
    wait_until(lambda: not desk.shopfloor.rows("SELECT 1 FROM delivery WHERE subscriber = 'test'"))
    assert desk("dead_letters")["deadLetters"] == []
    assert set(received) == {"decision.logged"}
    assert "may have been delivered" in desk.expect_error(
        "dead_letter_retry", event=letters[0]["event"], subscriber="test"
    )


def test_dead_letters_are_retried_together(desk: Desk) -> None:
    shopfloor = desk.shopfloor.engine
    shopfloor.database.subscribers = {"decision.logged": ("one", "two")}
    for _ in range(3):
        desk.call_as_agent("builder", "mcp__system__log_decision", title="t", body="b")
    desk.shopfloor.execute("UPDATE delivery SET dead_at = 1, tries = 10")
    assert desk("dead_letter_retry_all", subscriber="one") == {"retried": 3, "more": False}
    assert {letter["subscriber"] for letter in desk("dead_letters")["deadLetters"]} == {"two"}
    assert desk("dead_letter_retry_all") == {"retried": 3, "more": False}
    assert desk("dead_letters")["deadLetters"] == []

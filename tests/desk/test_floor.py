"""The floor at a glance, the figures, and the letters that nobody could deliver."""

from __future__ import annotations

import os

from shopfloor.background.dispatcher import TRIES, Subscriber
from shopfloor.domain.actors import OPERATOR
from shopfloor.domain.events import Told
from shopfloor.domain.times import HOUR, MINUTE
from shopfloor.gateways.metrics import quantile
from tests.desk.conftest import Desk
from tests.workbench import until


def test_agents_are_shown_by_state_problems_first(desk: Desk) -> None:
    desk("epic_create", title="Ship it")
    for name in ("builder", "tester"):
        number = desk("task_create", title=f"Task of {name}", epic=1)["number"]
        desk("task_assign", number=number, agentId=name)
        desk.agent(name, "mcp__task__update_status", state="IN_PROGRESS")
    desk.floor.pass_time(5 * MINUTE)
    desk.floor.floor.works.write(lambda work: work.agents.touch("tester", work.now), OPERATOR)
    desk.floor.floor.works.write(lambda work: work.agents.fail("planner", work.now + HOUR, 3, work.now), OPERATOR)
    desk.settle()
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


def test_calls_are_counted_by_the_minute_without_the_desks_own(desk: Desk) -> None:
    before = sum(minute["calls"] for minute in desk("floor_overview")["callsPerMinute"])
    desk.agent("builder", "mcp__agent__get_status")
    desk.floor.answer("factory", "mcp__supervisor__list_agents", {}, "builder")
    desk("people_agents")
    minutes = desk("floor_overview")["callsPerMinute"]
    assert sum(minute["calls"] for minute in minutes) - before == 2
    assert sum(minute["failed"] for minute in minutes) == 1
    assert len(minutes) == 60


def test_the_figures_give_quantiles_outcomes_and_the_store(desk: Desk) -> None:
    for _ in range(20):
        desk.agent("builder", "mcp__agent__get_status")
    figures = desk("metrics")
    tool = next(tool for tool in figures["tools"] if tool["tool"] == "mcp__agent__get_status")
    assert tool["calls"] == 20
    assert tool["failed"] == 0
    assert 0 < tool["p50Ms"] <= tool["p95Ms"] <= tool["p99Ms"]
    assert figures["replica"]["pid"] == os.getpid()
    assert figures["replicas"] == 0
    assert figures["gauges"]["deliveries_dead"] == 0
    assert any(name.startswith("store_") for name in figures["gauges"])
    assert sum(step["calls"] for step in figures["latency"]) >= 20


def test_a_quantile_lies_between_the_edges_of_its_bucket() -> None:
    buckets = [(1.0, 50), (2.0, 100), (float("inf"), 100)]
    assert quantile(buckets, 0.5) == 1.0
    assert quantile(buckets, 0.75) == 1.5
    assert quantile([(1.0, 0), (float("inf"), 4)], 0.5) == 1.0
    assert quantile([], 0.5) is None


def test_a_dead_letter_is_seen_and_tried_again(desk: Desk) -> None:
    heard: list[str] = []
    broken = True

    def hear(_: object, told: Told) -> None:
        if broken:
            raise RuntimeError("nobody home")
        heard.append(told.name)

    floor = desk.floor.floor
    floor.dispatcher._subscribers = {"test": Subscriber("test", frozenset({"decision.logged"}), inside=hear)}
    floor.works.subscribers = {"decision.logged": ("test",)}
    desk.agent("builder", "mcp__system__log_decision", title="t", body="b")
    for _ in range(TRIES):
        floor.dispatcher.deliver_due()
        desk.floor.execute("UPDATE delivery SET due_at = due_at - 3600000000 WHERE dead_at IS NULL")
    letters = desk("dead_letters")["deadLetters"]
    assert [(letter["subscriber"], letter["error"]) for letter in letters] == [("test", "RuntimeError: nobody home")]
    assert desk("floor_overview")["deadLetters"] == 1
    broken = False
    assert desk("dead_letter_retry", event=letters[0]["event"], subscriber="test")["retried"] is True
    floor.dispatcher.deliver_due()
    until(lambda: heard == ["decision.logged"])  # by this call, or by the dispatcher's own thread
    assert desk("dead_letters")["deadLetters"] == []
    assert "may have been done" in desk.refusal("dead_letter_retry", event=letters[0]["event"], subscriber="test")

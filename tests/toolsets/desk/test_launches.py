"""Runs that the server starts: validated, durable, claimed once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY, HOUR, MINUTE, format_iso
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import launches, runs
from tests.toolsets.desk.conftest import Desk


def _claim(desk: Desk) -> list[int]:
    return [launch.id for launch in desk.shopfloor.engine.database.write(launches.claim_due, OPERATOR)]


def _now(desk: Desk) -> int:
    return int(desk.shopfloor.engine.database.read(lambda uow: uow.now, OPERATOR))


def test_run_is_started_only_with_an_agent_that_the_server_offers(desk: Desk) -> None:
    offered = desk("launch_options")
    assert offered["enabled"]
    assert "opencode acp" in offered["agents"]
    assert desk.expect_error("run_start", spec="x", agent="sh -c 'rm -r ~'").startswith("Unknown agent command")
    assert desk.expect_error("run_start", spec="x") == "No agent given, and the project's config names none"
    assert desk.expect_error("run_start", spec=" ", agent="opencode acp") == (
        "the content of a specification must not be blank"
    )
    assert "cannot be the name of a run" in desk.expect_error(
        "run_start", spec="x", agent="opencode acp", name="../../etc"
    )
    assert desk("launch_list")["launches"] == []


def test_only_the_operator_starts_and_retries_runs(desk: Desk) -> None:
    tools = desk.shopfloor.engine.toolsets["desk"].tools
    assert all(tools[name].admin for name in ("run_start", "run_retry", "launch_cancel"))


def test_due_launch_is_claimed_once(desk: Desk) -> None:
    launch = desk("run_start", spec="# Paint", name="paint", agent="opencode acp", iterations=5, minutes=30)
    assert launch["options"] == {"agent": "opencode acp", "iterations": 5, "time": "30m"}
    with ThreadPoolExecutor(4) as executor:
        claimed = [id for ids in executor.map(lambda _: _claim(desk), range(4)) for id in ids]
    assert claimed == [launch["launch"]]
    assert desk("launch_list")["launches"][0]["state"] == "starting"


def test_scheduled_launch_waits_for_its_time_and_repeats_without_catching_up(desk: Desk) -> None:
    at = format_iso(_now(desk) + HOUR)
    launch = desk("run_start", spec="# Paint", agent="opencode acp", at=at, every="day")
    assert _claim(desk) == []
    desk.shopfloor.pass_time(HOUR + MINUTE)
    assert _claim(desk) == [launch["launch"]]
    assert _claim(desk) == []
    desk.shopfloor.pass_time(3 * DAY)
    assert _claim(desk) == [launch["launch"]]
    assert _claim(desk) == []
    shown = desk("launch_list")["launches"][0]
    assert (shown["launches"], shown["every"]) == (2, "day")
    assert format_iso(_now(desk)) < shown["dueAt"] < format_iso(_now(desk) + DAY)
    assert desk.expect_error("run_start", spec="x", agent="opencode acp", at="tomorrow").startswith(
        "'at' must be a time"
    )


def test_waiting_launch_is_cancelled_and_a_failed_one_says_why(desk: Desk) -> None:
    at = format_iso(_now(desk) + HOUR)
    launch = desk("run_start", spec="# Paint", agent="opencode acp", at=at)["launch"]
    assert desk("launch_cancel", launch=launch)["state"] == "cancelled"
    assert desk("launch_cancel", launch=launch)["state"] == "cancelled"
    desk.shopfloor.pass_time(2 * HOUR)
    assert _claim(desk) == []
    assert desk.expect_error("launch_cancel", launch=99) == "Launch 99 not found"


def test_launch_of_a_server_that_was_killed_while_it_started_has_failed(desk: Desk) -> None:
    desk("run_start", spec="# Paint", agent="opencode acp")
    _claim(desk)
    desk.shopfloor.pass_time(2 * MINUTE)
    assert desk("launch_list")["launches"][0]["state"] == "failed"
    assert _claim(desk) == []


def test_run_without_a_process_is_retried_and_a_driven_one_is_not(desk: Desk) -> None:
    def create(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="s", project=".", options="{}")

    desk.shopfloor.engine.database.write(create, OPERATOR)
    launch = desk("run_retry", run="night")
    assert (launch["run"], launch["continues"]) == ("night", True)
    desk.shopfloor.engine.database.write(lambda uow: runs.drive_run(uow, "night", "{}"), OPERATOR)
    assert desk.expect_error("run_retry", run="night") == "the run 'night' is driven by a process"
    assert desk.expect_error("run_retry", run="nope") == "Run 'nope' not found"

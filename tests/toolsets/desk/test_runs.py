"""run_pause, run_resume, run_stop, run_set_acceptance, and the hints of the desk."""

from __future__ import annotations

import pytest

from shopfloor.domain.runs import RunState
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import runs
from tests.toolsets.desk.conftest import Desk, count_rows


@pytest.fixture
def driven_run(desk: Desk) -> Desk:
    desk.shopfloor.write(lambda uow: runs.create_run(uow, "night", spec="s", project=".", options="{}"))
    return desk


@pytest.mark.parametrize("tool", ["run_pause", "run_resume", "run_stop"])
def test_a_run_without_a_driver_cannot_be_steered(driven_run: Desk, tool: str) -> None:
    assert driven_run.answer(tool, run="night").body == {
        "error": "Run 'night' was interrupted; no process drives it.",
        "code": "INVALID_AGENT_STATE",
        "hint": "Continue it from a terminal: shopfloor run --resume night",
    }


def test_a_driven_run_is_paused_and_resumed(driven_run: Desk) -> None:
    driven_run.shopfloor.write(lambda uow: runs.drive_run(uow, "night", "{}"))
    assert driven_run("run_pause", run="night")["wanted"] == "pause"
    assert driven_run("run_resume", run="night")["wanted"] == "go"
    assert driven_run("run_list")["runs"][0]["tasks"] == {"completed": 0, "total": 0}


def test_a_run_that_has_ended_cannot_be_paused(driven_run: Desk) -> None:
    driven_run.shopfloor.write(lambda uow: runs.finish_run(uow, "night", RunState.STOPPED, "enough"))
    assert driven_run.expect_error("run_pause", run="night") == "Run 'night' is stopped."


@pytest.mark.parametrize(
    ("tool", "input", "hint"),
    [
        ("agent_show", {"name": "ghost"}, "List the agents with agent_list"),
        ("user_show", {"name": "ghost"}, "List the users with user_list"),
        ("token_revoke", {"id": "ghost"}, "List the tokens with token_list"),
    ],
)
def test_not_found_errors_name_the_next_step(desk: Desk, tool: str, input: dict[str, str], hint: str) -> None:
    assert desk.answer(tool, **input).body["hint"] == hint


def test_status_of_a_run_is_one_word(driven_run: Desk) -> None:
    def read_status() -> str:
        status = driven_run("run_list")["runs"][0]["status"]
        assert driven_run("run_show", run="night")["status"] == status
        assert [run["status"] for run in driven_run("floor_overview")["runs"]] == [status]
        return str(status)

    assert read_status() == "interrupted"
    driven_run.shopfloor.write(lambda uow: runs.drive_run(uow, "night", "{}"))
    assert read_status() == "running"
    for tool, status in (("run_pause", "paused"), ("run_resume", "running"), ("run_stop", "stopping")):
        driven_run(tool, run="night")
        assert read_status() == status
    driven_run.shopfloor.write(lambda uow: runs.finish_run(uow, "night", RunState.STOPPED, "enough"))
    assert read_status() == "stopped"


def test_elapsed_stops_when_no_process_drives_the_run(driven_run: Desk) -> None:
    def read_elapsed() -> int:
        return int(driven_run("run_show", run="night")["elapsed"])

    driven_run.shopfloor.pass_time(10 * SECOND)
    assert read_elapsed() == 0
    driven_run.shopfloor.write(lambda uow: uow.runs.update("night", uow.now, spent=90 * SECOND))
    assert read_elapsed() == 90
    driven_run.shopfloor.write(lambda uow: runs.drive_run(uow, "night", "{}"))
    before = read_elapsed()
    driven_run.shopfloor.pass_time(10 * SECOND)
    assert read_elapsed() == before + 10


def test_runs_of_crews_are_listed_only_if_asked_for(driven_run: Desk) -> None:
    def add_run_of_crew(uow: UnitOfWork) -> None:
        uow.runs.add("shop.task-1", spec="s", project=".", options="{}", now=uow.now, crew="shop", worker="worker-1")

    driven_run.shopfloor.write(add_run_of_crew)

    def list_names(**given: bool) -> list[str]:
        return [run["run"] for run in driven_run("run_list", **given)["runs"]]

    assert list_names() == ["night"]
    assert list_names(includeCrews=True) == ["shop.task-1", "night"]
    driven_run.shopfloor.write(lambda uow: [runs.drive_run(uow, name, "{}") for name in ("night", "shop.task-1")])
    seen = driven_run("floor_overview")
    assert [run["run"] for run in seen["runs"]] == ["night"]
    assert [each["who"] for each in seen["activity"] if each["did"] == "started"] == ["night"]


def test_list_of_runs_does_not_read_those_of_crews(driven_run: Desk) -> None:
    def add_runs_of_crew(uow: UnitOfWork) -> None:
        for number in range(500):
            name = f"shop.task-{number}"
            uow.runs.add(name, spec="s", project=".", options="{}", now=uow.now + number, crew="shop", worker="w")

    before = count_rows(driven_run, "run_list")
    driven_run.shopfloor.write(add_runs_of_crew)
    assert count_rows(driven_run, "run_list") <= before + 10

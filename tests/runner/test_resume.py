"""A run that is killed at any moment can be resumed: nothing recorded is lost, nothing is done twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.operator_access import read_as_operator
from tests.runner.support import FILES, Project, StartedRun, wait_until

SEED = int(os.environ.get("LOOP_TEST_SEED", "0")) or random.randrange(1_000_000)


def read_final_state(project: Project) -> dict[str, object]:
    """Read what a run leaves behind, except for times and counts of attempts."""
    row = project.read_run()
    return {
        "state": row.state,
        "tasks": project.list_tasks(),
        "files": project.read_made_files(),
        "notes": sorted(set(project.list_notes())),
        "summaries": sorted({each.summary for each in project.list_iterations() if each.summary}),
        "process": row.process,
    }


def test_interrupted_session_is_loaded_when_the_agent_supports_it(project: Project):
    _interrupt_run(project, "loads")
    assert project.resume().finish()[0] == 0
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert len(project.read_journal("session/load")) == 1
    assert project.read_journal("session/load")[0]["mcpServers"][0]["name"] == "shopfloor"
    assert "begun before and cut off" in prompts[1]
    assert [(each.number, each.attempts) for each in project.list_iterations()] == [(0, 2), (1, 1), (2, 1), (3, 1)]


def test_a_session_that_cannot_be_loaded_is_replaced_by_a_new_one(project: Project):
    _interrupt_run(project, "fails_to_load")
    assert project.resume().finish()[0] == 0
    assert len(project.read_journal("session/load")) == 1
    assert project.list_tasks() == [(f"make {name}", "completed") for name in FILES]


def test_a_killed_runner_leaves_no_process_behind(project: Project):
    run = project.start("ignores_the_end", "--grace", "0.5s")
    run.wait_for_event("iteration_started")
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not project.list_live_processes())


def test_repeated_starts_and_stops_leave_no_process(project: Project):
    _start_and_stop(project, 3)


@pytest.mark.long
def test_twenty_starts_and_stops_leave_no_process(project: Project):
    _start_and_stop(project, 20)


def _has_children(project: Project, number: int) -> bool:
    return len(project.read_journal("children")) == number


def _start_and_stop(project: Project, times: int) -> None:
    """Start and stop runs. Their server, their agent and its children must all end with the run."""
    for number in range(1, times + 1):
        run = project.start("leaves_children_and_hangs", "--grace", "0.2s", name=f"run-{number}")
        wait_until(partial(_has_children, project, number))
        run.process.send_signal(signal.SIGTERM)
        assert run.finish()[0] == 143
        assert project.list_live_processes() == []
    with project.open_server() as shopfloor:
        rows = read_as_operator(shopfloor, lambda uow: uow.runs.list_page(100))
    assert {(row.state, row.process) for row in rows} == {("stopped", None)}


def test_a_run_that_was_completed_is_verified_again(project: Project):
    assert project.run("good").code == 0
    (project.root / "two.txt").unlink()
    code, out, _ = project.resume("--iterations", "5").finish()
    assert code == 3
    assert "not_verified" in out


def test_an_unknown_run_cannot_be_resumed(project: Project):
    code, _, err = project.resume(name="missing").finish()
    assert (code, err.splitlines()[0]) == (1, "shopfloor: Run 'missing' not found")


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run leaves behind, and its duration in seconds."""

    state: dict[str, object]
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    project = Project(tmp_path_factory.mktemp("undisturbed") / "project")
    run = project.start("slow")
    run.wait_for_event("run_started")
    began = time.monotonic()
    assert run.finish()[0] == 0
    return Undisturbed(read_final_state(project), time.monotonic() - began)


def test_run_killed_five_times_ends_as_if_undisturbed(tmp_path: Path, undisturbed: Undisturbed):
    _kill_repeatedly(tmp_path, 5, undisturbed)


@pytest.mark.long
def test_run_killed_fifty_times_ends_as_if_undisturbed(tmp_path: Path, undisturbed: Undisturbed):
    _kill_repeatedly(tmp_path, 50, undisturbed)


def _kill_repeatedly(tmp_path: Path, times: int, undisturbed: Undisturbed) -> None:
    """Kill runs at random moments, this many times, and compare the end of each run. Most kills hit a run in
    progress, some hit its start."""
    chance = random.Random(SEED)
    hits, round = 0, 0
    while hits < times:
        round += 1
        project = Project(tmp_path / f"round-{round}")
        run = project.start("slow")
        while hits < times and not _ends_before(run, chance, undisturbed.seconds):
            run.process.send_signal(signal.SIGKILL)
            run.process.communicate()
            hits += 1
            _wait_until_all_ended(project)
            run = project.resume() if _has_run(project) else project.start("slow")
        code, out, err = run.finish()
        assert code == 0, f"seed {SEED}, round {round}: {out}\n{err}"
        assert read_final_state(project) == undisturbed.state, f"seed {SEED}, round {round}"
        _wait_until_all_ended(project)
    print(f"{hits} kills over {round} runs, seed {SEED}", file=sys.stderr)


def _ends_before(run: StartedRun, chance: random.Random, seconds: float) -> bool:
    """Report whether the run ended by itself before a random moment."""
    if chance.random() < 0.2:
        return _ends_within(run, chance.uniform(0, 1.5))
    run.wait_for_event("run_started")
    return _ends_within(run, chance.uniform(0, seconds))


def _ends_within(run: StartedRun, seconds: float) -> bool:
    try:
        run.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _wait_until_all_ended(project: Project) -> None:
    wait_until(lambda: not project.list_live_processes())


def _has_run(project: Project) -> bool:
    with project.open_server() as shopfloor:
        return bool(read_as_operator(shopfloor, lambda uow: uow.runs.list_page(1)))


def _interrupt_run(project: Project, behaviour: str) -> None:
    run = project.start(behaviour)
    wait_until(lambda: project.read_journal("session/prompt"))
    run.process.kill()
    run.process.communicate()
    wait_until(lambda: not project.list_live_processes())

"""A run that is killed at any moment is taken up again: nothing recorded is lost, nothing is done twice."""

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

from tests.loop.support import FILES, Project, Started, until

SEED = int(os.environ.get("LOOP_TEST_SEED", "0")) or random.randrange(1_000_000)


def final_state(project: Project) -> dict[str, object]:
    """What a run leaves, apart from times and counts of attempts."""
    row = project.row()
    return {
        "state": row.state,
        "tasks": project.tasks(),
        "files": project.made(),
        "notes": sorted(set(project.notes())),
        "summaries": sorted({each.summary for each in project.iterations() if each.summary}),
        "process": row.process,
    }


def test_a_cut_off_session_is_loaded_where_the_agent_can(project: Project):
    _cut_off(project, "loads")
    assert project.resume().finish()[0] == 0
    prompts = [facts["text"] for facts in project.journal("session/prompt")]
    assert len(project.journal("session/load")) == 1
    assert project.journal("session/load")[0]["mcpServers"][0]["name"] == "shopfloor"
    assert "begun before and cut off" in prompts[1]
    assert [(each.number, each.attempts) for each in project.iterations()] == [(0, 2), (1, 1), (2, 1), (3, 1)]


def test_a_session_that_cannot_be_loaded_is_begun_anew(project: Project):
    _cut_off(project, "fails_to_load")
    assert project.resume().finish()[0] == 0
    assert len(project.journal("session/load")) == 1
    assert project.tasks() == [(f"make {name}", "completed") for name in FILES]


def test_a_killed_runner_leaves_no_process_behind(project: Project):
    run = project.start("ignores_the_end", "--grace", "0.5s")
    run.until("iteration_started")
    run.process.kill()
    run.process.communicate()
    until(lambda: not project.left_over())


def test_starting_and_stopping_again_and_again_leaves_nothing(project: Project):
    _start_and_stop(project, 3)


@pytest.mark.long
def test_twenty_starts_and_stops_leave_nothing(project: Project):
    _start_and_stop(project, 20)


def _are_there(project: Project, number: int) -> bool:
    return len(project.journal("children")) == number


def _start_and_stop(project: Project, times: int) -> None:
    """Each run has its server, its agent and children of it; none of them is there when the run has ended."""
    for number in range(1, times + 1):
        run = project.start("leaves_children_and_hangs", "--grace", "0.2s", name=f"run-{number}")
        until(partial(_are_there, project, number))
        run.process.send_signal(signal.SIGTERM)
        assert run.finish()[0] == 0
        assert project.left_over() == []
    with project.floor() as floor:
        rows = floor.floor.look(lambda work: work.runs.page(100))
    assert {(row.state, row.process) for row in rows} == {("stopped", None)}


def test_a_run_that_was_completed_is_verified_again(project: Project):
    assert project.run("good").code == 0
    (project.root / "two.txt").unlink()
    code, out, _ = project.resume("--iterations", "5").finish()
    assert code == 3
    assert "not_verified" in out


def test_what_was_never_begun_cannot_be_resumed(project: Project):
    code, _, err = project.resume(name="nobody").finish()
    assert (code, err.splitlines()[0]) == (1, "shopfloor: There is no run 'nobody'")


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run leaves, and how long it takes from its start to its end."""

    state: dict[str, object]
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    project = Project(tmp_path_factory.mktemp("undisturbed") / "project")
    run = project.start("slow")
    run.until("run_started")
    began = time.monotonic()
    assert run.finish()[0] == 0
    return Undisturbed(final_state(project), time.monotonic() - began)


def test_five_kills_change_nothing(tmp_path: Path, undisturbed: Undisturbed):
    _kill_often(tmp_path, 5, undisturbed)


@pytest.mark.long
def test_fifty_kills_change_nothing(tmp_path: Path, undisturbed: Undisturbed):
    _kill_often(tmp_path, 50, undisturbed)


def _kill_often(tmp_path: Path, times: int, undisturbed: Undisturbed) -> None:
    """Kill runs at random moments until so many kills have hit, and compare each run's end. Most kills come while the
    run goes on, some while it starts."""
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
            _all_gone(project)
            run = project.resume() if _exists(project) else project.start("slow")
        code, out, err = run.finish()
        assert code == 0, f"seed {SEED}, round {round}: {out}\n{err}"
        assert final_state(project) == undisturbed.state, f"seed {SEED}, round {round}"
        _all_gone(project)
    print(f"{hits} kills over {round} runs, seed {SEED}", file=sys.stderr)


def _ends_before(run: Started, chance: random.Random, seconds: float) -> bool:
    """Whether the run ended by itself before a random moment."""
    if chance.random() < 0.2:
        return _ends_within(run, chance.uniform(0, 1.5))
    run.until("run_started")
    return _ends_within(run, chance.uniform(0, seconds))


def _ends_within(run: Started, seconds: float) -> bool:
    try:
        run.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _all_gone(project: Project) -> None:
    until(lambda: not project.left_over())


def _exists(project: Project) -> bool:
    with project.floor() as shopfloor:
        return bool(shopfloor.floor.look(lambda work: work.runs.page(1)))


def _cut_off(project: Project, behaviour: str) -> None:
    run = project.start(behaviour)
    until(lambda: project.journal("session/prompt"))
    run.process.kill()
    run.process.communicate()
    until(lambda: not project.left_over())

"""Measure a crew: what driving costs per empty task, with 8 scripted agents, and the CPU of 8 idle workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.plan import Plan
from bench.subprocesses import CHECKOUT
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings

WORKERS = 8
TASKS, FEW_TASKS = 100, 16
IDLE_SECONDS = 20.0
REPETITIONS = 10

AGENT = f"{sys.executable} -m shopfloor_demo.crew_agent"


def measure(plan: Plan, *, quick: bool) -> list[dict[str, Any]]:
    """Return the rows of the table: the cost per task, and the CPU of idle workers."""
    tasks = FEW_TASKS if quick else TASKS
    return [_measure_tasks(plan, tasks), _measure_idle(plan)]


def _measure_tasks(plan: Plan, tasks: int) -> dict[str, Any]:
    plan.report(f"a crew of {WORKERS}: {tasks} empty tasks")
    project = _create_project(plan.folder / "crew-tasks")
    epic = _plan_epic(project, tasks)
    before, started = os.times(), time.perf_counter()
    subprocess.run(_command(project, epic), check=True, stdout=subprocess.DEVNULL, env=_environment())
    seconds, cpu = time.perf_counter() - started, _count_cpu(before)
    return {
        "what": f"{WORKERS} workers, {tasks} empty tasks",
        "seconds per task": round(seconds / tasks, 3),
        "CPU s per task, all processes": round(cpu / tasks, 3),
        "of that the start of an agent": round(_time_agent(), 3),
        "and one worktree, commit and merge by git": round(_time_git(project), 3),
    }


def _measure_idle(plan: Plan) -> dict[str, Any]:
    plan.report(f"{WORKERS} idle workers")
    project = _create_project(plan.folder / "crew-idle")
    epic = _plan_epic(project, 1)
    # The only task is another agent's: the workers wait for it.
    shopfloor = Shopfloor(Settings(project=project), kind="cli")
    try:
        shopfloor.create_agent("outside", issue_token=False)
        shopfloor.call("factory", "mcp__epic__assign", {"epicId": epic, "agentId": "outside"})
        shopfloor.call("factory", "mcp__task__claim", {}, "outside")
    finally:
        shopfloor.close()
    with subprocess.Popen(_command(project, epic), stdout=subprocess.PIPE, text=True, env=_environment()) as crew:
        try:
            assert crew.stdout is not None
            crew.stdout.readline()
            time.sleep(5)
            before = _read_cpu(crew.pid)
            time.sleep(IDLE_SECONDS)
            used = _read_cpu(crew.pid) - before
        finally:
            crew.terminate()
    return {"what": f"{WORKERS} idle workers", "% of a core": round(100 * used / IDLE_SECONDS, 2)}


def _create_project(folder: Path) -> Path:
    folder.mkdir()
    for words in (
        ("init", "--quiet"),
        ("config", "user.name", "bench"),
        ("config", "user.email", "bench@example.invalid"),
        ("commit", "--quiet", "--allow-empty", "--message=Begin"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def _plan_epic(project: Path, tasks: int) -> str:
    shopfloor = Shopfloor(Settings(project=project), kind="cli")
    try:
        epic: str = shopfloor.call("factory", "mcp__epic__create", {"title": "Empty"})["data"]["id"]
        for number in range(tasks):
            shopfloor.call("factory", "mcp__task__create", {"title": f"Task {number}", "epicId": epic})
    finally:
        shopfloor.close()
    return epic


def _command(project: Path, epic: str) -> list[str]:
    words = [sys.executable, "-m", "shopfloor", "crew", "start", "--project", str(project), "--epic", epic]
    return [*words, "--workers", str(WORKERS), "--permissions", "allow", "--headless", "--agent", AGENT]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT / "examples"), *filter(None, sys.path)])}


def _time_agent() -> float:
    """Return the CPU seconds that the scripted agent takes to start and to end, without a turn."""
    before = os.times()
    for _ in range(REPETITIONS):
        subprocess.run(AGENT.split(), check=True, stdin=subprocess.DEVNULL, env=_environment())
    return _count_cpu(before) / REPETITIONS


def _time_git(project: Path) -> float:
    """Return the CPU seconds of what git does for one task: a worktree, a commit, a merge, and their removal."""
    folder = project / ".shopfloor" / "bench"
    before = os.times()
    for place, words in REPETITIONS * (
        (project, ("worktree", "add", "--quiet", "-b", "bench-task", str(folder))),
        (folder, ("commit", "--quiet", "--allow-empty", "--message=Task")),
        (project, ("merge", "--quiet", "--squash", "bench-task")),
        (project, ("worktree", "remove", "--force", str(folder))),
        (project, ("branch", "--quiet", "-D", "bench-task")),
    ):
        subprocess.run(["git", *words], cwd=place, check=True, stdout=subprocess.DEVNULL)
    return _count_cpu(before) / REPETITIONS


def _count_cpu(before: os.times_result) -> float:
    """Return the CPU seconds of the processes that have ended since then."""
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _read_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure the crew alone, and print a line for each row."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        nothing: dict[str, Any] = {"databases": {}, "rounds": 1, "seconds": 0, "clients": (), "starts": 0}
        plan = Plan(folder=Path(folder), report=lambda _: None, **nothing)
        for row in measure(plan, quick="--quick" in sys.argv):
            print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()

"""Kill a crew again and again, at random moments: nothing is lost, nothing is done twice, nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.runner.crew_support import CrewProject
from tests.runner.support import wait_until

KILLS = int(os.environ.get("LOOP_TEST_KILLS", "100"))
TASKS = 2 * KILLS
FILES = 6


@pytest.mark.long
def test_a_hundred_kills_of_a_crew_of_four_lose_and_double_nothing(tmp_path: Path):
    project, chance = CrewProject(tmp_path / "project"), random.Random(4)
    epic = project.plan_epic(*(f"part{number}: append log{number % FILES}.txt {number}" for number in range(TASKS)))
    arguments = project.build_crew_arguments("slow", "--epic", epic, "--attempts", "99", workers=4)
    kills = crew_kills = 0
    while not kills or project.show()["status"] != "completed":
        crew = project.start_command(*arguments)
        arguments = ["crew", "resume", "crew", "--headless"]
        # A number of events is a moment that a busy machine does not move.
        moment = chance.randint(1, 25)
        for count, _ in enumerate(crew.stdout, 1):
            if count == moment and kills < KILLS:
                kills += 1
                # Lines that a killed crew has left in the pipe are no moments for another kill.
                if _kill_something(project, crew.pid, chance) == crew.pid:
                    crew_kills += 1
                    break
                moment = count + chance.randint(1, 25)
        crew.communicate()
        wait_until(lambda: not project.list_live_processes())
        # A failed task would end every further crew at once.
        assert "FAILED" not in project.show()["taskCounts"]
    assert kills == KILLS
    project.check_ledger()
    written = sorted(int(line) for file in range(FILES) for line in project.show_file(f"log{file}.txt").split())
    assert written == list(range(TASKS))
    assert project.git("worktree", "list").count("\n") == 1
    print(f"{kills} kills, {crew_kills} of the crew and {kills - crew_kills} of an agent; {TASKS} tasks merged once")


def _kill_something(project: CrewProject, crew: int, chance: random.Random) -> int:
    """Kill one of the crew's agents, or the crew's process, which is a child of ours. Return the victim."""
    agents = _find_agents(project) if chance.random() < 0.4 else []
    victim = chance.choice(agents) if agents else crew
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        # The agent has ended by itself since it was found.
        victim = crew
        os.kill(victim, signal.SIGKILL)
    return victim


def _find_agents(project: CrewProject) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            marked = project.mark.encode() in (entry / "environ").read_bytes()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marked and len(words) > 1 and words[1].endswith(b"crew_agent.py"):
            found.append(int(entry.name))
    return found

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.toolsets.factory.processes import start_child

CALLERS = 64


def race_for_tasks(team: Any, rounds: int) -> None:
    """Let every agent claim the one ready task, in each round."""
    epic = team.create_epic()
    names = [team.create_agent(f"racer-{number}") for number in range(CALLERS)]
    for name in names:
        team.call("sup", "mcp__epic__assign", epicId=epic, agentId=name)
    with ThreadPoolExecutor(CALLERS) as pool:
        for number in range(1, rounds + 1):
            task = team.create_task(f"Round {number}", epicId=epic)
            claims = list(pool.map(lambda name: (name, team.call(name, "mcp__task__claim")), names))
            won = [(name, claim) for name, claim in claims if claim["task"] is not None]
            assert len(won) == 1, f"{len(won)} winners in round {number}: {won}"
            winner, claim = won[0]
            assert (claim["task"]["id"], claim["task"]["attempts"], claim["fence"]) == (task, 1, 1)
            team.call(winner, "mcp__task__update_status", state="REVIEW", fence=1)
    assert team.call("sup", "mcp__task__list", epicId=epic, state="IN_PROGRESS")["count"] == 0


def test_a_claim_has_exactly_one_winner(team_on_each_engine):
    race_for_tasks(team_on_each_engine, 100)


@pytest.mark.long
def test_ten_thousand_claims_have_exactly_one_winner_each(team_on_each_engine):
    race_for_tasks(team_on_each_engine, 10_000)


def test_processes_never_claim_the_same_task(tmp_path, database, team_on_each_engine):
    team = team_on_each_engine
    epic = team.create_epic()
    tasks = [team.create_task(f"Task {number}", epicId=epic) for number in range(120)]
    crews = [[team.create_agent(f"crew-{crew}-{number}") for number in range(4)] for crew in range(4)]
    for name in [name for crew in crews for name in crew]:
        team.call("sup", "mcp__epic__assign", epicId=epic, agentId=name)
    with ExitStack() as stack:
        children = [
            stack.enter_context(start_child("tests.toolsets.factory.child", "claim", str(tmp_path), database, *crew))
            for crew in crews
        ]
        for one in children:
            one.start()
        won = [task for one in children for task in one.read_result()]
    assert sorted(won) == sorted(tasks)
    assert team.call("sup", "mcp__task__list", epicId=epic, state="REVIEW", limit=200)["count"] == 120

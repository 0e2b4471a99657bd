"""The states of a task against an independent model."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.databases import Databases
from tests.toolsets.factory.team import Team

TRANSITIONS = {
    "PENDING": {"ASSIGNED", "IN_PROGRESS", "CANCELLED"},
    "ASSIGNED": {"IN_PROGRESS", "PENDING", "CANCELLED"},
    "IN_PROGRESS": {"REVIEW", "BLOCKED", "FAILED", "CANCELLED"},
    "REVIEW": {"COMPLETED", "IN_PROGRESS", "BLOCKED", "CANCELLED"},
    "BLOCKED": {"IN_PROGRESS", "FAILED", "CANCELLED"},
    "FAILED": {"IN_PROGRESS", "CANCELLED"},
    "COMPLETED": set(),
    "CANCELLED": set(),
}
BEGINS = {"PENDING", "ASSIGNED", "FAILED"}
NAMES = st.sampled_from(["sup", "orc", "w1", "w2"])
SEARCH = settings(stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
NUMBERS = st.integers(0, 3)


class Board(RuleBasedStateMachine):
    """Four tasks, the last of which depends on the first, and four agents that act at random."""

    def __init__(self, database: str = "") -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._team = Team(Path(self._folder.name), database=database)

    def teardown(self) -> None:
        self._team.shop.close()
        self._folder.cleanup()

    @initialize()
    def plan(self) -> None:
        self.ids = [self._team.create_task(f"Task {number}") for number in range(3)]
        self.ids.append(self._team.create_task("Last", dependsOn=[self.ids[0]]))
        self.state = ["PENDING"] * 4
        self.holder: list[str | None] = [None] * 4
        self.fence = [0] * 4

    @rule(
        name=NAMES,
        number=NUMBERS,
        state=st.sampled_from(sorted(TRANSITIONS)),
        fence=st.sampled_from([None, "old", "now"]),
    )
    def move(self, name: str, number: int, state: str, fence: str | None) -> None:
        input: dict[str, Any] = {"taskId": self.ids[number], "state": state}
        if fence is not None:
            input["fence"] = self.fence[number] - (fence == "old")
        answer = self._team.answer(name, "mcp__task__update_status", **input)
        expected = self._expect_code(name, number, state, fence)
        assert (answer.error.code if answer.error else "") == expected, answer.body
        if not expected:
            self._apply_transition(name, number, state)

    def _expect_code(self, name: str, number: int, state: str, fence: str | None) -> str:
        leads = name in ("sup", "orc")
        if (not leads and self.holder[number] != name) or fence == "old":
            return "INVALID_AGENT_STATE"
        if state == "COMPLETED" and not leads:
            return "PERMISSION_DENIED"
        before = self.state[number]
        if state != before and state not in TRANSITIONS[before]:
            return "INVALID_INPUT"
        if state != before and state == "IN_PROGRESS" and before in BEGINS and self._is_blocked(number):
            return "INVALID_INPUT"
        return ""

    def _is_blocked(self, number: int) -> bool:
        return number == 3 and self.state[0] != "COMPLETED"

    def _apply_transition(self, name: str, number: int, state: str) -> None:
        before, self.state[number] = self.state[number], state
        if state == before:
            return
        if state == "PENDING":
            self.holder[number] = None
        elif state in ("ASSIGNED", "IN_PROGRESS"):
            self.holder[number] = self.holder[number] or name
        if state == "IN_PROGRESS" and before in BEGINS:
            self.fence[number] += 1

    @rule(name=NAMES, number=NUMBERS)
    def claim(self, name: str, number: int) -> None:
        answer = self._team.answer(name, "mcp__task__claim", taskId=self.ids[number])
        if answer.error is not None:
            assert answer.error.code == "INVALID_AGENT_STATE"
            assert any(
                holder == name and state == "IN_PROGRESS"
                for other, (holder, state) in enumerate(zip(self.holder, self.state, strict=True))
                if other != number
            )
            return
        mine = self.holder[number] == name and self.state[number] in ("ASSIGNED", "IN_PROGRESS")
        blocked = self._is_blocked(number) and self.state[number] != "IN_PROGRESS"
        won = (self.state[number] == "PENDING" or mine) and not blocked
        assert (answer.body["data"]["task"] is not None) == won, answer.body
        if won:
            self.state[number], self.holder[number] = "IN_PROGRESS", name
            self.fence[number] += 1
            assert answer.body["data"]["fence"] == self.fence[number]

    @rule(name=NAMES, number=NUMBERS)
    def assign(self, name: str, number: int) -> None:
        answer = self._team.answer("orc", "mcp__task__assign", taskId=self.ids[number], agentId=name)
        if self.state[number] in ("COMPLETED", "CANCELLED"):
            assert answer.error is not None
            assert answer.error.code == "INVALID_INPUT"
            return
        assert answer.error is None
        if self.holder[number] == name and self.state[number] != "PENDING":
            return
        self.fence[number] += 1
        self.holder[number] = name
        if self.state[number] == "PENDING":
            self.state[number] = "ASSIGNED"

    @invariant()
    def server_and_model_agree(self) -> None:
        if not hasattr(self, "ids"):
            return
        tasks = self._team.call("sup", "mcp__task__list")["tasks"]
        assert [task["state"] for task in tasks] == self.state
        assert [task["assigneeId"] for task in tasks] == self.holder

    @invariant()
    def busy_agents_are_those_with_a_task(self) -> None:
        if not hasattr(self, "ids"):
            return
        for agent in self._team.read(lambda uow: uow.agents.list_page(100, "")):
            held = [
                number
                for number, (holder, state) in enumerate(zip(self.holder, self.state, strict=True))
                if holder == agent.name and state in ("ASSIGNED", "IN_PROGRESS")
            ]
            if agent.current_task is None:
                assert held == []
            else:
                assert f"task-{agent.current_task}" in [self.ids[number] for number in held]


def test_every_task_moves_as_the_model_does():
    run_state_machine_as_test(Board, settings=settings(SEARCH, max_examples=25))


def test_every_task_moves_as_the_model_does_on_postgresql(databases: Databases):
    taken_urls: list[str] = []

    class OnPostgres(Board):
        def __init__(self) -> None:
            taken_urls.append(databases.take())
            super().__init__(taken_urls[-1])

        def teardown(self) -> None:
            super().teardown()
            databases.give_back(taken_urls.pop())

    run_state_machine_as_test(OnPostgres, settings=settings(SEARCH, max_examples=8))

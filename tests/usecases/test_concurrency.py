"""Rules that span several rows hold for concurrent calls, on both engines."""

from __future__ import annotations

from functools import partial

from shopfloor.errors import InvalidInput
from shopfloor.usecases import agents, escalations
from tests.workbench import run_together


def test_names_that_differ_only_in_capitals_are_created_once(open_workbench):
    shopfloor = open_workbench(started=False)

    def create(name):
        try:
            return shopfloor.write(lambda uow: agents.create_agent(uow, name, "WORKER", ["WORKER"])).name
        except InvalidInput:
            return None

    for number in range(10):
        created = run_together(*[partial(create, f"{name}{number}") for name in ("bob", "Bob", "BOB", "boB")])
        assert len([name for name in created if name]) == 1, created


def test_one_failure_of_many_calls_is_one_escalation(open_workbench):
    shopfloor = open_workbench(started=False)

    def fail(number):
        shopfloor.write(
            lambda uow: escalations.escalate(
                uow, subject=f"agent:{number}", tool="note", code="X", message="m", stack="s", critical=False
            )
        )

    for number in range(5):
        run_together(*[partial(fail, number)] * 16)
    assert [each.count for each in shopfloor.escalations()] == [16] * 5

"""shopfloor crew status without a name."""

from __future__ import annotations

from pathlib import Path

from shopfloor import Settings, Shopfloor
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crews, epics
from tests.cli.conftest import Run, RunJson
from tests.operator_access import write_as_operator


def _create_crew(project: Path, name: str) -> None:
    def create(uow: UnitOfWork) -> None:
        epic = epics.create_epic(uow, f"Epic of {name}", "", None, None).id
        facts = {"title": "", "spec": "", "project": ".", "branch": "b", "base": "b", "options": "{}"}
        crews.create_crew(uow, name, epic=epic, workers=2, **facts)

    with Shopfloor(Settings(project=project)) as shopfloor:
        write_as_operator(shopfloor, create)


def test_status_without_a_name_shows_the_latest_crew(run_json: RunJson, project: Path) -> None:
    _create_crew(project, "first")
    _create_crew(project, "second")
    assert run_json("crew", "status")["crew"] == "second"


def test_status_before_the_first_crew_names_the_command_that_starts_one(run: Run, project: Path) -> None:
    code, out, err = run("crew", "status")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "shopfloor: No crews yet",
        "  Start one: shopfloor crew start --spec SPEC.md --agent 'opencode acp' --workers 3",
    ]

"""shopfloor watch: a person at the desk, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from shopfloor.cli.screen import Watch
from shopfloor.domain.actors import OPERATOR
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops
from tests.serving import away

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Shopfloor]:
    floor = away(lambda: Shopfloor(Settings(project=tmp_path, embeddings="off")).__enter__())
    away(lambda: _populate(floor))
    yield floor
    away(floor.close)


def _populate(floor: Shopfloor) -> None:
    for name in ("builder", "tester"):
        floor.hire(name, "WORKER", None, with_token=False)
    floor.call(
        "factory", "mcp__mail__send", {"toHuman": True, "subject": "[bold]News[/]\x1b[31m", "body": "x"}, "builder"
    )
    ask = {"subject": "Which?", "body": "Red or blue", "options": ["red", "blue"], "timeoutSeconds": 0}
    floor.call("factory", "mcp__mail__ask", ask, "builder")

    def run(work: Work) -> None:
        loops.create(work, "night", spec="s", project=".", options='{"iterations": 5}')
        loops.ask_person(work, "night", "permission", "May I run make?", ("allow", "deny"))

    floor.floor.works.write(run, OPERATOR)


def _watch(floor: Shopfloor) -> Watch:
    def ask(tool: str, given: dict[str, Any]) -> dict[str, Any]:
        answer = floor.answer("desk", tool, given)
        if answer.error is not None:
            raise answer.error
        body: dict[str, Any] = answer.body
        return body

    return Watch(ask, every=None)


async def _settled(pilot: Pilot[None]) -> None:
    """Everything that was begun beside the screen is on it."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def _rows(app: Watch, name: str) -> list[list[str]]:
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def _desk(floor: Shopfloor, tool: str, **given: Any) -> Any:
    return away(lambda: floor.call("desk", tool, given))


async def test_it_shows_floor_inbox_and_loops(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        assert [row[0] for row in _rows(app, "agents")] == ["builder", "tester"]
        assert _rows(app, "runs")[0][:3] == ["night", "active", "0 of 5"]
        assert _rows(app, "inbox") == [
            ["night", "permission", "May I run make?"],
            ["builder", "question", "Which?"],
            ["builder", "mail", "[bold]News[/]�[31m"],
        ]
        assert "3 wait for you" in app.sub_title


async def test_a_permission_and_a_question_are_answered_by_number_or_word(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        await pilot.press("a", "2", "enter")
        await _settled(pilot)
        assert _rows(app, "inbox")[0][0] == "builder"
        await pilot.press("a", *"blue", "enter")
        await _settled(pilot)
        assert [row[1] for row in _rows(app, "inbox")] == ["mail"]
    assert _desk(floor, "inbox_show", mailId="mail-2")["question"]["answer"] == "blue"


async def test_a_wrong_answer_is_refused_and_said(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        await pilot.press("a", *"perhaps", "enter")
        await _settled(pilot)
        assert any("is not an answer" in note.message for note in app._notifications)
        assert len(_rows(app, "inbox")) == 3


async def test_mail_is_read_and_acknowledged(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        await pilot.press("down", "down")
        await pilot.pause()
        assert str(app.query_one("#detail", Static).render()) == "x"
        await pilot.press("k")
        await _settled(pilot)
        assert len(_rows(app, "inbox")) == 2


async def test_a_loop_is_paused_let_go_and_spoken_to(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        await pilot.press("p")
        await _settled(pilot)
        assert _rows(app, "runs")[0][1] == "pause"
        await pilot.press("p")
        await _settled(pilot)
        assert _rows(app, "runs")[0][1] == "active"
        app.query_one("#runs", DataTable).focus()
        await pilot.press("s", *"mind", "enter")
        await _settled(pilot)
    told = away(lambda: floor.floor.works.write(lambda work: work.run_talk.untold("night", 1, 10), OPERATOR))
    assert [message.body for message in told] == ["mind"]


async def test_an_agent_gets_a_message_and_escape_forgets_one(floor: Shopfloor) -> None:
    app = _watch(floor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _settled(pilot)
        app.query_one("#agents", DataTable).focus()
        await pilot.press("down", "s", *"hello", "enter")
        await _settled(pilot)
        await pilot.press("s", *"never", "escape")
        await _settled(pilot)
        assert not app.query_one("#line", Input).has_class("asking")
    inbox = away(lambda: floor.call("factory", "mcp__mail__list_inbox", {}, "tester"))["data"]["mails"]
    assert [mail["subject"] for mail in inbox] == ["hello"]


RECORDED: dict[str, dict[str, Any]] = {
    "floor_overview": {
        "agents": [
            {"id": "mender", "state": "silent", "task": 7, "taskTitle": "Payment step", "epic": 1},
            {"id": "builder", "state": "working", "task": 4, "taskTitle": "Address form", "epic": 1},
            {"id": "lead", "state": "idle", "task": None, "taskTitle": None, "epic": None},
        ],
        "runs": [{"run": "night", "state": "active", "wanted": "go", "iteration": 3, "iterations": 50, "elapsed": 312}],
        "counts": {"failed": 0, "silent": 1, "waiting": 0, "working": 1, "idle": 1},
    },
    "inbox_waiting": {
        "requests": [
            {"request": 1, "run": "night", "kind": "permission", "question": "May I run make?", "options": ["allow", "deny"]}
        ],
        "mails": [
            {"id": "mail-2", "from": "builder", "subject": "Which provider first?", "body": "Both work.",
             "question": {"state": "OPEN", "options": ["cheap", "fast"]}},
            {"id": "mail-1", "from": "lead", "subject": "Half is done", "body": "Nothing is blocked."},
        ],
    },
}  # fmt: skip
"""Answers of a floor, kept so that the picture stays the same."""


@pytest.mark.parametrize("size", [(120, 32), (80, 24)])
def test_the_screen_looks_as_it_did(snap_compare: Any, size: tuple[int, int]) -> None:
    async def settle(pilot: Pilot[None]) -> None:
        await _settled(pilot)

    assert snap_compare(Watch(lambda tool, _: RECORDED[tool], every=None), terminal_size=size, run_before=settle)

"""shopfloor watch: the desk in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from shopfloor.cli.tui import KEYS, PANES, Watch
from shopfloor.domain.crews import Role
from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import crew_plans, crews, run_requests, runs, tasks
from shopfloor.web import assets
from tests.serving import run_in_thread

pytestmark = pytest.mark.anyio

KEYS_OF_PAGES = Path(assets.__file__).parent / "static" / "keys.js"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shopfloor(tmp_path: Path) -> Iterator[Shopfloor]:
    shopfloor = run_in_thread(lambda: Shopfloor(Settings(project=tmp_path, embeddings="off")).__enter__())
    run_in_thread(lambda: _populate(shopfloor))
    yield shopfloor
    run_in_thread(shopfloor.close)


def _populate(shopfloor: Shopfloor) -> None:
    for name in ("builder", "tester"):
        shopfloor.create_agent(name, issue_token=False)
    shopfloor.call(
        "factory", "mcp__mail__send", {"toHuman": True, "subject": "[bold]News[/]\x1b[31m", "body": "x"}, "builder"
    )
    call_tool = {"subject": "Which?", "body": "Red or blue", "options": ["red", "blue"], "timeoutSeconds": 0}
    shopfloor.call("factory", "mcp__mail__ask", call_tool, "builder")

    def add_run(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="s", project=".", options='{"iterations": 5}')
        runs.drive_run(uow, "night", '{"iterations": 5}')
        run_requests.ask_person(uow, "night", "permission", "May I run make?", ("allow", "deny"))

    shopfloor.engine.database.write(add_run, OPERATOR)


def _add_crew(uow: UnitOfWork) -> None:
    """Add a crew whose plan waits for a person."""
    facts = {"title": "Files", "spec": "Two files", "project": ".", "branch": "crew/epic", "base": "b", "options": "{}"}
    epic = crews.create_crew(uow, "team", epic=None, workers=2, **facts).epic
    crew = crews.drive_crew(uow, "team", "{}", None)
    crews.ensure_agent(uow, crew, "team-planner", Role.PLANNER)
    tasks.create_task(uow, title="one", epic=epic, depends_on=(), priority=2)
    crews.open_run(uow, crew, "team.plan", worker="team-planner", task=None, project=".", spec="s", options="{}")
    runs.drive_run(uow, "team.plan", "{}")
    crew_plans.finish_planning(uow, crew, "team.plan", ask=True)


def _new_watch(shopfloor: Shopfloor) -> Watch:
    def call_tool(tool: str, given: dict[str, Any]) -> dict[str, Any]:
        answer = shopfloor.answer("desk", tool, given)
        if answer.error is not None:
            raise answer.error
        body: dict[str, Any] = answer.body
        return body

    return Watch(call_tool, every=None)


async def _wait_for_workers(pilot: Pilot[None]) -> None:
    """Wait until the results of all workers are on the screen."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def _read_rows(app: Watch, name: str) -> list[list[str]]:
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(at)] for at in range(table.row_count)]


def _call_desk(shopfloor: Shopfloor, tool: str, **given: Any) -> Any:
    return run_in_thread(lambda: shopfloor.call("desk", tool, given))


async def test_watch_shows_agents_inbox_and_runs(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        assert [row[0] for row in _read_rows(app, "agents")] == ["builder", "tester"]
        assert _read_rows(app, "runs")[0][:3] == ["night", "running", "1 of 5"]
        assert _read_rows(app, "inbox") == [
            ["night", "permission", "May I run make?"],
            ["builder", "question", "Which?"],
            ["builder", "mail", "[bold]News[/]�[31m"],
        ]
        assert "3 need you" in app.sub_title


async def test_a_permission_and_a_question_are_answered_by_number_or_word(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("2")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "inbox")[0][0] == "builder"
        await pilot.press("r", *"blue", "enter")
        await _wait_for_workers(pilot)
        assert [row[1] for row in _read_rows(app, "inbox")] == ["mail"]
    assert _call_desk(shopfloor, "inbox_show", mailId="mail-2")["question"]["answer"] == "blue"


async def test_wrong_answer_is_rejected_with_a_message(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("r", *"perhaps", "enter")
        await _wait_for_workers(pilot)
        assert any("is not an answer" in note.message for note in app._notifications)
        assert len(_read_rows(app, "inbox")) == 3


async def test_mail_is_read_and_acknowledged(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("j", "j", "j", "k", "j")
        await pilot.pause()
        assert str(app.query_one("#detail", Static).render()) == "x"
        await pilot.press("e")
        await _wait_for_workers(pilot)
        assert len(_read_rows(app, "inbox")) == 2


async def test_run_is_paused_resumed_and_sent_a_message(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("p")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "runs")[0][1] == "running"
        await pilot.press("shift+tab", "shift+tab", "p")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "runs")[0][1] == "paused"
        await pilot.press("p")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "runs")[0][1] == "running"
        await pilot.press("c", *"mind", "enter")
        await _wait_for_workers(pilot)
    messages = run_in_thread(
        lambda: shopfloor.engine.database.write(lambda uow: uow.run_messages.list_undelivered("night", 1, 10), OPERATOR)
    )
    assert [message.body for message in messages] == ["mind"]


async def test_crew_is_approved_paused_scaled_and_stopped(shopfloor: Shopfloor) -> None:
    run_in_thread(lambda: shopfloor.engine.database.write(_add_crew, OPERATOR))
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("shift+tab")
        assert [row[:4] for row in _read_rows(app, "crews")] == [["team", "waiting", "0 of 1", "2"]]
        detail = str(app.query_one("#detail", Static).render())
        assert detail.splitlines()[0] == "epic-1 · 0 tokens · cost 0.00 · branch crew/epic"
        assert detail.splitlines()[1].startswith("team-planner: running · ")
        for keys, state in ((("s", "2"), "running"), (("p",), "paused"), (("p",), "running"), (("s", "1"), "stopping")):
            await pilot.press(*keys, *(["enter"] if len(keys) > 1 else []))
            await _wait_for_workers(pilot)
            assert _read_rows(app, "crews")[0][1] == state
        await pilot.press("a", "3", "enter")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "crews")[0][3] == "3"


async def test_agent_is_sent_a_message_and_escape_discards_one(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        app.query_one("#agents", DataTable).focus()
        await pilot.press("down", "c", *"hello", "enter")
        await _wait_for_workers(pilot)
        await pilot.press("c", *"never", "escape")
        await _wait_for_workers(pilot)
        assert not app.query_one("#line", Input).has_class("asking")
    inbox = run_in_thread(lambda: shopfloor.call("factory", "mcp__mail__list_inbox", {}, "tester"))["data"]["mails"]
    assert [mail["subject"] for mail in inbox] == ["hello"]


async def test_selection_follows_the_item_when_a_new_mail_arrives(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("j")
        assert "Red or blue" in str(app.query_one("#detail", Static).render())
        await pilot.press("r", "2")
        newest = {"subject": "Newest one", "body": "Something else", "timeoutSeconds": 0}
        run_in_thread(lambda: shopfloor.call("factory", "mcp__mail__ask", newest, "tester"))
        app.action_refresh_all()
        await _wait_for_workers(pilot)
        assert [row[2] for row in _read_rows(app, "inbox")] == ["May I run make?", "Newest one", "Which?", ANY]
        # While the answer is typed, the pane shows what it answers.
        assert "Red or blue" in str(app.query_one("#detail", Static).render())
        await pilot.press("enter")
        await _wait_for_workers(pilot)
    assert _call_desk(shopfloor, "inbox_show", mailId="mail-2")["question"]["answer"] == "blue"


async def test_task_is_created_assigned_moved_and_prioritised(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(120, 32)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("tab", "c", *"Paint it", "enter")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "tasks") == [["task-1", "pending", "-", "Paint it"]]
        await pilot.press("s")
        await _wait_for_workers(pilot)
        # No agent holds it, so it cannot be in progress.
        assert app.query_one("#line", Input).placeholder == "task-1 to: 1 cancelled  2 completed"
        await pilot.press("escape", "a")
        await _wait_for_workers(pilot)
        await pilot.press(*"tester", "enter")
        await _wait_for_workers(pilot)
        await pilot.press("s")
        await _wait_for_workers(pilot)
        await pilot.press(*"in prog", "enter")
        await _wait_for_workers(pilot)
        await pilot.press("p", "0", "enter")
        await _wait_for_workers(pilot)
        assert _read_rows(app, "tasks") == [["task-1", "in progress", "tester", "Paint it"]]
    assert _call_desk(shopfloor, "task_show", number=1)["priority"] == 0


async def test_question_mark_lists_the_keys(shopfloor: Shopfloor) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(80, 24)) as pilot:
        await _wait_for_workers(pilot)
        await pilot.press("question_mark")
        listed = str(app.screen.query_one(Static).render())
        assert all(meaning in listed for _, _, meaning in KEYS)
        app.action_refresh_all()
        await _wait_for_workers(pilot)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


def test_keys_mean_the_same_on_the_pages() -> None:
    """Fault F4: `k` moved up on the pages and acknowledged a mail here."""
    pages = dict(re.findall(r'^    \["([^"]+)", "([^"]+)"\],$', KEYS_OF_PAGES.read_text(), flags=re.MULTILINE))
    here = {key: meaning.lower() for key, _, meaning in KEYS}
    shared = {"j k": "move", "r": "reply", "c": "create", "s": "state", "a": "assign", "p": "priority"}
    assert {key: word in pages[key] and word in here[key] for key, word in shared.items()} == dict.fromkeys(
        shared, True
    )
    # Pages call it done, because a question that was answered is done as well.
    assert (pages["e"], next(word for key, word, _ in KEYS if key == "e")) == ("done", "done")


@pytest.mark.parametrize("width", [50, 80, 120])
async def test_keys_and_the_subject_are_seen_at_every_width(shopfloor: Shopfloor, width: int) -> None:
    app = _new_watch(shopfloor)
    async with app.run_test(size=(width, 24)) as pilot:
        await _wait_for_workers(pilot)
        keys = str(app.query_one("#keys", Static).render())
        assert "q quit" in keys
        assert "? keys" in keys
        assert len(keys) <= width
        for name in PANES:
            table = app.query_one(f"#{name}", DataTable)
            assert table.virtual_size.width <= max(table.size.width, 0) or not table.display
        assert app.query_one("#inbox", DataTable).display
        await pilot.press("tab", "tab")
        assert app.query_one("#agents", DataTable).display
        assert app.query_one("#inbox", DataTable).display is (width >= 100)


CREW = {
    "crew": "shop", "epicId": "epic-2", "state": "active", "wanted": "go", "phase": "work", "driven": True,
    "status": "running", "reason": None, "wantedWorkers": 2, "branch": "shopfloor-crew/shop/epic",
    "taskCounts": {"COMPLETED": 3, "IN_PROGRESS": 2, "PENDING": 4}, "tokens": 8400, "cost": 0.31, "elapsed": 95,
}  # fmt: skip
RECORDED: dict[str, dict[str, Any]] = {
    "crew_list": {"crews": [CREW]},
    "crew_show": {**CREW, "workers": []},
    "floor_overview": {
        "agents": [
            {"id": "mender", "state": "silent", "task": 7, "taskTitle": "Payment step", "epic": 1},
            {"id": "builder", "state": "working", "task": 4, "taskTitle": "Address form", "epic": 1},
            {"id": "lead", "state": "idle", "task": None, "taskTitle": None, "epic": None},
        ],
        "runs": [{"run": "night", "state": "active", "wanted": "go", "status": "running", "iteration": 3, "iterations": 50, "elapsed": 312}],
        "counts": {"failed": 0, "silent": 1, "waiting": 0, "working": 1, "idle": 1},
    },
    "inbox_list": {
        "requests": [
            {"request": 1, "run": "night", "kind": "permission", "question": "May I run make?", "options": ["allow", "deny"]}
        ],
        "mails": [
            {"id": "mail-2", "from": "builder", "subject": "Which provider first?", "body": "Both work.",
             "question": {"state": "OPEN", "options": ["cheap", "fast"]}},
            {"id": "mail-1", "from": "lead", "subject": "Half is done", "body": "Nothing is blocked."},
        ],
    },
    "task_list": {
        "tasks": [
            {"id": "task-4", "number": 4, "state": "IN_PROGRESS", "assignee": "builder", "title": "Address form"},
            {"id": "task-7", "number": 7, "state": "ASSIGNED", "assignee": "mender", "title": "Payment step"},
            {"id": "task-8", "number": 8, "state": "PENDING", "assignee": None, "title": "Receipts by mail, in two languages"},
        ],
    },
}  # fmt: skip
"""Recorded results of a server, so that the snapshot stays the same."""


@pytest.mark.parametrize("size", [(120, 32), (80, 24), (50, 20)])
def test_screen_matches_its_snapshot(snap_compare: Any, size: tuple[int, int]) -> None:
    async def wait_for_workers(pilot: Pilot[None]) -> None:
        await _wait_for_workers(pilot)

    assert snap_compare(
        Watch(lambda tool, _: RECORDED[tool], every=None), terminal_size=size, run_before=wait_for_workers
    )

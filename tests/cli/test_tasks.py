"""The first job from the command line: task, epic and mail."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.cli.conftest import Run, RunJson

pytestmark = pytest.mark.usefixtures("project")

LONG_TITLE = "Rewrite the importer so that it reads compressed archives without unpacking them to the disk first"


@pytest.fixture
def team(project: Path, run: Run) -> None:
    run("agent", "add", "builder", "--no-token")
    run("epic", "add", "Ship it", "-d", "Before winter")
    run("task", "add", "Design", "--epic", "epic-1", "-p", "0")
    run("task", "add", LONG_TITLE, "-e", "1", "--blocked-by", "task-1", "--assign", "builder", "-d", "Line 1\nLine 2")


@pytest.mark.usefixtures("team")
def test_task_is_added_listed_assigned_and_completed(run: Run, run_json: RunJson) -> None:
    assert run("task", "add", "Announce") == (0, "task-3 added: Announce\n", "")
    assert [(task["id"], task["state"], task["waitsFor"]) for task in run_json("task", "list")] == [
        ("task-1", "PENDING", 0),
        ("task-2", "ASSIGNED", 1),
        ("task-3", "PENDING", 0),
    ]
    assert run("task", "assign", "1", "builder")[1] == "task-1 assigned to builder: Design\n"
    assert run("task", "done", "task-1", "-c", "Looks good")[1] == "task-1 completed: Design\n"
    assert [task["id"] for task in run_json("task", "list")] == ["task-2", "task-3"]
    assert [task["id"] for task in run_json("task", "list", "--all")] == ["task-1", "task-2", "task-3"]
    assert [task["id"] for task in run_json("task", "list", "--state", "completed")] == ["task-1"]
    assert [task["id"] for task in run_json("task", "list", "--assignee", "builder")] == ["task-2"]
    assert [task["id"] for task in run_json("task", "list", "--epic", "epic-1")] == ["task-2"]
    assert "There are more: shopfloor task list --limit 2" in run("task", "list", "--limit", "1")[1]


@pytest.mark.usefixtures("team")
def test_task_show_prints_facts_dependencies_and_comments(run: Run, run_json: RunJson) -> None:
    run("task", "done", "1", "--comment", "Looks\ngood")
    shown = run("task", "show", "task-2")[1]
    assert shown.startswith(
        f"task-2  {LONG_TITLE}\nassigned · priority 2 · version 2 · assigned to builder · epic-1\n\nLine 1\nLine 2\n"
    )
    assert "blocked by task-1 (completed) Design" in shown
    assert re.search(r"\nhuman, (now|\d+ s ago):\n  Looks\n  good\n", run("task", "show", "1")[1])
    assert run_json("task", "show", "2")["description"] == "Line 1\nLine 2"


@pytest.mark.usefixtures("team")
def test_epics_are_listed_and_shown_with_their_tasks(run: Run, run_json: RunJson) -> None:
    run("task", "done", "1")
    (epic,) = run_json("epic", "list")
    assert (epic["id"], epic["state"], epic["tasks"]) == ("epic-1", "IN_PROGRESS", {"ASSIGNED": 1, "COMPLETED": 1})
    assert re.search(r"\nepic-1 +in progress +1 of 2 +Ship it ", run("epic", "list")[1])
    shown = run("epic", "show", "1")[1]
    assert shown.startswith("epic-1  Ship it\nin progress · 2 tasks · 1 of 2 done\n\nBefore winter\n\nid ")
    assert [task["id"] for task in run_json("epic", "show", "epic-1")["taskList"]] == ["task-1", "task-2"]
    run("task", "done", "2")
    assert run("epic", "done", "epic-1") == (0, "epic-1 completed: Ship it\n", "")
    assert run_json("epic", "list") == []
    assert [each["id"] for each in run_json("epic", "list", "--all")] == ["epic-1"]


@pytest.mark.usefixtures("team")
def test_mail_is_sent_listed_and_read(run: Run, run_json: RunJson, project: Path) -> None:
    assert run("mail", "send", "builder", "Use the new parser\nIt is faster")[1].endswith(" to builder\n")
    with Shopfloor(Settings(project=project)) as shopfloor:
        mails = shopfloor.call("factory", "mcp__mail__list_inbox", {}, "builder")["data"]["mails"]
        assert mails[0]["subject"] == "Use the new parser"
        news = {"toHuman": True, "subject": "Done \x1b[2J", "body": "All\ngreen"}
        sent = shopfloor.call("factory", "mcp__mail__send", news, "builder")["data"]["mailId"]
        later = shopfloor.call("factory", "mcp__mail__send", news, "builder")["data"]["mailId"]
    assert run("mail", "read", later)[0] == 0
    # The newest mail is read: the one before it is the newest unread one.
    (mail,) = run_json("mail", "list", "--unread", "--limit", "1")
    assert mail["id"] == sent
    assert re.search(rf"\n{sent} +builder +unread +Done �\[2J +", run("mail", "list")[1])
    ack = f"shopfloor inbox ack {sent}"
    assert run("mail", "read", sent.removeprefix("mail-"))[1].endswith(f"\n\nAll\ngreen\n\nDone:   {ack}\n")
    assert run("mail", "list", "--unread")[1] == "No unread mail.\n"
    assert run_json("mail", "list")[0]["readAt"]
    # Reading is not acknowledging: both still wait, and the list names the command that ends this.
    listed = run("inbox")[1]
    assert re.search(rf"\n{sent} +builder +acknowledgement +Done ", listed)
    assert listed.endswith(f"\n\nDone:   shopfloor inbox ack {later}\n")
    for mail in (sent, later):
        assert run("inbox", "ack", mail)[1] == f"{mail} is acknowledged\n"
    assert run("inbox")[1] == "Nothing is waiting for you.\n"
    assert not run("mail", "read", sent)[1].count("inbox ack")


def test_mail_body_is_read_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("agent", "add", "builder", "--no-token")
    monkeypatch.setattr(sys, "stdin", io.StringIO("A long text\nof two lines"))
    assert run("mail", "send", "builder", "-", "--subject", "News")[0] == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert run("mail", "send", "builder", "-")[2] == (
        'shopfloor: The mail has no text\n  Write it: shopfloor mail send AGENT "TEXT"\n'
    )


@pytest.mark.parametrize("columns", [80, 50])
@pytest.mark.parametrize(
    "command", [("task", "list"), ("epic", "show", "1"), ("epic", "list"), ("mail", "list"), ("board", "epic-1")]
)
@pytest.mark.usefixtures("team")
def test_lists_fit_the_terminal(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, columns: int, command: tuple[str, ...]
) -> None:
    with Shopfloor(Settings(project=project)) as shopfloor:
        news = {"toHuman": True, "subject": LONG_TITLE, "body": "x"}
        shopfloor.call("factory", "mcp__mail__send", news, "builder")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*command)[1].splitlines()
    assert max(map(len, lines)) <= columns
    text = "\n".join(lines)
    assert ("Rewrite the" in text) is (command != ("epic", "list"))
    assert ("…" in text) is (command != ("epic", "list"))
    # The id is what a person copies into the next command.
    assert {"task": "task-2", "epic": "epic-1", "mail": "mail-", "board": "task-2"}[command[0]] in text


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("task",), 2, "Usage: shopfloor task"),
        (("task", "ad", "x"), 2, "No such command 'ad'\n  Did you mean 'add'?"),
        (("task", "add"), 2, "Missing argument 'TITLE'"),
        (("task", "add", ""), 1, "title"),
        (("task", "add", "x", "--epic", "9"), 1, "Epic epic-9 not found"),
        (("task", "add", "x", "--epic", "task-1"), 1, "Expected an id such as epic-3, not 'task-1'"),
        (("task", "add", "x", "--priority", "9"), 1, "'priority'"),
        (("task", "add", "x", "--blocked-by", "7"), 1, "Task 7 not found"),
        (("task", "add", "x", "--assign", "ghost"), 1, "Agent 'ghost' does not exist."),
        (("task", "add", "x", "--assing", "a"), 2, "No such option: --assing\n  Did you mean --assign?"),
        (("task", "list", "--state", "nope"), 1, "'state'"),
        (("task", "list", "--limit", "0"), 2, "Invalid value for '--limit'"),
        (
            ("task", "show", "9"),
            1,
            "Task 9 not found\n  List the tasks: shopfloor task list --all; of a todo list: shopfloor todo list",
        ),
        (("task", "show", "nine"), 1, "Expected an id such as task-3, not 'nine'\n  List them: shopfloor task list"),
        (("task", "show", "9" * 30), 1, "Expected an id such as task-3"),
        (("task", "assign", "1"), 2, "Missing argument 'AGENT'"),
        (("task", "done", "0"), 1, "Expected an id such as task-3, not '0'"),
        (("epic", "show", "9"), 1, "Epic epic-9 not found\n  List the epics: shopfloor epic list --all"),
        (("mail", "read", "9"), 1, "mail-9"),
        (("mail", "read", "x"), 1, "Mail 'x' does not exist\n  List your mail: shopfloor mail list"),
        (("mail", "send", "ghost", "x"), 1, "Agent 'ghost' does not exist."),
        (("mail", "send", "local", "x", "--subject", "s" * 201), 1, "'subject'"),
    ],
    ids=lambda value: " ".join(value)[:50] if isinstance(value, tuple) else None,
)
def test_wrong_arguments_are_explained(run: Run, arguments: tuple[str, ...], code: int, error: str) -> None:
    run("agent", "list")
    exit_code, out, err = run(*arguments)
    assert (exit_code, out) == (code, "")
    assert error in err


def test_failed_task_add_leaves_nothing_behind(run: Run, run_json: RunJson) -> None:
    run("task", "add", "x", "--assign", "ghost")
    run("task", "add", "y", "--blocked-by", "9")
    assert run_json("task", "list", "--all") == []

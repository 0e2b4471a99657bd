"""Tables, colours, times and counts on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from scripts.generate_docs import list_options, walk_commands
from shopfloor import cli
from shopfloor.cli import output
from shopfloor.domain.times import format_iso
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.cli.conftest import Run

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SHOPFLOOR = str(Path(sys.executable).with_name("shopfloor"))


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("columns")
def test_wide_cells_are_cut_and_the_id_is_kept() -> None:
    table = output.format_table([{"id": "task-" + "1" * 20, "title": "a" * 60, "state": "idle"}], "")
    assert table.splitlines()[1] == f"task-{'1' * 20}  aaaaa…  idle"


@pytest.mark.usefixtures("columns")
def test_optional_columns_are_left_out_before_text_becomes_unreadable() -> None:
    row = {"id": "task-1", "title": "a" * 60, "agent": "builder-12", "seen": "10 min ago"}
    assert output.format_table([row], "", optional=("agent", "seen")).splitlines()[0].split() == [
        "id",
        "title",
        "agent",
    ]
    assert max(map(len, output.format_table([row], "").splitlines())) <= 40


@pytest.mark.usefixtures("columns")
def test_optional_columns_without_a_value_are_left_out_before_text_is_cut() -> None:
    row = {"id": "task-1", "title": "Fix the page", "assignee": None, "epic": None, "state": "pending"}
    table = output.format_table([row], "", optional=("assignee", "epic"))
    assert table.splitlines()[1] == "task-1  Fix the page  pending"
    kept = output.format_table([row, row | {"epic": "epic-1"}], "", optional=("assignee", "epic"))
    assert kept.splitlines()[0].split() == ["id", "title", "epic", "state"]


@pytest.mark.usefixtures("columns")
def test_text_is_readable_before_an_optional_column_is_kept() -> None:
    row = {"id": "task-1", "title": "a" * 60, "agent": "builder-12"}
    assert output.format_table([row], "", optional=("agent",), readable=30).splitlines()[1] == f"task-1  {'a' * 31}…"


@pytest.mark.usefixtures("columns")
def test_text_keeps_its_width_until_no_optional_column_is_left() -> None:
    row = {"id": "ref-1", "call": "c" * 30, "outcome": "ok", "summary": "a" * 60}
    table = output.format_table([row], "", optional=("call", "outcome"), text="summary")
    assert table.splitlines()[1] == f"ref-1  {'a' * 32}…"
    assert output.format_table([row], "", text="summary").splitlines()[1].startswith("ref-1  cccc")


@pytest.mark.usefixtures("columns")
def test_wide_characters_count_twice() -> None:
    table = output.format_table([{"id": "1", "title": "漢" * 30, "end": "x"}], "")
    assert output.measure(table.splitlines()[1]) <= 40
    assert table.splitlines()[1].endswith("…  x")


def test_nothing_is_cut_where_the_output_is_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "a" * 300 in output.format_table([{"id": 1, "title": "a" * 300}], "")


def test_line_breaks_in_cells_become_spaces() -> None:
    assert output.format_table([{"id": 1, "reason": "line 1\nline 2\x1b"}], "").endswith("line 1 line 2�")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (40, "40 s ago"),
        (200, "3 min ago"),
        (7300, "2 h ago"),
        (5 * 86400, "5 d ago"),
        (-200, "in 3 min"),
        (90 * 86400, "2025-12-01"),
    ],
)
def test_times_are_relative(seconds: int, text: str) -> None:
    moment = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    assert output.format_age(moment, NOW) == text


def test_counts_have_the_right_plural() -> None:
    assert [output.format_count(number, "match", "matches") for number in (0, 1, 2)] == [
        "0 matches",
        "1 match",
        "2 matches",
    ]
    assert output.format_count(1, "file") == "1 file"


@pytest.mark.parametrize(
    ("variables", "colour"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
    ],
)
def test_colour_follows_no_color(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colour: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    table = output.format_table([{"id": "a", "state": "failed"}], "")
    assert ("\x1b[31mfailed\x1b[0m" in table) is colour
    assert ("\x1b" in table) is colour


@pytest.mark.parametrize("columns", [80, 50])
@pytest.mark.usefixtures("project")
def test_status_inbox_board_log_and_lists_fit_the_terminal(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    with Shopfloor(Settings(project=project, embeddings="off")) as shopfloor:
        for number in range(3):
            shopfloor.create_agent(f"builder-with-a-long-name-{number}")
            name = f"builder-with-a-long-name-{number}"
            task = {"title": "A task with a title that is rather long " * 3, "assignee": name}
            shopfloor.call("desk", "task_create", task)
            question = {"subject": "Which of the two ways is the right one here? " * 3, "body": "b", "options": ["x"]}
            shopfloor.call("factory", "mcp__mail__ask", {**question, "timeoutSeconds": 0}, name)
            shopfloor.call("factory", "mcp__mail__send", {"subject": "Neither of them"}, name)
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in (["status"], ["inbox"], ["board"], ["log"], ["agent", "list"], ["token", "list"], ["board", "none"]):
        code, out, err = run(*command)
        assert (code, err) == (0, "")
        assert len(out.splitlines()) > 1 or command == ["board"]
        assert max(map(output.measure, out.splitlines())) <= columns, f"{command}\n{out}"
        assert not re.search(r"\d{4}-\d\d-\d\dT", out), "people read relative times"


@pytest.mark.usefixtures("project")
def test_log_says_what_each_call_was_about_at_80_columns(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Shopfloor(Settings(project=project, embeddings="off")) as shopfloor:
        shopfloor.create_agent("builder")
        shopfloor.call("desk", "task_create", {"title": "Fix the page"})
        shopfloor.call("factory", "mcp__task__claim", {}, "builder")
        subject = {"subject": "The page shows wrong prices", "body": "b", "toHuman": True}
        shopfloor.call("factory", "mcp__mail__send", subject, "builder")
        shopfloor.call("factory", "mcp__task__update_status", {"state": "IN_PROGRESS"}, "builder")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("log")[1].splitlines()
    assert lines[0].split() == ["reference", "age", "who", "call", "summary"]
    for summary in ("task-1 · Fix the page", "mail-1 · The page shows"):
        assert any(summary in line for line in lines), lines


@pytest.mark.parametrize(("count", "text"), [(0.84, "0.8 ms"), (350.4, "350 ms"), (9344.1, "9.3 s")])
def test_long_calls_are_shown_in_seconds(count: float, text: str) -> None:
    assert output.format_milliseconds(count) == text


@pytest.mark.usefixtures("project")
def test_json_has_iso_times(run: Run) -> None:
    run("agent", "add", "builder", "--no-token")
    rows = json.loads(run("agent", "list", "--json")[1])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", rows[0]["lastActiveAt"])
    assert format_iso(0).endswith("Z")


WITHOUT_JSON = {
    "demo": "shows a page",
    "export beads": "prints a file, which is JSON lines",
    "export markdown": "prints a file",
    "hook": "prints what a client reads, which is JSON with --event",
    "serve": "prints log lines until it is stopped; --log json",
    "stdio": "its standard output is the protocol",
    "watch": "is a screen",
}


def test_every_command_that_prints_something_has_json() -> None:
    commands = dict(walk_commands(typer.main.get_command(cli.app), "shopfloor"))
    without = {
        path.removeprefix("shopfloor ")
        for path, command in commands.items()
        if not any("--json" in option.opts for option in list_options(command))
    }
    assert without == set(WITHOUT_JSON)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "command",
    [
        ("search", "needle"),
        ("read", "notes.md"),
        ("grep", "needle"),
        ("link",),
        ("template", "export"),
        ("completion", "zsh"),
        ("tools", "todo"),
    ],
)
def test_json_is_one_line(run: Run, project: Path, command: tuple[str, ...]) -> None:
    (project / "notes.md").write_text("A needle\n")
    code, out, _ = run(*command, "--json")
    assert (code, out.count("\n")) == (0, 1)
    assert json.loads(out)


@pytest.mark.usefixtures("project")
def test_grep_uses_the_singular_for_one_match(run: Run, project: Path) -> None:
    (project / "notes.md").write_text("A needle\n")
    assert re.search(r"\n1 match in 1 file, ", run("grep", "needle")[1])


def test_version_and_short_help(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert re.fullmatch(r"shopfloor \d+\.\d+\.\d+\S*\n", out)
    assert run("-h")[:2] == run("--help")[:2]
    assert run("task", "list", "-h")[:2] == run("task", "list", "--help")[:2]
    assert run("help", "task")[:2] == run("task", "--help")[:2]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("stauts",), "shopfloor: No such command 'stauts'\n  Did you mean 'status', 'task'?\n"),
        (("xyzzy",), "shopfloor: No such command 'xyzzy'\n  See shopfloor --help\n"),
        (("log", "--sinc", "x"), "shopfloor: No such option: --sinc\n  Did you mean --since?\n"),
        (("log", "--nope"), "shopfloor: No such option: --nope\n  See shopfloor log --help\n"),
        (
            ("board", "nope"),
            "shopfloor: Board 'nope' not found\n  List the boards: shopfloor board\n",
        ),
        (
            ("admin", "rotate"),
            (
                "shopfloor: Missing argument 'WHAT'; expected one of operator-token, signing-key\n"
                "  See shopfloor admin rotate --help\n"
            ),
        ),
        (("inbox", "answer", "--json"), "shopfloor: Missing argument 'ID'\n  See shopfloor inbox answer --help\n"),
        (("log", "--anchor"), "shopfloor: Option '--anchor' requires an argument\n  See shopfloor log --help\n"),
        (("completion", "tcsh"), "shopfloor: Unknown shell 'tcsh'; expected one of bash, zsh, fish\n"),
    ],
)
@pytest.mark.usefixtures("project")
def test_wrong_command_lines_name_what_was_meant(run: Run, arguments: tuple[str, ...], error: str) -> None:
    code, out, err = run(*arguments)
    assert (code in (1, 2), out, err) == (True, "", error)


@pytest.mark.usefixtures("project")
def test_wrong_arguments_of_every_command_are_an_error_and_a_hint(run: Run) -> None:
    """Leave out the value of each option, misspell each option, and give too many arguments."""
    commands = dict(walk_commands(typer.main.get_command(cli.app), "shopfloor"))
    assert len(commands) > 90
    for path, command in commands.items():
        words = path.split()[1:]
        if words in (["demo"], ["tool"]):  # their arguments are those of another program and of a tool
            continue
        wrong = [["a"] * 9]
        for option in (param for param in command.params if param.param_type_name == "option"):
            name = option.opts[0]
            wrong += [[name]] if not option.is_flag else []
            wrong += [[f"{name[:3]}{name[4:]}"]] if len(name) > 6 else []
        for arguments in wrong:
            code, out, err = run(*words, *arguments)
            assert (code, out) == (2, ""), (words, arguments, err)
            assert err.startswith("shopfloor: "), (words, arguments, err)
            assert err.count("\n") == 2, (words, arguments, err)
            expected = f"  Did you mean --{arguments[0][2:3]}" if "No such option" in err else "  "
            assert err.splitlines()[1].startswith(expected), (words, arguments, err)


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("get_statu", "  Did you mean mcp__agent__get_status?\n"),
        ("mcp__task__creat", "  Did you mean mcp__task__create or mcp__task__get?\n"),
        ("xyzzy", "  List the tools: shopfloor tools factory\n"),
    ],
)
def test_unknown_tool_is_answered_with_a_similar_one(run: Run, tool: str, hint: str) -> None:
    code, _, err = run("call", "factory", tool)
    assert (code, err) == (1, hint)


def run_completion(shell: str, line: str) -> str:
    words = line.split(" ")
    variables = {
        "_SHOPFLOOR_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return subprocess.run([SHOPFLOOR], env=os.environ | variables, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(run: Run, shell: str) -> None:
    script = run("completion", shell)[1]
    assert f"_SHOPFLOOR_COMPLETE=complete_{shell}" in script
    assert re.findall(r"\b(task|tools?|token|template)\b", run_completion(shell, "shopfloor t"))[:2] == [
        "task",
        "template",
    ]
    assert "assign" in run_completion(shell, "shopfloor task a")
    assert "--blocked-by" in run_completion(shell, "shopfloor task add --b")


def test_bash_runs_the_completion_script(run: Run) -> None:
    script = run("completion", "bash")[1]
    test = (
        f"{script}\nCOMP_WORDS=(shopfloor ep)\nCOMP_CWORD=1\n_shopfloor_completion {SHOPFLOOR}\necho ${{COMPREPLY[@]}}"
    )
    done = subprocess.run(["bash", "-c", test], capture_output=True, text=True, check=True)
    assert done.stdout == "epic\n"

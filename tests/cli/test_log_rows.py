"""Every command and every Python call has its rows in the log: an invocation and a result.

The tables name every command and every public method. A new one must be added to one of them, and the permission of
its tool must fit: what is listed as a read may only call a tool that is read-only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from scripts.generate_docs import walk_commands
from shopfloor import cli
from shopfloor.domain.crews import Role
from shopfloor.domain.decisions import Entry
from shopfloor.errors import NotFound
from shopfloor.gateways import embedding_model
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import crew_plans, crews, epics, run_requests, runs
from tests.operator_access import read_as_operator, write_as_operator

QUESTION = "mail-2"

GIT_IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")

CHANGES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "admin rotate": (("signing-key",), "desk", "signing_key_rotate"),
    "agent add": (("newcomer",), "desk", "agent_create"),
    "agent crashed": (("builder",), "desk", "agent_report_crash"),
    "agent retire": (("tester",), "desk", "agent_retire"),
    "backup": (("copy.db",), "desk", "backup_create"),
    "call": (("factory", "mcp__system__log_decision", '{"title": "t", "body": "b"}'), "factory", "mcp__system__log_decision"),
    "crew approve": (("team",), "desk", "crew_approve_plan"),
    "crew merge": (("team",), "desk", "crew_merge_branch"),
    "crew pause": (("team",), "desk", "crew_pause"),
    "crew resume": (("team",), "desk", "crew_resume"),
    "crew scale": (("team", "3"), "desk", "crew_scale"),
    "crew stop": (("team",), "desk", "crew_stop"),
    "desk": (("guest", "viewer"), "desk", "user_set_role"),
    "epic add": (("Ship",), "desk", "epic_create"),
    "epic done": (("epic-1",), "desk", "epic_move"),
    "export jsonl": (("copy.jsonl",), "desk", "export_create"),
    "inbox ack": (("mail-1",), "desk", "inbox_ack"),
    "inbox answer": ((QUESTION, "blue"), "desk", "inbox_answer"),
    "inbox read": (("mail-1",), "desk", "inbox_read"),
    "inbox reply": (("mail-1", "Thanks"), "desk", "inbox_reply"),
    "index": ((), "desk", "index_refresh"),
    "link": ((), "desk", "link_create"),
    "mail read": (("mail-1",), "desk", "inbox_read"),
    "mail send": (("builder", "Hello"), "desk", "inbox_write"),
    "model install": (("--model-cache", "models"), "desk", "model_install"),
    "pause": (("night",), "desk", "run_pause"),
    "resume": (("night",), "desk", "run_resume"),
    "runs accept": (("night", "TAS-2", "make test"), "desk", "run_set_acceptance"),
    "runs answer": (("2", "deny"), "desk", "inbox_decide"),
    "say": (("night", "hello"), "desk", "run_say"),
    "stop": (("night",), "desk", "run_stop"),
    "task add": (("Design",), "desk", "task_create"),
    "task assign": (("task-3", "builder"), "desk", "task_assign"),
    "task done": (("task-3",), "desk", "task_complete"),
    "todo add": (("Buy milk",), "personal", "add"),
    "todo change": (("1", "--title", "Buy tea"), "personal", "change"),
    "todo delete": (("1",), "personal", "delete"),
    "todo done": (("1",), "personal", "complete"),
    "todo reopen": (("1",), "personal", "reopen"),
    "todo restore": (("1",), "personal", "restore"),
    "token issue": (("--agent", "builder"), "desk", "token_issue"),
    "token revoke": (("TOKEN",), "desk", "token_revoke"),
    "tool": (("task-add", "--content", "Design"), "loop", "task-add"),
    "user add": (("newcomer",), "desk", "user_add"),
    "user password": (("guest",), "desk", "user_set_password"),
    "user remove": (("guest",), "desk", "user_remove"),
}  # fmt: skip
READS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "agent list": ((), "desk", "agent_list"),
    "agent show": (("builder",), "desk", "agent_show"),
    "board": ((), "desk", "board_epics"),
    "doctor": (("--port", "0"), "desk", "doctor"),
    "epic list": ((), "desk", "board_epics"),
    "epic show": (("epic-1",), "desk", "task_list"),
    "export beads": ((), "desk", "epic_export"),
    "export markdown": ((), "desk", "epic_export"),
    "grep": (("needle",), "context", "grep_codebase"),
    "hook": (("--as", "builder"), "factory", "mcp__mail__list_inbox"),
    "inbox": ((), "desk", "inbox_list"),
    "mail list": ((), "desk", "inbox_list"),
    "log": ((), "desk", "log_search"),
    "model show": (("--model-cache", "models"), "desk", "model_show"),
    "read": (("notes.md",), "context", "read_file"),
    "crew list": ((), "desk", "crew_list"),
    "crew status": (("team",), "desk", "crew_show"),
    "runs": ((), "desk", "run_list"),
    "runs transcript": (("night",), "desk", "transcript_list"),
    "search": (("needle",), "context", "context_search"),
    "status": ((), "desk", "floor_overview"),
    "task list": ((), "desk", "task_list"),
    "task show": (("task-3",), "desk", "task_show"),
    "todo deleted": ((), "personal", "show_deleted"),
    "todo list": ((), "personal", "show_list"),
    "token list": ((), "desk", "token_list"),
    "user list": ((), "desk", "user_list"),
    "verify": ((), "desk", "store_verify"),
}
WITHOUT_OWN_CALL = {
    "agent known": "prints a table of the package",
    "compact": "rewrites the file of a store that no process uses",
    "completion": "prints a script for the shell",
    "crew start": "calls the crew toolset for as long as it drives; see tests/runner/test_crew.py",
    "connect": "calls several tools of the desk, and writes to the home folder; see tests/connect",
    "demo": "runs examples/shopfloor_demo, which uses the public API",
    **{
        f"import {source}": "calls import_items for each batch of a file; see tests/cli/test_interchange.py"
        for source in ("beads", "markdown", "speckit", "taskmaster", "vibe-kanban")
    },
    "import jsonl": "fills an empty store, and logs it there; see tests/cli/test_backup.py",
    "migrate": "changes the schema, which is in schema_version, before there is an engine",
    "restore": "creates a store, and logs it there; see tests/cli/test_backup.py",
    "init": "writes files of the project, before there is a data folder",
    "run": "calls the run toolset for as long as it drives; see tests/runner",
    "serve": "serves calls; the links that it prints are created by link_create",
    "stdio": "serves calls",
    "template export": "prints a file of the package",
    "tools": "prints the tools of the process",
    "watch": "calls the desk for as long as it is open; see tests/toolsets/desk/test_watch.py",
}
ORDER = ["inbox read", "runs answer", "pause", "resume", "stop", "todo add", "todo change", "todo done",
         "todo reopen", "todo delete", "todo restore", "tool", "crew approve", "crew merge", "crew pause", "crew resume", "crew scale", "crew stop",
         "epic add", "epic done", "task add", "task assign", "task done", "user password", "desk"]  # fmt: skip
"""Commands that need each other, in an order in which each finds what it changes; `user remove` comes last."""

Methods = dict[str, tuple[Callable[[Shopfloor], Any], str]]
METHODS_THAT_CHANGE: Methods = {
    "create_agent": (lambda shopfloor: shopfloor.create_agent("newcomer"), "agent_create"),
    "report_crash": (lambda shopfloor: shopfloor.report_crash("builder"), "agent_report_crash"),
    "retire_agent": (lambda shopfloor: shopfloor.retire_agent("builder"), "agent_retire"),
    "add_user": (lambda shopfloor: shopfloor.add_user("newcomer"), "user_add"),
    "set_desk_role": (lambda shopfloor: shopfloor.set_desk_role("guest", "editor"), "user_set_role"),
    "set_password": (lambda shopfloor: shopfloor.set_password("guest", "correct horse"), "user_set_password"),
    "remove_user": (lambda shopfloor: shopfloor.remove_user("guest"), "user_remove"),
    "issue_token": (lambda shopfloor: shopfloor.issue_token(agent="local"), "token_issue"),
    "revoke_token": (lambda shopfloor: shopfloor.revoke_token(next(shopfloor.list_tokens())["id"]), "token_revoke"),
    "create_link": (lambda shopfloor: shopfloor.create_link(), "link_create"),
    "refresh_index": (lambda shopfloor: shopfloor.refresh_index(), "index_refresh"),
}
METHODS_THAT_READ: Methods = {
    "get_agent": (lambda shopfloor: shopfloor.get_agent("builder"), "agent_show"),
    "list_agents": (lambda shopfloor: list(shopfloor.list_agents()), "agent_list"),
    "list_users": (lambda shopfloor: list(shopfloor.list_users()), "user_list"),
    "list_tokens": (lambda shopfloor: list(shopfloor.list_tokens()), "token_list"),
    "get_credential": (lambda shopfloor: shopfloor.get_credential("guest"), "user_show"),
}
METHODS_AROUND_CALLS = {"close", "call", "answer", "acall", "schemas", "serving"}
"""They make calls or serve them, and do nothing else."""


@pytest.fixture
def shopfloor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shopfloor]:
    """A project with an agent, a user, mail, and a run and a crew that this process drives."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("A needle in a haystack.\n")
    model = embedding_model.folder(tmp_path / "models")
    model.mkdir(parents=True)
    (model / "manifest.json").write_text("{}")
    with Shopfloor(Settings(project=tmp_path, embeddings="off")) as shopfloor:
        for name in ("builder", "tester"):
            shopfloor.create_agent(name, issue_token=False)
        shopfloor.add_user("guest")
        shopfloor.call("factory", "mcp__mail__send", {"toHuman": True, "subject": "News", "body": "x"}, "builder")
        question = {"subject": "Which?", "body": "Red or blue", "options": ["red", "blue"], "timeoutSeconds": 0}
        shopfloor.call("factory", "mcp__mail__ask", question, "builder")
        # Before the run: commands that name no run mean the latest one.
        for words in ("init --quiet", "commit --quiet --allow-empty --message=Begin", "branch b"):
            subprocess.run(["git", *GIT_IDENTITY, *words.split()], cwd=tmp_path, check=True)
        write_as_operator(shopfloor, start_crew)
        write_as_operator(shopfloor, lambda uow: runs.create_run(uow, "night", spec="s", project=".", options="{}"))
        write_as_operator(shopfloor, lambda uow: runs.drive_run(uow, "night", "{}"))
        write_as_operator(
            shopfloor,
            lambda uow: run_requests.ask_person(uow, "night", "permission", "May I run make?", ("allow", "deny")),
        )
        yield shopfloor


def start_crew(uow: UnitOfWork) -> None:
    """Let this process drive a crew whose plan waits for an approval."""
    epic = epics.create_epic(uow, "Shared", "", None, None).id
    facts = {"title": "", "spec": "", "project": ".", "branch": "b", "base": "b", "options": "{}"}
    crews.create_crew(uow, "team", epic=epic, workers=2, **facts)
    crew = crews.drive_crew(uow, "team", "{}", None)
    crews.ensure_agent(uow, crew, "team-planner", Role.PLANNER)
    facts = {"project": ".", "spec": "", "options": "{}"}
    crews.open_run(uow, crew, "team.plan", worker="team-planner", task=None, **facts)
    crew_plans.finish_planning(uow, crew, "team.plan", ask=True)


def list_rows(shopfloor: Shopfloor) -> list[Entry]:
    shopfloor.engine.database.store.flush()
    return read_as_operator(shopfloor, lambda uow: uow.decisions.list_page(limit=1000))


def check_rows(shopfloor: Shopfloor, before: list[Entry], toolset: str, tool: str, transport: str) -> None:
    known = {entry.id for entry in before}
    rows = [entry for entry in list_rows(shopfloor) if entry.id not in known and entry.tool == tool]
    assert [row.kind for row in rows if row.kind != "manual"] == ["result", "invocation"], f"{transport}: {tool}"
    assert {row.toolset for row in rows} == {toolset}


def test_every_command_is_listed_once() -> None:
    commands = [
        path.removeprefix("shopfloor ") for path, _ in walk_commands(typer.main.get_command(cli.app), "shopfloor")
    ]
    assert sorted([*CHANGES, *READS, *WITHOUT_OWN_CALL]) == sorted(commands)


def test_every_public_method_is_listed_once() -> None:
    listed = [*METHODS_THAT_CHANGE, *METHODS_THAT_READ, *METHODS_AROUND_CALLS]
    assert sorted(listed) == sorted(name for name in vars(Shopfloor) if not name.startswith("_"))


def test_listed_reads_call_read_only_tools(shopfloor: Shopfloor) -> None:
    toolsets = shopfloor.engine.toolsets
    for table, read_only in ((CHANGES, False), (READS, True)):
        for command, (_, toolset, tool) in table.items():
            assert toolsets[toolset].tools[tool].read_only is read_only, command
    for methods, read_only in ((METHODS_THAT_CHANGE, False), (METHODS_THAT_READ, True)):
        for method, (_, tool) in methods.items():
            assert toolsets["desk"].tools[tool].read_only is read_only, method


def test_every_command_is_logged(shopfloor: Shopfloor, tmp_path: Path) -> None:
    token = shopfloor.issue_token(agent="builder")["issued"]["id"]
    rest = [command for command in [*CHANGES, *READS] if command not in ORDER and command != "user remove"]
    for command in [*ORDER, *rest, "user remove"]:
        arguments, toolset, tool = (CHANGES | READS)[command]
        words = [token if word == "TOKEN" else word for word in arguments]
        before = list_rows(shopfloor)
        result = CliRunner().invoke(
            cli.app, [*command.split(), *words, "--project", str(tmp_path)], input="correct horse battery\n"
        )
        assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
        check_rows(shopfloor, before, toolset, tool, f"shopfloor {command}")


@pytest.mark.parametrize("command", READS)
def test_commands_that_read_create_no_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("A needle in a haystack.\n")
    arguments, *_ = READS[command]
    result = CliRunner().invoke(cli.app, [*command.split(), *arguments])
    # What is not there is not found; nothing else may fail.
    is_missing = isinstance(result.exception, SystemExit | NotFound) or "There is no database" in str(result.exception)
    assert result.exception is None or is_missing
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]


def test_every_public_method_is_logged(shopfloor: Shopfloor) -> None:
    shopfloor.issue_token(agent="local")
    last = ["retire_agent", "remove_user"]
    for method in [*(name for name in METHODS_THAT_READ | METHODS_THAT_CHANGE if name not in last), *last]:
        run, tool = (METHODS_THAT_READ | METHODS_THAT_CHANGE)[method]
        before = list_rows(shopfloor)
        run(shopfloor)
        check_rows(shopfloor, before, "desk", tool, f"Shopfloor.{method}")


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        (("task-1", "--title", "Draw"), "task_edit"),
        (("task-1", "--state", "cancelled"), "task_move"),
        (("epic-1", "--state", "in_progress"), "epic_move"),
    ],
)
def test_board_options_that_change_something_are_logged(
    shopfloor: Shopfloor, tmp_path: Path, words: tuple[str, ...], tool: str
) -> None:
    shopfloor.call("desk", "epic_create", {"title": "Ship"})
    shopfloor.call("desk", "task_create", {"title": "Design", "epic": 1})
    before = list_rows(shopfloor)
    result = CliRunner().invoke(cli.app, ["board", *words, "--project", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    check_rows(shopfloor, before, "desk", tool, "shopfloor board")

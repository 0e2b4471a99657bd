"""The output and exit code of every command."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from shopfloor import cli
from shopfloor.cli import output, tool
from shopfloor.cli.connect import FIRST_CREDENTIAL_NOTICE
from shopfloor.cli.help import EXAMPLES
from shopfloor.cli.lazy_group import COMMANDS, SECTIONS
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolsets import loop
from shopfloor.transports.server import lock_data_folder
from tests.operator_access import read_as_operator, write_as_operator
from tests.workbench import DECISION, LOG_DECISION, STATUS

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
TOKEN_ID = r"[a-z2-9]{12}"


pytestmark = pytest.mark.usefixtures("project", "restore_logging")


def match_fields(value, **patterns):
    """Check fields against patterns, and return the value with the patterns in their place."""
    for key, pattern in patterns.items():
        assert re.fullmatch(pattern, value[key]), f"{key}: {value[key]}"
    return {**value, **patterns}


# --- agents ---

AGENT_TOKEN = rf"sfa_{TOKEN_ID}_[A-Za-z0-9_-]{{43}}"


def test_agent_add_prints_id_type_and_token(run_json):
    assert match_fields(run_json("agent", "add", "builder", "--type", "SUPERVISOR"), token=AGENT_TOKEN) == {
        "id": "builder",
        "type": "SUPERVISOR",
        "token": AGENT_TOKEN,
    }


def test_agent_add_can_omit_the_token(run_json):
    assert run_json("agent", "add", "builder", "--type", "WORKER", "--no-token") == {
        "id": "builder",
        "type": "WORKER",
        "token": None,
    }


def test_agent_add_defaults_to_worker_and_ignores_case(run_json):
    assert run_json("agent", "add", "builder", "--no-token")["type"] == "WORKER"
    assert run_json("agent", "add", "tester", "--type", "orchestrator", "--no-token")["type"] == "ORCHESTRATOR"


def test_agent_show_prints_all_fields(run_json):
    run_json("agent", "add", "boss", "--type", "SUPERVISOR", "--no-token")
    run_json("agent", "add", "builder", "--supervisor", "boss", "--no-token")
    expected = {
        "id": "builder",
        "type": "WORKER",
        "state": "IDLE",
        "supervisor": "boss",
        "lastActiveAt": TIME,
        "retiredAt": None,
    }
    assert match_fields(run_json("agent", "show", "builder"), lastActiveAt=TIME) == expected


def test_agent_retire_prints_the_time(run_json):
    run_json("agent", "add", "builder")
    assert match_fields(run_json("agent", "retire", "builder"), lastActiveAt=TIME, retiredAt=TIME) == {
        "id": "builder",
        "type": "WORKER",
        "state": "RETIRED",
        "supervisor": None,
        "lastActiveAt": TIME,
        "retiredAt": TIME,
    }
    assert run_json("agent", "show", "builder")["state"] == "RETIRED"


def test_agent_list_omits_retired_agents(run_json):
    for name in ("cid", "builder", "tester"):
        run_json("agent", "add", name, "--no-token")
    run_json("agent", "retire", "tester")
    assert [agent["id"] for agent in run_json("agent", "list")] == ["builder", "cid", "local"]
    assert set(run_json("agent", "list")[0]) == {"id", "type", "state", "supervisor", "lastActiveAt", "retiredAt"}


# --- users ---

USER_TOKEN = r"eyJ[\w-]+\.[\w-]+\.[\w-]+"


def test_user_add_prints_id_and_token(run_json):
    assert match_fields(run_json("user", "add", "guest@example.com"), token=USER_TOKEN) == {
        "id": "guest@example.com",
        "token": USER_TOKEN,
    }


def test_user_list_prints_ids(run_json):
    assert run_json("user", "list") == []
    run_json("user", "add", "guest")
    assert run_json("user", "list") == [{"id": "guest", "role": "none"}]


# --- tokens ---


def test_token_issue_prints_an_agent_token(run_json):
    run_json("agent", "add", "builder", "--no-token")
    assert match_fields(run_json("token", "issue", "--agent", "builder"), id=TOKEN_ID, token=AGENT_TOKEN) == {
        "id": TOKEN_ID,
        "token": AGENT_TOKEN,
        "expiresAt": None,
    }
    assert (
        match_fields(run_json("token", "issue", "--agent", "builder", "--ttl", "1h"), expiresAt=TIME)["expiresAt"]
        == TIME
    )


def test_token_issue_prints_a_user_token(run_json):
    run_json("user", "add", "guest")
    issued = run_json("token", "issue", "--user", "guest", "--ttl", "30m")
    assert match_fields(issued, id=TOKEN_ID, token=USER_TOKEN, expiresAt=TIME) == {
        "id": TOKEN_ID,
        "token": USER_TOKEN,
        "expiresAt": TIME,
    }


def test_token_list_shows_no_secret(run_json):
    secret = run_json("agent", "add", "builder")["token"]
    (listed,) = run_json("token", "list")
    assert match_fields(listed, id=TOKEN_ID, createdAt=TIME) == {
        "id": TOKEN_ID,
        "kind": "agent",
        "owner": "builder",
        "createdAt": TIME,
        "expiresAt": None,
        "revokedAt": None,
    }
    assert secret.split("_", 2)[2] not in json.dumps(listed)


def test_token_revoke_prints_the_time(run_json):
    run_json("agent", "add", "builder")
    (listed,) = run_json("token", "list")
    assert match_fields(run_json("token", "revoke", listed["id"]), revokedAt=TIME) == listed | {"revokedAt": TIME}
    assert run_json("token", "list")[0]["revokedAt"] is not None


# --- calls ---


def test_call_prints_indented_or_single_line_json(run, run_json):
    code, out, _ = run("call", "factory", STATUS)
    assert (code, json.loads(out)["data"]["id"]) == (0, "local")
    assert out.count("\n") > 5
    assert run_json("call", "factory", STATUS)["data"]["id"] == "local"


def test_call_takes_arguments_and_a_principal(run_json, project):
    run_json("agent", "add", "builder", "--no-token")
    answer = run_json("call", "factory", LOG_DECISION, json.dumps(DECISION), "--as", "builder")
    assert match_fields(answer["data"], logId=r"log-\d+", timestamp=TIME) == {"logId": r"log-\d+", "timestamp": TIME}
    shopfloor = Shopfloor(Settings(project=project))
    rows = read_as_operator(shopfloor, lambda uow: uow.decisions.list_page(limit=10))
    shopfloor.close()
    assert {
        (entry.subject, entry.actor) for entry in rows if entry.kind != "manual" and entry.tool == LOG_DECISION
    } == {("agent:builder", "operator:operator")}


def test_rejected_call_is_printed_and_exits_with_1(run):
    code, out, err = run("call", "factory", LOG_DECISION, '{"title": 5}', "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "INVALID_INPUT"


def test_tools_lists_tools_with_their_schemas(run_json):
    tools = run_json("tools")
    assert [tool["name"] for tool in tools if tool["toolset"] == "factory"][:1] == [STATUS]
    assert set(tools[0]) == {"toolset", "name", "description", "parameters"}
    assert run_json("tools", "factory") == [tool for tool in tools if tool["toolset"] == "factory"]


# --- readable output ---


@pytest.mark.parametrize(
    ("before", "command", "text"),
    [
        ((), ("agent", "list"), r"id +type +state +supervisor +last active\nlocal +SUPERVISOR +idle +- .*"),
        ((), ("user", "list"), r"There are no users yet: shopfloor user add NAME"),
        ((), ("token", "list"), r"There are no tokens yet: shopfloor token issue --agent NAME"),
        ((), ("agent", "add", "builder", "--no-token"), r"builder added \(WORKER\)"),
        (("user", "add", "customer"), ("user", "add", "guest"), rf"guest added\n{USER_TOKEN}"),
        (("agent", "add", "builder"), ("agent", "show", "builder"), r"id +builder\ntype +WORKER\n(.*\n)*.*"),
        (("agent", "add", "builder"), ("agent", "retire", "builder"), r"builder is retired"),
        (("agent", "add", "builder"), ("token", "list"), rf"id +kind .*\n{TOKEN_ID} +agent +builder .*"),
        (
            (),
            ("tools",),
            r"toolset +tool +description\nfactory +mcp__agent__get_status +Get your own status.*\n(.*\n)*.*",
        ),
    ],
)
def test_commands_print_readable_text_without_json(run, before, command, text):
    if before:
        run(*before)
    code, out, err = run(*command)
    assert code == 0
    assert err in ("", "To sign in to the pages: shopfloor link --user guest\n")
    assert re.fullmatch(text + "\n", out)


@pytest.mark.parametrize(
    ("before", "command", "text"),
    [
        ("list", ("agent", "add", "builder"), rf"builder added \(WORKER\)\n({AGENT_TOKEN})\n"),
        ("add builder", ("token", "issue", "--agent", "builder"), rf"({AGENT_TOKEN})\n"),
    ],
)
def test_new_token_is_printed_with_the_commands_of_clients_on_standard_error(run, before, command, text):
    run("agent", *before.split())
    code, out, err = run(*command)
    printed = re.fullmatch(text, out)
    assert code == 0
    assert printed is not None
    first, _, commands = err.rpartition("To connect a client with this token:\n")
    assert commands.startswith("  claude mcp add --transport http shopfloor http://")
    assert first == ("" if "issue" in command else FIRST_CREDENTIAL_NOTICE + "\n")
    assert f'--header "Authorization: Bearer {printed[1]}"\n' in err


def test_first_token_is_announced_once_on_standard_error(run):
    sign_in = "To sign in to the pages: shopfloor link --user "
    assert run("user", "add", "customer")[2] == f"{sign_in}customer\n{FIRST_CREDENTIAL_NOTICE}\n"
    assert run("user", "add", "guest")[2] == f"{sign_in}guest\n"


def test_control_characters_in_names_are_not_printed(run, project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        write_as_operator(shopfloor, lambda uow: uow.users.add("guest\x1b[2J", uow.now))
    _, out, _ = run("user", "list")
    assert "\x1b" not in out


# --- errors ---


@pytest.mark.parametrize("arguments", [("task", "show", "\x1b[2J"), ("agent", "retire", "a\x9bb")])
def test_control_characters_in_errors_are_not_printed(run, arguments):
    _, _, err = run(*arguments)
    assert "�" in err
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("nope",), 2, "No such command 'nope'"),
        (("agent", "nope"), 2, "No such command 'nope'"),
        (("agent", "add"), 2, "Missing argument 'NAME'"),
        (("agent", "add", "a b"), 1, "shopfloor: An agent's name has 1 to 64 letters"),
        (("agent", "add", "local"), 1, "shopfloor: Agent 'local' already exists; choose another name"),
        (("agent", "add", "builder", "--type", "BOSS"), 1, "shopfloor: Unknown agent type 'BOSS'"),
        (("agent", "add", "builder", "--supervisor", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "add", "builder", "--nope"), 2, "No such option: --nope"),
        (("agent", "show", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "retire", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "retire", "local"), 1, "shopfloor: The built-in agent 'local' cannot retire"),
        (("user", "add", " "), 1, "shopfloor: A user's name has 1 to 255 printable characters"),
        (("user", "add", "\udcff"), 1, "shopfloor: Text must not contain an unpaired surrogate"),
        (("token", "issue"), 1, "shopfloor: Give either --agent or --user"),
        (("token", "issue", "--agent", "a", "--user", "b"), 1, "shopfloor: Give either --agent or --user"),
        (("token", "issue", "--agent", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("token", "issue", "--agent", ""), 1, "shopfloor: Agent '' does not exist."),
        (("token", "issue", "--user", "ghost"), 1, "shopfloor: User 'ghost' does not exist"),
        (
            ("token", "issue", "--agent", "local", "--ttl", "1x"),
            1,
            "shopfloor: --ttl must be a duration such as 90s, 30m, 1h or 7d, not '1x'",
        ),
        (("token", "issue", "--agent", "local", "--ttl", "0h"), 1, "such as 90s, 30m, 1h or 7d, not '0h'"),
        (("token", "issue", "--agent", "local", "--ttl", "-1h"), 1, "such as 90s, 30m, 1h or 7d, not '-1h'"),
        (
            ("token", "issue", "--agent", "local", "--ttl", "999999999d"),
            1,
            "--ttl must be at most 3650d, not '999999999d'",
        ),
        (("token", "revoke", "nope"), 1, "shopfloor: Token 'nope' does not exist"),
        (("call", "factory"), 2, "Missing argument 'TOOL'"),
        (("call", "nope", "tool"), 1, "shopfloor: Unknown toolset 'nope'; expected one of factory"),
        (("call", "factory", STATUS, "{"), 1, "shopfloor: Arguments must be JSON"),
        (("call", "factory", STATUS, "[" * 100_000), 1, "shopfloor: Arguments must be JSON"),
        (("tools", "nope"), 1, "shopfloor: Unknown toolset 'nope'; expected one of factory"),
        (("serve", "--port", "x"), 2, "--port must be an integer"),
        (("serve", "--port", "70000"), 1, "shopfloor: port must be at most 65535"),
        (("serve", "--profile", "nope"), 1, "shopfloor: profile: unknown toolset 'nope'; expected any of factory"),
        (("serve", "--profile", ""), 1, "shopfloor: profile must not be empty"),
        (("serve", "--host", "0.0.0.0"), 1, "shopfloor: Refusing to listen on 0.0.0.0 without credentials"),
        (("serve", "--database", "mysql://x"), 1, "shopfloor: 'mysql://…' is not a store"),
        (("stdio", "--toolset", "nope"), 1, "shopfloor: profile: unknown toolset 'nope'; expected any of factory"),
        (("stdio", "--as", "ghost"), 1, "shopfloor: Agent or user 'ghost' not found"),
        (("agent", "list", "--data", "file/data"), 1, "cannot be used: Not a directory"),
        (("agent", "list", "--database", "postgresql://127.0.0.1:1/x"), 1, "shopfloor: The store cannot be reached"),
        (("agent", "list", "--database", "sqlite:////proc/floor.db"), 1, "shopfloor: "),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_invalid_arguments_are_reported_in_one_line(run, project, arguments, code, error):
    (project / "file").write_text("")
    exit_code, out, err = run(*arguments)
    assert (exit_code, out) == (code, "")
    assert error in err
    assert len(err.splitlines()) <= 4


def test_next_step_of_an_unusable_data_folder_is_on_a_line_of_its_own(run, project):
    (project / "file").write_text("")
    assert run("agent", "list", "--data", "file/data")[2] == (
        f"shopfloor: The data folder {project}/file/data cannot be used: Not a directory\n"
        "  Name another data folder: --data FOLDER\n"
    )
    assert run("backup", "copy")[2] == (
        f"shopfloor: There is no database at {project}/.shopfloor/shopfloor.db\n"
        "  Name the --project or the --data folder that has it\n"
    )
    settings = Settings(project=project)
    settings.data.mkdir()
    with lock_data_folder(settings):
        assert run("serve", "--port", "0")[2] == (
            f"shopfloor: Another server already uses {project}/.shopfloor, and is just starting\n"
            "  Use that server, stop it, or give this one a data folder of its own: --data FOLDER\n"
        )


@pytest.mark.parametrize("tool", ["\udcff", "a\x00b", "x" * 10_000], ids=range(3))
def test_invalid_tool_name_is_reported_as_not_found(run, tool):
    code, out, _ = run("call", "factory", tool, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "TOOL_NOT_FOUND")


def test_empty_principal_is_not_found(run):
    code, out, _ = run("call", "factory", STATUS, "--as", "", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "AGENT_NOT_FOUND")


def test_unknown_key_of_the_config_file_stops_every_command(run, project):
    (project / "shopfloor.toml").write_text("prot = 1\n")
    code, _, err = run("agent", "list")
    assert code == 1
    assert err.startswith("shopfloor: Unknown setting 'prot'; expected one of ")


def test_broken_database_is_reported(run, project):
    run("agent", "add", "builder", "--no-token")
    (project / ".shopfloor" / "shopfloor.db").write_bytes(b"not a database" * 1000)
    code, _, err = run("agent", "list")
    assert code == 1
    assert err.startswith("shopfloor: ")


def test_newer_database_is_refused(run, project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        shopfloor.engine.database.store.write(
            lambda connection: connection.execute(
                "INSERT INTO schema_version (number, name, applied_at) VALUES (9999, 'later', 0)"
            )
        )
    code, _, err = run("agent", "list")
    assert code == 1
    assert re.match(r"shopfloor: The store has schema 9999, newer than the \d+ that this version knows; upgrade", err)


# --- projects and workspaces ---


def test_flags_environment_and_folder_select_the_same_project(run_json, project, monkeypatch, tmp_path_factory):
    run_json("agent", "add", "builder", "--no-token")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert [agent["id"] for agent in run_json("agent", "list")] == ["local"]
    assert run_json("agent", "show", "builder", "--project", str(project))["id"] == "builder"
    assert run_json("agent", "show", "builder", "--data", str(project / ".shopfloor"))["id"] == "builder"
    assert (
        run_json("agent", "show", "builder", "--database", f"sqlite://{project}/.shopfloor/shopfloor.db")["id"]
        == "builder"
    )
    monkeypatch.setenv("SHOPFLOOR_PROJECT", str(project))
    assert run_json("agent", "show", "builder")["id"] == "builder"


def test_workspaces_are_isolated(run_json):
    run_json("agent", "add", "builder", "--no-token")
    assert [agent["id"] for agent in run_json("agent", "list", "--workspace", "other")] == ["local"]


def test_command_works_beside_a_running_process(run_json, project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        token = run_json("agent", "add", "builder")["token"]
        assert shopfloor.get_agent("builder")["type"] == "WORKER"
        assert shopfloor.engine.identity.needs_credential()
        (issued,) = run_json("token", "list")
        run_json("token", "revoke", issued["id"])
        assert next(iter(shopfloor.list_tokens()))["state"] == "revoked"
        assert token


# --- help ---


def test_help_lists_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert re.findall(r"^([A-Z].*):$", out.partition("-h, --help")[2], re.MULTILINE) == list(SECTIONS)
    assert re.findall(r"^  ([a-z]+)  +(\S.*)$", out.partition("-h, --help")[2], re.MULTILINE) == [
        (name, help) for name, (_, help) in COMMANDS.items()
    ]


def test_link_without_a_server_says_that_none_runs(run):
    code, out, err = run("link")
    assert (code, out.count("\n")) == (0, 1)
    assert err == "No server of this project is running. Start it first: shopfloor serve\n"


def test_log_has_calls_of_commands_only_with_all(run):
    run("task", "add", "Fix the login page")
    assert run("log")[1] == "No calls by agents match. Include your own: shopfloor log --all\n"
    assert "task_create" in run("log", "--all")[1]


def test_status_without_agents_names_connect(run):
    assert "shopfloor connect claude" in run("status")[1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_own_help(run, name):
    code, out, err = run(name, "--help") if name != "demo" else (0, "Usage: shopfloor demo ", "")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: shopfloor {name} ")


@pytest.mark.parametrize(
    ("group", "commands"),
    [
        ("agent", ["add", "list", "show", "retire", "crashed", "known"]),
        ("user", ["add", "password", "list", "remove"]),
        ("token", ["issue", "list", "revoke"]),
    ],
)
def test_help_of_a_group_lists_its_commands(run, group, commands):
    code, out, _ = run(group, "--help")
    assert code == 0
    assert re.findall(r"^  ([a-z]+)  +\S", out.partition("Commands:")[2], re.MULTILINE) == commands


def test_help_of_tool_lists_all_tools_of_a_run(run):
    assert set(tool.TOOLS) == {name for name, each in loop.toolset.tools.items() if each.listed}
    _, out, _ = run("tool", "--help")
    assert all(name in out for name in tool.TOOLS)


def test_unknown_tool_of_a_run_is_rejected_with_the_expected_ones(run):
    code, out, err = run("tool", "nope")
    assert (code, out) == (1, "")
    assert err == f"shopfloor: Unknown tool 'nope'; expected one of {', '.join(tool.TOOLS)}\n"


def test_unknown_agent_or_user_has_a_hint(run):
    assert run("agent", "show", "ghost")[2].splitlines()[1:] == ["  List the agents: shopfloor agent list"]
    assert run("token", "issue", "--user", "ghost")[2].splitlines()[1:] == ["  List the users: shopfloor user list"]


def test_help_is_shown_without_a_command(run):
    code, out, err = run()
    assert (code, "Usage: " in out + err) == (2, True)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/deep", "a-file"])
def test_project_must_be_an_existing_folder(run, project, name):
    (project / "a-file").write_text("")
    code, out, err = run("agent", "list", "--project", str(project / name))
    assert (code, out) == (1, "")
    assert name in err
    assert len(err.splitlines()) == 1
    assert not (project / "nowhere").exists()


def list_commands() -> list[tuple[str, Any]]:
    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        yield path, command
        if hasattr(command, "list_commands"):
            context = command.make_context(path, [], resilient_parsing=True)
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), f"{path} {name}".strip())

    return list(walk(typer.main.get_command(cli.app), ""))


def test_texts_name_only_commands_that_exist():
    known = {path for path, _ in list_commands()}
    groups = {path.split()[0] for path in known if " " in path} - {"inbox", "runs"}
    texts = (file.read_text("utf-8") for file in Path(cli.__file__).parents[1].rglob("*.py"))
    named = {match for text in texts for match in re.findall(r"(?<!from )shopfloor ([a-z]+) ([a-z]+)", text)}
    checked = {f"{group} {name}" for group, name in named if group in groups}
    assert "task done" in checked
    assert checked <= known


def test_examples_in_help_are_valid_command_lines() -> None:
    commands = dict(list_commands())
    for name, examples in EXAMPLES.items():
        for example in examples:
            line = shlex.split(example.rpartition("| ")[2])[1:]
            assert line[: len(name.split())] == name.split()
            commands[name].make_context(name, line[len(name.split()) :])


def test_help_fits_80_columns_and_shows_no_python_types(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    # The demo prints its own help, in a process of its own.
    texts = {path: run(*path.split(), "--help")[1] for path, _ in list_commands() if path != "demo"}
    wide = [path for path, text in texts.items() if max(map(len, text.splitlines())) > 80]
    assert (len(texts) > len(COMMANDS), wide) == (True, [])
    assert not re.search(r"<(str|int|path|list|float)|\{[a-zA-Z]+\}|x<=", "\n".join(texts.values()))


def test_response_is_printed_in_words_on_a_terminal(run, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("shopfloor.cli.calls.is_terminal", lambda: True)
    run("agent", "add", "dev", "--no-token")
    assert run("call", "factory", "mcp__task__create", '{"title": "Fix it"}')[1].startswith(
        "id         task-1\ntitle      Fix it\n"
    )
    assert run("call", "factory", "mcp__task__claim", "--as", "dev", "--json")[1].startswith('{"success": true')
    code, out, err = run("call", "factory", "get_statu")
    assert (code, out) == (1, "")
    assert err == "shopfloor: Tool 'get_statu' does not exist.\n  Did you mean mcp__agent__get_status?\n"


def test_values_are_printed_one_field_in_a_line():
    value = {"task": {"id": "task-1", "branchName": None, "dependsOn": ["task-2"], "ready": True}, "fence": 1}
    assert output.format_words(value) == [
        "task",
        "  id     task-1",
        "  dependsOn",
        "    - task-2",
        "  ready  yes",
        "fence  1",
    ]
    assert output.format_words([]) == []
    assert output.format_words({}) == ["-"]


def test_stdio_serves_no_home_folder(run, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    code, _, err = run("stdio")
    assert code == 1
    assert err.splitlines() == [
        f"shopfloor: project: {tmp_path} is not a project",
        "  Name the project in the client's config: shopfloor stdio --project FOLDER",
    ]
    assert list(tmp_path.iterdir()) == []


def test_init_reports_a_folder_that_cannot_be_written(run, tmp_path):
    # A place where root cannot write either.
    (tmp_path / "AGENTS.md").symlink_to("/proc/sys/kernel/no-such-file")
    code, _, err = run("init", "--yes", "--project", str(tmp_path))
    assert (code, err.startswith("shopfloor: Cannot write ")) == (1, True)

"""Every command, through the front door of the program: what it prints, and how it ends."""

from __future__ import annotations

import json
import logging
import re
import sys

import pytest

from shopfloor import cli
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.workbench import DECISION, LOG_DECISION, STATUS

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
TOKEN_ID = r"[a-z2-9]{12}"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _same_logs_afterwards():
    """A command that serves sets up the logs of its process."""
    root, ours = logging.getLogger(), logging.getLogger("shopfloor")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the program: its exit code, what it printed, and what it complained about."""

    def ran(*arguments):
        monkeypatch.setattr(sys, "argv", ["shopfloor", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return ended.value.code or 0, out, err

    return ran


@pytest.fixture
def good(run):
    """The JSON that a command printed, which went well."""

    def printed(*arguments):
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        return json.loads(out)

    return printed


def like(value, **patterns):
    """The value, its changing parts compared with patterns and replaced by them."""
    for key, pattern in patterns.items():
        assert re.fullmatch(pattern, value[key]), f"{key}: {value[key]}"
    return {**value, **patterns}


# --- agents ---

AGENT_TOKEN = rf"sfa_{TOKEN_ID}_[A-Za-z0-9_-]{{43}}"


def test_agent_add_prints_its_id_its_type_and_its_token(good):
    assert like(good("agent", "add", "builder", "--type", "SUPERVISOR"), token=AGENT_TOKEN) == {
        "id": "builder",
        "type": "SUPERVISOR",
        "token": AGENT_TOKEN,
    }


def test_agent_add_without_a_token(good):
    assert good("agent", "add", "builder", "--type", "WORKER", "--no-token") == {
        "id": "builder",
        "type": "WORKER",
        "token": None,
    }


def test_agent_add_makes_a_worker_unless_told_otherwise_and_takes_any_case(good):
    assert good("agent", "add", "builder", "--no-token")["type"] == "WORKER"
    assert good("agent", "add", "tester", "--type", "orchestrator", "--no-token")["type"] == "ORCHESTRATOR"


def test_agent_show_prints_what_is_known(good):
    good("agent", "add", "boss", "--type", "SUPERVISOR", "--no-token")
    good("agent", "add", "builder", "--supervisor", "boss", "--no-token")
    expected = {
        "id": "builder",
        "type": "WORKER",
        "state": "IDLE",
        "supervisor": "boss",
        "lastActiveAt": TIME,
        "retiredAt": None,
    }
    assert like(good("agent", "show", "builder"), lastActiveAt=TIME) == expected


def test_agent_retire_prints_when(good):
    good("agent", "add", "builder")
    assert like(good("agent", "retire", "builder"), lastActiveAt=TIME, retiredAt=TIME) == {
        "id": "builder",
        "type": "WORKER",
        "state": "RETIRED",
        "supervisor": None,
        "lastActiveAt": TIME,
        "retiredAt": TIME,
    }
    assert good("agent", "show", "builder")["state"] == "RETIRED"


def test_agent_list_prints_those_who_have_not_retired(good):
    for name in ("cid", "builder", "tester"):
        good("agent", "add", name, "--no-token")
    good("agent", "retire", "tester")
    assert [agent["id"] for agent in good("agent", "list")] == ["builder", "cid", "local"]
    assert set(good("agent", "list")[0]) == {"id", "type", "state", "supervisor", "lastActiveAt", "retiredAt"}


# --- users ---

USER_TOKEN = r"eyJ[\w-]+\.[\w-]+\.[\w-]+"


def test_user_add_prints_its_id_and_a_token(good):
    assert like(good("user", "add", "guest@example.com"), token=USER_TOKEN) == {
        "id": "guest@example.com",
        "token": USER_TOKEN,
    }


def test_user_list_prints_their_ids(good):
    assert good("user", "list") == []
    good("user", "add", "guest")
    assert good("user", "list") == [{"id": "guest"}]


# --- tokens ---


def test_token_issue_for_an_agent(good):
    good("agent", "add", "builder", "--no-token")
    assert like(good("token", "issue", "--agent", "builder"), id=TOKEN_ID, token=AGENT_TOKEN) == {
        "id": TOKEN_ID,
        "token": AGENT_TOKEN,
        "expiresAt": None,
    }
    assert like(good("token", "issue", "--agent", "builder", "--ttl", "1h"), expiresAt=TIME)["expiresAt"] == TIME


def test_token_issue_for_a_user(good):
    good("user", "add", "guest")
    issued = good("token", "issue", "--user", "guest", "--ttl", "30m")
    assert like(issued, id=TOKEN_ID, token=USER_TOKEN, expiresAt=TIME) == {
        "id": TOKEN_ID,
        "token": USER_TOKEN,
        "expiresAt": TIME,
    }


def test_token_list_shows_no_secret(good):
    secret = good("agent", "add", "builder")["token"]
    (listed,) = good("token", "list")
    assert like(listed, id=TOKEN_ID, createdAt=TIME) == {
        "id": TOKEN_ID,
        "kind": "agent",
        "owner": "builder",
        "createdAt": TIME,
        "expiresAt": None,
        "revokedAt": None,
    }
    assert secret.split("_", 2)[2] not in json.dumps(listed)


def test_token_revoke_prints_when(good):
    good("agent", "add", "builder")
    (listed,) = good("token", "list")
    assert like(good("token", "revoke", listed["id"]), revokedAt=TIME) == listed | {"revokedAt": TIME}
    assert good("token", "list")[0]["revokedAt"] is not None


# --- calls ---


def test_call_prints_the_answer_in_lines_or_in_one(run, good):
    code, out, _ = run("call", "factory", STATUS)
    assert (code, json.loads(out)["data"]["id"]) == (0, "local")
    assert out.count("\n") > 5
    assert good("call", "factory", STATUS)["data"]["id"] == "local"


def test_call_takes_arguments_and_acts_as_somebody(good, project):
    good("agent", "add", "builder", "--no-token")
    answer = good("call", "factory", LOG_DECISION, json.dumps(DECISION), "--as", "builder")
    assert like(answer["data"], logId=r"log-\d+", timestamp=TIME) == {"logId": r"log-\d+", "timestamp": TIME}
    floor = Shopfloor(Settings(project=project))
    rows = floor.floor.look(lambda work: work.decisions.page(limit=10))
    floor.close()
    assert {(entry.subject, entry.actor) for entry in rows if entry.kind != "manual"} == {
        ("agent:builder", "operator:operator")
    }


def test_a_refusal_is_printed_and_ends_with_1(run):
    code, out, err = run("call", "factory", LOG_DECISION, '{"title": 5}', "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "INVALID_INPUT"


def test_tools_lists_them_with_their_schemas(good):
    tools = good("tools")
    assert [tool["name"] for tool in tools if tool["toolset"] == "factory"][:1] == [STATUS]
    assert set(tools[0]) == {"toolset", "name", "description", "parameters"}
    assert good("tools", "factory") == [tool for tool in tools if tool["toolset"] == "factory"]


# --- for people ---


@pytest.mark.parametrize(
    ("before", "command", "text"),
    [
        ((), ("agent", "list"), r"id +type +state +supervisor +lastActiveAt +retiredAt\nlocal +SUPERVISOR +IDLE +- .*"),
        ((), ("user", "list"), r"There are no users yet: shopfloor user add NAME"),
        ((), ("token", "list"), r"There are no tokens yet: shopfloor token issue --agent NAME"),
        ((), ("agent", "add", "builder"), rf"builder \(WORKER\)\n{AGENT_TOKEN}"),
        ((), ("agent", "add", "builder", "--no-token"), r"builder \(WORKER\)"),
        ((), ("user", "add", "guest"), rf"guest\n{USER_TOKEN}"),
        (("agent", "add", "builder"), ("agent", "show", "builder"), r"id +builder\ntype +WORKER\n(.*\n)*.*"),
        (("agent", "add", "builder"), ("agent", "retire", "builder"), r"builder has retired"),
        (("agent", "add", "builder"), ("token", "issue", "--agent", "builder"), AGENT_TOKEN),
        (("agent", "add", "builder"), ("token", "list"), rf"id +kind .*\n{TOKEN_ID} +agent +builder .*"),
        (
            (),
            ("tools",),
            r"toolset +tool +description\nfactory +mcp__agent__get_status +Get your own status.*\n(.*\n)*.*",
        ),
    ],
)
def test_without_json_a_command_prints_what_a_person_reads(run, before, command, text):
    if before:
        run(*before)
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    assert re.fullmatch(text + "\n", out)


def test_a_name_cannot_steer_the_terminal(run, project):
    with Shopfloor(Settings(project=project)) as floor:
        floor.floor.administer(lambda work: work.people.add("guest\x1b[2J", work.now))
    _, out, _ = run("user", "list")
    assert "\x1b" not in out


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("nope",), 2, "No such command 'nope'"),
        (("agent", "nope"), 2, "No such command 'nope'"),
        (("agent", "add"), 2, "Missing argument 'name'"),
        (("agent", "add", "a b"), 1, "shopfloor: An agent's name has 1 to 64 letters"),
        (("agent", "add", "local"), 1, "shopfloor: The name 'local' is taken; choose another"),
        (("agent", "add", "builder", "--type", "BOSS"), 1, "shopfloor: There is no agent type 'BOSS'"),
        (("agent", "add", "builder", "--supervisor", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "add", "builder", "--nope"), 2, "No such option: --nope"),
        (("agent", "show", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "retire", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("agent", "retire", "local"), 1, "shopfloor: The built-in agent 'local' cannot retire"),
        (("user", "add", " "), 1, "shopfloor: A user's name has 1 to 255 printable characters"),
        (("user", "add", "\udcff"), 1, "shopfloor: A user's name has 1 to 255 printable characters"),
        (("token", "issue"), 1, "shopfloor: Name either --agent or --user"),
        (("token", "issue", "--agent", "a", "--user", "b"), 1, "shopfloor: Name either --agent or --user"),
        (("token", "issue", "--agent", "ghost"), 1, "shopfloor: Agent 'ghost' does not exist."),
        (("token", "issue", "--agent", ""), 1, "shopfloor: Agent '' does not exist."),
        (("token", "issue", "--user", "ghost"), 1, "shopfloor: User 'ghost' does not exist"),
        (("token", "issue", "--agent", "local", "--ttl", "1x"), 1, "shopfloor: '1x' is not a time span; write 90s"),
        (("token", "issue", "--agent", "local", "--ttl", "0h"), 1, "shopfloor: '0h' is not a time span"),
        (("token", "issue", "--agent", "local", "--ttl", "-1h"), 1, "shopfloor: '-1h' is not a time span"),
        (("token", "issue", "--agent", "local", "--ttl", "999999999d"), 1, "a token lives at most 3650d"),
        (("token", "revoke", "nope"), 1, "shopfloor: Token 'nope' does not exist"),
        (("call", "factory"), 2, "Missing argument 'tool'"),
        (("call", "nope", "tool"), 1, "shopfloor: There is no toolset 'nope'; there are factory"),
        (("call", "factory", STATUS, "{"), 1, "shopfloor: The arguments are not JSON"),
        (("call", "factory", STATUS, "[" * 100_000), 1, "shopfloor: The arguments are not JSON"),
        (("tools", "nope"), 1, "shopfloor: There is no toolset 'nope'; there are factory"),
        (("serve", "--port", "x"), 2, "Invalid value for '--port'"),
        (("serve", "--port", "70000"), 1, "shopfloor: port: Input should be less than or equal to 65535"),
        (("serve", "--profile", "nope"), 1, "shopfloor: profile: 'nope' is not a toolset that can be served"),
        (("serve", "--profile", ""), 1, "shopfloor: profile: "),
        (("serve", "--host", "0.0.0.0"), 1, "shopfloor: Refusing to listen on 0.0.0.0 without any credential"),
        (("serve", "--database", "mysql://x"), 1, "shopfloor: 'mysql://…' is not a store"),
        (("stdio", "--toolset", "nope"), 1, "shopfloor: profile: 'nope' is not a toolset that can be served"),
        (("stdio", "--as", "ghost"), 1, "shopfloor: There is no agent or user 'ghost'"),
        (("agent", "list", "--data", "file/data"), 1, "cannot be used: Not a directory"),
        (("agent", "list", "--database", "postgresql://127.0.0.1:1/x"), 1, "shopfloor: The store cannot be reached"),
        (("agent", "list", "--database", "sqlite:////proc/floor.db"), 1, "shopfloor: "),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_said_in_one_line(run, project, arguments, code, complaint):
    (project / "file").write_text("")
    ended, out, err = run(*arguments)
    assert (ended, out) == (code, "")
    assert complaint in err
    assert len(err.splitlines()) <= 4


@pytest.mark.parametrize("tool", ["\udcff", "a\x00b", "x" * 10_000], ids=range(3))
def test_a_tool_that_cannot_be_is_refused_like_any_other(run, tool):
    code, out, _ = run("call", "factory", tool, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "TOOL_NOT_FOUND")


def test_nobody_is_not_somebody(run):
    code, out, _ = run("call", "factory", STATUS, "--as", "", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "AGENT_NOT_FOUND")


def test_a_setting_that_is_wrong_stops_every_command(run, monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_PROT", "1")
    code, _, err = run("agent", "list")
    assert code == 1
    assert err.startswith("shopfloor: SHOPFLOOR_PROT is not a setting; settings are ")


def test_a_store_that_is_broken_is_said_to_be(run, project):
    run("agent", "list")
    (project / ".shopfloor" / "shopfloor.db").write_bytes(b"this is no database" * 1000)
    code, _, err = run("agent", "list")
    assert code == 1
    assert err.startswith("shopfloor: ")


def test_a_store_of_a_later_version_is_refused(run, project):
    with Shopfloor(Settings(project=project)) as floor:
        floor.floor.works.store.write(
            lambda connection: connection.execute("INSERT INTO schema_version VALUES (9999, 'later', 0)")
        )
    code, _, err = run("agent", "list")
    assert code == 1
    assert re.match(r"shopfloor: The store has schema 9999, newer than the \d+ that this version knows; upgrade", err)


# --- one floor for everybody ---


def test_a_flag_the_environment_and_the_folder_lead_to_the_same_floor(good, project, monkeypatch, tmp_path_factory):
    good("agent", "add", "builder", "--no-token")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert [agent["id"] for agent in good("agent", "list")] == ["local"]
    assert good("agent", "show", "builder", "--project", str(project))["id"] == "builder"
    assert good("agent", "show", "builder", "--data", str(project / ".shopfloor"))["id"] == "builder"
    assert (
        good("agent", "show", "builder", "--database", f"sqlite://{project}/.shopfloor/shopfloor.db")["id"] == "builder"
    )
    monkeypatch.setenv("SHOPFLOOR_PROJECT", str(project))
    assert good("agent", "show", "builder")["id"] == "builder"


def test_workspaces_are_apart(good):
    good("agent", "add", "builder", "--no-token")
    assert [agent["id"] for agent in good("agent", "list", "--workspace", "other")] == ["local"]


def test_a_command_works_beside_a_floor_at_work(good, project):
    with Shopfloor(Settings(project=project)) as floor:
        token = good("agent", "add", "builder")["token"]
        assert floor.agent("builder").type == "WORKER"
        assert floor.floor.identity.needs_credential()
        (issued,) = good("token", "list")
        good("token", "revoke", issued["id"])
        assert next(iter(floor.tokens())).revoked_at is not None
        assert token


# --- help ---


def groups():
    return {name: group for group in cli.app.registered_groups if (name := group.name)}


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    commands = [command.name for command in cli.app.registered_commands] + list(groups())
    assert {"serve", "stdio", "call", "tools", "agent", "user", "token", "inbox", "todo", "run", "search"} <= set(
        commands
    )
    for name in commands:
        assert re.search(rf"^  {name} +\w", out, re.MULTILINE), name


@pytest.mark.parametrize(
    ("group", "commands"),
    [
        ("agent", ["add", "list", "show", "retire", "crashed"]),
        ("user", ["add", "password", "list", "remove"]),
        ("token", ["issue", "list", "revoke"]),
    ],
)
def test_each_group_names_its_commands(run, group, commands):
    code, out, _ = run(group, "--help")
    assert code == 0
    assert [command.name for command in groups()[group].typer_instance.registered_commands] == commands
    for name in commands:
        assert re.search(rf"^  {name} +\w", out, re.MULTILINE), name


def test_without_a_command_the_help_is_shown(run):
    code, out, err = run()
    assert (code, "Usage: " in out + err) == (2, True)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/deep", "a-file"])
def test_a_project_that_is_no_folder_is_refused_and_not_made(run, project, name):
    (project / "a-file").write_text("")
    code, out, err = run("agent", "list", "--project", str(project / name))
    assert (code, out) == (1, "")
    assert name in err
    assert len(err.splitlines()) == 1
    assert not (project / "nowhere").exists()

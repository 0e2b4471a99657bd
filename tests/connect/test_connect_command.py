"""`shopfloor connect` and `shopfloor hook`: what they write, print and undo."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shopfloor import access, cli
from shopfloor.connect import check, config_files
from shopfloor.connect.clients import CLIENTS
from shopfloor.connect.endpoints import Endpoint, read_endpoint
from shopfloor.domain.principals import Kind, Principal
from shopfloor.errors import InvalidInput, Unavailable
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from tests.transports.server import serving


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the program and returns its exit code, output and errors."""

    def run_program(*arguments):
        monkeypatch.setattr(sys, "argv", ["shopfloor", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return exit_info.value.code or 0, out, err

    return run_program


@pytest.fixture
def checked(monkeypatch):
    """Replace the check by one that succeeds, and return the endpoints that it got."""
    endpoints: list[Endpoint] = []

    def list_tools(endpoint: Endpoint, folder: Path) -> list[str]:
        endpoints.append(endpoint)
        return ["a", "b"]

    monkeypatch.setattr(check, "list_tools", list_tools)
    return endpoints


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def list_tokens(project):
    with Shopfloor(Settings(project=project)) as shopfloor:
        return [(token["owner"], token["state"]) for token in shopfloor.list_tokens()]


# --- connecting ---


def test_stdio_is_used_without_a_server_and_needs_no_token(run, checked, home, project):
    code, out, err = run("connect", "claude")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "No server is running, so Claude Code starts one itself over stdio.",
        "Connected Claude Code over stdio, as the new agent claude.",
        f"Wrote {home}/.claude.json",
        f"Wrote {project}/.claude/settings.local.json",
        "Checked: Claude Code gets 2 tools.",
        "Next: start Claude Code in this project and say: start work",
    ]
    entry = read_json(home / ".claude.json")["projects"][str(project)]["mcpServers"]["shopfloor"]
    assert entry["args"] == ["stdio", "--project", str(project), "--as", "claude"]
    assert checked[0].command == (entry["command"], *entry["args"])
    assert list_tokens(project) == []


def test_connecting_again_changes_nothing(run, checked, home, project):
    run("connect", "codex", "--transport", "http")
    before = (home / ".codex" / "config.toml").read_bytes()
    _, out, _ = run("connect", "codex", "--transport", "http")
    assert "Nothing had to be changed." in out
    assert (home / ".codex" / "config.toml").read_bytes() == before
    assert list_tokens(project) == [("codex", "valid")]
    assert checked[0] == checked[1]


def test_revoked_token_is_renewed(run, checked, home, project):
    run("connect", "cursor", "--transport", "http")
    with Shopfloor(Settings(project=project)) as shopfloor:
        shopfloor.revoke_token(next(shopfloor.list_tokens())["id"])
    run("connect", "cursor", "--transport", "http")
    assert sorted(list_tokens(project)) == [("cursor", "revoked"), ("cursor", "valid")]
    assert checked[0].headers != checked[1].headers


def test_other_agent_replaces_the_token(run, checked, project):
    run("connect", "cursor", "--transport", "http")
    run("connect", "cursor", "--transport", "http", "--name", "lead", "--type", "supervisor")
    assert sorted(list_tokens(project)) == [("cursor", "revoked"), ("lead", "valid")]
    _, out, _ = run("agent", "show", "lead", "--json")
    assert json.loads(out)["type"] == "SUPERVISOR"


def test_first_token_is_announced(run, checked):
    text = "This is the first token. From now on every call over HTTP requires one.\nThis cannot be undone."
    assert text in run("connect", "cursor", "--transport", "http")[1]
    assert text not in run("connect", "zed", "--transport", "http")[1]


def test_shared_config_refers_to_a_variable(run, checked, home, project):
    _, out, _ = run("connect", "claude", "--scope", "project", "--transport", "http")
    entry = read_json(project / ".mcp.json")["mcpServers"]["shopfloor"]
    assert entry["headers"] == {"Authorization": "Bearer ${CLAUDE_SHOPFLOOR_TOKEN}"}
    file = project / ".shopfloor" / "clients" / "claude.env"
    assert f"load its token: . {file}" in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = checked[0].headers["Authorization"].removeprefix("Bearer ")
    assert file.read_text() == f"export CLAUDE_SHOPFLOOR_TOKEN={token}\n"
    assert "Nothing had to be changed." in run("connect", "claude", "--scope", "project", "--transport", "http")[1]


def test_token_is_not_written_to_a_file_that_git_tracks(run, checked, project):
    subprocess.run(["git", "init", "--quiet"], check=True)
    code, _, err = run("connect", "zed", "--scope", "project", "--transport", "http")
    assert code == 1
    assert "git tracks that file" in err
    assert not (project / ".zed").exists()
    assert list_tokens(project) == []


def test_token_in_a_tracked_file_of_the_home_folder_is_announced(run, checked, home):
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{}")
    subprocess.run(["git", "init", "--quiet", str(home)], check=True)
    subprocess.run(["git", "-C", str(home), "add", ".cursor/mcp.json"], check=True)
    assert f"Warning: git tracks {home}/.cursor/mcp.json" in run("connect", "cursor", "--transport", "http")[1]


def test_hook_is_added_once_beside_other_hooks(run, checked, home, project):
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    other = {"hooks": [{"type": "command", "command": "date"}]}
    settings.write_text(json.dumps({"hooks": {"BeforeAgent": [other]}}, indent=2))
    run("connect", "gemini")
    run("connect", "gemini", "--name", "gem")
    first, ours = read_json(settings)["hooks"]["BeforeAgent"]
    assert first == other
    assert ours["hooks"][0]["command"].endswith(f"hook --project {project} --as gem --event BeforeAgent")
    run("connect", "gemini", "--remove")
    assert read_json(settings) == {"hooks": {"BeforeAgent": [other]}}


# --- files ---


def test_backup_and_mode_are_kept(run, checked, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {}\n}\n')
    file.chmod(0o640)
    _, out, _ = run("connect", "cursor")
    assert f"Backup: {file}.bak" in out
    assert file.with_name("mcp.json.bak").read_text() == '{\n  "mcpServers": {}\n}\n'
    assert [stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()] == [0o640, 0o640]


def test_remove_deletes_a_backup_that_is_equal_to_the_file(run, checked, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    before = '{\n  "mcpServers": {\n    "other": {\n      "command": "other"\n    }\n  }\n}\n'
    file.write_text(before)
    run("connect", "cursor")
    _, out, _ = run("connect", "cursor", "--remove")
    assert file.read_text() == before
    assert [*file.parent.iterdir()] == [file]
    assert f"{file}.bak" not in out


def test_remove_names_a_backup_that_it_keeps(run, checked, home):
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {}\n}\n')
    run("connect", "cursor")
    # Changed by hand while it was connected: the backup is the only copy of what was there before.
    file.write_text(file.read_text().replace('"mcpServers"', '"theme": "dark", "mcpServers"', 1))
    _, out, _ = run("connect", "cursor", "--remove")
    assert f"The earlier backup is kept: {file}.bak" in out
    assert file.with_name("mcp.json.bak").read_text() == '{\n  "mcpServers": {}\n}\n'


def test_new_config_of_a_user_is_private(run, checked, home):
    run("connect", "cursor")
    assert stat.S_IMODE((home / ".cursor" / "mcp.json").stat().st_mode) == 0o600


def test_config_that_does_not_parse_is_not_touched(run, checked, home, project):
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text("model = \n")
    code, _, err = run("connect", "codex", "--transport", "http")
    assert code == 1
    assert f"{file} is not valid TOML, so it was not changed" in err
    assert file.read_text() == "model = \n"
    assert list_tokens(project) == []
    assert json.loads(run("agent", "list", "--json")[1])[0]["id"] == "local"


def test_symbolic_link_is_not_replaced(run, checked, home):
    (home / ".claude.json").symlink_to(home / "dotfiles.json")
    code, _, err = run("connect", "claude")
    assert code == 1
    assert f"{home}/.claude.json is a symbolic link to {home}/dotfiles.json" in err
    assert (home / ".claude.json").is_symlink()


def test_folder_that_leads_out_of_the_project_is_not_followed(run, checked, project, tmp_path):
    (project / ".cursor").symlink_to(tmp_path)
    code, _, err = run("connect", "cursor", "--scope", "project")
    assert code == 1
    assert "written outside the project" in err


def test_unreadable_config_is_reported(home):
    file = home / ".claude.json"
    file.write_text("{}")
    file.chmod(0)
    with ordinary_user(home), pytest.raises(InvalidInput, match="cannot be read: Permission denied"):
        config_files.read_text(file)


@contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Act as a user without rights of their own, who can enter the folder: root could read every file."""
    own = os.geteuid()
    for each in (folder, *folder.parents[:-2]):
        each.chmod(each.stat().st_mode | 0o755)
    os.seteuid(65534 if own == 0 else own)
    try:
        yield
    finally:
        os.seteuid(own)


def test_folder_in_place_of_a_config_is_reported(run, checked, home):
    (home / ".claude.json").mkdir()
    assert "is not a regular file" in run("connect", "claude")[2]


def test_config_with_another_usual_name_is_used(run, checked, home):
    file = home / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{\n  // mine\n  "autoupdate": false\n}\n')
    run("connect", "opencode")
    assert "// mine" in file.read_text()
    assert '"shopfloor"' in file.read_text()
    assert not file.with_name("opencode.json").exists()


# --- print, remove, list ---


@pytest.mark.parametrize("client", CLIENTS)
def test_print_shows_the_entry_and_changes_nothing(run, client, home, project):
    code, out, err = run("connect", client, "--print", "--transport", "http")
    assert (code, err) == (0, "")
    assert "http://127.0.0.1:3001/mcp" in out
    assert "Bearer TOKEN" in out
    assert list(home.iterdir()) == []
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_remove_undoes_what_connect_did(run, checked, client, home, project):
    run("connect", client, "--transport", "http")
    code, out, err = run("connect", client, "--remove")
    assert (code, err) == (0, "")
    assert "Revoked the token" in out
    assert list_tokens(project) == [(client, "revoked")]
    assert [path for path in home.rglob("*") if path.is_file() and path.suffix != ".bak"] == []
    assert run("connect", client, "--remove")[:2] == (0, f"{client} is not connected\n")


def test_remove_deletes_the_file_with_the_token(run, checked, project):
    run("connect", "gemini", "--scope", "project", "--transport", "http")
    run("connect", "gemini", "--remove")
    assert list((project / ".shopfloor" / "clients").iterdir()) == []
    assert list_tokens(project) == [("gemini", "revoked")]


def test_list_shows_what_is_connected(run, checked, home, project):
    run("connect", "codex", "--transport", "http")
    run("connect", "cursor", "--scope", "project")
    (home / ".claude.json").write_text('{"mcpServers": {"shopfloor": {"type": "http", "url": "http://other/mcp"}}}')
    rows = json.loads(run("connect", "--list", "--json")[1])
    assert [(row["client"], row["scope"], row["transport"], row["agent"]) for row in rows] == [
        ("claude", "user", "http", None),
        ("codex", "user", "http", "codex"),
        ("cursor", "project", "stdio", "cursor"),
    ]
    assert rows[0]["state"] == "not for this server, or its token was revoked"
    assert rows[1]["state"] == "connected"


def test_list_names_a_config_that_cannot_be_read(run, home):
    (home / ".claude.json").write_text("{")
    rows = json.loads(run("connect", "--list", "--json")[1])
    assert "is not valid JSON" in rows[0]["state"]


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["emacs"], "Unknown client 'emacs'\n  Known clients: claude, codex"),
        ([], "Name a client: claude, codex"),
        (["goose", "--scope", "project"], "goose has no config with the scope 'project'; expected one of user"),
        (["claude", "--transport", "sse"], "Unknown transport 'sse'; expected one of http, stdio"),
        (["claude", "--name", "local", "--type", "WORKER"], "Agent 'local' exists with the type SUPERVISOR"),
        (["claude", "--name", "human"], "'human' is a reserved name"),
    ],
)
def test_mistakes_are_reported(run, arguments, message):
    code, _, err = run("connect", *arguments)
    assert code == 1
    assert message in err


def test_retired_agent_is_rejected(run, checked):
    run("agent", "add", "claude", "--no-token")
    run("agent", "retire", "claude")
    assert "Agent 'claude' has retired" in run("connect", "claude")[2]


def test_server_that_does_not_run_is_reported_with_the_next_step(run):
    code, out, _ = run("connect", "cursor", "--transport", "http", "--port", "1")
    assert code == 1
    assert "The check failed: http://127.0.0.1:1/mcp" in out
    assert "Start the server: shopfloor serve" in out


def test_failed_write_leaves_no_valid_token(run, checked, home, project, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, _, err = run("connect", "cursor", "--transport", "http")
    assert code == 1
    assert "cannot be written: No space left on device" in err
    assert list_tokens(project) == [("cursor", "revoked")]
    assert list((home / ".cursor").iterdir()) == []


def test_new_token_is_shown_with_the_command_of_each_client(run):
    _, out, err = run("agent", "add", "worker-1")
    token = out.splitlines()[1]
    assert (
        f'gemini mcp add --transport http shopfloor http://127.0.0.1:3001/mcp -H "Authorization: Bearer {token}"' in err
    )
    assert "Others: shopfloor connect goose|cursor|vscode|zed|crush" in err
    _, out, err = run("token", "issue", "--agent", "worker-1")
    assert f"export CODEX_SHOPFLOOR_TOKEN={out.strip()}" in err
    assert run("token", "issue", "--agent", "worker-1", "--json")[2] == ""


# --- with a real server ---


def test_running_server_is_found_and_checked_over_http(run, project, home):
    with serving(project) as server:
        code, out, err = run("connect", "claude")
        assert (code, err) == (0, "")
        assert out.splitlines()[-2] == f"Checked: Claude Code gets {count_tools(run)} tools."
        entry = read_json(home / ".claude.json")["projects"][str(project)]["mcpServers"]["shopfloor"]
        assert entry["url"] == f"{server.url}/mcp"
        run("connect", "claude", "--remove")
        with pytest.raises(Unavailable, match="The token is not valid, has expired or was revoked"):
            check.list_tools(read_endpoint(entry), project)


def count_tools(run):
    """Return how many tools a worker sees in the default profile."""
    with Shopfloor(Settings(project=".")) as shopfloor:
        profile = shopfloor.engine.profile
        return len(access.list_tools(Principal(Kind.AGENT, "claude", "WORKER"), profile))


def test_stdio_server_that_fails_says_why(project):
    endpoint = read_endpoint({"command": sys.executable, "args": ["-c", "import sys; sys.exit('no such project')"]})
    with pytest.raises(Unavailable, match="no such project"):
        check.list_tools(endpoint, project)


# --- hook ---


def test_hook_prints_nothing_without_unread_mail(run):
    run("agent", "add", "claude", "--no-token")
    assert run("hook", "--as", "claude", "--event", "UserPromptSubmit") == (0, "", "")


def test_hook_prints_unread_mail_as_context(run, project):
    run("agent", "add", "claude", "--no-token")
    with Shopfloor(Settings(project=project)) as shopfloor:
        mail = {"toAgentId": "claude", "subject": "Plan\x1b[2J", "body": "secret body"}
        shopfloor.call("factory", "mcp__mail__send", mail)
    assert run("hook", "--as", "claude")[1].startswith("Shopfloor: 1 unread mail. Read with mcp__mail__read.\n- ")
    code, out, _ = run("hook", "--as", "claude", "--event", "UserPromptSubmit")
    assert code == 0
    context = json.loads(out)["hookSpecificOutput"]
    assert context["hookEventName"] == "UserPromptSubmit"
    assert "from local: Plan\ufffd[2J" in context["additionalContext"]
    assert "secret body" not in out

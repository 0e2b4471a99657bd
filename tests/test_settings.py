"""Settings come from flags, then the environment, then shopfloor.toml, then defaults."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from shopfloor import settings
from shopfloor.app import check_profile, prepare_data_folder
from shopfloor.errors import BadSettings, StartupError
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Toolset
from tests.workbench import Tools


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """Create an empty project and change into it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write_settings(project, text):
    (project / "shopfloor.toml").write_text(text)


def catch_error(**given):
    with pytest.raises(BadSettings) as error:
        Settings(**given)
    return error.value.message


def test_settings_have_defaults(project):
    settings = Settings()
    assert settings.model_dump() == {
        "project": project,
        "data": project / ".shopfloor",
        "database": "",
        "database_direct": None,
        "workspace": "default",
        "host": "127.0.0.1",
        "port": 3001,
        "workers": 1,
        "profile": ("factory", "todo", "context"),
        "allowed_hosts": (),
        "allowed_origins": (),
        "public_url": None,
        "trusted_proxies": (),
        "issuer": None,
        "jwks_url": None,
        "audience": "shopfloor",
        "user_token_days": 30,
        "rate_limits": {},
        "roles": {},
        "calls": 64,
        "waits": 10_000,
        "retries": 3,
        "retry_pause": 1.0,
        "session_days": 7,
        "chat_base_url": None,
        "chat_model": "gpt-4o",
        "chat_api": "chat_completions",
        "chat_timeout": 60,
        "chat_steps": 12,
        "chat_turns": 20,
        "chat_history": 40,
        "agent_silence_seconds": 420,
        "elicitation": True,
        "secret_names": settings.secret_names,
        "search_tokens": 6000,
        "embeddings": "local",
        "embeddings_model": "text-embedding-3-small",
        "embed_chunks": True,
        "openai_base_url": "",
        "model_cache": settings.model_cache,
        "keep_log_days": 365,
        "max_log_rows": 0,
        "keep_mail_days": 0,
        "keep_transcript_days": 90,
        "keep_event_days": 30,
        "keep_answer_hours": 24,
        "archive": True,
        "webhooks": (),
        "webhook_secret": "",
        "webhook_previous_secret": "",
        "webhook_private_addresses": False,
        "notify": (),
        "smtp_url": "",
        "inngest": False,
        "traces": False,
        "log": "auto",
        "log_level": "info",
        "run": {},
        "run_toolsets": ("loop", "context", "factory"),
        "launch_runs": True,
        "run_permissions": (),
        "hooks": {},
    }
    assert {".envrc", ".netrc", ".npmrc", ".pypirc", "*.pem", "id_rsa"} <= set(settings.secret_names)


def test_arguments_win_over_environment_over_file(project, monkeypatch):
    write_settings(project, 'port = 1\nhost = "toml"\nworkspace = "toml"')
    monkeypatch.setenv("SHOPFLOOR_PORT", "2")
    monkeypatch.setenv("SHOPFLOOR_HOST", "environment")
    settings = Settings(port=3)
    assert (settings.port, settings.host, settings.workspace, settings.audience) == (
        3,
        "environment",
        "toml",
        "shopfloor",
    )


def test_lists_and_tables_are_read_from_each_source(project, monkeypatch):
    write_settings(
        project,
        """
        allowed_hosts = ["floor.example"]
        [rate_limits]
        grep = 60
        [roles.AUDITOR]
        allow = ["mcp__agent__*"]
        """,
    )
    monkeypatch.setenv("SHOPFLOOR_PROFILE", "factory, todo")
    settings = Settings()
    assert (settings.allowed_hosts, settings.profile) == (("floor.example",), ("factory", "todo"))
    assert (settings.rate_limits, settings.roles) == ({"grep": 60}, {"AUDITOR": {"allow": ["mcp__agent__*"]}})
    monkeypatch.setenv("SHOPFLOOR_RATE_LIMITS", '{"grep": 5}')
    assert Settings().rate_limits == {"grep": 5}


def test_unknown_variable_is_ignored_with_one_warning(monkeypatch, caplog):
    # Kubernetes sets the second one in every pod, if a service is called shopfloor.
    for name in ("SHOPFLOOR_PROT", "SHOPFLOOR_SERVICE_HOST"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(settings, "_WARNED", set())
    assert [Settings().port, Settings().port] == [3001, 3001]
    assert [record.message for record in caplog.records] == [
        "Ignoring SHOPFLOOR_PROT, which is not a setting; did you mean SHOPFLOOR_PORT?",
        "Ignoring SHOPFLOOR_SERVICE_HOST, which is not a setting",
    ]


def test_unknown_key_of_the_file_is_named(project):
    write_settings(project, "prot = 1")
    assert catch_error().startswith("Unknown setting 'prot'; expected one of agent_silence_seconds")


def test_unknown_keyword_argument_is_named():
    assert catch_error(prot=1).startswith("Unknown setting 'prot'; expected one of agent_silence_seconds")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", "abc", "port must be an integer (given:"),
        ("port", "65536", "port must be at most 65535"),
        ("port", "", "port must be an integer (given:"),
        ("log", "loud", "log must be one of auto, json, pretty"),
        ("log_level", "INFO", "log_level must be one of debug, info, warning, error"),
        ("retries", "11", "retries must be at most 10"),
        ("retry_pause", "-1", "retry_pause must be at least 0"),
        ("calls", "0", "calls must be at least 1"),
        ("workspace", "", "workspace must not be empty"),
        ("rate_limits", "{", "rate_limits: "),
        ("rate_limits", '{"grep": -1}', "rate_limits: a limit must be 0 (no limit) or a number of calls per minute"),
        ("rate_limits", "[]", "rate_limits must be an object"),
        ("roles", '{"WORKER": {"may": []}}', "roles.WORKER.may"),
        ("issuer", "https://id.example", "settings: issuer and jwks_url must be set together"),
        ("profile", "", "profile must not be empty"),
        ("profile", ",", "profile must not be empty"),
        ("hooks", "[" * 100_000, "hooks: the JSON is nested too deeply"),
        ("webhooks", "http://[", "webhooks: Invalid IPv6 URL"),
        ("webhooks", "http://a.example:65536", "webhooks: Port out of range 0-65535"),
        ("notify", "ntfy:http://[/topic", "notify: Invalid IPv6 URL"),
        ("smtp_url", "smtp://a.example:port", "smtp_url: Port could not be cast to integer value as 'port'"),
        ("keep_mail_days", "99999999999", "keep_mail_days must be at most 1000000"),
    ],
    ids=lambda value: value[:30],
)
def test_invalid_value_is_named_with_the_rule(monkeypatch, name, value, message):
    monkeypatch.setenv(f"SHOPFLOOR_{name.upper()}", value)
    assert catch_error().startswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("smtp_url", "smtp://user:secret word@a.example"),
        ("webhooks", "ftp://a.example/secret"),
        ("notify", "slack:a.example/secret"),
    ],
)
def test_error_does_not_contain_a_secret(monkeypatch, name, value):
    monkeypatch.setenv(f"SHOPFLOOR_{name.upper()}", value)
    error = catch_error()
    assert error.startswith(f"{name}: ")
    assert "secret" not in error


@pytest.mark.parametrize("text", ["data = 5", "data = [1]", "database = 5", "host = 1", "profile = 5", "port = 'x'"])
def test_value_of_the_wrong_type_in_the_file_is_named(project, text):
    write_settings(project, text)
    assert catch_error().startswith(text.partition(" ")[0])


@pytest.mark.parametrize("given", [{"project": 5}, {"data": 5}, {"data": ["x"]}])
def test_value_of_the_wrong_type_in_python_is_named(given):
    assert catch_error(**given).startswith(next(iter(given)))


@pytest.mark.parametrize(
    "content", [b"port = ", b"\xff\xfe", b"[port", pytest.param(b"port = " + b"[" * 5000, id="too deep")]
)
def test_unreadable_settings_file_is_named(project, content):
    (project / "shopfloor.toml").write_bytes(content)
    assert catch_error().startswith(f"{project / 'shopfloor.toml'} cannot be read: ")


def test_all_invalid_values_are_named(monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_PORT", "x")
    monkeypatch.setenv("SHOPFLOOR_CALLS", "0")
    assert set(catch_error().split("; ")) == {
        "port must be an integer (given: 'x')",
        "calls must be at least 1 (given: '0')",
    }


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 5  # type: ignore[misc]


# --- project and data folder ---


def test_data_folder_above_marks_the_project(project, monkeypatch):
    (project / ".shopfloor").mkdir()
    inside = project / "src" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert Settings().project == project


def test_settings_file_above_marks_the_project(project, monkeypatch):
    write_settings(project, "port = 5")
    inside = project / "src"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert (Settings().project, Settings().port) == (project, 5)


def test_project_defaults_to_the_current_folder(project, monkeypatch):
    inside = project / "src"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert Settings().project == inside


def test_settings_file_of_the_given_project_is_used(project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    write_settings(other, "port = 7")
    monkeypatch.setenv("SHOPFLOOR_PROJECT", str(other))
    assert (Settings().project, Settings().data, Settings().port) == (other, other / ".shopfloor", 7)


def test_data_folder_is_relative_to_the_project_or_absolute(project, tmp_path):
    assert Settings(data="state").data == project / "state"
    assert Settings(data=str(tmp_path / "else")).data == tmp_path / "else"
    assert Settings(data="~/floor").data == Path.home() / "floor"


def test_database_defaults_to_a_file_in_the_data_folder(project):
    assert Settings().database_url == f"sqlite://{project}/.shopfloor/shopfloor.db"
    assert Settings(database="postgresql://host/db").database_url == "postgresql://host/db"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("floor.example", False),
        ("192.168.1.2", False),
    ],
)
def test_loopback_is_recognized(host, loopback):
    assert Settings(host=host).loopback is loopback


# --- the data folder ---


def read_mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_data_folder_is_private_and_ignored_by_git(project):
    Shopfloor(Settings()).close()
    data = project / ".shopfloor"
    assert (read_mode(data), (data / ".gitignore").read_text()) == (0o700, "*\n")
    subprocess.run(["git", "init", "-q"], check=True)
    status = subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert status.stdout == ""


def test_readable_data_folder_is_made_private(project):
    (project / ".shopfloor").mkdir(mode=0o755)
    prepare_data_folder(Settings())
    assert read_mode(project / ".shopfloor") == 0o700


def test_existing_folder_of_another_name_keeps_its_mode_and_is_not_hidden_from_git(project):
    project.chmod(0o755)
    prepare_data_folder(Settings(data="."))
    assert (read_mode(project), (project / ".gitignore").exists()) == (0o755, False)


def test_existing_gitignore_is_kept(project):
    (project / ".shopfloor").mkdir()
    (project / ".shopfloor" / ".gitignore").write_text("*.db\n")
    prepare_data_folder(Settings())
    assert (project / ".shopfloor" / ".gitignore").read_text() == "*.db\n"


def test_data_folder_that_is_a_file_is_named(project):
    (project / "file").write_text("")
    with pytest.raises(StartupError, match=f"The data folder {project}/file/data cannot be used: Not a directory"):
        Shopfloor(Settings(data="file/data"))
    with pytest.raises(StartupError, match=f"The data folder {project}/file cannot be used: File exists"):
        Shopfloor(Settings(data="file"))


def test_unwritable_data_folder_is_named(project):
    with pytest.raises(StartupError, match="The data folder /proc/nowhere cannot be used"):
        Shopfloor(Settings(data="/proc/nowhere"))


@pytest.mark.parametrize("database", ["mysql://x", "floor.db", "sqlite:relative", "sqlite://relative.db"])
def test_unsupported_database_is_refused(database):
    with pytest.raises(BadSettings, match=r"is not a store: use sqlite:///absolute/path\.db or postgresql://"):
        Shopfloor(Settings(database=database))


# --- the profile ---


def test_unknown_toolset_in_the_profile_is_refused():
    toolsets = {"bench": Tools().toolset()}
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="bench,nope"), toolsets)
    assert error.value.message == "profile: unknown toolset 'nope'; expected any of bench"


def test_profile_with_colliding_tool_names_is_refused():
    twin = Tools().toolset()
    twin.name = "twin"
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="bench,twin"), {"bench": Tools().toolset(), "twin": twin})
    assert error.value.message == "profile: 'bench' and 'twin' both have a tool 'note'; serve one of them"


def test_toolset_with_a_caller_argument_is_not_served():
    direct = Toolset(
        "direct",
        render_error=lambda error, *_: str(error),
        principal_kind=None,
        allows=lambda *_: True,
        caller_argument="user_id",
    )
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="direct"), {"bench": Tools().toolset(), "direct": direct})
    assert error.value.message == "profile: unknown toolset 'direct'; expected any of bench"


def test_webhooks_must_be_http_urls(project):
    both = Settings(webhooks="http://a.example/x, https://b.example").webhooks
    assert [target.url for target in both] == ["http://a.example/x", "https://b.example"]
    assert [target.url for target in Settings(webhooks=["http://a.example", "http://a.example"]).webhooks] == [
        "http://a.example"
    ]
    (target,) = Settings(webhooks=[{"url": "http://a.example", "events": ["mail.sent"], "concurrency": 4}]).webhooks
    assert (target.events, target.concurrency) == (("mail.sent",), 4)
    assert "concurrency" in catch_error(webhooks=[{"url": "http://a.example", "concurrency": 0}])
    for bad in ("ftp://a.example", "a.example", "http://", "http://a.example /x"):
        assert catch_error(webhooks=[bad]).startswith("webhooks: a webhook must be a URL that starts with http")
    assert "hush" not in repr(Settings(webhook_secret="hush"))


def test_inngest_needs_an_event_key(project, monkeypatch):
    monkeypatch.delenv("INNGEST_EVENT_KEY", raising=False)
    monkeypatch.delenv("INNGEST_DEV", raising=False)
    assert catch_error(inngest=True) == "settings: inngest needs INNGEST_EVENT_KEY, or INNGEST_DEV for a dev server"
    monkeypatch.setenv("INNGEST_EVENT_KEY", "key")
    assert Settings(inngest=True).inngest


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a project in a subfolder that has a data folder."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    main = tmp_path / "main"
    (main / "app" / "inner").mkdir(parents=True)
    (main / "app" / "inner" / "a.txt").write_text("a\n")
    run_git(tmp_path, "init", "-q", str(main))
    run_git(main, "add", "-A")
    run_git(main, "commit", "-q", "-m", "start")
    (main / "app" / ".shopfloor").mkdir()
    return main


def run_git(folder, *words):
    options = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *options, *words], cwd=folder, check=True, capture_output=True)


def locate(monkeypatch, folder, **given):
    monkeypatch.chdir(folder)
    settings = Settings(**given)
    return settings.project, settings.data


def test_worktrees_share_the_data_folder_and_have_their_own_files(repository, tmp_path, monkeypatch):
    data = repository / "app" / ".shopfloor"
    (repository / "app" / "shopfloor.toml").write_text("port = 4000\n")
    inside = data / "worktrees" / "task-1"
    for top in (tmp_path / "other", inside):
        run_git(repository, "worktree", "add", "-q", "--detach", str(top))
        assert locate(monkeypatch, top / "app" / "inner") == (top / "app", data)
        assert locate(monkeypatch, repository, project=top / "app") == (top / "app", data)
        assert locate(monkeypatch, top / "app", data="mine") == (top / "app", top / "app" / "mine")
        assert Settings().port == 4000
    # Git sets these in hooks, and they may name any repository.
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert locate(monkeypatch, tmp_path / "other" / "app") == (tmp_path / "other" / "app", data)
    (tmp_path / "other" / "app" / ".shopfloor").mkdir()
    assert locate(monkeypatch, tmp_path / "other" / "app")[1] == tmp_path / "other" / "app" / ".shopfloor"


def test_an_agent_in_a_worktree_cannot_choose_settings(repository, tmp_path, monkeypatch):
    (repository / "app" / "shopfloor.toml").write_text("port = 4000\n")
    data = repository / "app" / ".shopfloor"
    for folder in (data / "worktrees" / "task-1", tmp_path / "data" / "worktrees" / "task-1", tmp_path / "other"):
        run_git(repository, "worktree", "add", "-q", "--detach", str(folder))
        (folder / "app" / "shopfloor.toml").write_text('port = 6000\nwebhooks = ["https://evil.example/"]\n')
    assert Settings(project=data / "worktrees" / "task-1" / "app").port == 4000
    (repository / "app" / "shopfloor.toml").unlink()
    inside = Settings(project=data / "worktrees" / "task-1" / "app")
    assert (inside.port, inside.webhooks, inside.data) == (Settings.model_fields["port"].default, (), data)
    elsewhere = Settings(project=tmp_path / "data" / "worktrees" / "task-1" / "app", data=tmp_path / "data")
    assert elsewhere.webhooks == ()
    # A worktree that a person made may have a config file of its own.
    assert Settings(project=tmp_path / "other" / "app").port == 6000


def test_pipe_instead_of_a_git_file_is_not_read(tmp_path, monkeypatch):
    pipe, pointer = tmp_path / "pipe", tmp_path / "pointer"
    for folder in (pipe, pointer / "git"):
        folder.mkdir(parents=True)
    os.mkfifo(pipe / ".git")
    (pointer / ".git").write_text("gitdir: git")
    os.mkfifo(pointer / "git" / "commondir")
    for project in (pipe, pointer):
        assert locate(monkeypatch, project) == (project, project / ".shopfloor")


def test_git_file_that_lies_is_not_believed(repository, tmp_path, monkeypatch):
    run_git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    false = tmp_path / "false"
    (false / "app").mkdir(parents=True)
    (false / ".git").write_text((tmp_path / "other" / ".git").read_text())
    assert locate(monkeypatch, false / "app") == (false / "app", false / "app" / ".shopfloor")
    (false / ".git").write_bytes(b"gitdir: \xff\x00\n")
    assert locate(monkeypatch, false / "app") == (false / "app", false / "app" / ".shopfloor")


def test_submodule_is_a_project_of_its_own(repository, tmp_path, monkeypatch):
    run_git(tmp_path, "init", "-q", "outer")
    run_git(tmp_path / "outer", "submodule", "add", "-q", str(repository), "part")
    place = tmp_path / "outer" / "part" / "app"
    assert locate(monkeypatch, place) == (place, place / ".shopfloor")


def test_data_folder_of_another_user_is_not_shared(repository, tmp_path, monkeypatch):
    run_git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    place = tmp_path / "other" / "app"
    monkeypatch.setattr("os.getuid", lambda: 4_000_000)
    assert locate(monkeypatch, place) == (place, place / ".shopfloor")


def test_worktrees_beside_a_bare_repository_share_its_data_folder(repository, tmp_path, monkeypatch):
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), str(tmp_path / "hub" / ".bare"))
    run_git(tmp_path / "hub" / ".bare", "worktree", "add", "-q", "--detach", str(tmp_path / "hub" / "one"))
    (tmp_path / "hub" / ".shopfloor").mkdir()
    one = tmp_path / "hub" / "one"
    assert locate(monkeypatch, one / "app") == (one, tmp_path / "hub" / ".shopfloor")

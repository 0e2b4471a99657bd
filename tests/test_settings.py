"""One class for everything that can be set: flags, then the environment, then shopfloor.toml, then defaults."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from shopfloor.app import check_profile, prepare_data_folder
from shopfloor.errors import BadSettings, StartRefused
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.toolkit import Toolset
from tests.workbench import Tools


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project, and we are in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(project, text):
    (project / "shopfloor.toml").write_text(text)


def refused(**given):
    with pytest.raises(BadSettings) as error:
        Settings(**given)
    return error.value.message


def test_without_any_source_there_are_defaults(project):
    settings = Settings()
    assert settings.model_dump() == {
        "project": project,
        "data": project / ".shopfloor",
        "database": "",
        "workspace": "default",
        "host": "127.0.0.1",
        "port": 3001,
        "profile": ("factory", "todo", "context"),
        "allowed_hosts": (),
        "allowed_origins": (),
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
        "secret_names": settings.secret_names,
        "embeddings": "local",
        "embeddings_model": "text-embedding-3-small",
        "openai_base_url": "",
        "model_cache": settings.model_cache,
        "webhooks": (),
        "webhook_secret": "",
        "inngest": False,
        "traces": False,
        "log": "auto",
        "log_level": "info",
        "run": {},
        "run_toolsets": ("loop",),
        "run_permissions": (),
        "hooks": {},
    }
    assert {".envrc", ".netrc", ".npmrc", ".pypirc", "*.pem", "id_rsa"} <= set(settings.secret_names)


def test_the_first_source_wins(project, monkeypatch):
    write(project, 'port = 1\nhost = "toml"\nworkspace = "toml"')
    monkeypatch.setenv("SHOPFLOOR_PORT", "2")
    monkeypatch.setenv("SHOPFLOOR_HOST", "environment")
    settings = Settings(port=3)
    assert (settings.port, settings.host, settings.workspace, settings.audience) == (
        3,
        "environment",
        "toml",
        "shopfloor",
    )


def test_lists_and_tables_are_written_as_their_source_allows(project, monkeypatch):
    write(
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


def test_an_unknown_variable_is_named_with_what_there_is(monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_PROT", "1")
    message = refused()
    assert message.startswith(
        "SHOPFLOOR_PROT is not a setting; settings are agent_silence_seconds, allowed_hosts, allowed_origins"
    )
    assert "port" in message


def test_an_unknown_key_of_the_file_is_named(project):
    write(project, "prot = 1")
    assert refused().startswith("prot is not a setting; settings are agent_silence_seconds")


def test_an_unknown_argument_is_named():
    assert refused(prot=1).startswith("prot is not a setting; settings are agent_silence_seconds")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("port", "abc", "port: Input should be a valid integer"),
        ("port", "65536", "port: Input should be less than or equal to 65535"),
        ("port", "", "port: Input should be a valid integer"),
        ("log", "loud", "log: Input should be 'auto', 'json' or 'pretty'"),
        ("log_level", "INFO", "log_level: Input should be 'debug', 'info', 'warning' or 'error'"),
        ("retries", "11", "retries: Input should be less than or equal to 10"),
        ("retry_pause", "-1", "retry_pause: Input should be greater than or equal to 0"),
        ("calls", "0", "calls: Input should be greater than or equal to 1"),
        ("workspace", "", "workspace: String should have at least 1 character"),
        ("rate_limits", "{", "rate_limits: "),
        ("rate_limits", '{"grep": -1}', "rate_limits: a limit is 0 (none) or more calls a minute"),
        ("rate_limits", "[]", "rate_limits: Input should be a valid dictionary"),
        ("roles", '{"WORKER": {"may": []}}', "roles.WORKER.may"),
        ("issuer", "https://id.example", "settings: issuer and jwks_url go together: set both or none"),
        ("profile", "", "profile: "),
        ("profile", ",", "profile: "),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(monkeypatch, name, value, message):
    monkeypatch.setenv(f"SHOPFLOOR_{name.upper()}", value)
    assert refused().startswith(message)


@pytest.mark.parametrize("text", ["data = 5", "data = [1]", "database = 5", "host = 1", "profile = 5", "port = 'x'"])
def test_a_value_of_the_wrong_kind_in_the_file_is_named(project, text):
    write(project, text)
    assert refused().startswith(text.partition(" ")[0])


@pytest.mark.parametrize("given", [{"project": 5}, {"data": 5}, {"data": ["x"]}])
def test_a_value_of_the_wrong_kind_in_python_is_named(given):
    assert refused(**given).startswith(next(iter(given)))


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"[port"])
def test_a_file_that_cannot_be_read_is_named(project, content):
    (project / "shopfloor.toml").write_bytes(content)
    assert refused().startswith(f"{project / 'shopfloor.toml'} cannot be read: ")


def test_a_bad_value_among_many_is_named_with_the_others(monkeypatch):
    monkeypatch.setenv("SHOPFLOOR_PORT", "x")
    monkeypatch.setenv("SHOPFLOOR_CALLS", "0")
    assert {part.partition(":")[0] for part in refused().split("; ")} == {"port", "calls"}


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Settings().port = 5  # type: ignore[misc]


# --- where the floor is ---


def test_a_floor_above_is_found_from_inside_the_project(project, monkeypatch):
    (project / ".shopfloor").mkdir()
    inside = project / "src" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert Settings().project == project


def test_a_config_file_marks_a_project_as_well(project, monkeypatch):
    write(project, "port = 5")
    inside = project / "src"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert (Settings().project, Settings().port) == (project, 5)


def test_without_a_mark_the_project_is_where_we_are(project, monkeypatch):
    inside = project / "src"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert Settings().project == inside


def test_the_project_named_brings_its_own_file(project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    write(other, "port = 7")
    monkeypatch.setenv("SHOPFLOOR_PROJECT", str(other))
    assert (Settings().project, Settings().data, Settings().port) == (other, other / ".shopfloor", 7)


def test_the_data_folder_is_relative_to_the_project_or_absolute(project, tmp_path):
    assert Settings(data="state").data == project / "state"
    assert Settings(data=str(tmp_path / "else")).data == tmp_path / "else"
    assert Settings(data="~/floor").data == Path.home() / "floor"


def test_the_database_is_a_file_in_the_data_folder_unless_it_is_named(project):
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
def test_only_loopback_is_loopback(host, loopback):
    assert Settings(host=host).loopback is loopback


# --- the data folder ---


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_data_folder_is_for_its_owner_alone_and_out_of_gits_sight(project):
    Shopfloor(Settings()).close()
    data = project / ".shopfloor"
    assert (mode(data), (data / ".gitignore").read_text()) == (0o700, "*\n")
    subprocess.run(["git", "init", "-q"], check=True)
    status = subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert status.stdout == ""


def test_a_data_folder_that_others_could_read_is_closed_to_them(project):
    (project / ".shopfloor").mkdir(mode=0o755)
    prepare_data_folder(Settings())
    assert mode(project / ".shopfloor") == 0o700


def test_a_git_ignore_of_ones_own_stays(project):
    (project / ".shopfloor").mkdir()
    (project / ".shopfloor" / ".gitignore").write_text("*.db\n")
    prepare_data_folder(Settings())
    assert (project / ".shopfloor" / ".gitignore").read_text() == "*.db\n"


def test_a_data_folder_that_cannot_be_is_named(project):
    (project / "file").write_text("")
    with pytest.raises(StartRefused, match=f"The data folder {project}/file/data cannot be used: Not a directory"):
        Shopfloor(Settings(data="file/data"))
    with pytest.raises(StartRefused, match=f"The data folder {project}/file cannot be used: File exists"):
        Shopfloor(Settings(data="file"))


def test_a_data_folder_that_cannot_be_written_to_is_named(project):
    with pytest.raises(StartRefused, match="The data folder /proc/nowhere cannot be used"):
        Shopfloor(Settings(data="/proc/nowhere"))


@pytest.mark.parametrize("database", ["mysql://x", "floor.db", "sqlite:relative", "sqlite://relative.db"])
def test_a_database_of_another_kind_is_refused(database):
    with pytest.raises(BadSettings, match=r"is not a store: use sqlite:///absolute/path\.db or postgresql://"):
        Shopfloor(Settings(database=database))


# --- the profile ---


def test_a_profile_names_toolsets_that_there_are():
    toolsets = {"bench": Tools().toolset()}
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="bench,nope"), toolsets)
    assert error.value.message == "profile: 'nope' is not a toolset that can be served; there are bench"


def test_a_profile_in_which_two_names_collide_names_both():
    twin = Tools().toolset()
    twin.name = "twin"
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="bench,twin"), {"bench": Tools().toolset(), "twin": twin})
    assert error.value.message == "profile: 'bench' and 'twin' both have a tool 'note'; serve one of them"


def test_a_toolset_whose_caller_is_an_argument_is_not_served():
    direct = Toolset(
        "direct",
        answer=lambda value, call: value,
        refuse=lambda error, call: str(error),
        acts_as=None,
        may=lambda caller, tool: True,
        caller_argument="user_id",
    )
    with pytest.raises(BadSettings) as error:
        check_profile(Settings(profile="direct"), {"bench": Tools().toolset(), "direct": direct})
    assert error.value.message == "profile: 'direct' is not a toolset that can be served; there are bench"


def test_web_hooks_are_addresses(project):
    assert Settings(webhooks="http://a.example/x, https://b.example").webhooks == (
        "http://a.example/x",
        "https://b.example",
    )
    assert Settings(webhooks=["http://a.example", "http://a.example"]).webhooks == ("http://a.example",)
    for bad in ("ftp://a.example", "a.example", "http://", "http://a.example /x"):
        assert refused(webhooks=[bad]).startswith("webhooks: a web hook is an address that begins with http")
    assert "hush" not in repr(Settings(webhook_secret="hush"))


def test_inngest_needs_its_key(project, monkeypatch):
    monkeypatch.delenv("INNGEST_EVENT_KEY", raising=False)
    monkeypatch.delenv("INNGEST_DEV", raising=False)
    assert refused(inngest=True) == "settings: inngest needs INNGEST_EVENT_KEY, or INNGEST_DEV for a dev server"
    monkeypatch.setenv("INNGEST_EVENT_KEY", "key")
    assert Settings(inngest=True).inngest

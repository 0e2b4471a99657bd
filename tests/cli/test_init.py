"""shopfloor init, shopfloor agent known, and the start of shopfloor run."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from shopfloor.cli import init
from shopfloor.cli.lazy_group import PLURALS
from shopfloor.runner.known_agents import KNOWN_AGENTS
from shopfloor.settings import Settings
from shopfloor.toolsets import context, factory
from tests.cli.conftest import Run, RunJson

pytestmark = pytest.mark.usefixtures("project")


def test_init_writes_a_config_file_and_a_section_and_names_the_next_steps(run: Run, project: Path) -> None:
    code, out, err = run("init", "--yes")
    assert (code, err) == (0, "")
    assert out.startswith(
        "written  shopfloor.toml\nwritten  AGENTS.md\n\nNext:\n  1. Start the server  shopfloor serve\n"
    )
    assert (project / "AGENTS.md").read_text() == init.AGENTS_SECTION
    assert not (project / ".shopfloor").exists()
    assert max(map(len, out.splitlines())) <= 80


def test_every_line_of_the_config_file_is_valid_without_its_comment(run: Run, project: Path) -> None:
    run("init", "--yes")
    text = (project / "shopfloor.toml").read_text()
    assert tomllib.loads(text) == {}
    settings = "\n".join(line.removeprefix("# ") for line in text.splitlines() if " = " in line or line.endswith("]"))
    (project / "shopfloor.toml").write_text(settings)
    assert Settings(project=project).run["agent"] == "opencode acp"


def test_init_keeps_existing_content_and_changes_nothing_the_second_time(run_json: RunJson, project: Path) -> None:
    (project / "shopfloor.toml").write_text("port = 4000\n")
    (project / "AGENTS.md").write_text("# Rules\n\nUse tabs.")
    assert run_json("init", "-y")["files"] == {"shopfloor.toml": "kept", "AGENTS.md": "written"}
    assert (project / "shopfloor.toml").read_text() == "port = 4000\n"
    assert (project / "AGENTS.md").read_text() == f"# Rules\n\nUse tabs.\n\n{init.AGENTS_SECTION}"
    assert run_json("init", "-y")["files"] == {"shopfloor.toml": "kept", "AGENTS.md": "kept"}


def test_section_of_an_earlier_version_is_renewed_in_its_place(run_json: RunJson, project: Path) -> None:
    (project / "AGENTS.md").write_text(f"# A\n\n{init.START}\nold\n{init.END}\n\n# B\n")
    run_json("init", "-y")
    assert (project / "AGENTS.md").read_text() == f"# A\n\n{init.AGENTS_SECTION}\n# B\n"


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("n", False), ("", True)])
def test_agents_file_is_changed_after_a_question(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, answer: str, written: bool
) -> None:
    terminal = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    code, out, _ = run("init")
    assert (code, "written  AGENTS.md" in out) == (0, written)
    assert (project / "AGENTS.md").exists() is written


def test_agents_file_is_left_alone_without_a_terminal(run: Run, run_json: RunJson, project: Path) -> None:
    assert run_json("init")["files"] == {"shopfloor.toml": "written", "AGENTS.md": "skipped"}
    assert not (project / "AGENTS.md").exists()
    assert run("init")[1].splitlines()[1] == "skipped  AGENTS.md; shopfloor init --yes adds its section"


def test_section_is_short_and_names_only_tools_that_exist() -> None:
    assert len(init.AGENTS_SECTION) / 4 < 300
    names = {word.strip("`.,") for word in init.AGENTS_SECTION.split() if "_" in word}
    assert names <= {*factory.toolset.tools, *context.toolset.tools}


def test_init_offers_to_connect_the_clients_that_are_installed(
    run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name in ("claude", "goose") else None)
    assert run_json("init")["clients"] == ["claude", "goose"]
    out = run("init")[1]
    assert "Connect an agent  shopfloor connect claude\n" in out
    assert "shopfloor connect goose\n" in out


def test_init_in_a_folder_that_does_not_exist_is_rejected(run: Run) -> None:
    code, _, err = run("init", "--project", "nowhere")
    assert (code, err.splitlines()[1]) == (1, "  Create it first")


def test_known_agents_are_listed_with_whole_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    # The agents of this machine must not count as installed.
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, _ = run("agent", "known")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert all(agent.command in out and f"  {agent.install}\n" in out for agent in KNOWN_AGENTS)


@pytest.mark.parametrize("plural", sorted(PLURALS))
def test_plural_of_a_group_is_the_group(run: Run, plural: str) -> None:
    """`shopfloor agents known` is as natural as `shopfloor agent known`."""
    code, out, _ = run(plural, "--help")
    assert (code, out.splitlines()[2:]) == (0, run(PLURALS[plural], "--help")[1].splitlines()[2:])


def test_run_names_a_specification_that_does_not_exist(run: Run, project: Path) -> None:
    (project / "agent").write_text("#!/bin/sh\n")
    (project / "agent").chmod(0o755)
    code, out, err = run("run", "--spec", "SPEC.md", "--agent", "./agent")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "shopfloor: Specification not found: SPEC.md"


def test_known_agents_as_json_have_the_whole_install_command(run_json: RunJson) -> None:
    rows = run_json("agent", "known")
    assert [row["command"] for row in rows] == [agent.command for agent in KNOWN_AGENTS]
    assert "npm install -g opencode-ai" in [row["install"] for row in rows]


def test_run_without_an_agent_prints_the_exact_options(run: Run, project: Path) -> None:
    (project / "SPEC.md").write_text("# Do it")
    code, out, err = run("run", "--spec", "SPEC.md")
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[:2] == ["shopfloor: No agent given", "  Name the command that starts one:"]
    assert {line.strip().split("  ")[0] for line in lines[2:]} == {
        f"--agent '{agent.command}'" for agent in KNOWN_AGENTS
    }


@pytest.mark.parametrize(
    ("agent", "hint"),
    [
        ("claude-agent-acp", "Install Claude Code: npm install -g @agentclientprotocol/claude-agent-acp"),
        ("nonsense-agent acp", "Check the spelling, or name another: shopfloor agent known"),
        ("./missing/agent", "Check the spelling, or name another: shopfloor agent known"),
    ],
)
def test_run_with_an_agent_that_is_not_installed_says_how_to_install_it(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, agent: str, hint: str
) -> None:
    monkeypatch.setenv("PATH", str(project))
    (project / "SPEC.md").write_text("# Do it")
    code, out, err = run("run", "--spec", "SPEC.md", "--agent", agent)
    assert (code, out) == (1, "")
    assert err == f"shopfloor: Agent program '{agent.split()[0]}' not found\n  {hint}\n"
    # Nothing was started: no run is left behind.
    assert json.loads(run("runs", "--json")[1])["runs"] == []

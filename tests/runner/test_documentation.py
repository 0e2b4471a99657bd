"""docs/loop.md documents every tool, option, variable, hook and exit code, and the example of docs/crew.md works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shopfloor.runner.known_agents import KNOWN_AGENTS, KnownAgent
from shopfloor.runner.options import RunOptions
from shopfloor.runner.prompt import VARIABLES
from shopfloor.toolsets.loop import toolset
from tests.runner.support import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "loop.md").read_text("utf-8")


@pytest.mark.parametrize("name", toolset.tools)
def test_every_tool_is_documented(name: str):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", RunOptions.model_fields)
def test_every_option_is_documented(name: str):
    assert f"--{name.replace('_', '-')}" in PAGE


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_is_documented(name: str):
    assert f"{{{{{name}}}}}" in PAGE


@pytest.mark.parametrize(
    "moment", ["session_start", "pre_iteration", "post_iteration", "on_task_complete", "on_error", "session_end"]
)
def test_every_hook_is_documented(moment: str):
    assert f"\n{moment} = " in PAGE


@pytest.mark.parametrize("agent", KNOWN_AGENTS, ids=lambda agent: agent.name)
def test_every_known_agent_is_documented_with_its_command(agent: KnownAgent):
    assert f"| {agent.name} | `{agent.command}` |" in PAGE


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 129, 130, 143])
def test_every_exit_code_is_documented(code: int):
    assert f"| {code} |" in PAGE


def test_the_example_of_a_crew_works_as_it_is_written(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs/crew.md").read_text()
    section = page.partition("## Try it in two minutes")[2].partition("\n## ")[0]
    commands = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    (tmp_path / "home/.gitconfig").write_text("[user]\nname = Test\nemail = test@example.invalid\n")
    # As a new user: nothing of this environment but the programs.
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        ["bash", "-e", "-c", "".join(commands)],
        cwd=tmp_path / "project",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SPEC: completed, epic-1, 3 completed" in done.stdout
    made = {name: (tmp_path / "project" / name).read_text().split() for name in ("one.txt", "log.txt")}
    assert {name: sorted(words) for name, words in made.items()} == {"one.txt": ["1"], "log.txt": ["three", "two"]}

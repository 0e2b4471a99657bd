"""docs/loop.md documents every tool, option, variable, hook and exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.runner.known_agents import KNOWN_AGENTS, KnownAgent
from shopfloor.runner.options import RunOptions
from shopfloor.runner.prompt import VARIABLES
from shopfloor.toolsets.loop import toolset

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

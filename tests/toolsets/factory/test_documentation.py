"""docs/factory.md names every tool, every argument, every move and every code."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.domain.tasks import MOVES, BoardKind
from shopfloor.toolsets import factory

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "factory.md").read_text("utf-8")


@pytest.mark.parametrize("tool", list(factory.toolset.tools))
def test_every_tool_is_documented(tool):
    assert f"`{tool}`" in PAGE


def test_every_argument_is_documented():
    arguments = {each for tool in factory.toolset.tools.values() for each in tool.signature.parameters.values()}
    assert "toAgentId" in arguments
    assert {argument for argument in arguments if f"`{argument}" not in PAGE} == set()


def test_every_transition_is_documented():
    moves = {state: allowed for state, allowed in MOVES[BoardKind.EPIC].items() if allowed}
    assert moves
    for state, allowed in moves.items():
        assert f"| {state} | {', '.join(allowed)} |" in PAGE

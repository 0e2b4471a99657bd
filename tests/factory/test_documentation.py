"""docs/factory.md names every tool, every argument, every move and every code."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.domain.tasks import MOVES, BoardKind
from shopfloor.toolsets import factory

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "factory.md").read_text("utf-8")


@pytest.mark.parametrize("tool", list(factory.toolset.tools))
def test_every_tool_is_documented(tool):
    assert f"`{tool}`" in PAGE


@pytest.mark.parametrize("tool", list(factory.toolset.tools))
def test_every_argument_is_documented(tool):
    for argument in factory.toolset.tools[tool].form.parameters.values():
        assert f"`{argument}" in PAGE, argument


def test_every_move_is_documented():
    for state, allowed in MOVES[BoardKind.EPIC].items():
        if allowed:
            assert f"| {state} | {', '.join(allowed)} |" in PAGE

"""The pages about lists and chat name everything there is to set, to call and to type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shopfloor.cli import todos, users
from shopfloor.settings import Settings
from shopfloor.toolsets import todo

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.mark.parametrize("page", ["todo.md", "chat.md"])
def test_no_page_leads_nowhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / target).exists(), target


def test_every_setting_of_the_chat_is_explained_with_its_default():
    text = (DOCS / "chat.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        if name.startswith("chat_"):
            row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
            assert field.default is None or str(field.default) in row, name


def test_every_tool_and_command_is_named():
    text = (DOCS / "todo.md").read_text(encoding="utf-8")
    for name, tool in todo.toolset.tools.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
        assert all(f"`{argument}" in row for argument in tool.schema["properties"]), name
    for command in todos.app.registered_commands:
        assert f"`{command.name}`" in text or f"todo {command.name}" in text, command.name
    for command in users.app.registered_commands:
        assert command.name == "list" or f"shopfloor user {command.name}" in text, command.name

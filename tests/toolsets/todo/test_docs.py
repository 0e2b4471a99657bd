"""The pages about lists and chat name every setting, tool and command."""

from __future__ import annotations

from pathlib import Path

from shopfloor.cli import todos, users
from shopfloor.settings import Settings
from shopfloor.toolsets import todo

DOCS = Path(__file__).resolve().parents[3] / "docs"


def find_row(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))


def test_every_setting_of_the_chat_is_explained_with_its_default():
    text = (DOCS / "chat.md").read_text(encoding="utf-8")
    fields = {name: field for name, field in Settings.model_fields.items() if name.startswith("chat_")}
    assert fields
    for name, field in fields.items():
        assert field.default is None or str(field.default) in find_row(text, name), name


def test_every_tool_and_command_is_named():
    text = (DOCS / "todo.md").read_text(encoding="utf-8")
    rows = {name: find_row(text, name) for name in todo.toolset.tools}
    assert len(rows) == 5
    arguments = ((name, each) for name, tool in todo.toolset.tools.items() for each in tool.schema["properties"])
    assert [(name, argument) for name, argument in arguments if f"`{argument}" not in rows[name]] == []
    commands = [command.name for command in todos.app.registered_commands]
    assert "add" in commands
    assert [name for name in commands if f"`{name}`" not in text and f"todo {name}" not in text] == []
    commands = [command.name for command in users.app.registered_commands]
    assert [name for name in commands if f"shopfloor user {name}" not in text] == ["list"]

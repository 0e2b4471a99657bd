"""Subjects and titles are one line with something to see."""

from __future__ import annotations

import pytest

from tests.workbench import Workbench

INVISIBLE = ["\u200b", "\u200d\u2060", "\u0301\u0302", "\u3164", "\ufeff", "\u2800 ", "\t\u00ad"]


@pytest.fixture
def database(tmp_path):
    """Use SQLite only: arguments are checked before the store is used."""
    return f"sqlite://{tmp_path}/floor.db"


@pytest.mark.parametrize("text", ["Hi\r\nBcc: x@y", "a\nb", "a\n", "a\u2028b", "a\x85b", *INVISIBLE])
def test_factory_rejects_a_subject_title_or_option_that_is_not_one_visible_line(
    shopfloor: Workbench, text: str
) -> None:
    for tool, given in (
        ("mcp__mail__send", {"toAgentId": "local", "subject": text, "body": "b"}),
        ("mcp__system__log_decision", {"title": text, "body": "b"}),
        ("mcp__mail__ask", {"body": "b", "options": ["a", text], "timeoutSeconds": 0}),
    ):
        body = shopfloor.ask(tool, given, toolset="factory").body
        assert (body["success"], body["error"]["code"]) == (False, "INVALID_INPUT")


@pytest.mark.parametrize("text", ["Hi", "日本語", "🚀", "e\u0301", "family 👨\u200d👩\u200d👧", "\ufe0f✓"])
def test_visible_text_is_accepted(shopfloor: Workbench, text: str) -> None:
    given = {"toAgentId": "local", "subject": text, "body": "b"}
    assert shopfloor.ask("mcp__mail__send", given, toolset="factory").body["success"]


@pytest.mark.parametrize("text", INVISIBLE)
def test_invisible_title_of_a_todo_counts_as_empty(shopfloor: Workbench, text: str) -> None:
    assert shopfloor.call("todo_direct", "add_task", {"user_id": "ann", "title": text})["error"] == "Title is required"


def test_lines_of_a_todo_title_are_joined(shopfloor: Workbench) -> None:
    task = shopfloor.call("todo_direct", "add_task", {"user_id": "ann", "title": " Buy\r\n  milk "})
    assert task["title"] == "Buy milk"

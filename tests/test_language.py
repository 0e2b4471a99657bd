"""Plain English in names, docstrings, comments, texts and pages. The rules are in `tests/language.py`."""

from __future__ import annotations

import pytest

from tests.language import advise, check_file, find_breaks

# By file, rule and text: why a place may break a rule.
ALLOWED = {
    (
        "docs/chat.md",
        "long line",
        '"confirmation": {"id": "k3v9x2mq7d4n", "question": "Delete \\"Buy milk\\" (task 1)…',
    ): ("one event of a stream is one line"),
    (
        "docs/tools.md",
        "long line",
        "Search project context semantically using RAG (Retrieval-Augmented Generation) w…",
    ): "the description that the contract fixes",
    ("src/shopfloor/domain/tokenizer.py", "tell", "tell"): "a stop word of queries",
    ("src/shopfloor/usecases/agents.py", "hire", "hired"): "a stored value",
}


def test_no_place_breaks_a_rule_except_those_that_are_listed():
    found = {(each.path, each.rule, each.text): each.line for each in find_breaks()}
    new = [f"{path}:{found[path, rule, text]}: {text}  → {advise(rule)}" for path, rule, text in found.keys() - ALLOWED]
    assert not new, "Write these differently:\n" + "\n".join(sorted(new))
    assert not ALLOWED.keys() - found, "These are gone; remove them from ALLOWED"


def list_rules(path: str, text: str) -> list[str]:
    return [each.rule for each in check_file(path, text)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Every door is open", "door"),
        ("what was told", "tell"),
        ("It stands in the list", "stands in"),
        ("calls a minute", "a minute"),
        ("removed for good", "for good"),
        ("Nobody waits", "somebody"),
        ("This is no message", "it is no"),
        ("asks leave for it", "leave"),
        ("a web hook", "web hook"),
    ],
)
def test_word_is_found_in_pages_comments_strings_and_names(text, rule):
    assert list_rules("docs/x.md", text) == [rule]
    assert list_rules("src/x.py", f"# {text}\n") == [rule]
    assert list_rules("src/x.py", f'TEXT = f"{text}"\n') == [rule]
    assert list_rules("src/x.py", f"{text.replace(' ', '_')} = 1\n") == [rule]


@pytest.mark.parametrize(
    "text", ["for good reason", "within a minute", "leave it out", "indexed", "Doorn", "ast.walk(x)"]
)
def test_idiomatic_english_passes(text):
    assert list_rules("docs/x.md", text) == []


@pytest.mark.parametrize(("name", "bad"), [("told", True), ("_opened", True), ("embed", False), ("open_file", False)])
def test_bare_participle_is_not_a_function_name(name, bad):
    source = f"def {name}(): pass\n"
    assert [rule for rule in list_rules("src/x.py", source) if rule == "participle name"] == ["participle name"] * bad
    assert "participle name" not in list_rules("src/x.py", f"class X:\n    @property\n    def {name}(self): pass\n")


@pytest.mark.parametrize(
    ("docstring", "bad"),
    [
        ("Return the row.", False),
        ("Process a row.", False),
        ("The row.", True),
        ("Whether it is there.", True),
        ("Returns the row.", True),
        ("Opened files.", True),
    ],
)
def test_docstring_begins_with_an_imperative(docstring, bad):
    source = f'def read_row():\n    """{docstring}"""\n'
    assert list_rules("src/x.py", source) == ["noun docstring"] * bad
    described = f'@toolset.tool("x")\ndef read_row():\n    """{docstring}"""\n'
    assert list_rules("src/shopfloor/toolsets/factory/mail.py", described) == []


def test_long_lines_are_found_except_in_tables():
    assert list_rules("docs/x.md", "x" * 121) == ["long line"]
    assert list_rules("src/shopfloor/web/templates/x.html", "x" * 121) == ["long line"]
    assert list_rules("docs/x.md", "| " + "x" * 121) == []
    assert list_rules("docs/x.md", "x" * 120) == []

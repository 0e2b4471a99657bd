"""Filters, references, outlines, dependencies as signatures, pages within a budget, and what a session has seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.pagination import format_cursor
from shopfloor.search.references import find_question
from shopfloor.serving import Shopfloor
from tests.toolsets.context.support import make_project, open_floor

SHOP = {
    "src/shop/orders.py": (
        "from shop.money import add_tax, Money\n"
        "\n"
        "RATE = 3\n"
        "\n"
        "\n"
        "class Order:\n"
        "    def total(self) -> Money:\n"
        '        """add_tax is not called here by this text."""\n'
        "        # nor is add_tax here\n"
        "        net = Money(1)\n"
        "        return add_tax(net, RATE)\n"
        "\n"
        "    def apply(self):\n"
        "        return map(add_tax, [])\n"
    ),
    "src/shop/money.py": (
        "class Money:\n"
        "    def __init__(self, amount: int) -> None:\n"
        "        self.amount = amount\n"
        "\n"
        "\n"
        "def add_tax(money: Money, rate: int) -> Money:\n"
        "    return money\n"
    ),
    "tests/test_money.py": "from shop.money import add_tax\n\n\ndef test_tax():\n    assert add_tax(1, 2)\n",
    "web/pay.ts": "export function pay(): void {\n  add_tax(1, 2);\n}\n",
    "scripts/report.pl": "sub report {\n  add_tax(1);\n}\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p", SHOP)


@pytest.fixture
def shopfloor(project: Path) -> Iterator[Shopfloor]:
    with open_floor(project) as shopfloor:
        yield shopfloor


def find_paths(shopfloor: Shopfloor, query: str, **more: Any) -> list[str]:
    body = shopfloor.call("context", "context_search", {"query": query, "limit": 20, **more})
    assert "results" in body, body
    return sorted({result.get("path", result["id"]) for result in body["results"]})


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "src/**"}, ["src/shop/money.py", "src/shop/orders.py"]),
        ({"path": "*.{ts,pl}"}, ["scripts/report.pl", "web/pay.ts"]),
        ({"path": "!*.py"}, ["scripts/report.pl", "web/pay.ts"]),
        ({"path": "src/shop/[a-m]*.py"}, ["src/shop/money.py"]),
        ({"language": "TypeScript"}, ["web/pay.ts"]),
        ({"tests": True}, ["tests/test_money.py"]),
        ({"source": "memory"}, ["discovery-1"]),
        ({"source": "code", "tests": False, "language": "python"}, ["src/shop/money.py", "src/shop/orders.py"]),
        ({"path": "nowhere/**"}, []),
    ],
)
def test_search_is_restricted_by_path_language_tests_and_source(both: Shopfloor, given: Any, paths: list[str]):
    both.call("context", "record_discovery", {"type": "rule", "content": "add_tax rounds up"})
    assert find_paths(both, "add_tax", **given) == paths


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": "src/{a"}, "'path' has a bracket that is not closed"),
        ({"path": "../x"}, "'path' must not contain '..'"),
        ({"path": "**/a/**/b/**/c/**/d/**/e"}, "A pattern may have at most 4 '**'"),
        ({"source": "code", "type": "rule"}, "'type' searches discoveries; omit it, or source code"),
        ({"find": "callers", "source": "memory"}, "'path', 'language', 'tests' and 'find' search code; omit 'type' and source memory"),
        ({"find": "callers", "query": "two words"}, "With 'find', 'query' must be one identifier"),
        ({"cursor": "nonsense"}, "Invalid cursor; pass nextCursor unchanged"),
    ],
)  # fmt: skip
def test_arguments_that_contradict_each_other_are_rejected(shopfloor: Shopfloor, given: Any, problem: str):
    body = shopfloor.call("context", "context_search", {"query": "add_tax", **given})
    assert body["error"] == "Invalid parameters"
    assert [each["problem"] for each in body["details"]] == [problem]


def test_references_have_their_enclosing_symbol_and_tests_come_last(shopfloor: Shopfloor):
    body = shopfloor.call("context", "context_search", {"query": "add_tax", "find": "references", "limit": 20})
    found = [(each["id"], each.get("symbol"), each["why"], each["content"]) for each in body["results"]]
    assert found == [
        ("scripts/report.pl#L2-L2", "report", ["call"], "2: add_tax(1);"),
        ("src/shop/orders.py#L1-L1", None, ["import"], "1: from shop.money import add_tax, Money"),
        ("src/shop/orders.py#L11-L11", "Order.total", ["call"], "11: return add_tax(net, RATE)"),
        ("src/shop/orders.py#L14-L14", "Order.apply", ["reference"], "14: return map(add_tax, [])"),
        ("web/pay.ts#L2-L2", "pay", ["call"], "2: add_tax(1, 2);"),
        ("tests/test_money.py#L1-L1", None, ["import"], "1: from shop.money import add_tax"),
        ("tests/test_money.py#L5-L5", "test_tax", ["call"], "5: assert add_tax(1, 2)"),
    ]
    assert body["definedAt"] == ["src/shop/money.py#L6-L7"]
    assert (body["totalFound"], body["index"]) == (7, {"complete": True, "by": "syntax"})


def test_callers_are_calls_within_the_filters(shopfloor: Shopfloor):
    body = shopfloor.call(
        "context", "context_search", {"query": "Order.add_tax()", "find": "callers", "tests": False, "path": "src"}
    )
    assert [(each["path"], each["symbol"]) for each in body["results"]] == [("src/shop/orders.py", "Order.total")]
    body = shopfloor.call("context", "context_search", {"query": "RATE", "find": "references"})
    assert [each["symbol"] for each in body["results"]] == ["Order.total"]
    assert body["definedAt"] == ["src/shop/orders.py#L3-L3"]


def test_question_about_callers_is_answered_without_an_argument(shopfloor: Shopfloor):
    body = shopfloor.call("context", "context_search", {"query": "what calls add_tax?", "tests": False})
    assert [each["symbol"] for each in body["results"]] == ["report", "Order.total", "pay"]
    assert shopfloor.call("context", "context_search", {"query": "what calls no_such_name"})["index"]["by"] == "words"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("who calls `login`", ("call", "login")),
        ("where is Order.total used", ("reference", "total")),
        ("usages of parseCursor", ("reference", "parseCursor")),
        ("where is the cache used", None),
        ("who calls login", None),
        ("what calls for a rewrite", None),
    ],
)
def test_questions_about_uses_name_code(query: str, found: tuple[str, str] | None):
    assert find_question(query) == found


def test_name_without_uses_says_where_else_to_look(shopfloor: Shopfloor):
    body = shopfloor.call("context", "context_search", {"query": "nowhere_used", "find": "references"})
    assert (body["results"], body["definedAt"]) == ([], [])
    assert body["hint"] == "No uses of this name in code; grep_codebase also finds it in comments and strings"


def test_pages_follow_each_other_and_stay_within_the_budget(project: Path):
    for number in range(30):
        (project / f"m{number}.py").write_text(f"def walrus_{number}():\n" + "    walrus = 'x' * 100\n" * 20)
    with open_floor(project, search_tokens=500) as shopfloor:
        seen: list[str] = []
        cursor = None
        while True:
            body = shopfloor.call("context", "context_search", {"query": "walrus", "limit": 10, "cursor": cursor})
            seen += [each["id"] for each in body["results"]]
            assert 1 <= len(body["results"]) < 10
            cursor = body.get("nextCursor")
            if cursor is None:
                break
    assert len(seen) == len(set(seen)) == 30


def test_later_page_repeats_nothing_when_files_are_added_in_between(project: Path):
    for number in range(12):
        (project / f"m{number}.py").write_text(f"def walrus_{number}():\n    walrus = 1\n")
    with open_floor(project) as shopfloor:
        ask = {"query": "walrus", "path": "m*.py", "limit": 5}
        first = shopfloor.call("context", "context_search", ask)
        before = [each["id"] for each in first["results"]]
        (project / "m99.py").write_text("def walrus():\n    walrus = 'walrus'\n")
        second = shopfloor.call("context", "context_search", ask | {"cursor": first["nextCursor"]})
        assert "m99.py#L1-L2" in [each["id"] for each in second["results"]]
        third = shopfloor.call("context", "context_search", ask | {"cursor": second["nextCursor"]})
        after = [each["id"] for each in second["results"] + third["results"]]
        assert "nextCursor" not in third
        assert len(before + after) == len({*before, *after}) == 13


def test_pages_of_unseen_results_leave_nothing_out(project: Path):
    for number in range(9):
        (project / f"m{number}.py").write_text(f"def walrus_{number}():\n    walrus = 1\n")
    with open_floor(project) as shopfloor:
        ask = {"query": "walrus", "path": "m*.py", "limit": 5, "unseen": True}
        first = shopfloor.call("context", "context_search", ask)
        second = shopfloor.call("context", "context_search", ask | {"cursor": first["nextCursor"]})
        assert len({each["id"] for each in first["results"] + second["results"]}) == 9


@pytest.mark.parametrize("key", ["abc", "ééééé"])
def test_cursor_that_no_page_returned_is_rejected(shopfloor: Shopfloor, key: str):
    body = shopfloor.call("context", "context_search", {"query": "walrus", "cursor": format_cursor("search", key)})
    problem = {"field": "cursor", "problem": "Invalid cursor; pass nextCursor unchanged"}
    assert body == {"error": "Invalid parameters", "details": [problem]}


def test_unseen_leaves_out_what_the_session_was_shown_until_it_changes(shopfloor: Shopfloor, project: Path):
    ask = {"query": "add_tax", "unseen": True, "limit": 20}
    first = shopfloor.call("context", "context_search", ask)["results"]
    assert first
    assert shopfloor.call("context", "context_search", ask)["results"] == []
    assert find_paths(shopfloor, "add_tax") == sorted({each["path"] for each in first})
    (project / "web" / "pay.ts").write_text("export function pay(): void {\n  add_tax(3, 4);\n}\n")
    assert find_paths(shopfloor, "add_tax", unseen=True) == ["web/pay.ts"]


def test_outline_of_a_file_is_nested(shopfloor: Shopfloor):
    body = shopfloor.call("context", "read_file", {"path": "src/shop/orders.py", "view": "outline"})
    assert body["file"]["content"] == "6: class Order\n7:   def total(self) -> Money\n13:   def apply(self)"
    assert (body["file"]["lines"], "truncated" in body) == (14, False)


def test_outline_of_a_folder_is_the_same_on_both_engines(both: Shopfloor):
    body = both.call("context", "read_file", {"path": "web", "view": "outline"})
    assert body["file"] == {
        "path": "web",
        "content": "web/pay.ts\n  1: function pay(): void",
        "files": 1,
        "language": "text",
    }


def test_outline_of_a_folder_has_the_most_detail_that_fits(
    shopfloor: Shopfloor, project: Path, monkeypatch: pytest.MonkeyPatch
):
    def read(path: str) -> tuple[list[str], str | None]:
        body = shopfloor.call("context", "read_file", {"path": path, "view": "outline"})
        return body["file"]["content"].split("\n"), body.get("hint")

    lines, hint = read("src")
    assert lines == [
        "src/shop/money.py",
        "  1: class Money",
        "  2:   def __init__(self, amount: int) -> None",
        "  6: def add_tax(money: Money, rate: int) -> Money",
        "src/shop/orders.py",
        "  6: class Order",
        "  7:   def total(self) -> Money",
        "  13:   def apply(self)",
    ]
    assert hint is None
    monkeypatch.setattr("shopfloor.usecases.files.MAX_OUTLINE_CHARS", 80)
    assert read("src") == (
        ["src/shop/money.py: Money, add_tax", "src/shop/orders.py: Order"],
        "Signatures are left out; outline a folder or a file below",
    )
    monkeypatch.setattr("shopfloor.usecases.files.MAX_OUTLINE_CHARS", 70)
    assert read(".") == (
        ["scripts/report.pl", "src/shop/ (2 files)", "tests/test_money.py", "web/pay.ts"],
        "Files are left out; outline a folder or a file below",
    )
    (project / "web" / "new.ts").write_text("export class Fresh {}\n")
    monkeypatch.undo()
    assert "  1: class Fresh" in read("web")[0]
    assert shopfloor.call("context", "read_file", {"path": "no/such", "view": "outline"})["error"] == "File not found"


def test_dependencies_come_as_signatures(shopfloor: Shopfloor):
    body = shopfloor.call("context", "read_file", {"path": "src/shop/orders.py", "deps": "signatures"})
    assert body["file"]["content"] == SHOP["src/shop/orders.py"]
    assert body["dependencies"] == [
        {
            "path": "src/shop/money.py",
            "type": "import",
            "level": 1,
            "content": (
                "1: class Money\n"
                "2:   def __init__(self, amount: int) -> None\n"
                "6: def add_tax(money: Money, rate: int) -> Money"
            ),
        }
    ]

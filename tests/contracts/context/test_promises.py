"""No promise without a test, and no contract test without a promise."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
PROMISES = yaml.safe_load((HERE / "promises.yaml").read_text("utf-8"))


def test_every_promise_is_held_by_a_test_that_exists():
    for promise in PROMISES:
        assert promise["tests"], promise["promise"]
        assert set(promise["tests"]) <= _tests(), promise["promise"]


def test_every_contract_test_holds_a_promise():
    assert _tests() == {test for promise in PROMISES for test in promise["tests"]}


def test_every_promise_says_where_it_is_made():
    for promise in PROMISES:
        first, last = map(int, promise["lines"].split("-"))
        assert 0 < first <= last <= 800, promise["promise"]


def _tests() -> set[str]:
    tree = ast.parse((HERE / "test_contract.py").read_text("utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}

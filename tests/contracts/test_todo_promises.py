"""Every promise of the two todo contracts has tests, and the tests exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
CONTRACTS = ("todo", "todo_direct")


@cache
def promises(contract: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((HERE / contract / "promises.yaml").read_text(encoding="utf-8"))
    return found


@cache
def written_in(file: str) -> set[str]:
    tree = ast.parse((CHECKOUT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_promise_is_whole(contract):
    for promise in promises(contract):
        assert set(promise) == {"id", "source", "promise", "tests"}, promise
        assert promise["tests"], f"{promise['id']} has no test"
    ids = [promise["id"] for promise in promises(contract)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("contract", "id", "test"),
    [(contract, each["id"], test) for contract in CONTRACTS for each in promises(contract) for test in each["tests"]],
)
def test_the_test_of_a_promise_exists(contract, id, test):
    file, _, name = test.partition("::")
    assert name in written_in(file), f"{contract}/{id}: there is no {test}"


def test_every_contract_test_holds_a_promise():
    held = {test for contract in CONTRACTS for promise in promises(contract) for test in promise["tests"]}
    beyond = {"test_over_execute_in_the_envelope_of_the_floor"}
    for file in ("tests/todo/test_todo.py", "tests/todo/test_todo_direct.py"):
        for name in written_in(file):
            if name.startswith("test_") and name not in beyond:
                assert f"{file}::{name}" in held, f"{name} holds no promise"

"""Every promise has its source, its words and a test that there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[2]
MANIFESTS = sorted(HERE.glob("*.yaml"))
PROMISES = [promise for manifest in MANIFESTS for promise in yaml.safe_load(manifest.read_text("utf-8"))]


@cache
def names_in(path: str) -> set[str]:
    """The names of the tests in a file."""
    file = CHECKOUT / path
    if not file.is_file():
        return set()
    return {
        node.name
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["id"])
def test_a_promise_has_a_source_words_and_a_test(promise):
    assert set(promise) == {"id", "source", "text", "test"}
    assert re.fullmatch(r"\d+(-\d+)?(, \d+(-\d+)?)*", str(promise["source"]))
    assert promise["text"]
    path, _, name = promise["test"].partition("::")
    assert name in names_in(path), f"{promise['test']} does not exist"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_a_promise_is_made_once(manifest):
    ids = [promise["id"] for promise in yaml.safe_load(manifest.read_text("utf-8"))]
    assert len(set(ids)) == len(ids)


def test_every_test_of_the_contract_holds_a_promise():
    named = {promise["test"] for promise in PROMISES}
    for file in HERE.glob("test_*.py"):
        if file.name == Path(__file__).name:
            continue
        path = str(file.relative_to(CHECKOUT))
        unnamed = {name for name in names_in(path) if name.startswith("test_") and f"{path}::{name}" not in named}
        assert unnamed == set() or "yaml" in file.read_text("utf-8"), f"{path} holds no promise with {unnamed}"

"""Load the promises of the five contracts, and find what a manifest gets wrong."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = {
    "context": "context.md",
    "factory": "factory.md",
    "loop": "loop.md",
    "todo": "todo.md",
    "todo_direct": "todo-direct.md",
}
"""Each contract's page in docs/contracts/."""

SETTLED = "settled"
"""The section of promises that a contract leaves open."""


@dataclass(frozen=True)
class Promise:
    """One promise of a contract, and the tests that hold it."""

    id: str
    section: str
    tests: tuple[str, ...]
    words: str | None = None


@cache
def load_promises(contract: str) -> tuple[Promise, ...]:
    """Read the manifest of a contract. A field too many or too few raises TypeError."""
    rows = yaml.safe_load((CHECKOUT / "tests/contracts" / contract / "promises.yaml").read_text("utf-8"))
    return tuple(Promise(**(row | {"tests": tuple(row["tests"] or ())})) for row in rows)


@cache
def list_tests(path: str) -> frozenset[str]:
    """Name the tests of a file; a file that is missing has none."""
    file = CHECKOUT / path
    if not file.is_file():
        return frozenset()
    functions = (
        node
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def list_page_ids(contract: str) -> list[str]:
    """List the ids that the contract's page describes, in order."""
    page = (CHECKOUT / "docs/contracts" / PAGES[contract]).read_text("utf-8")
    return re.findall(r'<a id="([^"]+)"></a>', page)


def find_faults(promises: tuple[Promise, ...], page_ids: list[str]) -> Iterator[str]:
    """Describe what is wrong with a manifest, one sentence each."""
    for id, count in Counter(promise.id for promise in promises).items():
        if count > 1:
            yield f"{id}: used {count} times"
    for promise in promises:
        if (promise.words is None) != (promise.section == SETTLED):
            yield f"{promise.id}: words of the contract belong to a section, and what is settled has none"
        if not promise.tests:
            yield f"{promise.id}: has no test"
        for test in promise.tests:
            path, _, name = test.partition("::")
            if name not in list_tests(path):
                yield f"{promise.id}: {test} does not exist"
    ids = {promise.id for promise in promises}
    yield from (f"{id}: not described in docs/contracts" for id in sorted(ids - set(page_ids)))
    yield from (f"{id}: described in docs/contracts, but not in the manifest" for id in sorted(set(page_ids) - ids))
    yield from (f"{id}: described twice" for id, count in Counter(page_ids).items() if count > 1)

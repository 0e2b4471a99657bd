"""Load the cases of tests/transports/attack/, and find the tests that run them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

HERE = Path(__file__).parent
FILES = [yaml.safe_load(file.read_text("utf-8")) for file in sorted((HERE / "attack").glob("*.yaml"))]
CASES: dict[str, dict[str, Any]] = {case["id"]: case for file in FILES for case in file["cases"]}
LISTS: dict[str, list[str]] = {name: values for file in FILES for name, values in file.get("lists", {}).items()}
"""Values that a case is to be run with, by the name in its `for_each`."""

T = TypeVar("T", bound=Callable[..., Any])


def attack(id: str) -> Callable[[T], T]:
    """Mark a test that runs a case."""
    assert id in CASES, f"there is no case {id}"
    return lambda test: test


def find_tested() -> set[str]:
    """Return the ids of the cases that a test anywhere in the tests is marked with."""
    texts = (file.read_text("utf-8") for file in HERE.parent.rglob("test_*.py") if "node_modules" not in file.parts)
    return {id for text in texts for id in re.findall(r'^@attack\("([A-Z]+-\d+)"\)$', text, re.MULTILINE)}

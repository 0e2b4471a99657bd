"""The cases of tests/doors/attack/, by id, and which test stands for which."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

HERE = Path(__file__).parent
FILES = sorted((HERE / "attack").glob("*.yaml"))
SHARED = HERE.parents[2] / "shared" / "attack"
"""Where the cases come from; ours is a copy, so that a checkout stands alone."""

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for file in FILES for case in yaml.safe_load(file.read_text())["cases"]
}

LATER = {
    "ISO-01": "issue 4: todos are the first thing that users own",
    "ISO-02": "issue 4: todos are the first tools with a user_id",
    "ISO-03": "issue 3: there is no mail yet",
    "PTH-01": "issue 5: read_file",
    "PTH-02": "issue 5: read_file",
    "PTH-03": "issue 5: read_file",
    "PTH-04": "issue 5: read_file",
    "PTH-05": "issue 5: read_file",
    "GRP-01": "issue 5: grep",
    "GRP-02": "issue 5: grep",
    "GRP-03": "issue 5: grep",
    "GRP-04": "issue 5: grep",
    "INJ-01": "issue 7: there are no pages yet",
    "VAL-01": "issue 4: the limits of a todo",
    "VAL-02": "issue 3: addressing a mail",
    "LIF-02": "issue 6: an agent that calls while it ends",
    "ACP-01": "issue 6: the runner reads what agents say",
    "ACP-02": "issue 6: the runner opens sessions",
}
"""Cases about what is not there yet, and the issue that brings it."""

T = TypeVar("T", bound=Callable[..., Any])


def attack(id: str) -> Callable[[T], T]:
    """Marks the test that stands for a case."""
    assert id in CASES, f"there is no case {id}"
    return lambda test: test


def tested() -> set[str]:
    """The ids of the cases that some test here is marked with."""
    found: set[str] = set()
    for file in HERE.glob("test_*.py"):
        found |= set(re.findall(r'^@attack\("([A-Z]+-\d+)"\)$', file.read_text(), re.MULTILINE))
    return found

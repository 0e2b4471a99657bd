"""The threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "security.md"


def test_every_proof_in_the_threat_model_is_a_test():
    named = re.findall(r"`([a-z_/]+\.py)(?:::(test_\w+))?`", PAGE.read_text("utf-8"))
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (TESTS / file).exists() or (test and f"def {test}(" not in (TESTS / file).read_text("utf-8"))
    ]
    assert len(named) > 15
    assert missing == []

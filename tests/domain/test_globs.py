from __future__ import annotations

import random
import re

import pytest

from shopfloor.domain import globs
from shopfloor.errors import InvalidInput

PARTS = [
    "**",
    "*",
    "a",
    "*a",
    "a*b",
    "*a*b*",
    "?",
    "a?",
    "*.a",
    "[ab]*",
    "[!a]*",
    "{a,b}",
    "{a*,*b}/b",
    "[+-9]b",
    "[a-]*",
]


def find(glob: str, path: str, *, backtracks: bool) -> bool:
    return re.search(globs.to_regex(glob, backtracks=backtracks), path) is not None


def test_regular_expressions_of_a_glob_match_the_same_paths_as_the_glob():
    choose = random.Random(7)
    found = 0
    for _ in range(3_000):
        glob = choose.choice(["", "", "/"]) + "/".join(choose.choices(PARTS, k=choose.randint(1, 4)))
        path = "/".join("".join(choose.choices("ab.", k=choose.randint(1, 4))) for _ in range(choose.randint(1, 5)))
        expected = globs.matches(glob, path)
        matched = find(glob, path, backtracks=True)
        # `a/**` means everything below a folder; the expression also matches a file of that name.
        assert matched == expected or glob.endswith("/**"), (glob, path)
        assert find(glob, path, backtracks=False) == matched, (glob, path)
        found += expected
    assert 300 < found < 2_700


def test_range_the_wrong_way_round_matches_nothing():
    assert not find("[z-a]", "m", backtracks=True)
    assert find("[!z-a]", "m", backtracks=True)


def test_glob_with_very_many_braces_is_rejected():
    with pytest.raises(InvalidInput, match="'path' has more than 32 braces"):
        globs.check("{" * 1_000 + "}" * 1_000, "path")

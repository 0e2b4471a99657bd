"""Names that could be mistaken for another principal are rejected."""

from __future__ import annotations

import pytest

from shopfloor.domain.principals import check_user_name
from shopfloor.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "a b", "é", "日本語", "user@example.com", "auth0|123", "7", "x" * 255])
def test_user_name_can_be_in_any_language(name):
    assert check_user_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", " alice", "alice ", "x" * 256),
        *("alice\u200b", "ali\u00adce", "\ufeffalice", "alice\u2060", "al\u200dice"),  # invisible
        *(
            "a\u00a0b",
            "a\u3000b",
            "a\u2028b",
            "a\tb",
            "a\nb",
            "a\0b",
            "\x1b[31ma",
        ),  # other spaces and control characters
        *("\u202ealice", "alice\u2066", "\ud800"),  # text direction and unpaired surrogates
        *("e\u0301", "A\u030a", "\u212b"),  # not in normal form C
    ],
)
def test_user_name_that_looks_like_another_is_rejected(name):
    with pytest.raises(InvalidInput, match="1 to 255 printable characters"):
        check_user_name(name)

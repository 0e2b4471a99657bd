"""Names: nobody is called so that he could be taken for somebody else."""

from __future__ import annotations

import pytest

from shopfloor.domain.actors import user_name
from shopfloor.errors import InvalidInput


@pytest.mark.parametrize("name", ["a", "a b", "é", "日本語", "user@example.com", "auth0|123", "7", "x" * 255])
def test_a_user_may_have_a_name_of_any_language(name):
    assert user_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", " alice", "alice ", "x" * 256),
        *("alice\u200b", "ali\u00adce", "\ufeffalice", "alice\u2060", "al\u200dice"),  # not seen at all
        *("a\u00a0b", "a\u3000b", "a\u2028b", "a\tb", "a\nb", "a\0b", "\x1b[31ma"),  # another kind of space, or none
        *("\u202ealice", "alice\u2066", "\ud800"),  # read from the wrong end, or half a letter
        *("e\u0301", "A\u030a", "\u212b"),  # the same letter in other pieces
    ],
)
def test_no_user_is_called_what_looks_like_another_name(name):
    with pytest.raises(InvalidInput, match="1 to 255 printable characters"):
        user_name(name)

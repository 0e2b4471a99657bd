from __future__ import annotations

import pytest

from shopfloor.store.parameters import number_parameters


@pytest.mark.parametrize(
    ("sql", "expected", "names"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT :a, :b_2, :a", "SELECT $1, $2, $1", ("a", "b_2")),
        ("SELECT :a::text, x::int", "SELECT $1::text, x::int", ("a",)),
        ("SELECT ':a', 'it''s :b', :c", "SELECT ':a', 'it''s :b', $1", ("c",)),
        ("SELECT E'it\\'s :a', :b", "SELECT E'it\\'s :a', $1", ("b",)),
        ('SELECT ":a", "x"":b", :c', 'SELECT ":a", "x"":b", $1', ("c",)),
        ("SELECT :a -- :b it's\n, :c", "SELECT $1 -- :b it's\n, $2", ("a", "c")),
        ("SELECT /* :a '\n */ :b", "SELECT /* :a '\n */ $1", ("b",)),
        ("SELECT $$ :a $$, $x$ :b $$ $x$, :c", "SELECT $$ :a $$, $x$ :b $$ $x$, $1", ("c",)),
        ("SELECT 5 % :a, '%'", "SELECT 5 % $1, '%'", ("a",)),
        ("SELECT a[1:2]", "SELECT a[1:2]", ()),
    ],
)
def test_named_parameters_become_numbered_and_nothing_else_changes(sql, expected, names):
    assert number_parameters(sql) == (expected, names)

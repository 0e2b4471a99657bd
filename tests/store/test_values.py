"""The values that both engines store, return and reject."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.store import Connection
from tests.store.support import insert_thing, list_titles


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def insert_row(store, **values):
    """Insert a row and return it."""

    def write(conn: Connection) -> object:
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        return conn.fetch_one(f"INSERT INTO thing ({names}) VALUES ({marks}) RETURNING {names}", **values)

    return store.write(write)


@pytest.mark.parametrize(
    "text",
    ["", "plain", "Grüße, 世界 🙂", "%s %(x)s %%", ":name ::text", 'it\'s "quoted" \\ back', "tab\tnew\nline\r\x7f"],
)
def test_text_is_returned_unchanged(store, text):
    assert insert_row(store, title=text) == (text,)


def test_large_values_are_returned_unchanged(store):
    text = "long ü" * 200_000
    assert store.write(lambda conn: conn.fetch_one("INSERT INTO note VALUES (:text) RETURNING body", text=text)) == (
        text,
    )
    blob = bytes(range(256)) * 12_000
    assert insert_row(store, title="t", body=blob) == ("t", blob)


@pytest.mark.parametrize("blob", [b"", b"\0", bytes(range(256))])
def test_bytes_are_returned_unchanged(store, blob):
    assert insert_row(store, title="t", body=blob) == ("t", blob)


@pytest.mark.parametrize("number", [0, 1, -1, 32_768, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None])
def test_integers_are_returned_unchanged(store, number):
    assert insert_row(store, title="t", at=number) == ("t", number)


@pytest.mark.parametrize("number", [0.0, 1.5, -2.25e300, 0.1])
def test_floats_are_returned_unchanged(store, number):
    assert insert_row(store, title="t", ratio=number) == ("t", number)


def test_enums_and_booleans_are_stored_as_their_values(store):
    assert insert_row(store, title=Colour.RED, at=Level.HIGH) == ("red", 3)
    assert insert_row(store, title="t", at=True) == ("t", 1)


def test_sums_and_comparisons_are_plain_numbers(store):
    for number in (1, 2, 4):
        insert_row(store, title=str(number), at=number)
    rows = store.read(lambda conn: conn.fetch_all("SELECT SUM(at), COUNT(*), MAX(at), 1 = 1 FROM thing"))
    assert rows == [(7, 3, 4, 1)]
    assert [type(value) for value in rows[0]] == [int] * 4


@pytest.mark.parametrize("value", ["nul\0", "\0", "\ud800", "a\udfffz", 2**63, -(2**63) - 1, float("nan")])
def test_value_that_one_engine_cannot_store_is_rejected_by_both(store, value):
    def write(conn: Connection) -> None:
        insert_thing("before")(conn)
        with pytest.raises(InvalidInput) as refusal:
            conn.fetch_one("SELECT id FROM thing WHERE title = :value", value=value)
        assert refusal.value.facts == {"field": "value"}
        insert_thing("after")(conn)

    store.write(write)
    assert list_titles(store) == ["before", "after"]


def test_colons_and_percents_in_strings_and_comments_are_not_parameters(store):
    sql = """
        SELECT ':no', '%', '50 % :of', 'it''s :not', CAST(:yes AS TEXT)  -- :nor this, it's a comment
        /* :nor this */ FROM thing WHERE title LIKE :start || '%' AND title = :yes
    """
    store.write(insert_thing("yes"))
    row = store.read(lambda conn: conn.fetch_one(sql, yes="yes", start="y"))
    assert row == (":no", "%", "50 % :of", "it's :not", "yes")

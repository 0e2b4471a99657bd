"""What both engines store, give back, and refuse."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import pytest

from shopfloor.errors import InvalidInput
from shopfloor.store.database import Connection
from tests.store.support import put, titles


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def kept(store, **values):
    """What comes back of one row."""

    def write(conn: Connection) -> object:
        names = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        return conn.one(f"INSERT INTO thing ({names}) VALUES ({marks}) RETURNING {names}", **values)

    return store.write(write)


@pytest.mark.parametrize(
    "text",
    ["", "plain", "Grüße, 世界 🙂", "%s %(x)s %%", ":name ::text", 'it\'s "quoted" \\ back', "tab\tnew\nline\r\x7f"],
)
def test_text_comes_back_as_it_was(store, text):
    assert kept(store, title=text) == (text,)


def test_big_values_come_back_as_they_were(store):
    text = "long ü" * 200_000
    assert store.write(lambda conn: conn.one("INSERT INTO note VALUES (:text) RETURNING body", text=text)) == (text,)
    blob = bytes(range(256)) * 12_000
    assert kept(store, title="t", body=blob) == ("t", blob)


@pytest.mark.parametrize("blob", [b"", b"\0", bytes(range(256))])
def test_bytes_come_back_as_they_were(store, blob):
    assert kept(store, title="t", body=blob) == ("t", blob)


@pytest.mark.parametrize("number", [0, 1, -1, 32_768, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), None])
def test_whole_numbers_come_back_as_they_were(store, number):
    assert kept(store, title="t", at=number) == ("t", number)


@pytest.mark.parametrize("number", [0.0, 1.5, -2.25e300, 0.1])
def test_fractions_come_back_as_they_were(store, number):
    assert kept(store, title="t", ratio=number) == ("t", number)


def test_enums_and_booleans_are_stored_as_their_values(store):
    assert kept(store, title=Colour.RED, at=Level.HIGH) == ("red", 3)
    assert kept(store, title="t", at=True) == ("t", 1)


def test_sums_and_comparisons_are_plain_numbers(store):
    for number in (1, 2, 4):
        kept(store, title=str(number), at=number)
    rows = store.read(lambda conn: conn.all("SELECT SUM(at), COUNT(*), MAX(at), 1 = 1 FROM thing"))
    assert rows == [(7, 3, 4, 1)]
    assert [type(value) for value in rows[0]] == [int] * 4


@pytest.mark.parametrize("value", ["nul\0", "\0", "\ud800", "a\udfffz", 2**63, -(2**63) - 1, float("nan")])
def test_what_one_engine_could_not_keep_both_refuse(store, value):
    def write(conn: Connection) -> None:
        put("before")(conn)
        with pytest.raises(InvalidInput) as refusal:
            conn.one("SELECT id FROM thing WHERE title = :value", value=value)
        assert refusal.value.facts == {"field": "value"}
        put("after")(conn)

    store.write(write)
    assert titles(store) == ["before", "after"]


def test_sql_with_colons_percents_quotes_and_comments_means_the_same(store):
    sql = """
        SELECT ':no', '%', '50 % :of', 'it''s :not', CAST(:yes AS TEXT)  -- :nor this, it's a comment
        /* :nor this */ FROM thing WHERE title LIKE :start || '%' AND title = :yes
    """
    store.write(put("yes"))
    row = store.read(lambda conn: conn.one(sql, yes="yes", start="y"))
    assert row == (":no", "%", "50 % :of", "it's :not", "yes")

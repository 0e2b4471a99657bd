"""Random programs on a store have the same effect as on a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.store import Connection, Store, open_store
from tests.store.support import MIGRATIONS

keys = st.sampled_from(["a", "b", "c"])
numbers = st.integers(-(2**63), 2**63 - 1)
steps = st.recursive(
    st.one_of(
        st.tuples(st.just("put"), keys, numbers),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("look"), keys),
        st.tuples(st.just("fail")),
        st.tuples(st.just("break")),
    ),
    lambda inner: st.tuples(st.just("savepoint"), st.lists(inner, max_size=4)),
    max_leaves=8,
)
programs = st.lists(st.tuples(st.sampled_from(["write", "later"]), st.lists(steps, max_size=6)), max_size=6)


class Undo(Exception):
    pass


class Model(dict[str, int]):
    def run(self, step: tuple[Any, ...]) -> object:
        match step:
            case ("put", key, number):
                self[key] = number
            case ("delete", key):
                return int(self.pop(key, None) is not None)
            case ("look", key):
                return self.get(key)
            case ("fail",) | ("break",):
                raise Undo
            case ("savepoint", inner):
                before = dict(self)
                try:
                    return [self.run(each) for each in inner]
                except Undo:
                    self.clear()
                    self.update(before)
        return None


def run(conn: Connection, step: tuple[Any, ...]) -> object:
    match step:
        case ("put", key, number):
            sql = "INSERT INTO counter VALUES (:key, :n) ON CONFLICT (name) DO UPDATE SET n = excluded.n"
            assert conn.execute(sql, key=key, n=number) == 1
        case ("delete", key):
            return conn.execute("DELETE FROM counter WHERE name = :key", key=key)
        case ("look", key):
            row = conn.fetch_one("SELECT n FROM counter WHERE name = :key", key=key)
            return row and row[0]
        case ("fail",):
            raise Undo
        case ("break",):
            try:
                conn.execute("INSERT INTO counter VALUES (NULL, NULL)")
            except Exception as error:
                raise Undo from error
        case ("savepoint", inner):
            try:
                with conn.savepoint():
                    return [run(conn, each) for each in inner]
            except Undo:
                pass
    return None


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest) -> Iterator[Store]:
    url = "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgres").create_database()
    store = open_store(url, migrations=MIGRATIONS)
    yield store
    store.close()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(program=programs)
def test_store_behaves_like_a_dictionary(shared: Store, program: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
    shared.write(lambda conn: conn.execute("DELETE FROM counter"))
    model = Model()
    for kind, transaction in program:
        before = dict(model)
        try:
            expected: object = [model.run(step) for step in transaction]
        except Undo:
            model.clear()
            model.update(before)
            expected = Undo
        assert perform(shared, kind, transaction) in (expected, "later")
        rows = shared.read(lambda conn: conn.fetch_all("SELECT name, n FROM counter"))
        assert dict(rows) == model


def perform(store: Store, kind: str, transaction: list[tuple[Any, ...]]) -> object:
    def fn(conn: Connection) -> object:
        return [run(conn, step) for step in transaction]

    if kind == "later":
        store.later(fn)
        store.flush()
        return "later"
    try:
        return store.write(fn)
    except Undo:
        return Undo

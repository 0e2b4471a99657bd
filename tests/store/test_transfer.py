"""An export holds every row, and an import brings it back on either engine."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shopfloor.errors import InvalidInput, SchemaTooNew
from shopfloor.store import open_store
from shopfloor.store.backups import import_file, write_export_file
from shopfloor.store.transfer import check_export
from tests.repositories.test_statement_plans import fill

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
INTEGER = st.integers(-(2**63), 2**63 - 1)


def export(url: str, path: Path) -> bytes:
    store = open_store(url)
    try:
        write_export_file(store, path)
    finally:
        store.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def sample_data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("sample")
    store = open_store(f"sqlite://{folder}/sample.db")
    fill(store, 20)
    store.write(
        lambda conn: (
            conn.execute("INSERT INTO secret VALUES (1, 'key', :value, 0)", value=b"\x00\xff"),
            conn.execute("INSERT INTO task_graph VALUES (1, 3)"),
        )
    )
    write_export_file(store, folder / "sample.jsonl")
    store.close()
    return (folder / "sample.jsonl").read_bytes()


@pytest.fixture
def sample(tmp_path: Path, sample_data: bytes) -> Path:
    """An export of a small store with rows in every table."""
    path = tmp_path / "sample.jsonl"
    path.write_bytes(sample_data)
    return path


def test_import_into_either_engine_and_export_again_give_the_same_file(sample, database, tmp_path):
    rows = import_file(sample, database)
    # The windows of rate limits are gone after a minute, and no other test fills them.
    assert {table for table, count in rows.items() if not count} <= {"call_window"}
    assert export(database, tmp_path / "again.jsonl") == sample.read_bytes()


def test_imported_store_continues_with_new_ids(sample, database):
    import_file(sample, database)
    lines = [json.loads(line) for line in sample.read_text().splitlines()]
    last = lines[-2]["lastIds"]["event"]
    store = open_store(database)
    row = store.write(
        lambda conn: conn.fetch_one(
            "INSERT INTO event (workspace, name, data, topics, created_at) VALUES (1, 'x', '{}', '', 0) RETURNING id"
        )
    )
    assert row == (last + 1,)
    marks = store.read(lambda conn: conn.fetch_one("SELECT count(*) FROM index_mark WHERE source = 'mail'"))
    mails = store.read(lambda conn: conn.fetch_one("SELECT count(*) FROM mail"))
    assert marks == mails
    store.close()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(TEXT, TEXT, INTEGER, st.none() | st.binary(max_size=40)), unique_by=lambda row: row[0]),
    data=st.data(),
)
def test_any_rows_survive_the_round_trip(tmp_path_factory, rows, data):
    folder = tmp_path_factory.mktemp("round")
    store = open_store(f"sqlite://{folder}/one.db")

    def insert(conn: Any) -> None:
        conn.execute("INSERT INTO workspace (id, name, created_at) VALUES (1, 'w', 0)")
        for key, owner, number, digest in rows:
            conn.execute(
                "INSERT INTO token (id, workspace, kind, owner, digest, created_at) VALUES (:k, 1, 'agent', :o, :d, :n)",
                k=key,
                o=owner,
                d=digest,
                n=number,
            )

    store.write(insert)
    packed = data.draw(st.sampled_from([".jsonl", ".jsonl.gz"]))
    write_export_file(store, folder / f"one{packed}")
    kept = store.read(lambda conn: conn.fetch_all("SELECT * FROM token ORDER BY id"))
    store.close()
    import_file(folder / f"one{packed}", f"sqlite://{folder}/two.db")
    store = open_store(f"sqlite://{folder}/two.db")
    assert store.read(lambda conn: conn.fetch_all("SELECT * FROM token ORDER BY id")) == kept
    write_export_file(store, folder / "two.jsonl")
    store.close()
    original = (folder / f"one{packed}").read_bytes()
    assert (folder / "two.jsonl").read_bytes() == (gzip.decompress(original) if packed.endswith("gz") else original)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[: len(data) // 2], "it is cut off"),
        (lambda data: b"".join(data.splitlines(keepends=True)[:-1]), "it is cut off"),
        (lambda data: b"".join(data.splitlines(keepends=True)[:20] + data.splitlines(keepends=True)[21:]), "rows"),
        (lambda data: data.replace(b'"agent3"', b'"agent4"', 1), "its digest does not match"),
        (lambda data: data.replace(b"]\n[", b",1]\n[", 1), "values instead of"),
        (lambda data: b"[1,2]\n" + data, "is not a Shopfloor export"),
        (lambda data: b"", "is not a Shopfloor export"),
        (lambda data: b"[" * 100_000, "is not a Shopfloor export"),
        (lambda data: data.replace(b'"schema":', b'"schema":1e400,"x":', 1), "is not a Shopfloor export"),
        (lambda data: gzip.compress(data)[:20], "is not a Shopfloor export"),
        (lambda data: data.replace(b'{"table":"agent"', b"[" * 100_000 + b'{"table":"agent"', 1), "invalid JSON"),
        (lambda data: data.replace(b'"table":"agent"', b'"table":["agent"]', 1), "no name or no columns"),
        (lambda data: data.replace(b'"columns":[', b'"columns":5,"x":[', 1), "no name or no columns"),
        (lambda data: data.replace(b'{"base64":', b'{"base32":', 1), "is not base64"),
        (lambda data: data.replace(b'{"base64":', b'{"base64":5,"x":', 1), "is not base64"),
        (lambda data: data.replace(b'"lastIds":', b'"x":', 1), "has no last ids"),
        (lambda data: data + b"more", "something follows its end"),
        (lambda data: gzip.compress(data)[:-8] + bytes(8), "cut off or damaged"),
    ],
)
def test_changed_or_cut_export_leaves_the_database_empty(sample, database, change, reason):
    data = sample.read_bytes()
    assert change(data) != data
    sample.write_bytes(change(data))
    with pytest.raises(InvalidInput, match=reason):
        check_export(sample)
    with pytest.raises(InvalidInput):
        import_file(sample, database)
    store = open_store(database)
    assert store.read(lambda conn: conn.fetch_all("SELECT name FROM workspace")) == []
    store.close()


def test_last_id_of_an_unknown_table_is_rejected(sample, database):
    *lines, end, _ = sample.read_bytes().splitlines(keepends=True)
    body = b"".join(lines) + end.replace(b'"lastIds":{', b'"lastIds":{"no_table":1,', 1)
    sample.write_bytes(body + json.dumps({"sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n")
    with pytest.raises(InvalidInput, match="last id of 'no_table'"):
        import_file(sample, database)


def test_cut_compressed_export_is_rejected(sample):
    packed = sample.with_name("sample.jsonl.gz")
    packed.write_bytes(gzip.compress(sample.read_bytes())[:-100])
    with pytest.raises(InvalidInput, match="cut off or damaged"):
        check_export(packed)


def test_database_with_rows_is_not_imported_into(sample, database):
    import_file(sample, database)
    with pytest.raises(InvalidInput, match="already has rows"):
        import_file(sample, database)


@pytest.mark.parametrize(("field", "error"), [("schema", SchemaTooNew), ("migrations", InvalidInput)])
def test_export_of_a_newer_or_another_build_is_rejected(sample, tmp_path, field, error):
    first, _, rest = sample.read_text().partition("\n")
    header = json.loads(first)
    header[field] = 9999 if field == "schema" else ["other", *header["migrations"][1:]]
    sample.write_text(json.dumps(header) + "\n" + rest)
    with pytest.raises(error):
        import_file(sample, f"sqlite://{tmp_path}/new.db")


def test_export_never_replaces_a_file(sample, tmp_path):
    store = open_store(f"sqlite://{tmp_path}/sample.db")
    with pytest.raises(InvalidInput, match="already exists"):
        write_export_file(store, sample)
    store.close()

"""Sealed rows of the log cannot be changed, removed or added without being noticed."""

from __future__ import annotations

import pytest

from shopfloor.background import log_sealer
from shopfloor.background.log_sealer import LogSealer
from shopfloor.domain import seals as domain
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store.backups import import_file, write_export_file
from shopfloor.usecases import seals
from tests.workbench import DECISION, LOG_DECISION, STATUS


def log_calls(shopfloor, count):
    for number in range(count):
        shopfloor.call("factory", LOG_DECISION, {**DECISION, "title": f"Decision {number}"}, "local")
    shopfloor.engine.database.store.flush()


def seal_all(shopfloor):
    shopfloor.engine.database.store.flush()
    newest = shopfloor.read(lambda uow: uow.seals.newest_row_id())
    return seals.seal_log(shopfloor.engine.database, newest)


def verify(shopfloor, **arguments):
    return shopfloor.call("desk", "log_verify", arguments)


@pytest.fixture
def sealed(shopfloor, monkeypatch):
    """A log of 30 rows in 3 seals."""
    monkeypatch.setattr(seals, "MAX_SEALED_ROWS", 10)
    log_calls(shopfloor, 10)
    assert seal_all(shopfloor) == 30
    return shopfloor


def test_untouched_log_verifies(sealed):
    found = verify(sealed)
    assert (found["ok"], found["seals"], found["rows"], found["problems"]) == (True, 3, 30, [])
    sealed.engine.database.store.flush()
    assert verify(sealed)["hasUnsealedRows"]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE decision SET context = 'other' WHERE id = 14", "log-14 was changed after seal 2"),
        ("UPDATE decision SET task = 7 WHERE id = 14", "log-14 was changed after seal 2"),
        ("UPDATE decision SET created_at = created_at - 1 WHERE id = 30", "log-30 was changed after seal 3"),
        ("DELETE FROM decision WHERE id = 1", "log-1 was removed after seal 1"),
        ("DELETE FROM decision WHERE id = 21", "log-21 was removed after seal 3"),
        ("UPDATE log_seal SET leaves = previous WHERE number = 2", "seal 2 was changed"),
        ("UPDATE log_seal SET digest = previous WHERE number = 2", "seal 2 was changed"),
        ("DELETE FROM log_seal WHERE number = 2", "seals 2 to 2 are missing"),
        ("UPDATE decision SET id = 0 WHERE id = 12", "log-0 was added after seal 1"),
        (
            "UPDATE decision SET id = -9223372036854775808 WHERE id = 12",
            "log--9223372036854775808 was added after seal 1",
        ),
    ],
)
def test_changed_or_removed_row_is_named(sealed, sql, problem):
    sealed.execute(sql)
    found = verify(sealed)
    assert not found["ok"]
    assert problem in found["problems"]


def test_rows_that_are_said_to_be_expired_while_older_ones_are_kept_are_named(sealed):
    sealed.execute("DELETE FROM decision WHERE id > 10 AND id <= 20")
    sealed.execute("UPDATE log_seal SET purged_at = created_at, leaves = :nothing WHERE number = 2", nothing=b"")
    assert verify(sealed)["problems"] == ["the rows of seal 2 were removed, but not by retention"]


def test_row_that_was_removed_and_one_that_was_added_in_its_place_are_named(sealed):
    sealed.execute("UPDATE decision SET id = -5 WHERE id = 12")
    sealed.execute("UPDATE decision SET id = 12 WHERE id = 13")
    assert verify(sealed)["problems"] == [
        "log--5 was added after seal 1",
        "log-12 was changed after seal 2",
        "log-13 was removed after seal 2",
    ]
    sealed.execute("UPDATE decision SET id = 13, kind = 'manual' WHERE id = -5")
    assert "log-13 was changed after seal 2" in verify(sealed)["problems"]


def test_row_that_was_added_is_named(shopfloor):
    log_calls(shopfloor, 3)
    shopfloor.execute("DELETE FROM decision WHERE id = 5")
    seal_all(shopfloor)
    shopfloor.execute(
        "INSERT INTO decision (id, workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning,"
        " context, created_at) SELECT 5, workspace, reference, kind, subject, actor, toolset, tool, decision, reasoning,"
        " context, created_at FROM decision WHERE id = 4"
    )
    assert verify(shopfloor)["problems"] == ["log-5 was added after seal 1"]


def test_anchor_that_is_of_no_seal_is_rejected_instead_of_ignored(sealed):
    assert verify(sealed, anchor=f"0:{'0' * 64}")["error"].startswith("'anchor' is invalid")


def test_chain_that_was_written_again_differs_from_an_anchor_that_was_kept(sealed):
    anchor = verify(sealed)["lastSeal"]
    assert verify(sealed, anchor=anchor)["ok"]
    sealed.execute("UPDATE decision SET reasoning = 'forged' WHERE id = 3")
    sealed.execute("DELETE FROM log_seal")
    seal_all(sealed)
    assert verify(sealed)["ok"]
    found = verify(sealed, anchor=anchor)
    assert found["problems"] == ["seal 3 differs from the one that was kept elsewhere"]
    sealed.execute("DELETE FROM log_seal WHERE number > 1")
    assert verify(sealed, anchor=anchor)["problems"] == ["seal 3 is missing, but it was kept elsewhere"]


def test_each_seal_is_an_event_for_webhooks(sealed):
    rows = sealed.rows("SELECT data FROM event WHERE name = 'log.sealed' ORDER BY id")
    assert len(rows) == 3
    assert verify(sealed)["lastSeal"].partition(":")[2] in rows[2][0]


def test_open_call_holds_back_the_seal_of_later_rows(shopfloor):
    log_calls(shopfloor, 2)
    shopfloor.execute("UPDATE decision SET process = 1 WHERE id = 3")
    assert seal_all(shopfloor) == 2
    shopfloor.execute("UPDATE decision SET process = NULL WHERE id = 3")
    assert seal_all(shopfloor) == 4
    assert verify(shopfloor)["ok"]


def test_two_replicas_make_one_chain(shopfloor, open_workbench, monkeypatch):
    monkeypatch.setattr(seals, "MAX_SEALED_ROWS", 2)
    other = open_workbench()
    log_calls(shopfloor, 4)
    seal = shopfloor.read(lambda uow: seals._create_next(uow, 12))
    assert seal_all(other) == 12
    assert shopfloor.write(lambda uow: seals._add(uow, seal)) is False
    found = verify(shopfloor)
    assert (found["ok"], found["seals"]) == (True, 6)


def test_rows_are_sealed_once_they_have_settled(shopfloor, monkeypatch):
    sealer = LogSealer()
    log_calls(shopfloor, 2)
    assert sealer.run(shopfloor.engine.database) == 0
    log_calls(shopfloor, 1)
    assert sealer.run(shopfloor.engine.database) == 0
    monkeypatch.setattr(log_sealer, "SETTLE_SECONDS", 0)
    assert sealer.run(shopfloor.engine.database) == 6
    assert sealer.run(shopfloor.engine.database) == 3


def test_seals_stay_valid_across_engines(shopfloor, tmp_path, postgres_database, request):
    for _ in range(3):
        shopfloor.call("factory", STATUS, {}, "local")
    shopfloor.call("factory", LOG_DECISION, {"title": "Ünï ☃ \U0001f600", "body": "\u2028"}, "local")
    seal_all(shopfloor)
    write_export_file(shopfloor.engine.database.store, tmp_path / "all.jsonl")
    target = f"sqlite://{tmp_path}/other.db" if "postgres" in request.node.name else postgres_database
    import_file(tmp_path / "all.jsonl", target)
    with Shopfloor(Settings(project=tmp_path, database=target)) as other:
        found = other.call("desk", "log_verify")
    assert found["ok"]
    assert found["rows"] > 0


def test_seal_does_not_depend_on_how_rows_are_grouped():
    rows = [(number, "text", None, number * 10) for number in range(1, 5)]
    seal = domain.create_seal(None, rows, 0)
    assert seal.is_intact
    assert domain.find_differences(seal, rows) == []
    assert domain.find_differences(seal, rows[:-1]) == ["log-4 was removed after seal 1"]

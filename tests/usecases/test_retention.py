"""Old rows of the log and old mail are archived and deleted, in small steps."""

from __future__ import annotations

import gzip
import json

import pytest

from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY
from shopfloor.errors import StoreUnreachable
from shopfloor.gateways.archive import Archive
from shopfloor.usecases import retention, seals
from shopfloor.usecases.retention import EmbeddingPurge, MailPurge, RetentionRules, purge_log, purge_transcripts
from tests.usecases.test_seals import log_calls, seal_all, verify

RULES = RetentionRules(log=30 * DAY, mail=30 * DAY)


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "archive")


def read_archive(tmp_path, kind):
    (file,) = (tmp_path / "archive").glob(f"{kind}-*.jsonl.gz")
    assert file.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def purge_all(shopfloor, archive, rules=RULES):
    count = 0
    while purged := purge_log(shopfloor.engine.database, archive, rules):
        count += purged
    return count


def test_expired_rows_are_archived_and_deleted_and_the_seals_still_verify(shopfloor, archive, tmp_path, monkeypatch):
    monkeypatch.setattr(seals, "MAX_SEALED_ROWS", 5)
    log_calls(shopfloor, 4)
    seal_all(shopfloor)
    assert purge_all(shopfloor, archive) == 0
    before = shopfloor.log()
    shopfloor.pass_time(31 * DAY)
    log_calls(shopfloor, 2)
    seal_all(shopfloor)
    assert purge_all(shopfloor, archive) == 12
    assert [row["id"] for row in read_archive(tmp_path, "log")] == [entry.id for entry in before[:12]]
    assert read_archive(tmp_path, "log")[1]["decision"] == "Decision 0"
    assert next(entry.id for entry in shopfloor.log()) == 13
    found = verify(shopfloor)
    assert (found["ok"], found["purgedRows"]) == (True, 12)
    assert shopfloor.call("desk", "store_verify")["ok"]


def test_rows_that_reappear_after_their_deletion_are_found(shopfloor, archive, monkeypatch):
    monkeypatch.setattr(seals, "MAX_SEALED_ROWS", 3)
    log_calls(shopfloor, 2)
    seal_all(shopfloor)
    shopfloor.pass_time(31 * DAY)
    purge_all(shopfloor, archive)
    log_calls(shopfloor, 1)
    shopfloor.execute("UPDATE decision SET id = 2 WHERE id = (SELECT min(id) FROM decision)")
    assert "log-2 was added after seal 1" in verify(shopfloor)["problems"]


def test_unsealed_rows_are_never_deleted(shopfloor, archive):
    log_calls(shopfloor, 3)
    shopfloor.pass_time(400 * DAY)
    assert purge_all(shopfloor, archive) == 0


def test_log_is_kept_below_its_number_of_rows(shopfloor, archive, monkeypatch):
    monkeypatch.setattr(seals, "MAX_SEALED_ROWS", 3)
    log_calls(shopfloor, 6)
    seal_all(shopfloor)
    assert purge_all(shopfloor, archive, RetentionRules(log=None, log_rows=7)) == 9
    assert shopfloor.read(lambda uow: uow.seals.count_kept_rows()) == 9
    assert purge_all(shopfloor, archive, RetentionRules()) == 0


def test_nothing_is_deleted_when_the_archive_cannot_be_written(shopfloor, tmp_path):
    log_calls(shopfloor, 2)
    seal_all(shopfloor)
    shopfloor.pass_time(31 * DAY)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnreachable, match="The archive"):
        purge_all(shopfloor, Archive(tmp_path / "file"))
    assert len(shopfloor.log()) >= 6


def test_deleted_decisions_leave_the_index(shopfloor, archive):
    log_calls(shopfloor, 1)
    seal_all(shopfloor)
    shopfloor.engine.search.update_all()
    shopfloor.pass_time(31 * DAY)
    purge_all(shopfloor, archive)
    shopfloor.engine.search.update_all()
    assert shopfloor.rows("SELECT count(*) FROM chunk WHERE source = 'decision'") == [(0,)]


def send_mails(shopfloor, count):
    shopfloor.seed_agent("reader")
    for number in range(count):
        shopfloor.call(
            "factory", "mcp__mail__send", {"toAgentId": "reader", "subject": f"s{number}", "body": "b"}, "local"
        )


def purge_mail(shopfloor, archive, purge):
    rounds = 0
    while purge.run(shopfloor.engine.database, archive, RULES):
        rounds += 1
    return rounds


def test_mail_is_deleted_once_it_is_old_and_dealt_with(shopfloor, archive, tmp_path):
    send_mails(shopfloor, 3)
    for number in (1, 2):
        shopfloor.call("factory", "mcp__mail__read", {"mailId": f"mail-{number}"}, "reader")
    shopfloor.pass_time(29 * DAY)
    purge = MailPurge()
    assert purge_mail(shopfloor, archive, purge) == 0
    shopfloor.pass_time(2 * DAY)
    purge_mail(shopfloor, archive, purge)
    left = shopfloor.call("factory", "mcp__mail__list_inbox", {}, "reader")["data"]
    assert ([mail["subject"] for mail in left["mails"]], left["unreadCount"]) == (["s2"], 1)
    assert [mail["subject"] for mail in read_archive(tmp_path, "mail")] == ["s0", "s1"]
    assert shopfloor.rows("SELECT mail FROM receipt WHERE recipient = 'agent:reader'") == [(3,)]
    shopfloor.call("factory", "mcp__mail__read", {"mailId": "mail-3"}, "reader")
    purge_mail(shopfloor, archive, purge)
    assert shopfloor.rows("SELECT count(*) FROM mail") == [(0,)]


def test_mail_is_kept_by_default(shopfloor, archive):
    send_mails(shopfloor, 1)
    shopfloor.call("factory", "mcp__mail__read", {"mailId": "mail-1"}, "reader")
    shopfloor.pass_time(4000 * DAY)
    assert MailPurge().run(shopfloor.engine.database, archive, RetentionRules()) == 0


def test_archive_can_be_switched_off(shopfloor, tmp_path):
    log_calls(shopfloor, 1)
    seal_all(shopfloor)
    shopfloor.pass_time(31 * DAY)
    assert purge_all(shopfloor, Archive(None)) == 3
    assert not (tmp_path / "archive").exists()


def test_polling_a_full_inbox_adds_little_to_the_log(shopfloor):
    send_mails(shopfloor, 50)
    shopfloor.engine.database.store.flush()
    before = shopfloor.rows("SELECT count(*), sum(length(context)) FROM decision")[0]
    for _ in range(10):
        assert len(shopfloor.call("factory", "mcp__mail__list_inbox", {}, "reader")["data"]["mails"]) == 50
    shopfloor.engine.database.store.flush()
    after = shopfloor.rows("SELECT count(*), sum(length(context)) FROM decision")[0]
    assert after[0] - before[0] == 20
    assert (after[1] - before[1]) / 10 < 300
    context = json.loads(shopfloor.log()[-1].context)
    assert context.keys() == {"size", "sha256", "mails"}
    assert context["mails"] == 50


def test_old_entries_of_transcripts_are_archived_and_deleted(shopfloor, archive, tmp_path):
    database = shopfloor.engine.database
    # Not entries of 1970: the server itself deletes those as soon as its hourly retention is due.
    now = database.clock()
    for number, at in ((1, now), (2, now + DAY), (3, now + 200 * DAY)):
        shopfloor.execute(
            "INSERT INTO transcript VALUES (1, 'run:night', :n, :n, 's', 1, 'message', 't', '', 'body', '', :at, :at)",
            n=number,
            at=at,
        )
    database.clock = lambda: now + 210 * DAY
    rules = RetentionRules(transcripts=100 * DAY)
    assert purge_transcripts(database, archive, RetentionRules()) == 0
    assert purge_transcripts(database, archive, rules) == 2
    assert purge_transcripts(database, archive, rules) == 0
    assert [entry["number"] for entry in read_archive(tmp_path, "transcripts")] == [1, 2]
    assert shopfloor.rows("SELECT number FROM transcript") == [(3,)]


def add_embeddings(shopfloor, unused, used):
    """Add embeddings of these digests; those of `used` are of chunks."""
    for digest in (*unused, *used):
        shopfloor.execute(
            "INSERT INTO embedding (workspace, model, digest, value)"
            f" VALUES ({shopfloor.engine.database.workspace}, 'model', CAST('{digest}' AS {blob(shopfloor)}),"
            f" CAST('v' AS {blob(shopfloor)}))"
        )
    for digest in used:
        shopfloor.execute(
            "INSERT INTO chunk (workspace, root, source, ref, ordinal, type, kind, module, name, start_line, end_line,"
            f" changed_at, digest) VALUES ({shopfloor.engine.database.workspace}, '', 'mail', '{digest}', 0, 'core', '',"
            f" '', '', 1, 1, 1, CAST('{digest}' AS {blob(shopfloor)}))"
        )


def blob(shopfloor):
    return "BLOB" if shopfloor.engine.database.store.engine == "sqlite" else "BYTEA"


def list_embeddings(shopfloor):
    return [bytes(digest).decode() for (digest,) in shopfloor.rows("SELECT digest FROM embedding ORDER BY id")]


def test_oldest_unused_embeddings_are_deleted_in_batches(open_workbench, monkeypatch):
    # Not started: the housekeeper would delete beside this, while chunks are still being added.
    shopfloor = open_workbench(started=False)
    monkeypatch.setattr(retention, "BATCH_EMBEDDINGS", 2)
    monkeypatch.setattr(retention, "MAX_UNUSED_EMBEDDINGS", 3)
    add_embeddings(shopfloor, unused=["a", "b", "c", "d", "e"], used=["f", "g"])
    purge = EmbeddingPurge()
    for _ in range(2):
        examined = 0
        while count := purge.run(shopfloor.engine.database):
            examined += count
        # The second pass keeps as many as the first.
        assert list_embeddings(shopfloor) == ["c", "d", "e", "f", "g"]
    assert examined == 4


def test_embedding_that_is_used_again_meanwhile_is_kept(open_workbench):
    shopfloor = open_workbench(started=False)
    add_embeddings(shopfloor, unused=["a"], used=["b"])
    ids = [id for (id,) in shopfloor.rows("SELECT id FROM embedding")]
    shopfloor.engine.database.write(lambda uow: uow.embeddings.purge_unused(ids), OPERATOR)
    assert list_embeddings(shopfloor) == ["b"]

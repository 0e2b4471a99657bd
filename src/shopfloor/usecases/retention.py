"""Retention: archive and delete rows that are older than the settings allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shopfloor.domain.principals import SERVER
from shopfloor.domain.seals import Seal
from shopfloor.domain.times import DAY, HOUR
from shopfloor.gateways.archive import Archive
from shopfloor.repositories.seals import SEALED_COLUMNS
from shopfloor.repositories.uow import Database, UnitOfWork

BATCH_MAILS = 200
"""Mails deleted per transaction, with their receipts."""
BATCH_ENTRIES = 200
"""Transcript entries deleted per transaction."""
BATCH_EMBEDDINGS = 1000
"""Embeddings that one read examines, and the most that one transaction deletes."""
MAX_UNUSED_EMBEDDINGS = 50_000

_ROW_NAMES = [name.strip() for name in SEALED_COLUMNS.split(",")]


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How long rows are kept, in microseconds, and how many the log may have. None and 0 keep everything."""

    log: int | None = None
    log_rows: int = 0
    mail: int | None = None
    transcripts: int | None = None
    events: int = 30 * DAY
    answers: int = 24 * HOUR


def purge_log(database: Database, archive: Archive, rules: RetentionRules) -> int:
    """Delete the rows of the oldest seal if they have expired, and return how many.

    It works seal by seal, so that the chain has no gap, and deletes only sealed rows, so that the archive can be proven
    to be what was logged. Rows are archived first: a crash in between archives them twice, but loses none.
    """
    now = database.clock()

    def find_expired(uow: UnitOfWork) -> tuple[Seal, list[tuple[Any, ...]]] | None:
        seal = uow.seals.find_oldest_kept()
        if seal is None:
            return None
        is_old = rules.log is not None and seal.last_at < now - rules.log
        is_beyond = 0 < rules.log_rows < uow.seals.count_kept_rows() - seal.row_count
        if not is_old and not is_beyond:
            return None
        return seal, uow.seals.list_rows(seal.first_id, seal.last_id, seal.row_count)

    expired = database.read(find_expired, SERVER)
    if expired is None:
        return 0
    seal, rows = expired
    archive.append("log", [dict(zip(_ROW_NAMES, row, strict=True)) for row in rows])
    database.write(lambda uow: uow.seals.purge(seal, uow.now), SERVER)
    return len(rows)


def purge_transcripts(database: Database, archive: Archive, rules: RetentionRules) -> int:
    """Delete the oldest entries of transcripts if they have expired, and return how many."""
    if rules.transcripts is None:
        return 0
    before = database.clock() - rules.transcripts
    expired = database.read(lambda uow: uow.transcripts.list_expired(before, BATCH_ENTRIES), SERVER)
    if not expired:
        return 0
    archive.append("transcripts", expired)

    def purge(uow: UnitOfWork) -> None:
        for entry in expired:
            uow.transcripts.purge(entry["owner"], entry["number"])

    database.write(purge, SERVER)
    return len(expired)


class MailPurge:
    """Delete old mail that every recipient has dealt with. It remembers how far it has examined the mail."""

    def __init__(self) -> None:
        self._after = 0

    def run(self, database: Database, archive: Archive, rules: RetentionRules) -> int:
        """Delete one batch, and return how many mails it has examined."""
        if rules.mail is None:
            return 0
        before = database.clock() - rules.mail
        examined, expired = database.read(lambda uow: uow.mail.list_expired(self._after, before, BATCH_MAILS), SERVER)
        if not examined:
            # Start over next time: unread mail may have been read since.
            self._after = 0
            return 0
        archive.append("mail", expired)
        database.write(lambda uow: uow.mail.purge([mail["id"] for mail in expired]), SERVER)
        self._after = examined[-1]
        return len(examined)


class EmbeddingPurge:
    """Delete embeddings whose text is in no chunk, except the latest ones, in case the text returns.

    It examines them in batches and outside the writer. One statement for all of them held the writer for 370 ms at a
    million rows.
    """

    def __init__(self) -> None:
        self._model: str | None = None
        self._before_id: int | None = None
        self._kept = 0

    def run(self, database: Database) -> int:
        """Examine one batch of a model, and return 0 after the last one."""
        unused = database.read(self._examine, SERVER)
        kept = min(len(unused), MAX_UNUSED_EMBEDDINGS - self._kept)
        self._kept += kept
        if expired := unused[kept:]:
            database.write(lambda uow: uow.embeddings.purge_unused(expired), SERVER)
        if self._model is None:
            self._kept = 0
            return 0
        return BATCH_EMBEDDINGS

    def _examine(self, uow: UnitOfWork) -> list[int]:
        """Return the unused embeddings of the next batch, and advance."""
        model = self._model or uow.embeddings.find_model(None)
        if model is None:
            return []
        unused, self._before_id = uow.embeddings.list_unused(model, self._before_id, BATCH_EMBEDDINGS)
        self._model = model if self._before_id is not None else uow.embeddings.find_model(model)
        return unused

"""Stored embeddings: one for each text and model, wherever the text occurs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shopfloor.domain.chunks import NOT_EMBEDDED
from shopfloor.domain.index import EmbeddedCount, Hit
from shopfloor.store.protocol import MAX_ID, Connection

_HIT_COLUMNS = ", ".join(f"c.{name}" for name in Hit._fields)


class StoredEmbeddings:
    """The embeddings of a workspace, and the chunks of one project that have none yet."""

    def __init__(self, connection: Connection, workspace: int, root: str) -> None:
        self._connection = connection
        self._workspace = workspace
        self._root = root

    def missing(self, model: str, limit: int, *, chunks: bool) -> list[Hit]:
        """Return chunks without an embedding: documents and overviews of files, then with `chunks` the pieces of files."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_HIT_COLUMNS} FROM chunk c
            WHERE c.workspace = :workspace AND c.root IN (:root, '') AND c.digest <> :none
              AND (:chunks = 1 OR c.kind IN ('', 'file')) AND NOT EXISTS (
                SELECT 1 FROM embedding e
                WHERE e.workspace = c.workspace AND e.model = :model AND e.digest = c.digest
            )
            ORDER BY
                CASE WHEN c.kind IN ('', 'file') THEN 0 WHEN c.type = 'core' THEN 1 ELSE 2 END, c.changed_at DESC
            LIMIT :limit
            """,
            workspace=self._workspace,
            root=self._root,
            model=model,
            none=NOT_EMBEDDED,
            chunks=int(chunks),
            limit=limit,
        )
        return [Hit(*row) for row in rows]

    def count(self, model: str, *, chunks: bool, after_id: int = 0) -> EmbeddedCount:
        """Count the chunks, and those that have an embedding; `after_id` counts only those with a higher id."""
        # By their ids, newer chunks are found without reading the index of the whole project.
        by_id = self._connection.by_row_id if after_id else ""
        row = self._connection.fetch_one(
            f"""
            SELECT
                COUNT(e.id), COUNT(*),
                COALESCE(SUM(CASE WHEN c.kind IN ('', 'file') AND e.id IS NOT NULL THEN 1 ELSE 0 END), 0),
                COALESCE(SUM(CASE WHEN c.kind IN ('', 'file') THEN 1 ELSE 0 END), 0)
            FROM chunk c {by_id}
            LEFT JOIN embedding e ON e.workspace = c.workspace AND e.model = :model AND e.digest = c.digest
            WHERE c.id > :after_id AND c.workspace = :workspace AND c.root IN (:root, '') AND c.digest <> :none
              AND (:chunks = 1 OR c.kind IN ('', 'file'))
            """,
            workspace=self._workspace,
            root=self._root,
            model=model,
            none=NOT_EMBEDDED,
            chunks=int(chunks),
            after_id=after_id,
        )
        return EmbeddedCount(*map(int, row)) if row else EmbeddedCount(0, 0, 0, 0)

    def newest_chunk(self) -> int:
        """Return the highest id of a chunk, or 0. Ids are not used again."""
        row = self._connection.fetch_one("SELECT max(id) FROM chunk")
        return int(row[0] or 0) if row else 0

    def add(self, model: str, embeddings: Iterable[tuple[bytes, bytes]]) -> None:
        """Store embeddings by the digest of their text. Existing ones are kept."""
        for digest, value in embeddings:
            self._connection.execute(
                """
                INSERT INTO embedding (workspace, model, digest, value)
                VALUES (:workspace, :model, :digest, :value)
                ON CONFLICT (workspace, model, digest) DO NOTHING
                """,
                workspace=self._workspace,
                model=model,
                digest=digest,
                value=value,
            )

    def page_after(self, model: str, id: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """Return the next embeddings as id, digest and value, in the order of their ids."""
        rows = self._connection.fetch_all(
            """
            SELECT id, digest, value FROM embedding
            WHERE workspace = :workspace AND model = :model AND id > :id
            ORDER BY id LIMIT :limit
            """,
            workspace=self._workspace,
            model=model,
            id=id,
            limit=limit,
        )
        return [(int(number), bytes(digest), bytes(value)) for number, digest, value in rows]

    def get_many(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the embeddings of the texts with these digests."""
        if not digests:
            return {}
        named = {f"digest{number}": digest for number, digest in enumerate(digests)}
        rows = self._connection.fetch_all(
            f"""
            SELECT digest, value FROM embedding
            WHERE workspace = :workspace AND model = :model AND digest IN ({", ".join(f":{name}" for name in named)})
            """,
            workspace=self._workspace,
            model=model,
            **named,
        )
        return {bytes(digest): bytes(value) for digest, value in rows}

    def find_model(self, before: str | None) -> str | None:
        """Return the last model by name that has embeddings, before `before` if given."""
        row = self._connection.fetch_one(
            f"""
            SELECT max(model) FROM embedding
            WHERE workspace = :workspace {"" if before is None else "AND model < :before"}
            """,
            workspace=self._workspace,
            **({} if before is None else {"before": before}),
        )
        return None if row is None else row[0]

    def list_unused(self, model: str, before_id: int | None, limit: int) -> tuple[list[int], int | None]:
        """Examine `limit` embeddings of a model, newest first. Return the ids of those whose text is in no chunk, and
        the id before which the next call continues, or None at the end."""
        # Not EXISTS: PostgreSQL would read all chunks into a hash table for it.
        rows = self._connection.fetch_all(
            """
            SELECT e.id, (SELECT c.id FROM chunk c WHERE c.workspace = e.workspace AND c.digest = e.digest LIMIT 1)
            FROM embedding e
            WHERE e.workspace = :workspace AND e.model = :model AND e.id < :before_id
            ORDER BY e.id DESC LIMIT :limit
            """,
            workspace=self._workspace,
            model=model,
            before_id=MAX_ID if before_id is None else before_id,
            limit=limit,
        )
        return [int(id) for id, chunk in rows if chunk is None], int(rows[-1][0]) if len(rows) == limit else None

    def purge_unused(self, ids: Sequence[int]) -> None:
        """Delete these embeddings, except those whose text is in a chunk again."""
        for id in ids:
            self._connection.send(
                """
                DELETE FROM embedding
                WHERE workspace = :workspace AND id = :id AND NOT EXISTS (
                    SELECT 1 FROM chunk c WHERE c.workspace = embedding.workspace AND c.digest = embedding.digest
                )
                """,
                workspace=self._workspace,
                id=id,
            )

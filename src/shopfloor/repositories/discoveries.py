"""Discoveries and the files that they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shopfloor.domain.discoveries import Discovery
from shopfloor.errors import NotFound
from shopfloor.repositories.index_marks import mark_changed
from shopfloor.repositories.repository import Repository

_COLUMNS = "id, type, content, module, author, session, supersedes, superseded_by, created_at"


class Discoveries(Repository):
    """The discoveries of a workspace."""

    def add(
        self,
        *,
        type: str,
        content: str,
        module: str | None,
        author: str,
        session: str | None,
        supersedes: int | None,
        digest: bytes,
        files: Mapping[str, bytes],
        now: int,
    ) -> tuple[int, bool]:
        """Add a discovery; return its number, and False if the same content is already recorded."""
        row = self._connection.fetch_one(
            "INSERT INTO discovery (workspace, type, content, module, author, session, supersedes, digest, created_at)"
            " VALUES (:workspace, :type, :content, :module, :author, :session, :supersedes, :digest, :now)"
            " ON CONFLICT (workspace, digest) DO NOTHING RETURNING id",
            workspace=self._workspace,
            type=type,
            content=content,
            module=module,
            author=author,
            session=session,
            supersedes=supersedes,
            digest=digest,
            now=now,
        )
        if row is None:
            known = self._connection.fetch_one(
                "SELECT id FROM discovery WHERE workspace = :workspace AND digest = :digest",
                workspace=self._workspace,
                digest=digest,
            )
            assert known is not None
            return int(known[0]), False
        mark_changed(self._connection, self._workspace, "discovery", row[0])
        self._add_files(int(row[0]), files)
        return int(row[0]), True

    def replace_files(self, id: int, files: Mapping[str, bytes]) -> None:
        """Replace the files of a discovery, with their digests."""
        self._connection.execute(
            "DELETE FROM discovery_file WHERE workspace = :workspace AND discovery = :id",
            workspace=self._workspace,
            id=id,
        )
        self._add_files(id, files)

    def _add_files(self, id: int, files: Mapping[str, bytes]) -> None:
        for path, state in files.items():
            self._connection.execute(
                "INSERT INTO discovery_file (workspace, discovery, path, digest)"
                " VALUES (:workspace, :discovery, :path, :digest)",
                workspace=self._workspace,
                discovery=id,
                path=path,
                digest=state,
            )

    def supersede(self, id: int, by: int) -> None:
        """Mark a discovery as superseded by a newer one."""
        changed = self._connection.execute(
            "UPDATE discovery SET superseded_by = :by WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
            by=by,
        )
        if changed == 0:
            raise NotFound(f"Discovery discovery-{id} does not exist", id=f"discovery-{id}")

    def get(self, id: int) -> Discovery:
        found = self.find_many([id])
        if not found:
            raise NotFound(f"Discovery discovery-{id} does not exist", id=f"discovery-{id}")
        return found[0]

    def find_many(self, ids: Sequence[int]) -> list[Discovery]:
        """Return the discoveries with these ids that exist."""
        if not ids:
            return []
        listed = ", ".join(str(int(id)) for id in ids)
        rows = self._connection.fetch_all(
            f"SELECT {_COLUMNS} FROM discovery {self._connection.by_row_id}"
            f" WHERE workspace = :workspace AND id IN ({listed}) ORDER BY id",
            workspace=self._workspace,
        )
        files = self._connection.fetch_all(
            "SELECT discovery, path, digest FROM discovery_file WHERE workspace = :workspace"
            f" AND discovery IN ({listed}) ORDER BY path",
            workspace=self._workspace,
        )
        about: dict[int, dict[str, bytes]] = {}
        for discovery, path, digest in files:
            about.setdefault(discovery, {})[path] = bytes(digest)
        return [Discovery(*[*row, about.get(row[0], {})]) for row in rows]

    def newest(self, type: str, limit: int) -> list[Discovery]:
        """Return the latest discoveries of a type that are not superseded."""
        rows = self._connection.fetch_all(
            "SELECT id FROM discovery WHERE workspace = :workspace AND type = :type AND superseded_by IS NULL"
            " ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            type=type,
            limit=limit,
        )
        return self.find_many([row[0] for row in rows])

"""The rows of what was learned and of what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shopfloor.domain.knowledge import Discovery
from shopfloor.errors import NotFound
from shopfloor.repositories.written import Change, unindexed
from shopfloor.store.database import Connection

_COLUMNS = "id, type, content, module, author, session, supersedes, superseded_by, created_at"

_UNINDEXED = unindexed("discovery", "CAST(discovery.id AS TEXT)", "created_at")


class Discoveries:
    """What a workspace has learned."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

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
        """The number of the discovery, and whether it is new: what was said before is not said again."""
        row = self._connection.one(
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
            known = self._connection.one(
                "SELECT id FROM discovery WHERE workspace = :workspace AND digest = :digest",
                workspace=self._workspace,
                digest=digest,
            )
            assert known is not None
            return int(known[0]), False
        self._about(int(row[0]), files)
        return int(row[0]), True

    def confirm(self, id: int, files: Mapping[str, bytes]) -> None:
        """A discovery was made once more, about files as they are now."""
        self._connection.execute(
            "DELETE FROM discovery_file WHERE workspace = :workspace AND discovery = :id",
            workspace=self._workspace,
            id=id,
        )
        self._about(id, files)

    def _about(self, id: int, files: Mapping[str, bytes]) -> None:
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
        """Mark a discovery as replaced by a newer one."""
        changed = self._connection.execute(
            "UPDATE discovery SET superseded_by = :by WHERE workspace = :workspace AND id = :id",
            workspace=self._workspace,
            id=id,
            by=by,
        )
        if changed == 0:
            raise NotFound(f"Discovery discovery-{id} does not exist", id=f"discovery-{id}")

    def get(self, id: int) -> Discovery:
        found = self.some([id])
        if not found:
            raise NotFound(f"Discovery discovery-{id} does not exist", id=f"discovery-{id}")
        return found[0]

    def some(self, ids: Sequence[int]) -> list[Discovery]:
        """Those of these discoveries that exist."""
        if not ids:
            return []
        listed = ", ".join(str(int(id)) for id in ids)
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM discovery WHERE workspace = :workspace AND id IN ({listed}) ORDER BY id",
            workspace=self._workspace,
        )
        files = self._connection.all(
            "SELECT discovery, path, digest FROM discovery_file WHERE workspace = :workspace"
            f" AND discovery IN ({listed}) ORDER BY path",
            workspace=self._workspace,
        )
        about: dict[int, dict[str, bytes]] = {}
        for discovery, path, digest in files:
            about.setdefault(discovery, {})[path] = bytes(digest)
        return [Discovery(*[*row, about.get(row[0], {})]) for row in rows]

    def unindexed(self, since: int, limit: int) -> list[Change]:
        """Discoveries since then that the index does not know, oldest first."""
        rows = self._connection.all(
            "SELECT created_at, CAST(id AS TEXT) FROM discovery WHERE workspace = :workspace AND created_at >= :since"
            f" AND {_UNINDEXED} ORDER BY created_at, id LIMIT :limit",
            workspace=self._workspace,
            since=since,
            limit=limit,
        )
        return [(at, ref) for at, ref in rows]

    def newest(self, type: str, limit: int) -> list[Discovery]:
        """The latest of a type that still hold."""
        rows = self._connection.all(
            "SELECT id FROM discovery WHERE workspace = :workspace AND type = :type AND superseded_by IS NULL"
            " ORDER BY id DESC LIMIT :limit",
            workspace=self._workspace,
            type=type,
            limit=limit,
        )
        return self.some([row[0] for row in rows])


class Accesses:
    """Which files are read, how often and when."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

    def note(self, path: str, now: int) -> None:
        """One more reading of a file."""
        self._connection.execute(
            "INSERT INTO file_access (workspace, path, count, last_at) VALUES (:workspace, :path, 1, :now)"
            " ON CONFLICT (workspace, path) DO UPDATE SET count = file_access.count + 1, last_at = :now",
            workspace=self._workspace,
            path=path,
            now=now,
        )

    def of(self, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
        """How often and when each of these files was last read."""
        if not paths:
            return {}
        named = {f"path{number}": path for number, path in enumerate(paths)}
        rows = self._connection.all(
            "SELECT path, count, last_at FROM file_access WHERE workspace = :workspace"
            f" AND path IN ({', '.join(f':{name}' for name in named)})",
            workspace=self._workspace,
            **named,
        )
        return {path: (count, last_at) for path, count, last_at in rows}

    def most_used(self, limit: int) -> list[tuple[str, int, int]]:
        """The files that are read most."""
        rows = self._connection.all(
            "SELECT path, count, last_at FROM file_access WHERE workspace = :workspace"
            " ORDER BY count DESC, path LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
        )
        return [(path, count, last_at) for path, count, last_at in rows]

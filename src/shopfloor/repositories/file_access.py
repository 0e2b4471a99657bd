"""How often each file is read."""

from __future__ import annotations

from collections.abc import Sequence

from shopfloor.repositories.repository import Repository


class FileAccesses(Repository):
    """How often and when the files of a workspace are read."""

    def count(self, path: str, now: int) -> None:
        """Count one more access to a file."""
        self._connection.execute(
            "INSERT INTO file_access (workspace, path, count, last_at) VALUES (:workspace, :path, 1, :now)"
            " ON CONFLICT (workspace, path) DO UPDATE SET count = file_access.count + 1, last_at = :now",
            workspace=self._workspace,
            path=path,
            now=now,
        )

    def counts(self, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return how often, and when last, each of these files was read."""
        if not paths:
            return {}
        named = {f"path{number}": path for number, path in enumerate(paths)}
        rows = self._connection.fetch_all(
            "SELECT path, count, last_at FROM file_access WHERE workspace = :workspace"
            f" AND path IN ({', '.join(f':{name}' for name in named)})",
            workspace=self._workspace,
            **named,
        )
        return {path: (count, last_at) for path, count, last_at in rows}

    def most_used(self, limit: int) -> list[tuple[str, int, int]]:
        """Return the most-read files, with their count and last access."""
        rows = self._connection.fetch_all(
            "SELECT path, count, last_at FROM file_access WHERE workspace = :workspace"
            " ORDER BY count DESC, path LIMIT :limit",
            workspace=self._workspace,
            limit=limit,
        )
        return [(path, count, last_at) for path, count, last_at in rows]

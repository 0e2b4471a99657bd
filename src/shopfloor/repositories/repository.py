"""Repository: what the repositories of a workspace share."""

from __future__ import annotations

from shopfloor.store.protocol import Connection


class Repository:
    """Statements on the tables of one workspace, in one transaction."""

    def __init__(self, connection: Connection, workspace: int) -> None:
        self._connection = connection
        self._workspace = workspace

"""Conversations of one user: nobody else's are ever seen or touched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shopfloor.domain.conversations import USER, Asked, Conversation, Message
from shopfloor.errors import NotFound
from shopfloor.store.database import Connection, Row

_COLUMNS = "id, title, state, busy_until, busy_by, created_at, updated_at"
_SCOPE = "workspace = :workspace AND owner = :owner"


class Conversations:
    """The conversations of one user, and what was said in them."""

    def __init__(self, connection: Connection, workspace: int, owner: str) -> None:
        self._connection = connection
        self._bound: dict[str, Any] = {"workspace": workspace, "owner": owner}

    def get(self, id: int) -> Conversation:
        row = self._connection.one(
            f"SELECT {_COLUMNS} FROM conversation WHERE {_SCOPE} AND id = :id", id=id, **self._bound
        )
        if row is None:
            raise NotFound(f"Conversation {id} not found", conversation=id)
        return _conversation(row)

    def add(self, title: str, now: int) -> int:
        row = self._connection.one(
            "INSERT INTO conversation (workspace, owner, title, state, created_at, updated_at)"
            " VALUES (:workspace, :owner, :title, '{}', :now, :now) RETURNING id",
            title=title,
            now=now,
            **self._bound,
        )
        assert row is not None
        return int(row[0])

    def change(
        self,
        id: int,
        now: int,
        *,
        asked: Sequence[Asked],
        granted: Sequence[Asked],
        busy_until: int | None,
        busy_by: int | None,
    ) -> None:
        """What was asked and agreed to, and until when a turn is under way in which process."""
        state = {"asked": [[a.task, a.title] for a in asked], "granted": [[a.task, a.title] for a in granted]}
        self._connection.execute(
            "UPDATE conversation SET state = :state, busy_until = :busy_until, busy_by = :busy_by, updated_at = :now"
            f" WHERE {_SCOPE} AND id = :id",
            id=id,
            state=json.dumps(state, ensure_ascii=False),
            busy_until=busy_until,
            busy_by=busy_by,
            now=now,
            **self._bound,
        )

    def page(self, limit: int, before: tuple[int, int] | None = None) -> list[Conversation]:
        """Conversations, the latest first, beginning after one that is named by its time and id."""
        rows = self._connection.all(
            f"SELECT {_COLUMNS} FROM conversation WHERE {_SCOPE}{' AND (updated_at, id) < (:at, :id)' if before else ''} ORDER BY updated_at DESC, id DESC LIMIT :limit",
            limit=limit,
            **({"at": before[0], "id": before[1]} if before else {}),
            **self._bound,
        )
        return [_conversation(row) for row in rows]

    def remove(self, id: int) -> bool:
        """Whether there was such a conversation; there is none now."""
        self._connection.execute(
            f"DELETE FROM chat_message WHERE {_SCOPE} AND conversation = :id", id=id, **self._bound
        )
        return bool(
            self._connection.execute(f"DELETE FROM conversation WHERE {_SCOPE} AND id = :id", id=id, **self._bound)
        )

    def clear(self) -> None:
        """Nothing is left of what the user said and was told."""
        self._connection.execute(f"DELETE FROM chat_message WHERE {_SCOPE}", **self._bound)
        self._connection.execute(f"DELETE FROM conversation WHERE {_SCOPE}", **self._bound)

    def say(
        self, id: int, role: str, text: str, now: int, tool_calls: list[Any] | None = None, error: str | None = None
    ) -> None:
        """Add a message to a conversation of this user; to another's nothing is added."""
        self._connection.execute(
            "INSERT INTO chat_message (workspace, owner, conversation, role, text, tool_calls, error, created_at)"
            f" SELECT workspace, owner, id, :role, :text, :tool_calls, :error, :now FROM conversation"
            f" WHERE {_SCOPE} AND id = :id",
            id=id,
            role=role,
            text=text,
            tool_calls=None if tool_calls is None else json.dumps(tool_calls, ensure_ascii=False),
            error=error,
            now=now,
            **self._bound,
        )

    def last(self, id: int, limit: int) -> list[Message]:
        """The last messages, in the order in which they were said."""
        rows = self._connection.all(
            f"SELECT id, role, text, tool_calls, error, created_at FROM chat_message WHERE {_SCOPE}"
            " AND conversation = :id ORDER BY id DESC LIMIT :limit",
            id=id,
            limit=limit,
            **self._bound,
        )
        return [_message(row) for row in reversed(rows)]

    def last_of_user(self, id: int) -> str:
        """What the user said last."""
        row = self._connection.one(
            f"SELECT text FROM chat_message WHERE {_SCOPE} AND conversation = :id AND role = :role"
            " ORDER BY id DESC LIMIT 1",
            id=id,
            role=USER,
            **self._bound,
        )
        return "" if row is None else str(row[0])


def _conversation(row: Row) -> Conversation:
    id, title, state, busy_until, busy_by, created_at, updated_at = row
    known = json.loads(state)
    asked, granted = (tuple(Asked(*each) for each in known.get(key, [])) for key in ("asked", "granted"))
    return Conversation(id, title, asked, granted, busy_until, busy_by, created_at, updated_at)


def _message(row: Row) -> Message:
    id, role, text, tool_calls, error, created_at = row
    return Message(id, role, text, None if tool_calls is None else json.loads(tool_calls), error, created_at)

"""Conversations of one user. No statement reads or writes another user's."""

from __future__ import annotations

import json
from typing import Any

from shopfloor.domain.conversations import Conversation, Message, PendingDeletion
from shopfloor.errors import NotFound
from shopfloor.store.protocol import MAX_ID, Connection, Row

_COLUMNS = "id, title, state, busy_until, busy_by, created_at, updated_at"
_SCOPE = "workspace = :workspace AND owner = :owner"


class Conversations:
    """The conversations of one user, and their messages."""

    def __init__(self, connection: Connection, workspace: int, owner: str) -> None:
        self._connection = connection
        self._bound: dict[str, Any] = {"workspace": workspace, "owner": owner}

    def get(self, id: int) -> Conversation:
        row = self._connection.fetch_one(
            f"""
            SELECT {_COLUMNS} FROM conversation
            WHERE {_SCOPE} AND id = :id
            """,
            id=id,
            **self._bound,
        )
        if row is None:
            raise NotFound(f"Conversation {id} not found", conversation=id)
        return _conversation(row)

    def add(self, title: str, now: int) -> int:
        row = self._connection.fetch_one(
            """
            INSERT INTO conversation (workspace, owner, title, state, created_at, updated_at)
            VALUES (:workspace, :owner, :title, '{}', :now, :now)
            RETURNING id
            """,
            title=title,
            now=now,
            **self._bound,
        )
        assert row is not None
        return int(row[0])

    def update(self, conversation: Conversation, now: int) -> None:
        """Store the deletions that wait for confirmation, and the process and deadline of a running turn."""
        # These keys are in stored rows, so they keep the names of the first version.
        state = {
            "asked": [[each.task, each.title] for each in conversation.pending],
            "confirmation": conversation.confirmation,
            "granted": [[each.task, each.title] for each in conversation.confirmed],
        }
        self._connection.execute(
            f"""
            UPDATE conversation
            SET state = :state, busy_until = :busy_until, busy_by = :busy_by, updated_at = :now
            WHERE {_SCOPE} AND id = :id
            """,
            id=conversation.id,
            state=json.dumps(state, ensure_ascii=False),
            busy_until=conversation.busy_until,
            busy_by=conversation.busy_by,
            now=now,
            **self._bound,
        )

    def list_page(self, limit: int, before: tuple[int, int] | None = None) -> list[Conversation]:
        """Return conversations, latest first, before the one with this time and id."""
        at, id = before or (MAX_ID, MAX_ID)
        rows = self._connection.fetch_all(
            f"""
            SELECT {_COLUMNS} FROM conversation
            WHERE {_SCOPE} AND (updated_at, id) < (:at, :id)
            ORDER BY updated_at DESC, id DESC LIMIT :limit
            """,
            limit=limit,
            at=at,
            id=id,
            **self._bound,
        )
        return [_conversation(row) for row in rows]

    def remove(self, id: int) -> bool:
        """Delete the conversation. Return False if there is none."""
        self._connection.execute(
            f"""
            DELETE FROM chat_message
            WHERE {_SCOPE} AND conversation = :id
            """,
            id=id,
            **self._bound,
        )
        return bool(
            self._connection.execute(
                f"""
                DELETE FROM conversation
                WHERE {_SCOPE} AND id = :id
                """,
                id=id,
                **self._bound,
            )
        )

    def delete_all(self, limit: int) -> int:
        """Delete messages and then conversations of the user, up to the limit, and return how many."""
        messages = self._connection.execute(
            f"""
            DELETE FROM chat_message
            WHERE id IN (SELECT id FROM chat_message WHERE {_SCOPE} LIMIT :limit)
            """,
            limit=limit,
            **self._bound,
        )
        return messages + self._connection.execute(
            f"""
            DELETE FROM conversation
            WHERE id IN (SELECT id FROM conversation WHERE {_SCOPE} LIMIT :limit)
            """,
            limit=limit - messages,
            **self._bound,
        )

    def add_message(
        self, id: int, role: str, text: str, now: int, tool_calls: list[Any] | None = None, error: str | None = None
    ) -> None:
        """Add a message, if the conversation is this user's."""
        self._connection.execute(
            f"""
            INSERT INTO chat_message (workspace, owner, conversation, role, text, tool_calls, error,
                created_at)
            SELECT workspace, owner, id, :role, :text, :tool_calls, :error, :now
            FROM conversation
            WHERE {_SCOPE} AND id = :id
            """,
            id=id,
            role=role,
            text=text,
            tool_calls=None if tool_calls is None else json.dumps(tool_calls, ensure_ascii=False),
            error=error,
            now=now,
            **self._bound,
        )

    def list_last_messages(self, id: int, limit: int) -> list[Message]:
        """Return the last messages, oldest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT id, role, text, tool_calls, error, created_at FROM chat_message
            WHERE {_SCOPE} AND conversation = :id
            ORDER BY id DESC LIMIT :limit
            """,
            id=id,
            limit=limit,
            **self._bound,
        )
        return [
            Message(id, role, text, None if tool_calls is None else json.loads(tool_calls), error, created_at)
            for id, role, text, tool_calls, error, created_at in reversed(rows)
        ]


def _conversation(row: Row) -> Conversation:
    id, title, state, busy_until, busy_by, created_at, updated_at = row
    known = json.loads(state)
    pending, confirmed = (tuple(PendingDeletion(*each) for each in known.get(key, [])) for key in ("asked", "granted"))
    confirmation = known.get("confirmation")
    return Conversation(id, title, pending, confirmation, confirmed, busy_until, busy_by, created_at, updated_at)

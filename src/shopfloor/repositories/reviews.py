"""Reviews of agents' work."""

from __future__ import annotations

from shopfloor.domain.reviews import Review, ReviewState
from shopfloor.errors import NotFound
from shopfloor.repositories.repository import Repository
from shopfloor.store.protocol import Row

_REVIEW = "number, owner, state, comment, created_at, decided_at"

MAX_REVIEWS_EXAMINED = 500


class Reviews(Repository):
    """The reviews of a workspace."""

    def add(self, owner: str, now: int) -> Review:
        """Add an open review."""
        row = self._connection.fetch_one(
            f"""
            INSERT INTO review (workspace, owner, state, comment, created_at)
            VALUES (:workspace, :owner, 'open', '', :now)
            RETURNING {_REVIEW}
            """,
            workspace=self._workspace,
            owner=owner,
            now=now,
        )
        assert row is not None
        return _review(row)

    def get(self, number: int) -> Review:
        """Return the review, or raise NotFound."""
        row = self._connection.fetch_one(
            f"SELECT {_REVIEW} FROM review WHERE workspace = :workspace AND number = :number",
            workspace=self._workspace,
            number=number,
        )
        if row is None:
            raise NotFound(f"Review {number} not found")
        return _review(row)

    def find_latest(self, owner: str) -> Review | None:
        """Return the latest review of an owner's work, or None."""
        row = self._connection.fetch_one(
            f"""
            SELECT {_REVIEW} FROM review
            WHERE workspace = :workspace AND owner = :owner
            ORDER BY number DESC LIMIT 1
            """,
            workspace=self._workspace,
            owner=owner,
        )
        return None if row is None else _review(row)

    def list_rejected(self, owner: str, since: int, limit: int) -> list[Review]:
        """Return which of an owner's latest reviews rejected its work after `since`, oldest first."""
        rows = self._connection.fetch_all(
            f"""
            SELECT {_REVIEW} FROM (
                SELECT {_REVIEW} FROM review
                WHERE workspace = :workspace AND owner = :owner
                ORDER BY number DESC LIMIT :examined
            ) AS latest
            WHERE state = 'rejected' AND decided_at > :since
            ORDER BY number LIMIT :limit
            """,
            workspace=self._workspace,
            owner=owner,
            since=since,
            examined=MAX_REVIEWS_EXAMINED,
            limit=limit,
        )
        return [_review(row) for row in rows]

    def decide(self, number: int, state: ReviewState, comment: str, now: int) -> bool:
        """Decide an open review; return False if it is no longer open."""
        changed = self._connection.execute(
            """
            UPDATE review SET state = :state, comment = :comment, decided_at = :now
            WHERE workspace = :workspace AND number = :number AND state = 'open'
            """,
            workspace=self._workspace,
            number=number,
            state=state.value,
            comment=comment,
            now=now,
        )
        return changed == 1


def _review(row: Row) -> Review:
    number, owner, state, *rest = row
    return Review(number, owner, ReviewState(state), *rest)

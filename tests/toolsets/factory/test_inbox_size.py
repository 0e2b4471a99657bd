"""The size of an inbox does not change the cost of a call."""

from __future__ import annotations

from pathlib import Path

from tests.rows_read import count_rows_read, grew
from tests.toolsets.factory.team import Team

SMALL_MAILS, LARGE_MAILS = 100, 100_000


def fill(team: Team, name: str, count: int, read: int = 0) -> None:
    """Insert mail into an inbox in bulk: unread mail first, then newer mail that is already read."""

    def insert_rows(uow):
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
        connection, workspace = uow._connection, uow.workspace
        first = connection.fetch_one("SELECT coalesce(max(id), 0) FROM mail WHERE workspace = :w", w=workspace)[0]
        connection.execute(
            "INSERT INTO mail (workspace, sender, sender_type, subject, body, importance, created_at)"
            f" {numbers} SELECT :w, 'agent:sup', 'SUPERVISOR', 'Subject', 'A body of some words', 'normal', :now FROM n",
            count=count + read,
            w=workspace,
            now=uow.now,
        )
        connection.execute(
            "INSERT INTO receipt (workspace, recipient, mail, wanted, waiting, unread, undelivered, delivered_at, read_at)"
            " SELECT :w, :owner, id, 0, CASE WHEN id > :last THEN 0 ELSE 1 END, CASE WHEN id > :last THEN 0 ELSE 1 END,"
            " CASE WHEN id > :last THEN 0 ELSE 1 END, CASE WHEN id > :last THEN created_at END,"
            " CASE WHEN id > :last THEN created_at END FROM mail WHERE workspace = :w AND id > :first",
            w=workspace,
            owner=f"agent:{name}",
            first=first,
            last=first + count,
        )
        connection.execute(
            "INSERT INTO inbox (workspace, owner, slot, unread) VALUES (:w, :owner, 0, :count)",
            w=workspace,
            owner=f"agent:{name}",
            count=count,
        )

    team.write(insert_rows)


def read_inbox(team: Team, name: str, cursor: str) -> None:
    """Read a page, a deep page and all mail, and make a call with the unread notice."""
    team.call(name, "mcp__mail__list_inbox", limit=5)
    team.call(name, "mcp__mail__list_inbox", limit=5, cursor=cursor)
    team.call(name, "mcp__mail__list_inbox", limit=5, includeRead=True)
    team.call(name, "mcp__agent__get_status")


def test_a_hundred_thousand_mails_cost_what_a_hundred_cost(tmp_path: Path, database: str) -> None:
    with Team(tmp_path, database=database) as team:
        fill(team, "w1", SMALL_MAILS)
        fill(team, "w2", LARGE_MAILS)
        fill(team, "orc", SMALL_MAILS, read=LARGE_MAILS)
        if team.engine.database.store.engine == "postgres":
            team.write(lambda uow: uow._connection.execute("ANALYZE"))
        rows = {}
        for name in ("w1", "w2", "orc"):
            deep = team.call(name, "mcp__mail__list_inbox", limit=90)["nextCursor"]
            rows[name] = count_rows_read(team.engine.database, lambda: read_inbox(team, name, deep))  # noqa: B023
        print(f"rows read: {rows['w1']} of {SMALL_MAILS}, {rows['w2']} of {LARGE_MAILS}, {rows['orc']} of old mail")
        assert team.call("w2", "mcp__mail__list_inbox", limit=1)["unreadCount"] == LARGE_MAILS
        assert not grew(rows["w1"], rows["w2"])
        assert not grew(rows["w1"], rows["orc"])

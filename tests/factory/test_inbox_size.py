"""An inbox of any size costs what a small one costs."""

from __future__ import annotations

import time
from pathlib import Path

from tests.factory.team import Team

SMALL, LARGE = 100, 100_000
TIMES = 60
MOST = 3.0
"""The goal is 1.5; a machine that does other things needs some room."""


def fill(team: Team, name: str, count: int, read: int = 0) -> None:
    """Put mail into an inbox, as fast as the engine can: the oldest unread, on top of it what was read long ago."""

    def rows(work):
        numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
        connection, workspace = work._connection, work.workspace
        first = connection.one("SELECT coalesce(max(id), 0) FROM mail WHERE workspace = :w", w=workspace)[0]
        connection.execute(
            "INSERT INTO mail (workspace, sender, sender_type, subject, body, importance, created_at)"
            f" {numbers} SELECT :w, 'agent:sup', 'SUPERVISOR', 'Subject', 'A body of some words', 'normal', :now FROM n",
            count=count + read,
            w=workspace,
            now=work.now,
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

    team.do(rows)


def measured(team: Team, *names: str) -> list[float]:
    """What a page, a deep page, and a call that carries the notice take each of them, at best, measured in turn."""
    deep = {name: team.call(name, "mcp__mail__list_inbox", limit=90)["nextCursor"] for name in names}
    best = dict.fromkeys(names, float("inf"))
    for _ in range(TIMES):
        for name in names:
            began = time.perf_counter()
            team.call(name, "mcp__mail__list_inbox", limit=5)
            team.call(name, "mcp__mail__list_inbox", limit=5, cursor=deep[name])
            team.call(name, "mcp__mail__list_inbox", limit=5, includeRead=True)
            team.call(name, "mcp__agent__get_status")
            best[name] = min(best[name], time.perf_counter() - began)
    return list(best.values())


def test_a_hundred_thousand_mails_cost_what_a_hundred_cost(tmp_path: Path, database: str) -> None:
    with Team(tmp_path, database=database) as team:
        fill(team, "w1", SMALL)
        fill(team, "w2", LARGE)
        fill(team, "orc", SMALL, read=LARGE)
        if team.floor.works.store.engine == "postgres":
            team.do(lambda work: work._connection.execute("ANALYZE"))
        small, large, old = measured(team, "w1", "w2", "orc")
        print(
            f"{SMALL} mails {1000 * small:.2f} ms; {LARGE} unread {large / small:.2f}, {LARGE} read {old / small:.2f} times"
        )
        assert team.call("w2", "mcp__mail__list_inbox", limit=1)["unreadCount"] == LARGE
        assert large / small < MOST
        assert old / small < MOST

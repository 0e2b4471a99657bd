"""Fill a database with as many rows as a server has after months, by bulk inserts.

One workspace owns all rows, so that `workspace = ?` selects everything. Row `i` of a table was written `i` seconds
after START. Parents have a thousand children at most, except those with the number 1, which have a tenth of all.
"""

from __future__ import annotations

from shopfloor.domain.times import DAY, SECOND
from shopfloor.store.protocol import Connection

START = 1_700_000_000 * SECOND
AGENTS = 500
RUNS = 500
BUSY_SHARE = 10
"""Every tenth row belongs to the first agent, user, run, epic or conversation."""

OWNER = f"CASE WHEN i % {BUSY_SHARE} = 0 THEN 1 ELSE i % {AGENTS} + 1 END"
AT = f"{START} + CAST(i AS BIGINT) * {SECOND}"
REFERENCE = f"({AT}) / 1000 * 2097152"


def fill_database(connection: Connection, workspace: int, rows: int) -> int:
    """Fill every table that grows, up to `rows` rows in the largest, and return the time after the last row."""
    for table in TABLES:
        fill_table(connection, workspace, rows, table)
    fill_words(connection)
    return START + (rows + 1) * SECOND + DAY


def fill_table(connection: Connection, workspace: int, rows: int, table: str) -> None:
    """Fill one table with its share of `rows` rows."""
    share, columns = TABLES[table]
    blob = "BLOB" if connection.engine == "sqlite" else "BYTEA"
    names = ", ".join(columns)
    parents = str(max(rows // 20, AGENTS))
    values = ", ".join(columns.values()).replace("{blob}", blob).replace("{parents}", parents)
    connection.execute(
        f"""
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {max(rows // share, AGENTS)})
        INSERT INTO {table} (workspace, {names}) SELECT {workspace}, {values} FROM n
        """
    )


def fill_words(connection: Connection) -> None:
    """Fill the indexes of words and symbols from the chunks."""
    connection.execute(
        """
        INSERT INTO chunk_symbol (workspace, root, name, chunk)
        SELECT workspace, root, name, id FROM chunk WHERE source = 'code'
        """
    )
    if connection.engine == "sqlite":
        connection.execute(
            """
            INSERT INTO chunk_words (rowid, name, path, signature, body)
            SELECT CASE kind WHEN 'file' THEN -id ELSE id END, name, ref, '', 'word' || (id % 1000) || ' the' FROM chunk
            """
        )
    else:
        connection.execute(
            """
            INSERT INTO chunk_words (id, words)
            SELECT id, to_tsvector('english', name || ' word' || (id % 1000) || ' common') FROM chunk
            """
        )


# Table: the share of the largest, and its columns with the SQL of row `i`.
TABLES: dict[str, tuple[int, dict[str, str]]] = {
    "log_seal": (100, {
        "number": "i", "first_id": "i * 100 - 99", "last_id": "i * 100", "row_count": "100", "previous": "CAST('p' AS {blob})",
        "digest": "CAST('d' AS {blob})", "leaves": "CAST('l' AS {blob})", "last_at": AT, "created_at": AT,
        "purged_at": f"CASE WHEN i < 20 THEN {AT} END",
    }),
    "agent": (1000, {
        "name": "'agent' || i", "folded": "'agent' || i", "type": "'WORKER'", "last_active_at": AT, "created_at": AT, "updated_at": AT,
        "retired_at": f"CASE WHEN i % 2 = 0 THEN {AT} END",
        "failed_at": f"CASE WHEN i % 100 = 0 THEN {AT} END", "retry_at": f"CASE WHEN i % 100 = 0 THEN {AT} END",
    }),
    "person": (5, {
        "name": "'user' || i", "created_at": AT, "removed_at": f"CASE WHEN i % 100 = 7 THEN {AT} WHEN i % 2 = 1 AND i > 1 THEN 0 END",
    }),
    "token": (2, {
        "id": "'token' || i", "kind": "CASE i % 4 WHEN 0 THEN 'agent' WHEN 1 THEN 'run' WHEN 2 THEN 'page' ELSE 'link' END",
        "owner": f"'agent' || {OWNER}", "created_at": AT, "expires_at": f"CASE WHEN i % 4 > 1 THEN {AT} + {30 * DAY} END",
        "revoked_at": f"CASE WHEN i % 3 = 0 THEN {AT} END",
    }),
    "secret": (10_000_000, {"name": "'secret' || i", "value": "CAST('v' AS {blob})", "created_at": AT}),
    "process": (10_000_000, {
        "kind": "'serve'", "host": "'host'", "pid": "i", "started_at": AT, "heartbeat_at": AT,
    }),
    "decision": (1, {
        "reference": REFERENCE, "kind": "CASE WHEN i % 2 = 1 THEN 'invocation' WHEN i % 1000 = 0 THEN 'manual' ELSE 'result' END",
        "subject": f"'agent:agent' || {OWNER}", "actor": "'operator'",
        "toolset": "CASE WHEN i % 5 < 4 THEN 'factory' ELSE 'desk' END", "tool": "'tool' || (i % 50)",
        "decision": "'Tool result'", "reasoning": "'Automatic'", "context": "'{}'",
        "code": "CASE WHEN i % 500 = 0 THEN 'INTERNAL_ERROR' END", "task": "CASE WHEN i % 4 = 0 THEN i % {parents} + 1 END",
        "process": "CASE WHEN i % 2001 = 1 THEN i % 500 + 1 END", "created_at": AT,
    }),
    "answer": (1, {
        "caller": f"'agent:agent' || {OWNER}", "key": "'key' || i", "digest": "CAST('d' AS {blob})", "answer": "'{}'",
        "created_at": f"{AT} + {30 * DAY}",
    }),
    "event": (1, {
        "name": "'task.changed'", "data": "'{}'", "topics": "'task'", "reference": REFERENCE, "created_at": AT,
    }),
    "delivery": (5, {
        "event": "i * 2", "subscriber": "CASE WHEN i % 2 = 0 THEN 'mailer' ELSE 'webhook:0' END",
        "due_at": AT, "dead_at": f"CASE WHEN i % 2 = 1 THEN {AT} END",
    }),
    "escalation": (4, {
        "subject": f"'agent:agent' || {OWNER}", "tool": "'tool' || (i % 50)", "code": "'INTERNAL_ERROR'", "message": "'m'",
        "stack": "'s'", "reference": REFERENCE, "first_at": AT, "last_at": AT,
        "recipient": f"CASE WHEN i % 2 = 0 THEN 'human' ELSE 'agent:agent' || {OWNER} END", "mail": "i / 4 + 1",
    }),
    "epic": (5, {
        "title": "'Epic'", "description": "''", "state": "CASE i % 3 WHEN 0 THEN 'PLANNING' WHEN 1 THEN 'IN_PROGRESS' ELSE 'COMPLETED' END",
        "created_at": AT, "updated_at": AT,
    }),
    "task": (1, {
        "kind": "CASE i % 3 WHEN 0 THEN 'epic' WHEN 1 THEN 'list' ELSE 'loop' END",
        "board": f"CASE i % 3 WHEN 0 THEN CAST({OWNER} AS TEXT) WHEN 1 THEN 'user' || {OWNER} ELSE 'run' || {OWNER} END",
        "title": "'Task ' || i",
        "state": "CASE WHEN i % 2000 < 3 THEN 'IN_PROGRESS' WHEN i % 7 = 0 THEN 'PENDING' ELSE 'COMPLETED' END",
        "priority": "i % 5", "assignee": f"CASE WHEN i % 3 = 0 THEN 'agent' || {OWNER} END",
        "content_key": "CASE WHEN i % 3 = 2 THEN 'content' || i END",
        "completed_at": f"CASE WHEN i % 2000 >= 3 AND i % 7 > 0 THEN {AT} END",
        "created_at": AT, "updated_at": AT, "deleted_at": f"CASE WHEN i % 20 = 9 THEN {AT} END",
    }),
    "dependency": (2, {"task": "i * 2", "blocker": "CASE WHEN i % 100 = 0 THEN 3 ELSE i + 1 END"}),
    "comment": (1, {
        "task": "CASE WHEN i % 10 = 0 THEN 3 ELSE i END", "author": "'agent1'", "body": "'text'", "created_at": AT,
    }),
    "mail": (1, {
        "sender": f"'agent:agent' || {OWNER}", "sender_type": "'WORKER'", "subject": "'s'", "body": "'b'",
        "thread": "CASE WHEN i % 10 = 0 THEN i / 100 * 100 + 1 END", "importance": "'normal'", "created_at": AT,
    }),
    "receipt": (1, {
        "recipient": f"CASE WHEN i % 50 = 0 THEN 'human' ELSE 'agent:agent' || {OWNER} END", "mail": "i",
        "wanted": "0", "undelivered": "CASE WHEN i % 1000 = 0 THEN 1 ELSE 0 END",
        "unread": "CASE WHEN i % 1000 = 0 THEN 1 ELSE 0 END", "waiting": "CASE WHEN i % 1000 = 0 THEN 1 ELSE 0 END",
        "overdue_at": f"CASE WHEN i % 5000 = 0 THEN {AT} END", "delivered_at": AT, "read_at": AT,
    }),
    "inbox": (1000, {"owner": "'agent:agent' || i", "slot": "1", "unread": "1"}),
    "question": (2, {"mail": "i", "asker": f"'agent:agent' || {OWNER}", "options": "'[]'", "deadline": AT}),
    "mute": (5, {"what": "'thread:' || i", "until": AT}),
    "crash": (1000, {"agent": f"'agent' || {OWNER}", "created_at": AT}),
    "discovery": (2, {
        "type": "CASE WHEN i % 2 = 0 THEN 'pattern' ELSE 'issue' END", "content": "'c'", "author": "'agent1'",
        "superseded_by": "CASE WHEN i % 2 = 1 OR i % 100 > 0 THEN i + 1 END",
        "digest": "CAST('digest' || i AS {blob})", "created_at": AT,
    }),
    "discovery_file": (2, {"discovery": "i", "path": "'src/f.py'", "digest": "CAST('d' AS {blob})"}),
    "file_access": (2, {"path": "'src/f' || i", "count": "i % 1000", "last_at": AT}),
    "indexed_file": (4, {
        "root": "'/project'", "path": "'src/' || i || '/f' || (i % 1000)", "name": "'f' || (i % 1000)", "stamp": "'s'",
        "digest": "CAST('d' AS {blob})", "language": "'Python'", "module": "'m'", "role": "'source'", "modified": AT,
    }),
    "chunk": (1, {
        "root": "CASE WHEN i % 2 = 0 THEN '/project' ELSE '' END", "source": "CASE WHEN i % 2 = 0 THEN 'code' ELSE 'mail' END",
        "ref": "CASE WHEN i % 2 = 0 THEN 'src/f' || i ELSE CAST(i AS TEXT) END", "ordinal": "0", "type": "'core'",
        "kind": "CASE WHEN i % 2 = 1 THEN '' WHEN i % 20 = 0 THEN 'file' ELSE 'function' END",
        "module": "'m' || (i % 100)", "name": "'name' || (i % 1000)", "start_line": "1", "end_line": "2",
        "owner": f"CASE WHEN i % 2 = 1 THEN 'agent:agent' || {OWNER} END", "changed_at": AT,
        "digest": "CAST('digest' || i AS {blob})",
    }),
    "embedding": (1, {
        "model": "'model'", "digest": "CAST('digest' || i AS {blob})", "value": "CAST('v' AS {blob})",
    }),
    "foreign_id": (1, {"source": "'beads'", "kind": "'task'", "foreign_id": "'bd-' || i", "number": "i"}),
    "index_mark": (2, {"source": "'task'", "ref": "CAST(i AS TEXT)"}),
    "run": (5, {
        "name": "'run' || i", "state": "'completed'", "wanted": "'go'", "spec": "''", "project": "''", "options": "'{}'",
        "iteration": "1", "crew": f"CASE WHEN i % 2 = 0 THEN 'crew' || {OWNER} END", "created_at": AT, "updated_at": AT,
    }),
    "crew": (5, {
        "name": "'crew' || i", "epic": OWNER, "state": "'completed'", "wanted": "'go'", "phase": "'work'", "workers": "2",
        "project": "''", "branch": "'b'", "base": "'c'", "options": "'{}'", "created_at": AT, "updated_at": AT,
    }),
    "crew_merge": (1, {
        "task": "i", "crew": f"'crew' || {OWNER}", "branch": "'b'", "commit_id": "'c'", "state": "'merged'",
        "created_at": AT, "updated_at": AT,
    }),
    "run_iteration": (1, {
        "run": f"'run' || {OWNER}", "number": "i", "attempts": "1", "summary": "'s'", "summarised_at": AT, "started_at": AT,
    }),
    "run_note": (1, {
        "run": f"'run' || {OWNER}", "iteration": "1", "type": "CASE WHEN i % 1000 = 0 THEN 'stuck' ELSE 'tip' END",
        "content": "'c'", "created_at": AT,
    }),
    "run_request": (2, {
        "run": f"'run' || {OWNER}", "kind": "'permission'", "question": "'q'", "options": "'[]'", "created_at": AT,
        "answered_at": f"CASE WHEN i % 1000 > 0 THEN {AT} END",
    }),
    "run_message": (1, {
        "run": f"'run' || {OWNER}", "sender": "'operator'", "body": "'b'", "created_at": AT,
        "delivered_in": "CASE WHEN i % 1000 > 0 THEN i / 1000 + 1 END",
    }),
    "run_launch": (5, {
        "run": f"'run' || {OWNER}", "options": "'{}'", "state": "'started'", "launches": "1", "created_by": "'operator'",
        "due_at": f"CASE WHEN i % 1000 = 0 THEN {AT} END", "created_at": AT,
    }),
    "usage": (5, {
        "kind": "'run'", "name": f"'run' || {OWNER}", "day": AT, "tokens": "1", "cost": "1",
    }),
    "review": (1, {
        "owner": f"'run:run' || {OWNER}", "state": "'approved'", "comment": "''", "created_at": AT, "decided_at": AT,
    }),
    "transcript": (1, {
        "owner": f"'run:run' || {OWNER}", "number": "i", "revision": "i", "session": "'s'", "iteration": "i % 50",
        "kind": "'message'", "title": "''", "status": "''", "body": "'b' || i", "result": "''", "created_at": AT,
        "updated_at": AT,
    }),
    "conversation": (2, {
        "owner": f"'user' || {OWNER}", "title": "'t'", "state": "'{}'", "created_at": AT, "updated_at": AT,
    }),
    "chat_message": (1, {
        "owner": f"'user' || {OWNER}", "conversation": f"{OWNER}", "role": "'user'", "text": "'t'", "created_at": AT,
    }),
}  # fmt: skip

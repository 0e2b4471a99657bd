-- 0001_floor.sql: who there is, what was called, what happened, and what still has to be told.
-- Times are microseconds since 1970 UTC. Ids are spelled by the toolsets ("task-15", 15, "TAS-15").

CREATE TABLE workspace (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    closed_at  INTEGER                 -- the moment of the first credential: from then on every call needs one
) STRICT;

-- Keys that the floor makes for itself (the signing key of user tokens); shared by all replicas.
CREATE TABLE secret (
    workspace  INTEGER NOT NULL REFERENCES workspace (id),
    name       TEXT    NOT NULL,
    value      BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent (
    workspace         INTEGER NOT NULL REFERENCES workspace (id),
    name              TEXT    NOT NULL,
    type              TEXT    NOT NULL,
    supervisor        TEXT,
    current_epic      INTEGER,
    current_task      INTEGER,
    tmux_session_name TEXT,
    last_active_at    INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    retired_at        INTEGER,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE person (
    workspace     INTEGER NOT NULL REFERENCES workspace (id),
    name          TEXT    NOT NULL,
    password_hash TEXT,
    created_at    INTEGER NOT NULL,
    removed_at    INTEGER,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

-- Only a digest of the secret is kept; a user's token is a signed JWT and has none.
CREATE TABLE token (
    id         TEXT    PRIMARY KEY,
    workspace  INTEGER NOT NULL REFERENCES workspace (id),
    kind       TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    digest     BLOB,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX token_owner ON token (workspace, kind, owner);

-- Every process that serves or calls, with a heartbeat: what a dead one left open is closed for it.
CREATE TABLE process (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace    INTEGER NOT NULL REFERENCES workspace (id),
    kind         TEXT    NOT NULL,
    host         TEXT    NOT NULL,
    pid          INTEGER NOT NULL,
    url          TEXT,
    started_at   INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
) STRICT;

-- The decision log. The rows of one call share its reference, which grows with time.
CREATE TABLE decision (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    reference  INTEGER NOT NULL,
    kind       TEXT    NOT NULL,        -- invocation, result, error, manual, limited
    subject    TEXT    NOT NULL,        -- as whom the call acted
    actor      TEXT    NOT NULL,        -- who made it
    toolset    TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    decision   TEXT    NOT NULL,
    reasoning  TEXT    NOT NULL,
    context    TEXT    NOT NULL,
    code       TEXT,
    stack      TEXT,                    -- for people only
    task       INTEGER,
    duration   INTEGER,                 -- microseconds
    count      INTEGER NOT NULL DEFAULT 1,
    process    INTEGER,                 -- set while the call is open
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX decision_workspace ON decision (workspace, id);
CREATE INDEX decision_subject ON decision (workspace, subject, id);
CREATE INDEX decision_tool ON decision (workspace, tool, id);
CREATE INDEX decision_task ON decision (workspace, task, id) WHERE task IS NOT NULL;
CREATE INDEX decision_reference ON decision (workspace, reference);
CREATE INDEX decision_open ON decision (process) WHERE process IS NOT NULL;
CREATE INDEX decision_limited ON decision (workspace, subject, tool, id) WHERE kind = 'limited';

-- The first answer to a call with a key, for whoever sends it again.
CREATE TABLE answer (
    workspace  INTEGER NOT NULL,
    caller     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    digest     BLOB    NOT NULL,
    answer     TEXT,
    waiting    TEXT,                    -- what the call waits for, until there is an answer
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_age ON answer (created_at);

-- Facts, written in the transaction that caused them, and for each subscriber what is left to deliver.
CREATE TABLE event (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    data       TEXT    NOT NULL,
    topics     TEXT    NOT NULL,        -- what those who wait listen to, separated by spaces
    reference  INTEGER,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_workspace ON event (workspace, id);
CREATE INDEX event_reference ON event (workspace, reference) WHERE reference IS NOT NULL;

CREATE TABLE delivery (
    workspace  INTEGER NOT NULL,
    event      INTEGER NOT NULL,
    subscriber TEXT    NOT NULL,
    due_at     INTEGER NOT NULL,        -- while somebody works on it: the end of the lease
    tries      INTEGER NOT NULL DEFAULT 0,
    error      TEXT,
    dead_at    INTEGER,
    PRIMARY KEY (workspace, event, subscriber)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (workspace, due_at) WHERE dead_at IS NULL;
CREATE INDEX delivery_dead ON delivery (workspace, dead_at) WHERE dead_at IS NOT NULL;

-- Failures of the floor itself, merged by (subject, tool, code) within five minutes.
CREATE TABLE escalation (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    subject    TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    code       TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    stack      TEXT    NOT NULL,
    reference  INTEGER NOT NULL,
    count      INTEGER NOT NULL DEFAULT 1,
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX escalation_recent ON escalation (workspace, subject, tool, code, first_at);

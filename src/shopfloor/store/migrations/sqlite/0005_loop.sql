-- 0005_loop.sql: runs of an agent, what happened in each iteration, what was learned, and what people said to them.
-- A run's tasks are rows of task with kind 'loop' and the run's name as their board.

CREATE TABLE run (
    workspace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL,                -- active, completed, stopped, failed
    wanted     TEXT    NOT NULL,                -- go, pause, stop: what a person asked for
    reason     TEXT,                            -- why it ended, and how to go on
    spec       TEXT    NOT NULL,
    project    TEXT    NOT NULL,
    options    TEXT    NOT NULL,                -- everything that a resume needs, as JSON
    iteration  INTEGER NOT NULL,                -- the one under way, or the last one
    session    TEXT,                            -- the agent's own name for its conversation
    process    INTEGER,                         -- the process that drives it
    wish       INTEGER NOT NULL DEFAULT 0,      -- how often the agent called the session complete
    wished_in  INTEGER,                         -- the iteration whose wish still stands
    judged     INTEGER NOT NULL DEFAULT 0,      -- the wish that was judged last
    verdict    TEXT,                            -- what was wrong with it; nothing when it passed
    tokens     INTEGER NOT NULL DEFAULT 0,
    cost       INTEGER NOT NULL DEFAULT 0,      -- millionths
    spent      INTEGER NOT NULL DEFAULT 0,      -- microseconds that it was driven
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_latest ON run (workspace, created_at);

CREATE TABLE run_iteration (
    workspace   INTEGER NOT NULL,
    run         TEXT    NOT NULL,
    number      INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,               -- more than 1: a kill came between
    summary     TEXT,
    summarised_at INTEGER,
    outcome     TEXT,                           -- how it ended; nothing while it is under way
    failure     TEXT,
    board       TEXT,                           -- a fingerprint of the tasks at its end
    retold      INTEGER NOT NULL DEFAULT 0,     -- 1: its prompt was changed because nothing moved
    tokens      INTEGER NOT NULL DEFAULT 0,
    cost        INTEGER NOT NULL DEFAULT 0,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    PRIMARY KEY (workspace, run, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_iteration_summarised ON run_iteration (workspace, summarised_at) WHERE summary IS NOT NULL;

CREATE TABLE run_note (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    run        TEXT    NOT NULL,
    iteration  INTEGER NOT NULL,
    type       TEXT    NOT NULL,                -- learning, stuck, tip, decision
    content    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX run_note_run ON run_note (workspace, run, number);
CREATE INDEX run_note_type ON run_note (workspace, run, type, number);
CREATE INDEX run_note_written ON run_note (workspace, created_at, number);

-- What a run wants to know from a person: a permission, help when it is stuck, or whether a command proves a task done.
CREATE TABLE run_request (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   INTEGER NOT NULL,
    run         TEXT    NOT NULL,
    kind        TEXT    NOT NULL,               -- permission, stuck, acceptance
    question    TEXT    NOT NULL,
    options     TEXT    NOT NULL,               -- what can be answered, as a JSON list; empty: any text
    about       TEXT,                           -- acceptance: the task's number and the command, as a JSON list
    answer      TEXT,
    answered_by TEXT,
    created_at  INTEGER NOT NULL,
    answered_at INTEGER
) STRICT;
CREATE INDEX run_request_run ON run_request (workspace, run, number);
CREATE INDEX run_request_open ON run_request (workspace, number) WHERE answered_at IS NULL;

CREATE TABLE run_message (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace    INTEGER NOT NULL,
    run          TEXT    NOT NULL,
    sender       TEXT    NOT NULL,
    body         TEXT    NOT NULL,
    told_in      INTEGER,                       -- the iteration whose prompt carried it
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX run_message_untold ON run_message (workspace, run, number) WHERE told_in IS NULL;
CREATE INDEX run_message_told ON run_message (workspace, run, told_in, number);

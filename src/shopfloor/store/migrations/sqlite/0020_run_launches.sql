-- 0020_run_launches.sql: runs that the server starts: now, later or again and again.

CREATE TABLE run_launch (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   INTEGER NOT NULL,
    run         TEXT   NOT NULL,        -- the wanted name, or the run that is continued
    spec        TEXT,                   -- nothing: a run is continued
    options     TEXT   NOT NULL,        -- JSON, for the command line
    state       TEXT   NOT NULL,        -- waiting, starting, started, failed, cancelled
    due_at      INTEGER,
    repeat      INTEGER,                 -- microseconds between two starts
    pid         INTEGER,
    host        TEXT,
    problem     TEXT,
    launches    INTEGER NOT NULL,        -- how often it was started
    created_by  TEXT   NOT NULL,
    created_at  INTEGER NOT NULL,
    launched_at INTEGER
) STRICT;
CREATE INDEX run_launch_latest ON run_launch (workspace, id);
CREATE INDEX run_launch_due ON run_launch (workspace, due_at) WHERE due_at IS NOT NULL;

-- 0027_crew.sql: crews, their merge queues, and the runs of their agents.

CREATE TABLE crew (
    workspace  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    epic       INTEGER NOT NULL,
    state      TEXT    NOT NULL,                -- as of a run
    wanted     TEXT    NOT NULL,                -- go, pause, stop: what a person asked for
    phase      TEXT    NOT NULL,                -- plan, approval, work
    workers    INTEGER NOT NULL,                -- how many a person asked for
    reason     TEXT,                            -- why it ended, and how to continue
    report     TEXT,
    project    TEXT    NOT NULL,
    branch     TEXT    NOT NULL,                -- holds verified work only
    base       TEXT    NOT NULL,                -- the commit that the branch began at
    options    TEXT    NOT NULL,                -- everything that a resume needs, as JSON
    process    INTEGER,                         -- the process that drives it
    fence      INTEGER NOT NULL DEFAULT 0,
    spent      INTEGER NOT NULL DEFAULT 0,      -- microseconds that it was driven
    accounted_at INTEGER,                      -- the moment up to which `spent` counts; NULL while its clock is halted
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX crew_latest ON crew (workspace, created_at);
CREATE INDEX crew_epic ON crew (workspace, epic, created_at);

-- One row per task: its branch on its way into the branch of the crew.
CREATE TABLE crew_merge (
    workspace     INTEGER NOT NULL,
    task          INTEGER NOT NULL,
    crew          TEXT    NOT NULL,
    branch        TEXT    NOT NULL,
    commit_id     TEXT    NOT NULL,             -- the work as it was handed over
    state         TEXT    NOT NULL,             -- review, queued, verified, merged, returned
    merged_commit TEXT,                         -- the same work on the crew's branch
    attempts      INTEGER NOT NULL DEFAULT 0,   -- how often it was returned
    output        TEXT,                         -- why it was returned
    approved_by   TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (workspace, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX crew_merge_crew ON crew_merge (workspace, crew, updated_at);
-- The merge queue: the few entries that are neither merged nor returned.
CREATE INDEX crew_merge_open ON crew_merge (workspace, crew, updated_at)
    WHERE state IN ('review', 'queued', 'verified');

ALTER TABLE run ADD COLUMN crew TEXT;           -- the crew that the run is part of
ALTER TABLE run ADD COLUMN worker TEXT;         -- the agent that works in it
ALTER TABLE run ADD COLUMN task INTEGER;        -- the task of the epic that it works on
CREATE INDEX run_crew ON run (workspace, crew, created_at);

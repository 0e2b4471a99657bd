-- 0002_tasks.sql: one task for every kind of board: a user's list, an epic, a loop's session.

CREATE TABLE epic (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace        INTEGER NOT NULL,
    title            TEXT    NOT NULL,
    description      TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    linear_issue_id  TEXT,
    linear_issue_url TEXT,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    completed_at     INTEGER
) STRICT;
CREATE INDEX epic_workspace ON epic (workspace, id);
CREATE INDEX epic_state ON epic (workspace, state, id);

CREATE TABLE task (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace     INTEGER NOT NULL,
    kind          TEXT    NOT NULL,                 -- of the board: list, epic, loop
    board         TEXT    NOT NULL,                 -- the user, the epic's number (or nothing), the run
    title         TEXT    NOT NULL,
    description   TEXT,
    state         TEXT    NOT NULL,
    priority      INTEGER NOT NULL,                 -- 0 critical … 4 backlog
    open_blockers INTEGER NOT NULL DEFAULT 0,       -- maintained: blockers that are not completed
    assignee      TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    fence         INTEGER NOT NULL DEFAULT 0,       -- grows with each claim; an older holder is told so
    version       INTEGER NOT NULL DEFAULT 1,
    worktree_path TEXT,
    branch_name   TEXT,
    pr_url        TEXT,
    acceptance    TEXT,                             -- a command as a JSON list, which a person set or approved
    due_at        INTEGER,
    due_zone      TEXT,
    content_key   TEXT,                             -- set where the same content twice on a board is refused
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    completed_at  INTEGER,
    deleted_at    INTEGER                           -- a deletion can be undone for a while
) STRICT;
CREATE INDEX task_board ON task (workspace, kind, board, number) WHERE deleted_at IS NULL;
CREATE INDEX task_state ON task (workspace, kind, board, state, number) WHERE deleted_at IS NULL;
CREATE INDEX task_ready ON task (workspace, kind, board, priority, number)
    WHERE state = 'PENDING' AND open_blockers = 0 AND deleted_at IS NULL;
CREATE INDEX task_assignee ON task (workspace, assignee, number) WHERE assignee IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX task_deleted ON task (workspace, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX task_content ON task (workspace, kind, board, content_key)
    WHERE content_key IS NOT NULL AND deleted_at IS NULL;

CREATE TABLE dependency (
    workspace INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    blocker   INTEGER NOT NULL,
    PRIMARY KEY (workspace, task, blocker)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_blocker ON dependency (workspace, blocker);

-- Whoever adds a dependency changes this row first: two at once cannot close a cycle between them.
CREATE TABLE task_graph (
    workspace INTEGER PRIMARY KEY,
    version   INTEGER NOT NULL
) STRICT;

CREATE TABLE comment (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  INTEGER NOT NULL,
    task       INTEGER NOT NULL,
    author     TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX comment_task ON comment (workspace, task, id);

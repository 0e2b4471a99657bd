-- 0016_foreign_ids.sql: the ids that imported epics, tasks and comments have in the tracker they come from.

CREATE TABLE foreign_id (
    workspace  BIGINT NOT NULL,
    source     TEXT   NOT NULL,     -- the other tracker: beads, taskmaster, …
    kind       TEXT   NOT NULL,     -- epic, task, comment
    foreign_id TEXT   NOT NULL,
    number     BIGINT NOT NULL,     -- the epic, task or comment here
    PRIMARY KEY (workspace, source, kind, foreign_id)
);

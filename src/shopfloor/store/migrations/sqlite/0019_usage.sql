-- 0019_usage.sql: tokens and cost by day, of everything, of an agent, of a run and of a task.

CREATE TABLE usage (
    workspace INTEGER NOT NULL,
    kind      TEXT   NOT NULL,          -- total, agent, run, task
    name      TEXT   NOT NULL,          -- of the agent or the run, the number of the task, or nothing
    day       INTEGER NOT NULL,          -- its first microsecond
    tokens    INTEGER NOT NULL,
    cost      INTEGER NOT NULL,          -- in millionths
    PRIMARY KEY (workspace, kind, name, day)
) STRICT, WITHOUT ROWID;

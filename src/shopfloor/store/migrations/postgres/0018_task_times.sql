-- 0018_task_times.sql: when the work on a task began and when its holder got it; how many comments it has; the
-- latest completed tasks; and the latest tokens of an agent.

ALTER TABLE task ADD COLUMN started_at BIGINT;
ALTER TABLE task ADD COLUMN held_at BIGINT;
ALTER TABLE task ADD COLUMN comments BIGINT NOT NULL DEFAULT 0;
UPDATE task SET comments = (
    SELECT count(*) FROM comment WHERE comment.workspace = task.workspace AND comment.task = task.number
);

CREATE INDEX task_completed ON task (workspace, kind, completed_at)
    WHERE completed_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX task_board_completed ON task (workspace, kind, board, completed_at, number)
    WHERE completed_at IS NOT NULL AND deleted_at IS NULL;

DROP INDEX token_owner;
CREATE INDEX token_owner ON token (workspace, kind, owner, created_at);

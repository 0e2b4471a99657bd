-- 0013_deleted_blockers.sql: a deleted task no longer blocks the tasks that depend on it.

UPDATE task SET open_blockers = (
    SELECT count(*) FROM dependency
    JOIN task AS blocker ON blocker.workspace = dependency.workspace AND blocker.number = dependency.blocker
    WHERE dependency.workspace = task.workspace AND dependency.task = task.number
      AND blocker.state <> 'COMPLETED' AND blocker.deleted_at IS NULL
)
WHERE EXISTS (
    SELECT 1 FROM dependency
    JOIN task AS blocker ON blocker.workspace = dependency.workspace AND blocker.number = dependency.blocker
    WHERE dependency.workspace = task.workspace AND dependency.task = task.number
      AND blocker.deleted_at IS NOT NULL
);

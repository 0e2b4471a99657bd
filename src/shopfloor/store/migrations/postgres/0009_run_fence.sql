-- 0009_run_fence.sql: a fence per driver of a run, and plainer names for two columns.

-- How often a process has begun to drive the run. A write with an older fence comes from a driver that lost the run.
ALTER TABLE run ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;

-- 1: the prompt was changed because the iterations before made no progress.
ALTER TABLE run_iteration RENAME COLUMN retold TO prompt_changed;

-- The iteration whose prompt included the message.
ALTER TABLE run_message RENAME COLUMN told_in TO delivered_in;

-- 0011_run_waiting.sql: what a run waits for, whether its work was verified before it began, and uncommitted files.

-- What the run waits for, and until when; nothing while it works.
ALTER TABLE run ADD COLUMN waiting TEXT;

-- Whether the acceptance commands passed before the first iteration: 1 or 0; nothing when there was no check.
ALTER TABLE run ADD COLUMN verified_before BIGINT;

-- The files that were changed before the iteration, with their digests, as a JSON object. Cleared by its commit: what
-- is left belongs to iterations whose changes are not committed yet.
ALTER TABLE run_iteration ADD COLUMN dirty_before TEXT;

-- 0032_scans.sql: indexes for statements that read many rows for few; found by the long form of
-- tests/repositories/test_statement_plans.py.

-- The operator's tokens are listed, too.
DROP INDEX token_listed;
CREATE INDEX token_listed ON token (workspace, id) WHERE kind IN ('agent', 'user', 'operator');

-- Each permission request looks for a permanent answer among all requests of the run.
CREATE INDEX run_request_always ON run_request (workspace, run, number) WHERE answer = 'always';

-- One assignee's tasks on a large board.
CREATE INDEX task_board_assignee ON task (workspace, kind, board, assignee, number)
    WHERE assignee IS NOT NULL AND deleted_at IS NULL;

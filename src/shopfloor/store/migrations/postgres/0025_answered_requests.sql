-- The inbox shows what was answered, latest first.
CREATE INDEX run_request_answered ON run_request (workspace, number) WHERE answered_at IS NOT NULL;

-- 0010_scans.sql: indexes for statements that read whole tables; found by tests/repositories/test_statement_plans.py.

-- What is older than a day: the workspace alone selects everything.
DROP INDEX answer_age;
CREATE INDEX answer_age ON answer (workspace, created_at);

-- Sign-in links expire as page sessions do, and are deleted by the same statement.
DROP INDEX token_page;
CREATE INDEX token_page ON token (workspace, expires_at) WHERE kind IN ('page', 'link');
CREATE INDEX token_listed ON token (workspace, id) WHERE kind IN ('agent', 'user');

DROP INDEX file_access_most;
CREATE INDEX file_access_most ON file_access (workspace, count DESC, path);

CREATE INDEX discovery_newest ON discovery (workspace, type, id) WHERE superseded_by IS NULL;
CREATE INDEX escalation_workspace ON escalation (workspace, id);
CREATE INDEX mute_until ON mute (workspace, until);
CREATE INDEX receipt_delivered ON receipt (workspace, recipient, delivered_at) WHERE delivered_at IS NOT NULL;
CREATE INDEX run_request_pending ON run_request (workspace, run, number) WHERE answered_at IS NULL;

DROP INDEX receipt_mail;
CREATE INDEX receipt_mail ON receipt (workspace, mail, recipient);

-- 0022_call_window.sql: the calls of the last minute of tools with a rate limit, shared by all replicas.

CREATE TABLE call_window (
    id        INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    subject   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    called_at INTEGER NOT NULL
);
CREATE INDEX call_window_calls ON call_window (workspace, subject, tool, called_at);
CREATE INDEX call_window_old ON call_window (workspace, called_at);

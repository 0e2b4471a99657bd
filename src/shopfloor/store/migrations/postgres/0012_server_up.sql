-- 0012_server_up.sql: since when a server has been up, so that time without one does not count as agents' silence.

ALTER TABLE workspace ADD COLUMN up_since BIGINT;      -- the start, or the first heartbeat after a gap
ALTER TABLE workspace ADD COLUMN heartbeat_at BIGINT;  -- the last heartbeat of any process

-- 0030_runs_without_crew.sql: list runs without reading those of crews.

CREATE INDEX run_without_crew ON run (workspace, created_at DESC, name) WHERE crew IS NULL;

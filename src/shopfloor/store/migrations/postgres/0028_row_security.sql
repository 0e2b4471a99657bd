-- 0028_row_security.sql: a second fence between workspaces. Every statement names its workspace; one that forgets it
-- sees the rows of the connection's own workspace only. The setting shopfloor.workspace says which: a number, -1 for all
-- (migrations, backups, exports), and without it no row is visible.
--
-- FORCE, because the role of the server usually owns the tables. Superusers and roles with BYPASSRLS are not fenced.
-- No subquery around the setting: hot statements read few rows, and an InitPlan per table costs more than it saves.

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = current_schema()::regnamespace
          AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition
          AND a.attname = 'workspace'
          AND NOT a.attisdropped
        ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY workspace_fence ON %I USING ('
            || 'workspace = nullif(current_setting(''shopfloor.workspace'', true), '''')::bigint'
            || ' OR current_setting(''shopfloor.workspace'', true) = ''-1'')',
            name
        );
    END LOOP;
END
$$;

-- 0017_partial_indexes.sql: find what is left to do without reading what is done: the iterations whose changes are not
-- committed, and the dead letters of one subscriber.

CREATE INDEX run_iteration_dirty ON run_iteration (workspace, run, number) WHERE dirty_before IS NOT NULL;

CREATE INDEX delivery_dead_subscriber ON delivery (workspace, subscriber, dead_at) WHERE dead_at IS NOT NULL;

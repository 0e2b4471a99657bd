-- 0014_agent_names.sql: names of agents that differ only in upper and lower case are rejected by the store.

-- The name in lower case. Of such names that two replicas created at once, only the first has one.
ALTER TABLE agent ADD COLUMN folded TEXT;
UPDATE agent SET folded = lower(name)
WHERE NOT EXISTS (
    SELECT 1 FROM agent AS other
    WHERE other.workspace = agent.workspace AND lower(other.name) = lower(agent.name) AND other.name < agent.name
);
CREATE UNIQUE INDEX agent_folded ON agent (workspace, folded);

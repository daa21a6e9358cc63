-- Tenant tree, second revision.

-- Why the baseline alone is published: BUDGET or CAP, null where it is not. ------------------------------------------
ALTER TABLE {schema}.allocation ADD COLUMN closed text;
UPDATE {schema}.allocation SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.allocation DROP COLUMN budget_spent;
ALTER TABLE {schema}.policy_state ADD COLUMN closed text;
UPDATE {schema}.policy_state SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.policy_state DROP COLUMN budget_spent;

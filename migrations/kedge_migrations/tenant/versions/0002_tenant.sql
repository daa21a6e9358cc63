-- Tenant tree, second revision.

-- Why the baseline alone is published: BUDGET or CAP, null where it is not. ------------------------------------------
ALTER TABLE {schema}.allocation ADD COLUMN closed text;
UPDATE {schema}.allocation SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.allocation DROP COLUMN budget_spent;
ALTER TABLE {schema}.policy_state ADD COLUMN closed text;
UPDATE {schema}.policy_state SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.policy_state DROP COLUMN budget_spent;

-- What replicas read, and how they learn that it changed. --------------------------------------------------------------
CREATE INDEX mode_change_level ON {schema}.mode_change (policy, change_id);

CREATE FUNCTION {schema}.read_policies() RETURNS json
LANGUAGE plpgsql AS $body$
BEGIN
    RETURN json_build_object(
        'mode', (SELECT m.mode FROM {schema}.mode_change m WHERE m.policy IS NULL ORDER BY m.change_id DESC LIMIT 1),
        'policies', (SELECT coalesce(json_agg(p), '[]') FROM {schema}.policy p));
END $body$;

-- Newest allocation of each bucket, those of a version above the known one. known: {policy: allocation_version}
CREATE FUNCTION {schema}.read_allocations(known json) RETURNS json
LANGUAGE plpgsql AS $body$
BEGIN
    -- LIMIT 1 keeps the planner from joining with all that was ever published; a version has one bucket.
    RETURN (
        SELECT coalesce(json_agg(newest), '[]')
        FROM {schema}.bucket_state s
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.allocation a
            WHERE a.policy = s.policy AND a.allocation_version = s.allocation_version AND a.bucket = s.bucket
            LIMIT 1
        ) newest
        WHERE s.allocation_version > coalesce((known ->> s.policy)::bigint, 0));
END $body$;

CREATE TRIGGER serving_changed AFTER INSERT OR UPDATE OR DELETE ON {schema}.policy
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('policies');
CREATE TRIGGER serving_changed AFTER INSERT ON {schema}.mode_change
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('policies');
CREATE TRIGGER serving_changed AFTER INSERT ON {schema}.allocation
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('allocations');
REVOKE ALL ON FUNCTION {schema}.read_policies(), {schema}.read_allocations(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.read_policies(), {schema}.read_allocations(json) TO {role};

-- What watching, experiments and evaluation need of the control schema.

-- Alarms from outside: a credential that can freeze and nothing else, of one tenant or, made at the start, of every tenant.
ALTER TABLE control.api_key
    DROP CONSTRAINT api_key_role_check,
    DROP CONSTRAINT api_key_check,
    ADD CONSTRAINT api_key_role_check CHECK (role IN
        ('CORE_APP', 'VIEWER', 'PROPOSER', 'APPROVER', 'ADMIN', 'EVALUATOR', 'TRAINER', 'ALARM', 'OPERATOR')),
    ADD CONSTRAINT api_key_tenant_check CHECK (tenant IS NOT NULL OR role IN ('OPERATOR', 'ALARM'));
ALTER TABLE control.identity_binding
    DROP CONSTRAINT identity_binding_role_check,
    ADD CONSTRAINT identity_binding_role_check CHECK (role IN
        ('CORE_APP', 'VIEWER', 'PROPOSER', 'APPROVER', 'ADMIN', 'EVALUATOR', 'TRAINER', 'ALARM'));

-- The gate looks whether keys and bindings changed, as the replicas do, before it reads them.
GRANT SELECT ON control.serving TO kedge_gate;

-- When the gate looks at the policies whose rewards are compared with their holdout, over all tenants. ---------------------
CREATE TABLE control.divergence_due (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    due_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, policy)
);
CREATE INDEX divergence_due_time ON control.divergence_due (due_time);
GRANT SELECT ON control.divergence_due TO kedge_service, kedge_gate;
GRANT SELECT ON control.mode_change TO kedge_gate;   -- policy time stops while everything is frozen

CREATE FUNCTION control.divergence_moved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO control.divergence_due AS d (tenant, policy, due_time)
    SELECT t.name, NEW.policy, NEW.due_time FROM control.tenant t WHERE t.schema_name = TG_TABLE_SCHEMA
    ON CONFLICT (tenant, policy) DO UPDATE SET due_time = excluded.due_time;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.divergence_moved() FROM PUBLIC;

-- What is wrong with the walls, as in the fourth revision; the gate's login adds divergence checks to a tenant's record, which
-- the tenant's own role cannot.
DO $do$
DECLARE
    before constant text := $a$a.privilege_type IN ('SELECT', 'USAGE')))$a$;
    after constant text := $b$a.privilege_type IN ('SELECT', 'USAGE'))
            AND NOT (p.nspname NOT IN ('control', 'holdout') AND pg_get_userbyid(a.grantee) = 'kedge_gate' AND
            ((i.type = 'n' AND a.privilege_type = 'USAGE') OR (i.object ~ '^table .*\.divergence_check$' AND a.privilege_type = 'INSERT'))))$b$;
    found text := pg_get_functiondef('control.isolation_faults()'::regprocedure);
BEGIN
    IF strpos(found, before) = 0 THEN
        RAISE EXCEPTION 'control.isolation_faults() is not that of the fourth revision';
    END IF;
    EXECUTE replace(found, before, after);
END $do$;

-- What divergence checks saw of each case of the sensor part: what differs between cases, whoever answers, stays in the pool. --
ALTER TABLE holdout.item
    ADD COLUMN lift_count integer NOT NULL DEFAULT 0,
    ADD COLUMN lift_total double precision NOT NULL DEFAULT 0,
    ADD COLUMN lift_squares double precision NOT NULL DEFAULT 0;
GRANT UPDATE (lift_count, lift_total, lift_squares) ON holdout.item TO kedge_gate;

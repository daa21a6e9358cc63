-- What identities, isolation, erasure and audit need of the control schema.

-- Identity: what a key may be, until when and for whom; which certificates are whose. ---------------------------------
ALTER TABLE control.api_key DROP CONSTRAINT api_key_role_check;
ALTER TABLE control.api_key ADD CONSTRAINT api_key_role_check CHECK (role IN
    ('CORE_APP', 'VIEWER', 'PROPOSER', 'APPROVER', 'ADMIN', 'EVALUATOR', 'TRAINER', 'OPERATOR'));
ALTER TABLE control.api_key
    ADD COLUMN expire_time timestamptz,         -- null: never
    ADD COLUMN person_issuer text,              -- whom a person's key stands for; null: a program
    ADD COLUMN person_subject text,
    ADD CONSTRAINT api_key_person_check CHECK ((person_issuer IS NULL) = (person_subject IS NULL));

-- What a client certificate may do, by the name in it; a name may be bound to several tenants.
CREATE TABLE control.identity_binding (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    name text NOT NULL CHECK (name ~ '^(spiffe://|dns:)'),
    role text NOT NULL CHECK (role IN
        ('CORE_APP', 'VIEWER', 'PROPOSER', 'APPROVER', 'ADMIN', 'EVALUATOR', 'TRAINER')),
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, name)
);
CREATE TRIGGER serving_changed AFTER INSERT OR UPDATE OR DELETE ON control.identity_binding
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('keys');
GRANT SELECT, INSERT, DELETE ON control.identity_binding TO kedge_service;
GRANT UPDATE (role) ON control.identity_binding TO kedge_service;

-- Scale: what one more tenant costs may not grow with those that are there. ---------------------------------------------

-- Let a tenant's role read and append to every table of its schema. GRANT ... ON ALL TABLES IN SCHEMA reads the whole
-- list of the database's relations five times, some 200 for each tenant; what depends on a schema is found by an index.
CREATE FUNCTION control.grant_tables(of_schema regnamespace, to_role regrole) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    EXECUTE format('GRANT SELECT, INSERT ON %s TO %s', (
        SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid)
        FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = of_schema AND d.classid = 'pg_class'::regclass
            AND c.relkind IN ('r', 'p')), to_role);
END $$;
REVOKE ALL ON FUNCTION control.grant_tables(regnamespace, regrole) FROM PUBLIC;
UPDATE control.tenant_revision SET ddl = replace(ddl, 'GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {role};',
    $$SELECT control.grant_tables('{schema}', '{role}');$$) WHERE ordinal = 1;

-- A partition costs PostgreSQL a walk over all constraints of the database, in which every NOT NULL is one: a new tenant
-- gets this month's partitions, and the next month's from extend_partitions, which the worker calls every minute.
UPDATE control.tenant_revision SET ddl = replace(ddl, $$(now() AT TIME ZONE 'UTC')::date, 2);$$,
    $$(now() AT TIME ZONE 'UTC')::date, 1);$$) WHERE ordinal = 1;

-- Make a tenant, as in the first revision, but several at once: only two of one name wait for each other.
CREATE OR REPLACE FUNCTION control.create_tenant(tenant_name text, keep_content boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    new_schema text := 't_' || replace(tenant_name, '-', '_');
    new_role text := 'kedge_t_' || replace(tenant_name, '-', '_');
    head text;
    step record;
BEGIN
    IF tenant_name !~ '^[a-z][a-z0-9-]{0,39}$' THEN
        RAISE EXCEPTION 'tenant name % is not 1 to 40 of [a-z0-9-] starting with a letter', tenant_name
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('kedge.create_tenant'), hashtext(new_schema));
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = new_role) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', new_role);
    END IF;
    EXECUTE format('CREATE SCHEMA %I', new_schema);
    FOR step IN SELECT * FROM control.tenant_revision ORDER BY ordinal LOOP
        EXECUTE replace(replace(step.ddl, '{schema}', quote_ident(new_schema)), '{role}', quote_ident(new_role));
        head := step.revision;
    END LOOP;
    EXECUTE format('CREATE TABLE %I.alembic_version (version_num varchar(32) PRIMARY KEY)', new_schema);
    EXECUTE format('INSERT INTO %I.alembic_version VALUES (%L)', new_schema, head);
    INSERT INTO control.tenant (name, schema_name, role_name, revision, store_content)
    VALUES (tenant_name, new_schema, new_role, head, keep_content);
    IF current_setting('server_version_num')::integer >= 160000 THEN
        EXECUTE format('GRANT %I TO kedge_service WITH INHERIT FALSE, SET TRUE', new_role);
    ELSE
        EXECUTE format('GRANT %I TO kedge_service', new_role);
    END IF;
    PERFORM pg_notify('kedge_serving', tenant_name);
END $$;

-- Make the next month's partitions for ten of the tenants that lack them, those by name after `seen`; answers the last of
-- them, null when none is left. Ten, since each keeps locks on its tables until the end of the transaction, and a server
-- has room for so many only.
DROP FUNCTION control.extend_partitions();
CREATE FUNCTION control.extend_partitions(seen text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    next_month date := (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date;
    behind record;
    parent text;
    last text;
BEGIN
    FOR behind IN
        SELECT t.name, t.schema_name, t.role_name FROM control.tenant t
        WHERE t.name > seen
            AND to_regclass(format('%I.decision_%s', t.schema_name, to_char(next_month, 'YYYYMM'))) IS NULL
        ORDER BY t.name LIMIT 10
    LOOP
        FOREACH parent IN ARRAY
            ARRAY['decision', 'episode_event', 'outcome', 'episode', 'evidence', 'allocation', 'audit_event']
        LOOP
            BEGIN
                PERFORM control.ensure_partitions(format('%I.%I', behind.schema_name, parent)::regclass, next_month, 1);
                EXECUTE format('GRANT SELECT, INSERT ON %I.%I TO %I',
                    behind.schema_name, parent || '_' || to_char(next_month, 'YYYYMM'), behind.role_name);
            EXCEPTION WHEN check_violation THEN
                RAISE NOTICE '%.% keeps % in its default partition', behind.schema_name, parent, next_month;
            END;
        END LOOP;
        last := behind.name;
    END LOOP;
    RETURN last;
END $$;
REVOKE ALL ON FUNCTION control.extend_partitions(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.extend_partitions(text) TO kedge_service;

-- Control tree: what belongs to no tenant. Frozen once released; later changes are new revisions.

CREATE SCHEMA IF NOT EXISTS control;

CREATE TABLE control.tenant (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    schema_name text NOT NULL UNIQUE,
    role_name text NOT NULL,
    dsn text,                                   -- the cell that holds the schema; null: this database
    revision text NOT NULL,                     -- head of the tenant tree that the schema is at
    store_content boolean NOT NULL DEFAULT false,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- DDL of every tenant revision, as text with {schema} and {role}: onboarding and Alembic run the very same text.
CREATE TABLE control.tenant_revision (
    ordinal integer PRIMARY KEY,
    revision text NOT NULL UNIQUE,
    ddl text NOT NULL
);

CREATE TABLE control.api_key (
    key_id text PRIMARY KEY,
    key_hash bytea NOT NULL,                    -- SHA-256 of the secret
    principal text NOT NULL,
    role text NOT NULL CHECK (role IN ('CORE_APP', 'VIEWER', 'ADMIN', 'OPERATOR')),
    tenant text REFERENCES control.tenant (name), -- null: every tenant (operators only)
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoke_time timestamptz,
    CHECK (tenant IS NOT NULL OR role = 'OPERATOR')
);

CREATE TABLE control.token_key (
    key_id integer PRIMARY KEY,
    secret bytea NOT NULL CHECK (length(secret) >= 32),
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Modes of everything at once. Policy and tenant modes live with their tenant.
CREATE TABLE control.mode_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    mode text NOT NULL CHECK (mode IN ('APPLY', 'OBSERVE', 'FROZEN', 'BYPASS')),
    change_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    because text NOT NULL
);

-- Monthly partitions of one parent, from the month of `since` on, `months` of them.
CREATE FUNCTION control.ensure_partitions(parent regclass, since date, months integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    start_day date := date_trunc('month', since)::date;
    parent_schema text;
    parent_name text;
    child text;
BEGIN
    SELECT n.nspname, c.relname INTO parent_schema, parent_name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
    FOR i IN 0 .. months - 1 LOOP
        child := parent_name || '_' || to_char(start_day, 'YYYYMM');
        IF to_regclass(format('%I.%I', parent_schema, child)) IS NULL THEN
            EXECUTE format('CREATE TABLE %I.%I PARTITION OF %I.%I FOR VALUES FROM (%L) TO (%L)',
                parent_schema, child, parent_schema, parent_name,
                start_day::timestamp AT TIME ZONE 'UTC', (start_day + interval '1 month')::timestamp AT TIME ZONE 'UTC');
        END IF;
        start_day := (start_day + interval '1 month')::date;
    END LOOP;
END $$;

-- Make the next month's partitions for every tenant that lacks them; answers how many tenants that were. One cheap look
-- when none does, so the worker asks every hour. A month whose rows lie in the default partition already stays there.
CREATE FUNCTION control.extend_partitions() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    next_month date := (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date;
    behind record;
    parent text;
    extended integer := 0;
BEGIN
    FOR behind IN
        SELECT t.schema_name FROM control.tenant t
        WHERE to_regclass(format('%I.decision_%s', t.schema_name, to_char(next_month, 'YYYYMM'))) IS NULL
    LOOP
        FOREACH parent IN ARRAY
            ARRAY['decision', 'episode_event', 'outcome', 'episode', 'evidence', 'allocation', 'audit_event']
        LOOP
            BEGIN
                PERFORM control.ensure_partitions(format('%I.%I', behind.schema_name, parent)::regclass, next_month, 1);
            EXCEPTION WHEN check_violation THEN
                RAISE NOTICE '%.% keeps % in its default partition', behind.schema_name, parent, next_month;
            END;
        END LOOP;
        extended := extended + 1;
    END LOOP;
    RETURN extended;
END $$;

-- Make a tenant: role, schema and every tenant revision, in one transaction and one round trip.
CREATE FUNCTION control.create_tenant(tenant_name text, keep_content boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    new_schema text := 't_' || replace(tenant_name, '-', '_');
    new_role text := 'kedge_t_' || replace(tenant_name, '-', '_');
    step record;
BEGIN
    IF tenant_name !~ '^[a-z][a-z0-9-]{0,39}$' THEN
        RAISE EXCEPTION 'tenant name % is not 1 to 40 of [a-z0-9-] starting with a letter', tenant_name
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('kedge.create_tenant'));
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = new_role) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', new_role);
    END IF;
    EXECUTE format('CREATE SCHEMA %I', new_schema);
    FOR step IN SELECT * FROM control.tenant_revision ORDER BY ordinal LOOP
        EXECUTE replace(replace(step.ddl, '{schema}', quote_ident(new_schema)), '{role}', quote_ident(new_role));
    END LOOP;
    EXECUTE format('CREATE TABLE %I.alembic_version (version_num varchar(32) PRIMARY KEY)', new_schema);
    EXECUTE format('INSERT INTO %I.alembic_version SELECT revision FROM control.tenant_revision ORDER BY ordinal DESC LIMIT 1',
        new_schema);
    INSERT INTO control.tenant (name, schema_name, role_name, revision, store_content)
    SELECT tenant_name, new_schema, new_role, revision, keep_content
    FROM control.tenant_revision ORDER BY ordinal DESC LIMIT 1;
    IF current_setting('server_version_num')::integer >= 160000 THEN
        EXECUTE format('GRANT %I TO kedge_service WITH INHERIT FALSE, SET TRUE', new_role);
    ELSE
        EXECUTE format('GRANT %I TO kedge_service', new_role);
    END IF;
    PERFORM pg_notify('kedge_serving', tenant_name);
END $$;

-- One group commit of the hot path: raw rows of many tenants, each written under its tenant's role.
-- batch: {tenant: {"decisions": [...], "episode_events": [...], "outcomes": [...]}}
-- answer: {tenant: {"superseded": [n], "duplicates": [n], "conflicts": [n], ...}} as the tenant's write_rows says.
CREATE FUNCTION control.write_batch(batch jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    place record;
    answer jsonb;
    answers jsonb := '{}';
    touched text := '';
BEGIN
    FOR place IN
        SELECT t.name, t.schema_name, t.role_name FROM control.tenant t WHERE batch ? t.name ORDER BY t.name
    LOOP
        EXECUTE format('SET LOCAL ROLE %I', place.role_name);
        EXECUTE format('SELECT %I.write_rows($1)', place.schema_name) INTO answer USING batch -> place.name;
        RESET ROLE;
        answers := answers || jsonb_build_object(place.name, answer);
        touched := touched || place.name || ' ';
    END LOOP;
    PERFORM pg_notify('kedge_rows', CASE WHEN length(touched) < 7000 THEN rtrim(touched) ELSE 'many' END);
    RETURN answers;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'kedge_service') THEN
        CREATE ROLE kedge_service NOLOGIN NOINHERIT;
    END IF;
    GRANT kedge_service TO CURRENT_USER;        -- so that an owner who is no superuser may serve too
END $$;

-- The first token key: 244 random bits from the server's strong source.
INSERT INTO control.token_key (key_id, secret)
VALUES (1, decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

GRANT USAGE ON SCHEMA control TO kedge_service;
GRANT SELECT ON control.tenant, control.token_key TO kedge_service;
GRANT SELECT, INSERT ON control.api_key, control.mode_change TO kedge_service;
GRANT UPDATE (revoke_time) ON control.api_key TO kedge_service;
REVOKE ALL ON FUNCTION control.create_tenant(text, boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION control.write_batch(jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION control.extend_partitions() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.create_tenant(text, boolean), control.write_batch(jsonb), control.extend_partitions()
    TO kedge_service;

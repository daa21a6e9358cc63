-- What proposals, the gate and ramps need of the control schema.

-- The holdout: cases that nobody may learn from, in a schema that one login can enter, the gate's. --------------------------
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'kedge_gate') THEN
        CREATE ROLE kedge_gate NOLOGIN NOINHERIT;
    END IF;
END $$;
CREATE SCHEMA holdout;

-- What is left after every import and rotation: a version, whose cases are those added up to it and not removed by it.
CREATE TABLE holdout.version (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    version_number integer NOT NULL CHECK (version_number > 0),
    version text NOT NULL,                      -- SHA-256 over the hashes of its cases
    is_rotation boolean NOT NULL,
    create_time timestamptz NOT NULL,
    stale_because text NOT NULL DEFAULT '',     -- set when a provider's model changed under it
    PRIMARY KEY (tenant, policy, version_number)
);

CREATE TABLE holdout.item (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    case_hash text NOT NULL,                    -- SHA-256 of the content
    case_id text NOT NULL,
    part text NOT NULL CHECK (part IN ('SENSOR', 'GATE')),
    kind text NOT NULL CHECK (kind IN ('EXACT', 'REGEX', 'JSON_SCHEMA', 'TOOL_CALL', 'RUBRIC', 'EPISODE')),
    adversarial boolean NOT NULL,
    content jsonb NOT NULL,
    shingles bigint[] NOT NULL,                 -- hashes of its word sequences
    added_version integer NOT NULL,
    removed_version integer,                    -- first version without it
    add_time timestamptz NOT NULL,
    open_time timestamptz,                      -- when a person first saw it with its answers
    PRIMARY KEY (tenant, policy, case_hash),
    CHECK (NOT adversarial OR part = 'GATE')
);
CREATE UNIQUE INDEX item_id ON holdout.item (tenant, policy, case_id) WHERE removed_version IS NULL;

-- The peek ledger. A row is written before the gate part is opened, and counts whatever becomes of it.
CREATE TABLE holdout.query (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    version_number integer NOT NULL,
    query integer NOT NULL CHECK (query BETWEEN 1 AND 10),
    proposal text NOT NULL,
    alpha double precision NOT NULL CHECK (alpha > 0 AND alpha < 1),
    open_time timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,           -- whoever runs it says again and again that it does
    done integer NOT NULL DEFAULT 0,
    total integer NOT NULL,
    close_time timestamptz,
    verdict text NOT NULL DEFAULT '',
    discordance double precision,               -- variance of the paired differences, as measured
    PRIMARY KEY (tenant, policy, version_number, query),
    FOREIGN KEY (tenant, policy, version_number) REFERENCES holdout.version ON DELETE CASCADE
);
CREATE UNIQUE INDEX query_running ON holdout.query (tenant, policy) WHERE close_time IS NULL;
CREATE INDEX query_proposal ON holdout.query (tenant, proposal);

-- What both sides answered to a query's cases.
CREATE TABLE holdout.answer (
    tenant text NOT NULL,
    policy text NOT NULL,
    version_number integer NOT NULL,
    query integer NOT NULL,
    case_hash text NOT NULL,
    side text NOT NULL CHECK (side IN ('CANDIDATE', 'INCUMBENT')),
    output text NOT NULL,
    score double precision NOT NULL CHECK (score BETWEEN 0 AND 1),
    vetoed boolean NOT NULL,
    cost_usd double precision NOT NULL,
    latency_ms double precision NOT NULL,
    model_id text NOT NULL,
    PRIMARY KEY (tenant, policy, version_number, query, case_hash, side),
    FOREIGN KEY (tenant, policy, version_number, query) REFERENCES holdout.query ON DELETE CASCADE
);

-- Who answers, and who judges.
CREATE TABLE holdout.answerer (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    part text NOT NULL CHECK (part IN ('ANSWERER', 'JUDGE')),
    settings jsonb NOT NULL,
    model_seen text NOT NULL DEFAULT '',        -- model that answered last, as its provider names it
    change_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, policy, part)
);

-- Episodes of environments are seeded by HMAC(secret, number), so that nobody can play them beforehand.
CREATE TABLE holdout.secret (
    tenant text PRIMARY KEY REFERENCES control.tenant (name) ON DELETE CASCADE,
    secret bytea NOT NULL CHECK (length(secret) >= 32)
);

-- What may be trained on, as hashes of word sequences: cases like it are no test.
CREATE TABLE holdout.training_text (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    text_hash text NOT NULL,
    shingles bigint[] NOT NULL,
    PRIMARY KEY (tenant, policy, text_hash)
);
CREATE INDEX training_text_shingles ON holdout.training_text USING gin (shingles);

-- A tenant's rows are there for a transaction that has said whose they are.
DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['version', 'item', 'query', 'answer', 'answerer', 'secret', 'training_text'] LOOP
        EXECUTE format('ALTER TABLE holdout.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format($policy$CREATE POLICY of_the_tenant ON holdout.%I
            USING (tenant = current_setting('kedge.tenant', true))$policy$, one);
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA holdout TO kedge_gate;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA holdout TO kedge_gate;
GRANT UPDATE (stale_because) ON holdout.version TO kedge_gate;
GRANT UPDATE (removed_version, open_time) ON holdout.item TO kedge_gate;
GRANT UPDATE (lease_until, done, close_time, verdict, discordance) ON holdout.query TO kedge_gate;
GRANT UPDATE (settings, model_seen, change_time) ON holdout.answerer TO kedge_gate;

-- What the gate needs of the control schema: whom it serves, and who calls.
GRANT USAGE ON SCHEMA control TO kedge_gate;
GRANT SELECT ON control.tenant, control.api_key, control.identity_binding, control.serving TO kedge_gate;
DO $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT role_name FROM control.tenant LOOP
        IF current_setting('server_version_num')::integer >= 160000 THEN
            EXECUTE format('GRANT %I TO kedge_gate WITH INHERIT FALSE, SET TRUE', one);
        ELSE
            EXECUTE format('GRANT %I TO kedge_gate', one);
        END IF;
    END LOOP;
END $$;

-- Make a tenant, as in the third revision; the gate may take its role too.
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
        EXECUTE format('GRANT %I TO kedge_service, kedge_gate WITH INHERIT FALSE, SET TRUE', new_role);
    ELSE
        EXECUTE format('GRANT %I TO kedge_service, kedge_gate', new_role);
    END IF;
    PERFORM pg_notify('kedge_serving', tenant_name);
END $$;

-- What is wrong with the walls, as in the third revision; of the holdout as of tenants, and of the gate as of the service.
CREATE OR REPLACE FUNCTION control.isolation_faults() RETURNS TABLE (kind text, object text, detail text)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    WITH place AS (                             -- a schema, and the one role that has a right to be there
        SELECT n.oid, n.nspname, n.nspowner, n.nspacl, t.name IS NOT NULL OR n.nspname IN ('control', 'holdout') AS is_ours,
            CASE n.nspname WHEN 'control' THEN 'kedge_service' WHEN 'holdout' THEN 'kedge_gate' ELSE t.role_name END AS role_name
        FROM pg_namespace n LEFT JOIN control.tenant t ON t.schema_name = n.nspname
        WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
    ), proper AS (
        SELECT nspowner AS owner FROM pg_namespace WHERE nspname = 'control'
    ), ours AS (                                -- roles that must be kept apart
        SELECT r.* FROM pg_roles r
        WHERE r.rolname IN ('kedge_service', 'kedge_gate') OR r.rolname IN (SELECT t.role_name FROM control.tenant t)
    ), item AS (                                -- everything that rights can be given on
        SELECT p.oid AS place, 'schema ' || quote_ident(p.nspname) AS object, 'n' AS type, p.nspowner AS owner,
            coalesce(p.nspacl, acldefault('n', p.nspowner)) AS acl, false AS definer
        FROM place p
        UNION ALL
        SELECT c.relnamespace, CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'm' THEN 'view ' WHEN 'S' THEN 'sequence '
            ELSE 'table ' END || c.oid::regclass, c.relkind::text, c.relowner, c.relacl, false
        FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL
        SELECT c.relnamespace, 'column ' || c.oid::regclass || '.' || quote_ident(a.attname), 'r', c.relowner, a.attacl, false
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE a.attacl IS NOT NULL
        UNION ALL
        SELECT f.pronamespace, 'function ' || f.oid::regprocedure, 'f', f.proowner,
            coalesce(f.proacl, acldefault('f', f.proowner)), f.prosecdef
        FROM pg_proc f WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e')
    ), function AS (
        SELECT f.*, 'function ' || f.oid::regprocedure AS object,
            (SELECT s FROM unnest(f.proconfig) s WHERE s LIKE 'search_path=%') AS path
        FROM pg_proc f JOIN place p ON p.oid = f.pronamespace
        WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = f.oid AND d.deptype = 'e')
    ), membership AS (
        SELECT g.rolname AS role, u.rolname AS member, u.oid AS member_oid,
            coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, u.rolinherit) AS inherits
        FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
    )
    SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE 'GRANT' END, i.object,
        format('%s may %s', CASE WHEN a.grantee = 0 THEN 'everybody' ELSE pg_get_userbyid(a.grantee)::text END,
            string_agg(DISTINCT a.privilege_type, ', ' ORDER BY a.privilege_type))
    FROM item i JOIN place p ON p.oid = i.place CROSS JOIN LATERAL aclexplode(i.acl) a
    WHERE a.grantee <> i.owner AND CASE
        WHEN p.is_ours THEN a.grantee = 0 OR (pg_get_userbyid(a.grantee) <> p.role_name AND NOT
            (p.nspname = 'control' AND pg_get_userbyid(a.grantee) = 'kedge_gate' AND a.privilege_type IN ('SELECT', 'USAGE')))
        WHEN i.type = 'n' THEN a.privilege_type = 'CREATE' AND (a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o))
        WHEN i.type = 'f' THEN i.definer
        ELSE a.grantee = 0 OR a.grantee IN (SELECT o.oid FROM ours o) END
    GROUP BY i.object, a.grantee
    UNION ALL
    SELECT CASE WHEN i.type IN ('v', 'm') THEN 'VIEW_OWNER' ELSE 'OWNER' END, i.object,
        format('belongs to %s, not to the owner of the control schema', pg_get_userbyid(i.owner))
    FROM item i JOIN place p ON p.oid = i.place CROSS JOIN proper
    WHERE p.is_ours AND i.owner <> proper.owner
    UNION ALL
    SELECT DISTINCT 'VIEW_OWNER', 'view ' || v.oid::regclass,
        format('reads %s with the rights of %s', r.oid::regclass, pg_get_userbyid(v.relowner))
    FROM pg_class v JOIN place p ON p.oid = v.relnamespace JOIN pg_rewrite w ON w.ev_class = v.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class r ON r.oid = d.refobjid JOIN place o ON o.oid = r.relnamespace
    WHERE v.relkind IN ('v', 'm') AND o.is_ours AND r.relnamespace <> v.relnamespace
    UNION ALL
    SELECT 'DEFAULT_PRIVILEGE',
        'default privileges of ' || pg_get_userbyid(d.defaclrole) || coalesce(' in schema ' || quote_ident(p.nspname), ''),
        format('%s will be allowed to %s on every new %s',
            CASE WHEN a.grantee = 0 THEN 'everybody' ELSE pg_get_userbyid(a.grantee)::text END, a.privilege_type,
            CASE d.defaclobjtype WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'function'
                WHEN 'n' THEN 'schema' ELSE 'type' END)
    FROM pg_default_acl d LEFT JOIN place p ON p.oid = d.defaclnamespace CROSS JOIN LATERAL aclexplode(d.defaclacl) a
    WHERE a.grantee <> d.defaclrole AND (a.grantee IN (SELECT o.oid FROM ours o) OR p.is_ours
        OR (a.grantee = 0 AND d.defaclobjtype NOT IN ('f', 'T')))
    UNION ALL
    SELECT 'SEARCH_PATH', f.object, coalesce('runs as its owner under ' || f.path, 'runs as its owner, under the caller''s search_path')
    FROM function f
    WHERE f.prosecdef AND coalesce(f.path !~ '^search_path="?pg_catalog"?(, "?(pg_temp|control)"?)*$', true)
    UNION ALL
    SELECT 'SEARCH_PATH', 'role ' || r.rolname, 'is logged in with ' || s
    FROM pg_db_role_setting d JOIN ours r ON r.oid = d.setrole CROSS JOIN LATERAL unnest(d.setconfig) s
    WHERE s LIKE 'search_path=%'
    UNION ALL
    SELECT 'MISSING_ROLE_SWITCH', f.object, 'reaches into tenants'' schemas with the rights of its owner'
    FROM function f JOIN pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname = 'control' AND f.prosecdef AND f.prosrc ~* '\mexecute\M' AND f.proname <> ALL
        ('{create_tenant,extend_partitions,erase_tenant,erase_user,drop_month}')
    UNION ALL
    SELECT 'MISSING_ROLE_SWITCH', f.object, 'calls tenants'' functions without taking their role'
    FROM function f JOIN pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname = 'control' AND NOT f.prosecdef AND f.prosrc ~* '\mexecute\M.*schema_name' AND f.prosrc !~ 'set_config\(''role'''
    UNION ALL                                   -- any role may LISTEN to any channel; so only names may be said there
    SELECT 'NOTIFY', f.object, 'speaks on a channel that every role can hear'
    FROM function f JOIN place p ON p.oid = f.pronamespace
    WHERE p.is_ours AND f.prosrc ~* '\mp?g?_?notify\M' AND NOT (p.nspname = 'control' AND f.proname = ANY
        ('{write_batch,create_tenant,serving_changed,mode_changed,tenant_changed,isolation_faults,erase_tenant}'))
    UNION ALL
    SELECT 'MISSING_ROLE_SWITCH', 'role ' || m.member, format('has the rights of %s without taking its role', m.role)
    FROM membership m WHERE m.member IN ('kedge_service', 'kedge_gate') AND m.inherits
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || m.member, format('may act as %s', m.role)
    FROM membership m JOIN ours r ON r.rolname = m.role CROSS JOIN proper
    WHERE r.rolname <> 'kedge_service' AND m.member NOT IN ('kedge_service', 'kedge_gate') AND m.member_oid <> proper.owner
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || m.member, format('may act as %s', m.role)
    FROM membership m JOIN ours r ON r.rolname = m.member
    WHERE r.rolname NOT IN ('kedge_service', 'kedge_gate') OR m.role NOT LIKE 'kedge\_t\_%'
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || r.rolname, 'has a right that no wall stands against: ' || concat_ws(', ',
        CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
        CASE WHEN r.rolcreatedb THEN 'CREATEDB' END, CASE WHEN r.rolreplication THEN 'REPLICATION' END,
        CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END, CASE WHEN r.rolcanlogin THEN 'LOGIN' END)
    FROM ours r
    WHERE r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
        OR (r.rolcanlogin AND r.rolname NOT IN ('kedge_service', 'kedge_gate'))
    ORDER BY 1, 2, 3
$$;

-- Proposals that are not over, over all tenants: what the worker looks after, and how many there are. ----------------------
CREATE TABLE control.proposal_open (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    proposal_id text NOT NULL,
    policy text NOT NULL,
    state text NOT NULL,
    expire_time timestamptz,
    PRIMARY KEY (tenant, proposal_id)
);
GRANT SELECT ON control.proposal_open TO kedge_service, kedge_gate;

CREATE FUNCTION control.proposal_moved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    of_tenant text;
BEGIN
    SELECT t.name INTO of_tenant FROM control.tenant t WHERE t.schema_name = TG_TABLE_SCHEMA;
    IF of_tenant IS NULL THEN
        RETURN NULL;
    END IF;
    IF NEW.state IN ('SUBMITTED', 'GATE_RUNNING', 'INCONCLUSIVE', 'AWAITING_APPROVAL', 'APPROVED', 'SERVING') THEN
        INSERT INTO control.proposal_open AS o (tenant, proposal_id, policy, state, expire_time)
        VALUES (of_tenant, NEW.proposal_id, NEW.policy, NEW.state, NEW.expire_time)
        ON CONFLICT (tenant, proposal_id) DO UPDATE SET state = excluded.state, expire_time = excluded.expire_time;
    ELSE
        DELETE FROM control.proposal_open o WHERE o.tenant = of_tenant AND o.proposal_id = NEW.proposal_id;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.proposal_moved() FROM PUBLIC;

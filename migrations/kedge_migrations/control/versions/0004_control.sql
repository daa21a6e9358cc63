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
    actor text NOT NULL DEFAULT '',             -- who imported its cases, or rotated
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
    open_time timestamptz,                      -- when a person first saw it with its answers; no query asks it again
    near_time timestamptz,                      -- when a text like it was said to be trained on
    PRIMARY KEY (tenant, policy, case_hash),
    CHECK (NOT adversarial OR part = 'GATE')
);
CREATE UNIQUE INDEX item_id ON holdout.item (tenant, policy, case_id) WHERE removed_version IS NULL;

-- Who saw cases with their answers, and when.
CREATE TABLE holdout.opening (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    policy text NOT NULL,
    actor text NOT NULL,
    open_time timestamptz NOT NULL,
    PRIMARY KEY (tenant, policy, actor, open_time)
);

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
    set_by text NOT NULL DEFAULT '',            -- who set it, as the audit log names them
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
    FOREACH one IN ARRAY ARRAY['version', 'item', 'opening', 'query', 'answer', 'answerer', 'secret', 'training_text'] LOOP
        EXECUTE format('ALTER TABLE holdout.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format($policy$CREATE POLICY of_the_tenant ON holdout.%I
            USING (tenant = current_setting('kedge.tenant', true))$policy$, one);
    END LOOP;
END $$;

GRANT USAGE ON SCHEMA holdout TO kedge_gate;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA holdout TO kedge_gate;
GRANT UPDATE (stale_because) ON holdout.version TO kedge_gate;
GRANT UPDATE (removed_version, open_time, near_time) ON holdout.item TO kedge_gate;
GRANT UPDATE (lease_until, done, close_time, verdict, discordance) ON holdout.query TO kedge_gate;
GRANT UPDATE (settings, model_seen, change_time, set_by) ON holdout.answerer TO kedge_gate;

-- What the gate needs of the control schema: whom it serves, and who calls.
GRANT USAGE ON SCHEMA control TO kedge_gate;
GRANT SELECT ON control.tenant, control.api_key, control.identity_binding TO kedge_gate;
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
        ('{create_tenant,extend_partitions,erase_tenant,erase_user,drop_month,oldest_month_due,divide_next}')
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

-- An end user goes as in the third revision; and so do the cases that were made from their episodes, with their answers. -----
CREATE OR REPLACE FUNCTION control.erase_user(tenant_name text, user_hash text, user_id text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
DECLARE
    place text;
    statement text;
    policies text[];
    episodes text[];
    decisions uuid[];
    counted bigint;
    total bigint := 0;
    of_them constant text := '(%2$s.policy, %2$s.episode_id) IN (SELECT * FROM unnest($1, $2))';
BEGIN
    SELECT t.schema_name INTO place FROM control.tenant t WHERE t.name = tenant_name;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    EXECUTE format('LOCK TABLE %1$I.episode, %1$I.episode_event, %1$I.decision, %1$I.outcome, %1$I.evidence, %1$I.unmatched,
        %1$I.decision_key, %1$I.idempotency_key, %1$I.episode_count, %1$I.audit_payload, holdout.item, holdout.answer
        IN ROW EXCLUSIVE MODE', place);
    EXECUTE format('SELECT 1 FROM %I.fold_state FOR UPDATE', place);
    EXECUTE format('SELECT 1 FROM %I.audit_head FOR UPDATE', place);
    EXECUTE format('SELECT array_agg(e.policy), array_agg(e.episode_id) FROM (SELECT DISTINCT policy, episode_id FROM %I.episode_event
        WHERE trajectory ->> ''end_user'' = $1) e', place) INTO policies, episodes USING user_hash;
    policies := coalesce(policies, '{}');
    episodes := coalesce(episodes, '{}');
    EXECUTE format('SELECT coalesce(array_agg(d.decision_id), ''{}'') FROM %1$I.decision d WHERE ' || of_them, place, 'd')
        INTO decisions USING policies, episodes;
    EXECUTE format('UPDATE %1$I.episode_count c SET count = c.count - g.n FROM (SELECT e.policy, e.state, count(*) AS n
        FROM %1$I.episode e WHERE e.logged AND ' || of_them || ' GROUP BY 1, 2) g WHERE c.policy = g.policy AND c.name = g.state',
        place, 'e') USING policies, episodes;
    FOREACH statement IN ARRAY ARRAY[
        'DELETE FROM %1$I.idempotency_key k USING %1$I.episode_event o WHERE k.scope = ''episode_event'' AND k.key = o.key AND ' || format(of_them, '', 'o'),
        'DELETE FROM %1$I.idempotency_key k USING %1$I.outcome o WHERE k.scope = ''outcome'' AND k.key = o.key AND (' || format(of_them, '', 'o') || ' OR o.decision_id = ANY ($3))',
        'DELETE FROM %1$I.outcome o WHERE ' || format(of_them, '', 'o') || ' OR o.decision_id = ANY ($3)',
        'DELETE FROM %1$I.unmatched o WHERE o.decision_id = ANY ($3)',
        'DELETE FROM %1$I.decision o WHERE ' || format(of_them, '', 'o'),
        'DELETE FROM %1$I.decision_key o WHERE ' || format(of_them, '', 'o'),
        'DELETE FROM %1$I.episode o WHERE ' || format(of_them, '', 'o'),
        'UPDATE %1$I.evidence o SET episode_id = p.name, decision_id = NULL, verdict = ''{}''
            FROM (SELECT u.policy, u.episode, ''erased-'' || gen_random_uuid() AS name FROM unnest($1, $2) AS u (policy, episode)) p
            WHERE o.policy = p.policy AND o.episode_id = p.episode',
        'DELETE FROM %1$I.episode_event o WHERE ' || format(of_them, '', 'o'),
        'UPDATE %1$I.outcome SET payload = replace(payload::text, $4, ''erased'')::jsonb WHERE payload ->> ''rater_hash'' = $4',
        'UPDATE %1$I.unmatched SET payload = replace(payload::text, $4, ''erased'')::jsonb WHERE strpos(payload::text, $4) > 0',
        'UPDATE %1$I.episode SET facts = replace(facts::text, $4, ''erased'')::jsonb WHERE strpos(facts::text, $4) > 0',
        'DELETE FROM %1$I.audit_payload p WHERE CASE WHEN EXISTS (SELECT 1 FROM %1$I.audit_event e WHERE e.payload_hash = p.payload_hash
                AND e.verb ~ ''^(arm|evidence|identity|key|learning|month|policy|tenant|user)\.'') THEN false
            ELSE jsonb_path_exists(p.payload::jsonb, ''$.** ? (@ == $id || @ == $hash)'',
                jsonb_build_object(''id'', $5, ''hash'', $4)) END',
        'DELETE FROM holdout.answer a WHERE a.tenant = $6 AND (a.policy, a.case_hash) IN (SELECT i.policy, i.case_hash FROM holdout.item i
            WHERE i.tenant = $6 AND (i.policy, i.content ->> ''source_episode_id'') IN (SELECT * FROM unnest($1, $2)))',
        'DELETE FROM holdout.item i WHERE i.tenant = $6 AND (i.policy, i.content ->> ''source_episode_id'') IN (SELECT * FROM unnest($1, $2))']
    LOOP
        EXECUTE format(statement, place) USING policies, episodes, decisions, user_hash, user_id, tenant_name;
        GET DIAGNOSTICS counted = ROW_COUNT;
        total := total + counted;
    END LOOP;
    RETURN total;
END $$;

-- Proposals that are not over, over all tenants: what the worker looks after, and how many there are. ----------------------
CREATE TABLE control.proposal_open (
    tenant text NOT NULL REFERENCES control.tenant (name) ON DELETE CASCADE,
    proposal_id text NOT NULL,
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
        INSERT INTO control.proposal_open AS o (tenant, proposal_id, state, expire_time)
        VALUES (of_tenant, NEW.proposal_id, NEW.state, NEW.expire_time)
        ON CONFLICT (tenant, proposal_id) DO UPDATE SET state = excluded.state, expire_time = excluded.expire_time;
    ELSE
        DELETE FROM control.proposal_open o WHERE o.tenant = of_tenant AND o.proposal_id = NEW.proposal_id;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.proposal_moved() FROM PUBLIC;

-- Scale: a tenant's tables are divided into months when they have grown. ---------------------------------------------------
-- PostgreSQL reads its whole list of constraints whenever a partition is made, 530 of them for each tenant: the thousandth
-- tenant would take a second for its fourteen. So a table that grows begins undivided, without its partitions.
UPDATE control.tenant_revision SET ddl = regexp_replace(regexp_replace(regexp_replace(ddl,
    '\) PARTITION BY RANGE \(\w+\);', ');', 'g'),
    'CREATE TABLE \{schema\}\.\w+_default PARTITION OF \{schema\}\.\w+ DEFAULT;\n', '', 'g'),
    '-- Partitions of this month and the next.*?END \$body\$;\n', '')
WHERE ordinal = 1;

-- The column by which a table is divided; null for one that never is.
CREATE FUNCTION control.month_column(name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT CASE name WHEN 'decision' THEN 'decision_time' WHEN 'episode_event' THEN 'receive_time'
        WHEN 'outcome' THEN 'receive_time' WHEN 'episode' THEN 'open_time' WHEN 'evidence' THEN 'settle_time'
        WHEN 'allocation' THEN 'publish_time' WHEN 'audit_event' THEN 'event_time' END
$$;

-- Divide an undivided table: its rows move into a new one of the same name, with the same columns, constraints, indexes,
-- triggers and rights, and a partition for each month that has rows, for this and for the next. Others wait meanwhile.
CREATE FUNCTION control.divide_by_month(whole regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
DECLARE
    place text;
    name text;
    time_column text;
    later text[];
    step text;
    month date;
    child regclass;
BEGIN
    EXECUTE format('LOCK TABLE %s', whole);
    SELECT n.nspname, c.relname, control.month_column(c.relname) INTO place, name, time_column
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = whole;
    SELECT array_agg(s.text ORDER BY s.turn, s.text) INTO later FROM (
        SELECT 1 AS turn, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', place, name, k.conname, pg_get_constraintdef(k.oid)) AS text
        FROM pg_constraint k WHERE k.conrelid = whole AND k.contype = 'p'
        UNION ALL SELECT 2, pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = whole AND NOT i.indisprimary
        UNION ALL SELECT 3, pg_get_triggerdef(t.oid) FROM pg_trigger t WHERE t.tgrelid = whole AND NOT t.tgisinternal
        UNION ALL SELECT 4, format('GRANT %s ON %I.%I TO %s', a.privilege_type, place, name, a.grantee::regrole)
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a WHERE c.oid = whole AND a.grantee <> c.relowner
        UNION ALL SELECT 5, format('GRANT %s (%I) ON %I.%I TO %s', a.privilege_type, t.attname, place, name, a.grantee::regrole)
        FROM pg_attribute t CROSS JOIN LATERAL aclexplode(t.attacl) a WHERE t.attrelid = whole AND NOT t.attisdropped
    ) s;
    EXECUTE format('ALTER TABLE %s RENAME TO %I', whole, name || '_whole');
    EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.%3$I INCLUDING ALL EXCLUDING INDEXES) PARTITION BY RANGE (%4$I)',
        place, name, name || '_whole', time_column);
    EXECUTE format('CREATE TABLE %1$I.%2$I PARTITION OF %1$I.%3$I DEFAULT', place, name || '_default', name);
    FOR month IN EXECUTE format('SELECT (date_trunc(''month'', %1$I AT TIME ZONE ''UTC''))::date FROM %2$I.%3$I
        UNION SELECT (date_trunc(''month'', now() AT TIME ZONE ''UTC'') + make_interval(months => m))::date FROM generate_series(0, 1) m',
        time_column, place, name || '_whole')
    LOOP
        PERFORM control.ensure_partitions(format('%I.%I', place, name)::regclass, month, 1);
    END LOOP;
    EXECUTE format('INSERT INTO %1$I.%2$I SELECT * FROM %1$I.%3$I', place, name, name || '_whole');
    EXECUTE format('DROP TABLE %I.%I', place, name || '_whole');
    FOREACH step IN ARRAY later LOOP
        EXECUTE step;
    END LOOP;
    FOR child IN SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = format('%I.%I', place, name)::regclass LOOP
        EXECUTE format('GRANT SELECT, INSERT ON %s TO %I', child, 'kedge_' || place);
    END LOOP;
END $$;

-- Divide one table of any tenant that has grown so large; answers which, null when there is none. One, so that nobody waits
-- for more than one. The worker asks every minute, until none is left.
CREATE FUNCTION control.divide_next(least_bytes bigint DEFAULT 16777216) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    large regclass;
    answer text;
BEGIN
    SELECT c.oid INTO large
    FROM control.tenant t CROSS JOIN unnest(
        '{decision,episode_event,outcome,episode,evidence,allocation,audit_event}'::text[]) AS one
    JOIN pg_class c ON c.oid = to_regclass(format('%I.%I', t.schema_name, one))
    WHERE c.relkind = 'r' AND pg_relation_size(c.oid) >= least_bytes
    LIMIT 1;
    IF large IS NOT NULL THEN
        answer := large::text;
        PERFORM control.divide_by_month(large);
    END IF;
    RETURN answer;
END $$;

-- Monthly partitions of one table, as in the first revision; an undivided one is divided first.
CREATE OR REPLACE FUNCTION control.ensure_partitions(parent regclass, since date, months integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    start_day date := date_trunc('month', since)::date;
    parent_schema text;
    parent_name text;
    child text;
BEGIN
    SELECT n.nspname, c.relname INTO parent_schema, parent_name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
    IF EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = parent AND c.relkind = 'r') THEN
        PERFORM control.divide_by_month(parent);
    END IF;
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

-- The next month's partitions of the divided tables of ten tenants, as in the third revision.
CREATE OR REPLACE FUNCTION control.extend_partitions(seen text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    next_month date := (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month')::date;
    behind record;
    parent text;
    last text;
BEGIN
    FOR behind IN
        SELECT t.name, t.schema_name, t.role_name, lacking.parents
        FROM control.tenant t CROSS JOIN LATERAL (
            SELECT array_agg(one) AS parents FROM unnest(
                '{decision,episode_event,outcome,episode,evidence,allocation,audit_event}'::text[]) AS one
            JOIN pg_class c ON c.oid = to_regclass(format('%I.%I', t.schema_name, one)) AND c.relkind = 'p'
            WHERE to_regclass(format('%I.%I', t.schema_name, one || '_' || to_char(next_month, 'YYYYMM'))) IS NULL
        ) lacking
        WHERE t.name > seen AND lacking.parents IS NOT NULL
        ORDER BY t.name LIMIT 10
    LOOP
        FOREACH parent IN ARRAY behind.parents LOOP
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

-- The oldest month that is due, as in the third revision; in an undivided table by its rows.
CREATE OR REPLACE FUNCTION control.oldest_month_due(tenant_name text) RETURNS date
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    one record;
    month date;
    oldest date;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS place, c.relispartition, control.month_column(c.relname) AS time_column,
            now() - make_interval(days => t.retention_days) AS kept_since, n.month
        FROM control.tenant t
        JOIN pg_class c ON c.relnamespace = to_regnamespace(quote_ident(t.schema_name)) AND c.relkind = 'r'
        CROSS JOIN LATERAL (SELECT to_date(substring(c.relname FROM '^(?:decision|episode_event|outcome|episode|evidence)_(\d{6})$'),
            'YYYYMM') AS month) n
        WHERE t.name = tenant_name AND t.retention_days > 0 AND CASE WHEN c.relispartition THEN n.month IS NOT NULL
            ELSE c.relname IN ('decision', 'episode_event', 'outcome', 'episode', 'evidence') END
    LOOP
        month := one.month;
        IF NOT one.relispartition THEN
            EXECUTE format('SELECT date_trunc(''month'', min(%I) AT TIME ZONE ''UTC'')::date FROM %s', one.time_column, one.place) INTO month;
        END IF;
        IF (month + interval '1 month') AT TIME ZONE 'UTC' <= one.kept_since THEN
            oldest := least(oldest, month);
        END IF;
    END LOOP;
    RETURN oldest;
END $$;

-- Let one month go, as in the third revision; rows of an undivided table are deleted.
CREATE OR REPLACE FUNCTION control.drop_month(tenant_name text, month date) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
DECLARE
    place text;
    until timestamptz := (month + interval '1 month')::timestamp AT TIME ZONE 'UTC';
    parent text;
    time_column text;
    child regclass;
    counted bigint;
    total bigint := 0;
BEGIN
    SELECT t.schema_name INTO place FROM control.tenant t
    WHERE t.name = tenant_name AND t.retention_days > 0 AND until <= now() - make_interval(days => t.retention_days);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant keeps this month' USING ERRCODE = 'object_in_use';
    END IF;
    EXECUTE format('SELECT (SELECT count(*) FROM %1$I.decision WHERE decision_time < $1 AND x >= f.x)
        + (SELECT count(*) FROM %1$I.episode_event WHERE receive_time < $1 AND x >= f.x)
        + (SELECT count(*) FROM %1$I.outcome WHERE receive_time < $1 AND x >= f.x)
        + (SELECT count(*) FROM %1$I.episode WHERE open_time < $1 AND (state = ''PENDING'' OR quarantined))
        + (SELECT count(*) FROM %1$I.evidence e LEFT JOIN %1$I.evidence_seal s USING (policy)
           WHERE e.settle_time < $1 AND e.evidence_sequence > coalesce(s.through, 0))
        FROM %1$I.fold_state f', place) INTO counted USING until;
    IF counted > 0 THEN
        RAISE EXCEPTION '% rows of the month are not folded or not settled yet', counted USING ERRCODE = 'object_in_use';
    END IF;
    -- An episode goes as a whole, also what was said about it later.
    EXECUTE format('CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT policy, episode_id FROM %1$I.episode WHERE open_time < $1
        UNION SELECT policy, episode_id FROM %1$I.episode_event WHERE receive_time < $1', place) USING until;
    EXECUTE format('UPDATE %1$I.episode_count c SET count = c.count - g.n FROM (SELECT e.policy, e.state, count(*) AS n
        FROM %1$I.episode e JOIN pg_temp.gone USING (policy, episode_id) WHERE e.logged GROUP BY 1, 2) g
        WHERE c.policy = g.policy AND c.name = g.state', place);
    FOR parent, time_column IN VALUES ('episode', 'open_time'), ('episode_event', 'receive_time') LOOP
        EXECUTE format('DELETE FROM %1$I.%2$I o USING pg_temp.gone g
            WHERE o.policy = g.policy AND o.episode_id = g.episode_id AND o.%3$I >= $1', place, parent, time_column) USING until;
    END LOOP;
    EXECUTE format('DELETE FROM %I.decision_key WHERE decision_time < $1', place) USING until;
    EXECUTE format('DELETE FROM %I.unmatched WHERE receive_time < $1', place) USING until;
    EXECUTE format('DELETE FROM %I.idempotency_key WHERE seen_time < now() - interval ''400 days''', place);
    DROP TABLE pg_temp.gone;
    FOR parent, time_column IN VALUES ('decision', 'decision_time'), ('episode_event', 'receive_time'),
        ('outcome', 'receive_time'), ('episode', 'open_time'), ('evidence', 'settle_time')
    LOOP
        -- in a divided table what strayed into the default partition, in an undivided one all that is so old
        EXECUTE format('DELETE FROM %1$I.%2$I WHERE %3$I < $1', place, CASE
            WHEN to_regclass(format('%I.%I', place, parent || '_default')) IS NULL THEN parent ELSE parent || '_default' END,
            time_column) USING until;
        GET DIAGNOSTICS counted = ROW_COUNT;
        total := total + counted;
        child := to_regclass(format('%I.%I', place, parent || '_' || to_char(month, 'YYYYMM')));
        IF child IS NOT NULL THEN
            EXECUTE format('SELECT count(*) FROM %s', child) INTO counted;
            total := total + counted;
            EXECUTE format('DROP TABLE %s', child);
        END IF;
    END LOOP;
    RETURN total;
END $$;

REVOKE ALL ON FUNCTION control.month_column(text), control.divide_by_month(regclass), control.divide_next(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.divide_next(bigint) TO kedge_service;

-- Who made a key or bound a certificate, and so can act through it: a person, also through programs of theirs, or the
-- operator. Neither: it was made before this was kept, and nobody is known to answer for it.
ALTER TABLE control.api_key
    ADD COLUMN made_by_issuer text,
    ADD COLUMN made_by_subject text,
    ADD COLUMN made_by_operator boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT api_key_made_by_check CHECK ((made_by_issuer IS NULL) = (made_by_subject IS NULL)
        AND NOT (made_by_operator AND made_by_issuer IS NOT NULL));
ALTER TABLE control.identity_binding
    ADD COLUMN made_by_issuer text,
    ADD COLUMN made_by_subject text,
    ADD COLUMN made_by_operator boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT identity_binding_made_by_check CHECK ((made_by_issuer IS NULL) = (made_by_subject IS NULL)
        AND NOT (made_by_operator AND made_by_issuer IS NOT NULL));

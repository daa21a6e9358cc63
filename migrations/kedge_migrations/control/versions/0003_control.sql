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

-- How much a tenant may take of each replica; 0 is no limit. A replica reads it at every poll. ---------------------------
ALTER TABLE control.tenant
    ADD COLUMN decisions_per_second double precision NOT NULL DEFAULT 0 CHECK (decisions_per_second BETWEEN 0 AND 1e6),
    ADD COLUMN rows_per_second double precision NOT NULL DEFAULT 0 CHECK (rows_per_second BETWEEN 0 AND 1e6);
GRANT UPDATE (decisions_per_second, rows_per_second) ON control.tenant TO kedge_service;

-- Isolation: the walls between tenants, inspected and tried. -----------------------------------------------------------
REVOKE ALL ON FUNCTION control.ensure_partitions(regclass, date, integer) FROM PUBLIC;

-- What is wrong with the walls, by the catalogs alone: complete, and one sweep for any number of tenants.
CREATE FUNCTION control.isolation_faults() RETURNS TABLE (kind text, object text, detail text)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    WITH place AS (                             -- a schema, and the one role that has a right to be there
        SELECT n.oid, n.nspname, n.nspowner, n.nspacl, t.name IS NOT NULL OR n.nspname = 'control' AS is_ours,
            CASE WHEN n.nspname = 'control' THEN 'kedge_service' ELSE t.role_name END AS role_name
        FROM pg_namespace n LEFT JOIN control.tenant t ON t.schema_name = n.nspname
        WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
    ), proper AS (
        SELECT nspowner AS owner FROM pg_namespace WHERE nspname = 'control'
    ), ours AS (                                -- roles that must be kept apart
        SELECT r.* FROM pg_roles r
        WHERE r.rolname = 'kedge_service' OR r.rolname IN (SELECT t.role_name FROM control.tenant t)
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
        WHEN p.is_ours THEN a.grantee = 0 OR pg_get_userbyid(a.grantee) <> p.role_name
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
    SELECT 'MISSING_ROLE_SWITCH', 'role kedge_service', format('has the rights of %s without taking its role', m.role)
    FROM membership m WHERE m.member = 'kedge_service' AND m.inherits
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || m.member, format('may act as %s', m.role)
    FROM membership m JOIN ours r ON r.rolname = m.role CROSS JOIN proper
    WHERE r.rolname <> 'kedge_service' AND m.member <> 'kedge_service' AND m.member_oid <> proper.owner
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || m.member, format('may act as %s', m.role)
    FROM membership m JOIN ours r ON r.rolname = m.member
    WHERE r.rolname <> 'kedge_service' OR m.role NOT LIKE 'kedge\_t\_%'
    UNION ALL
    SELECT 'MEMBERSHIP', 'role ' || r.rolname, 'has a right that no wall stands against: ' || concat_ws(', ',
        CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
        CASE WHEN r.rolcreatedb THEN 'CREATEDB' END, CASE WHEN r.rolreplication THEN 'REPLICATION' END,
        CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END, CASE WHEN r.rolcanlogin THEN 'LOGIN' END)
    FROM ours r
    WHERE r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
        OR (r.rolcanlogin AND r.rolname <> 'kedge_service')
    ORDER BY 1, 2, 3
$$;

-- Act as a role ('none': as the login itself) and try to read, write and call everything of a schema. Whatever is done
-- is undone at once. Answers what went through, and last how much was tried.
CREATE FUNCTION control.try_to_reach(as_role text, of_schema text) RETURNS TABLE (object text, action text, tried integer)
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    attempt record;
    attempts integer := 0;
BEGIN
    PERFORM set_config('role', as_role, true);
    FOR attempt IN
        SELECT t.name AS what, v.verb, format(v.text, t.name, t.one) AS statement
        FROM (
            SELECT format('%I.%I', n.nspname, c.relname) AS name, c.relkind,
                (SELECT quote_ident(a.attname) FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = '' LIMIT 1) AS one
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = of_schema AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        ) t JOIN (VALUES
            ('rpvmfS', 'read', 'SELECT 1 FROM %s LIMIT 1'),
            ('rp', 'insert into', 'INSERT INTO %s DEFAULT VALUES'),
            ('rp', 'update', 'UPDATE %s SET %s = NULL WHERE false'),
            ('rp', 'delete from', 'DELETE FROM %s WHERE false'),
            ('S', 'advance', 'SELECT nextval(%L)')
        ) v (kinds, verb, text) ON strpos(v.kinds, t.relkind::text) > 0
        UNION ALL
        SELECT f.oid::regprocedure::text, 'call', format('SELECT %I.%I(%s)', n.nspname, f.proname,
            (SELECT string_agg('NULL::' || format_type(u.type, NULL), ', ' ORDER BY u.place)
             FROM unnest(f.proargtypes::oid[]) WITH ORDINALITY AS u (type, place)))
        FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace WHERE n.nspname = of_schema AND f.prokind = 'f'
    LOOP
        attempts := attempts + 1;
        BEGIN
            EXECUTE attempt.statement;
            RAISE EXCEPTION USING ERRCODE = 'KD001';
        EXCEPTION
            WHEN insufficient_privilege THEN
                NULL;
            WHEN OTHERS THEN                    -- it was let in, and stumbled over something else
                object := attempt.what;
                action := attempt.verb;
                RETURN NEXT;
        END;
    END LOOP;
    PERFORM set_config('role', 'none', true);
    object := NULL;
    action := NULL;
    tried := attempts;
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION control.isolation_faults(), control.try_to_reach(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.isolation_faults(), control.try_to_reach(text, text) TO kedge_service;

-- Erasure. What is left of an erased tenant: a hash of its name, the hashes of its audit chain, who did it and why. --------
CREATE TABLE control.erased_tenant (
    name_hash text PRIMARY KEY,                 -- SHA-256 of the name, in hex
    erase_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    because text NOT NULL,
    rows_erased bigint NOT NULL
);
CREATE TABLE control.erased_audit (
    name_hash text NOT NULL REFERENCES control.erased_tenant (name_hash),
    audit_sequence bigint NOT NULL,
    payload_hash text NOT NULL,
    previous_hash text NOT NULL,
    row_hash text NOT NULL,
    PRIMARY KEY (name_hash, audit_sequence)
);

-- Tokens and keys of the erased one would open a new tenant of the same name.
CREATE FUNCTION control.refuse_erased_name() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM control.erased_tenant e WHERE e.name_hash = encode(sha256(NEW.name::bytea), 'hex')) THEN
        RAISE EXCEPTION 'a tenant of this name was erased' USING ERRCODE = 'duplicate_schema';
    END IF;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION control.refuse_erased_name() FROM PUBLIC;
CREATE TRIGGER refuse_erased_name BEFORE INSERT ON control.tenant
    FOR EACH ROW EXECUTE FUNCTION control.refuse_erased_name();

-- Remove everything of a tenant in one transaction; answers how many rows that were, for one that is erased already the
-- same number again, and null for a name that nobody had. No tenant's rows are folded beyond the oldest transaction that
-- has a number, and an exclusive lock takes one before it waits: so all locks come first, and are there within half a
-- second or not at all. What takes longer, the counting, comes before them; rows that are written meanwhile go uncounted.
CREATE FUNCTION control.erase_tenant(tenant_name text, by_actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
DECLARE
    hash text := encode(sha256(tenant_name::bytea), 'hex');
    place record;
    one text;
    counted bigint;
    total bigint := 0;
    started timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('kedge.create_tenant'), hashtext('t_' || replace(tenant_name, '-', '_')));
    SELECT t.schema_name, t.role_name INTO place FROM control.tenant t WHERE t.name = tenant_name;
    IF NOT FOUND THEN
        SELECT e.rows_erased INTO total FROM control.erased_tenant e WHERE e.name_hash = hash;
        RETURN total;
    END IF;
    FOR one IN SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = place.schema_name AND c.relkind = 'r' ORDER BY 1
    LOOP
        EXECUTE format('SELECT count(*) FROM %I.%I', place.schema_name, one) INTO counted;
        total := total + counted;
    END LOOP;
    started := clock_timestamp();
    FOR one IN SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = place.schema_name AND c.relkind IN ('p', 'r') ORDER BY c.relkind, 1   -- parents as readers do, first
    LOOP
        PERFORM set_config('lock_timeout', greatest(1,
            500 - extract(epoch FROM clock_timestamp() - started) * 1000)::integer::text, true);
        EXECUTE format('LOCK TABLE ONLY %I.%I IN ACCESS EXCLUSIVE MODE', place.schema_name, one);
    END LOOP;
    PERFORM 1 FROM control.tenant t WHERE t.name = tenant_name FOR UPDATE;
    INSERT INTO control.erased_tenant (name_hash, actor, because, rows_erased)
    VALUES (hash, replace(by_actor, tenant_name, '*'), reason, total);
    EXECUTE format('INSERT INTO control.erased_audit SELECT $1, audit_sequence, payload_hash, previous_hash, row_hash FROM %I.audit_event',
        place.schema_name) USING hash;
    EXECUTE format('DROP SCHEMA %I CASCADE', place.schema_name);
    DELETE FROM control.api_key k WHERE k.tenant = tenant_name;
    DELETE FROM control.tenant t WHERE t.name = tenant_name;
    DELETE FROM control.serving s WHERE s.tenant = tenant_name;
    BEGIN
        EXECUTE format('DROP ROLE %I', place.role_name);
    EXCEPTION WHEN dependent_objects_still_exist THEN
        NULL;                                   -- another database of this server has a tenant of that name
    END;
    PERFORM pg_notify('kedge_serving', 'many');
    RETURN total;
END $$;

-- Remove one end user of a tenant: what was said, asked and answered about their episodes goes; of the evidence only
-- numbers stay, under a name that leads nowhere. Answers how many rows that were. The worker waits meanwhile. All locks
-- come first; it waits for none of them with a transaction number but for the last, the audit chain's.
--
-- An id is looked for as a whole value of an audit payload. No verb of today tells of an end user; what those tell of
-- keys, policies and the rest may be the same text by chance ("1", "admin"), and is left alone.
CREATE FUNCTION control.erase_user(tenant_name text, user_hash text, user_id text) RETURNS bigint
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
        %1$I.decision_key, %1$I.idempotency_key, %1$I.episode_count, %1$I.audit_payload IN ROW EXCLUSIVE MODE', place);
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
                jsonb_build_object(''id'', $5, ''hash'', $4)) END']
    LOOP
        EXECUTE format(statement, place) USING policies, episodes, decisions, user_hash, user_id;
        GET DIAGNOSTICS counted = ROW_COUNT;
        total := total + counted;
    END LOOP;
    RETURN total;
END $$;
REVOKE ALL ON FUNCTION control.erase_tenant(text, text, text), control.erase_user(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.erase_tenant(text, text, text), control.erase_user(text, text, text) TO kedge_service;

-- Retention: months of raw rows go when they are older than the tenant keeps them. -----------------------------------------
ALTER TABLE control.tenant ADD COLUMN retention_days integer NOT NULL DEFAULT 0
    CHECK (retention_days = 0 OR retention_days BETWEEN 90 AND 3650);   -- 0: everything is kept
GRANT UPDATE (retention_days) ON control.tenant TO kedge_service;

CREATE FUNCTION control.oldest_month_due(tenant_name text) RETURNS date
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT min(m.month)
    FROM control.tenant t
    JOIN pg_namespace n ON n.nspname = t.schema_name
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relispartition
    CROSS JOIN LATERAL (SELECT to_date(substring(c.relname FROM '^(?:decision|episode_event|outcome|episode|evidence)_(\d{6})$'),
        'YYYYMM') AS month) m
    WHERE t.name = tenant_name AND t.retention_days > 0
        AND (m.month + interval '1 month') AT TIME ZONE 'UTC' <= now() - make_interval(days => t.retention_days)
$$;

-- Let one month of a tenant go, after its evidence was folded into the snapshot in this very transaction or before. Refuses
-- while anything in it is not folded, not settled, or younger than the tenant keeps it. Answers the rows that went. The
-- folding gave the transaction its number, so no wait may be long; the exclusive locks come last, that readers and writers
-- of the tenant need not wait for the deleting.
CREATE FUNCTION control.drop_month(tenant_name text, month date) RETURNS bigint
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
        EXECUTE format('DELETE FROM %1$I.%2$I WHERE %3$I < $1', place, parent || '_default', time_column) USING until;
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
REVOKE ALL ON FUNCTION control.oldest_month_due(text), control.drop_month(text, date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.oldest_month_due(text), control.drop_month(text, date) TO kedge_service;

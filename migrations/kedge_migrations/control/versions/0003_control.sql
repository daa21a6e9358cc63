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
        ('{create_tenant,extend_partitions,erase_tenant,erase_user,drop_partition}')
    UNION ALL
    SELECT 'MISSING_ROLE_SWITCH', f.object, 'calls tenants'' functions without taking their role'
    FROM function f JOIN pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname = 'control' AND NOT f.prosecdef AND f.prosrc ~* '\mexecute\M.*schema_name' AND f.prosrc !~ 'set_config\(''role'''
    UNION ALL                                   -- any role may LISTEN to any channel; so only names may be said there
    SELECT 'NOTIFY', f.object, 'speaks on a channel that every role can hear'
    FROM function f JOIN place p ON p.oid = f.pronamespace
    WHERE p.is_ours AND f.prosrc ~* '\mp?g?_?notify\M' AND NOT (p.nspname = 'control' AND f.proname = ANY
        ('{write_batch,create_tenant,serving_changed,mode_changed,tenant_changed,isolation_faults}'))
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

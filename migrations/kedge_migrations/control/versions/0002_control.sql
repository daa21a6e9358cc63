-- Control tree, second revision.

-- What replicas serve from, and how often it changed: one row per tenant and kind, the empty tenant for what belongs to
-- none. Triggers raise it in the changing transaction, so that no change can be forgotten. Their NOTIFY is a hint and may
-- be lost; a replica's poll of this table finds everything. A tenant without a row has not changed since it was made.
CREATE TABLE control.serving (
    tenant text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('keys', 'modes', 'policies', 'allocations')),
    version bigint NOT NULL DEFAULT 1,
    change_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, kind)
) WITH (fillfactor = 50);

-- Count a change of one kind of one tenant, in the changing transaction; answers the row as it is now.
CREATE FUNCTION control.raise_serving(of_tenant text, of_kind text) RETURNS control.serving
LANGUAGE sql SET search_path = pg_catalog AS $$
    INSERT INTO control.serving AS s (tenant, kind) VALUES (of_tenant, of_kind)
    ON CONFLICT (tenant, kind) DO UPDATE SET version = s.version + 1, change_time = clock_timestamp()
    RETURNING s.*
$$;
REVOKE ALL ON FUNCTION control.raise_serving(text, text) FROM PUBLIC;

-- Two rows per tenant, so that a freeze never waits for a pass of the worker that publishes.
CREATE FUNCTION control.serving_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    of_tenant text := '';
    of_kind text := TG_ARGV[0];
    raised control.serving;
BEGIN
    IF TG_TABLE_SCHEMA <> 'control' THEN
        SELECT t.name INTO of_tenant FROM control.tenant t WHERE t.schema_name = TG_TABLE_SCHEMA;
        IF of_tenant IS NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    raised := control.raise_serving(of_tenant, of_kind);
    CASE of_kind
        WHEN 'keys' THEN PERFORM pg_notify('kedge_keys', raised.version::text);
        WHEN 'modes' THEN PERFORM pg_notify('kedge_serving', 'many');
        WHEN 'policies' THEN PERFORM pg_notify('kedge_serving', of_tenant);
        WHEN 'allocations' THEN PERFORM pg_notify('kedge_allocations', of_tenant);
    END CASE;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.serving_changed() FROM PUBLIC;

-- A mode of a policy or tenant changed: NOTIFY says which mode it is now, so that a replica need not read it first.
CREATE FUNCTION control.mode_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    of_tenant text;
    raised control.serving;
BEGIN
    SELECT t.name INTO of_tenant FROM control.tenant t WHERE t.schema_name = TG_TABLE_SCHEMA;
    IF of_tenant IS NULL THEN
        RETURN NULL;
    END IF;
    raised := control.raise_serving(of_tenant, 'policies');
    PERFORM pg_notify('kedge_modes', json_build_object('tenant', of_tenant, 'policy', NEW.policy, 'mode', NEW.mode,
        'version', raised.version, 'change_time', raised.change_time)::text);
    PERFORM pg_notify('kedge_serving', of_tenant);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.mode_changed() FROM PUBLIC;

CREATE TRIGGER serving_changed AFTER INSERT OR UPDATE OR DELETE ON control.api_key
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('keys');
CREATE TRIGGER serving_changed AFTER INSERT OR UPDATE OR DELETE ON control.mode_change
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('modes');

-- Configuration and modes of some tenants, each read under its role. The version is read before what it counts.
CREATE FUNCTION control.read_policies(names text[])
RETURNS TABLE (tenant text, version bigint, change_time timestamptz, durable boolean, content json)
LANGUAGE plpgsql AS $$
DECLARE
    place record;
BEGIN
    FOR place IN SELECT t.name, t.schema_name, t.role_name FROM control.tenant t WHERE t.name = ANY (names) LOOP
        tenant := place.name;
        SELECT s.version, s.change_time INTO version, change_time
        FROM control.serving s WHERE s.tenant = place.name AND s.kind = 'policies';
        SELECT t.durable INTO durable FROM control.tenant t WHERE t.name = place.name;
        PERFORM set_config('role', place.role_name, true);
        EXECUTE format('SELECT %I.read_policies()', place.schema_name) INTO content;
        PERFORM set_config('role', 'none', true);
        RETURN NEXT;
    END LOOP;
END $$;

-- Newest allocations of some tenants, each read under its role. asked: {tenant: {policy: version above which}}
CREATE FUNCTION control.read_allocations(asked json)
RETURNS TABLE (tenant text, version bigint, content json)
LANGUAGE plpgsql AS $$
DECLARE
    place record;
BEGIN
    FOR place IN
        SELECT t.name, t.schema_name, t.role_name, a.value AS above
        FROM json_each(asked) a JOIN control.tenant t ON t.name = a.key
    LOOP
        tenant := place.name;
        SELECT s.version INTO version FROM control.serving s WHERE s.tenant = place.name AND s.kind = 'allocations';
        PERFORM set_config('role', place.role_name, true);
        EXECUTE format('SELECT %I.read_allocations($1)', place.schema_name) INTO content USING place.above;
        PERFORM set_config('role', 'none', true);
        RETURN NEXT;
    END LOOP;
END $$;

GRANT SELECT ON control.serving TO kedge_service;
REVOKE ALL ON FUNCTION control.read_policies(text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION control.read_allocations(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION control.read_policies(text[]), control.read_allocations(json) TO kedge_service;

-- One group commit, as in the first revision, at less cost per tenant.
CREATE OR REPLACE FUNCTION control.write_batch(batch jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    place record;
    answer jsonb;
    names text[] := '{}';
    answers jsonb[] := '{}';
    touched text;
BEGIN
    FOR place IN
        SELECT t.name, t.schema_name, t.role_name
        FROM jsonb_object_keys(batch) AS named (tenant) JOIN control.tenant t ON t.name = named.tenant
        ORDER BY t.name
    LOOP
        PERFORM set_config('role', place.role_name, true);
        EXECUTE format('SELECT %I.write_rows($1)', place.schema_name) INTO answer USING batch -> place.name;
        PERFORM set_config('role', 'none', true);
        names := names || place.name;
        answers := answers || answer;
        -- Decisions alone move no belief: the worker may let them wait for more.
        touched := concat_ws(' ', touched,
            CASE WHEN batch -> place.name ?| '{episode_events,outcomes}' THEN '' ELSE '~' END || place.name);
    END LOOP;
    PERFORM pg_notify('kedge_rows', CASE WHEN length(touched) < 7000 THEN coalesce(touched, '') ELSE 'many' END);
    RETURN (SELECT coalesce(jsonb_object_agg(a.name, a.answer), '{}') FROM unnest(names, answers) AS a (name, answer));
END $$;

-- Tenants whose decisions are committed before they are answered. ------------------------------------------------------
ALTER TABLE control.tenant ADD COLUMN durable boolean NOT NULL DEFAULT false;
GRANT UPDATE (store_content, durable) ON control.tenant TO kedge_service;

-- Replicas serve a tenant's settings with its policies.
CREATE FUNCTION control.tenant_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM control.raise_serving(NEW.name, 'policies');
    PERFORM pg_notify('kedge_serving', NEW.name);
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION control.tenant_changed() FROM PUBLIC;
CREATE TRIGGER tenant_changed AFTER UPDATE OF durable ON control.tenant
    FOR EACH ROW EXECUTE FUNCTION control.tenant_changed();

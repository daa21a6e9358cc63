-- Tenant tree, second revision.

-- Why the baseline alone is published: BUDGET or CAP, null where it is not. ------------------------------------------
ALTER TABLE {schema}.allocation ADD COLUMN closed text;
UPDATE {schema}.allocation SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.allocation DROP COLUMN budget_spent;
ALTER TABLE {schema}.policy_state ADD COLUMN closed text;
UPDATE {schema}.policy_state SET closed = 'BUDGET' WHERE budget_spent;
ALTER TABLE {schema}.policy_state DROP COLUMN budget_spent;

-- What counts against the caps, and what they saw when an allocation was made. ---------------------------------------
ALTER TABLE {schema}.policy_state
    ADD COLUMN usage jsonb,                     -- decisions by minute, cost by hour; null without caps
    ADD COLUMN capped_until timestamptz;        -- when enough will have left the windows; null where no cap is reached
ALTER TABLE {schema}.allocation
    ADD COLUMN non_baseline_decisions bigint NOT NULL DEFAULT 0,
    ADD COLUMN non_baseline_cost_usd double precision NOT NULL DEFAULT 0;

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
CREATE TRIGGER mode_changed AFTER INSERT ON {schema}.mode_change
    FOR EACH ROW EXECUTE FUNCTION control.mode_changed();
CREATE TRIGGER serving_changed AFTER INSERT ON {schema}.allocation
    FOR EACH STATEMENT EXECUTE FUNCTION control.serving_changed('allocations');
REVOKE ALL ON FUNCTION {schema}.read_policies(), {schema}.read_allocations(json) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.read_policies(), {schema}.read_allocations(json) TO {role};

-- Decisions that a client made in its own process and reported. --------------------------------------------------------
ALTER TABLE {schema}.decision
    ADD COLUMN is_local boolean NOT NULL DEFAULT false,
    ADD COLUMN set_aside text;                  -- why it is not learned from: OUTDATED, FROZEN, BYPASS; null otherwise
CREATE INDEX allocation_bucket ON {schema}.allocation (policy, bucket, allocation_version);

CREATE OR REPLACE FUNCTION {schema}.write_rows(rows jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $body$
DECLARE
    lost jsonb := '[]';
    event_duplicates jsonb := '[]';
    event_conflicts jsonb := '[]';
    outcome_duplicates jsonb := '[]';
    outcome_conflicts jsonb := '[]';
    seen integer[];
BEGIN
    IF rows ? 'decisions' THEN
        INSERT INTO {schema}.decision_key (policy, episode_id, decision_id, decision_time)
        SELECT r.policy, r.episode_id, r.decision_id, r.decision_time
        FROM jsonb_to_recordset(rows -> 'decisions')
            AS r (policy text, episode_id text, decision_id uuid, decision_time timestamptz)
        ORDER BY r.policy, r.episode_id
        ON CONFLICT DO NOTHING;

        INSERT INTO {schema}.decision AS d (
            decision_id, decision_time, policy, episode_id, request_id, context, bucket, available, action, propensity,
            policy_version, allocation_version, seed_epoch, mode, reason, is_randomised, judge_requested, judge_rate,
            shadow_action, superseded, is_local, set_aside)
        SELECT r.decision_id, r.decision_time, r.policy, r.episode_id, r.request_id, r.context, r.bucket, r.available,
            r.action, r.propensity, r.policy_version, r.allocation_version, r.seed_epoch, r.mode, r.reason,
            r.is_randomised, r.judge_requested, r.judge_rate, r.shadow_action, k.decision_id <> r.decision_id,
            coalesce(r.is_local, false), r.set_aside
        FROM jsonb_to_recordset(rows -> 'decisions') AS r (
            decision_id uuid, decision_time timestamptz, policy text, episode_id text, request_id text, context jsonb,
            bucket text, available text[], action text, propensity double precision, policy_version bigint,
            allocation_version bigint, seed_epoch bigint, mode text, reason text, is_randomised boolean,
            judge_requested boolean, judge_rate double precision, shadow_action text, is_local boolean, set_aside text,
            only_first boolean)
        JOIN {schema}.decision_key k ON k.policy = r.policy AND k.episode_id = r.episode_id
        WHERE k.decision_id = r.decision_id OR r.only_first IS NULL
        ORDER BY r.decision_id
        ON CONFLICT (decision_id, decision_time) DO UPDATE
            SET context = excluded.context, available = excluded.available, shadow_action = excluded.shadow_action
            WHERE d.context IS NULL AND excluded.context IS NOT NULL;

        SELECT coalesce(jsonb_agg(jsonb_build_object('n', r.n, 'decision_id', k.decision_id, 'decision_time', k.decision_time)), '[]')
        INTO lost
        FROM jsonb_to_recordset(rows -> 'decisions') AS r (n integer, policy text, episode_id text, decision_id uuid)
        JOIN {schema}.decision_key k ON k.policy = r.policy AND k.episode_id = r.episode_id
        WHERE k.decision_id <> r.decision_id;
    END IF;

    IF rows ? 'episode_events' THEN
        WITH r AS MATERIALIZED (
            SELECT * FROM jsonb_to_recordset(rows -> 'episode_events') AS r (
                n integer, key text, payload_hash text, kind text, policy text, episode_id text, decision_id uuid,
                served_action text, trajectory jsonb, source text)
        ), added AS (
            INSERT INTO {schema}.idempotency_key (scope, key, payload_hash)
            SELECT 'episode_event', r.key, r.payload_hash FROM r ORDER BY r.key
            ON CONFLICT DO NOTHING
            RETURNING key
        ), stored AS (
            INSERT INTO {schema}.episode_event (key, kind, policy, episode_id, decision_id, served_action, trajectory, source)
            SELECT r.key, r.kind, r.policy, r.episode_id, r.decision_id, r.served_action, r.trajectory, r.source
            FROM r JOIN added USING (key) ORDER BY r.n
        )
        SELECT array_agg(r.n) INTO seen FROM r LEFT JOIN added USING (key) WHERE added.key IS NULL;

        -- A statement of its own, whose snapshot has the keys that another transaction committed meanwhile.
        IF seen IS NOT NULL THEN
            SELECT coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash = r.payload_hash), '[]'),
                coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash <> r.payload_hash), '[]')
            INTO event_duplicates, event_conflicts
            FROM jsonb_to_recordset(rows -> 'episode_events') AS r (n integer, key text, payload_hash text)
            JOIN {schema}.idempotency_key k ON k.scope = 'episode_event' AND k.key = r.key
            WHERE r.n = ANY (seen);
        END IF;
    END IF;

    IF rows ? 'outcomes' THEN
        WITH r AS MATERIALIZED (
            SELECT * FROM jsonb_to_recordset(rows -> 'outcomes') AS r (
                n integer, key text, payload_hash text, policy text, episode_id text, decision_id uuid, signal text,
                payload jsonb, served_action text)
        ), added AS (
            INSERT INTO {schema}.idempotency_key (scope, key, payload_hash)
            SELECT 'outcome', r.key, r.payload_hash FROM r ORDER BY r.key
            ON CONFLICT DO NOTHING
            RETURNING key
        ), stored AS (
            INSERT INTO {schema}.outcome (key, policy, episode_id, decision_id, signal, payload, served_action)
            SELECT r.key, r.policy, r.episode_id, r.decision_id, r.signal, r.payload, r.served_action
            FROM r JOIN added USING (key) ORDER BY r.n
        )
        SELECT array_agg(r.n) INTO seen FROM r LEFT JOIN added USING (key) WHERE added.key IS NULL;

        -- A statement of its own, whose snapshot has the keys that another transaction committed meanwhile.
        IF seen IS NOT NULL THEN
            SELECT coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash = r.payload_hash), '[]'),
                coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash <> r.payload_hash), '[]')
            INTO outcome_duplicates, outcome_conflicts
            FROM jsonb_to_recordset(rows -> 'outcomes') AS r (n integer, key text, payload_hash text)
            JOIN {schema}.idempotency_key k ON k.scope = 'outcome' AND k.key = r.key
            WHERE r.n = ANY (seen);
        END IF;
    END IF;

    RETURN jsonb_build_object(
        'superseded', lost,
        'event_duplicates', event_duplicates, 'event_conflicts', event_conflicts,
        'outcome_duplicates', outcome_duplicates, 'outcome_conflicts', outcome_conflicts);
END $body$;

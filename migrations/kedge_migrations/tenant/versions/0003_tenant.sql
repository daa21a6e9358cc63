-- What isolation, erasure and audit need of one tenant's record.

-- The hot path's write, whose cost does not grow with the table. -------------------------------------------------------

-- A plan is kept as it was made when the tables were small. A join with decision_key then reads all of it in each commit
-- until the table is next analysed, in a new tenant 100,000 rows later: LIMIT 1 makes each key one look-up, by its index.
CREATE OR REPLACE FUNCTION {schema}.write_rows(rows jsonb) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off AS $body$
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
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.decision_key one WHERE one.policy = r.policy AND one.episode_id = r.episode_id LIMIT 1
        ) k
        WHERE k.decision_id = r.decision_id OR r.only_first IS NULL
        ORDER BY r.decision_id
        ON CONFLICT (decision_id, decision_time) DO UPDATE
            SET context = excluded.context, available = excluded.available, shadow_action = excluded.shadow_action
            WHERE d.context IS NULL AND excluded.context IS NOT NULL;

        SELECT coalesce(jsonb_agg(jsonb_build_object('n', r.n, 'decision_id', k.decision_id, 'decision_time', k.decision_time)), '[]')
        INTO lost
        FROM jsonb_to_recordset(rows -> 'decisions') AS r (n integer, policy text, episode_id text, decision_id uuid)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.decision_key one WHERE one.policy = r.policy AND one.episode_id = r.episode_id LIMIT 1
        ) k
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
            CROSS JOIN LATERAL (
                SELECT * FROM {schema}.idempotency_key one WHERE one.scope = 'episode_event' AND one.key = r.key LIMIT 1
            ) k
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
            CROSS JOIN LATERAL (
                SELECT * FROM {schema}.idempotency_key one WHERE one.scope = 'outcome' AND one.key = r.key LIMIT 1
            ) k
            WHERE r.n = ANY (seen);
        END IF;
    END IF;

    RETURN jsonb_build_object(
        'superseded', lost,
        'event_duplicates', event_duplicates, 'event_conflicts', event_conflicts,
        'outcome_duplicates', outcome_duplicates, 'outcome_conflicts', outcome_conflicts);
END $body$;

-- Erasing one end user starts from the episodes that name them, by a hash. -----------------------------------------------
CREATE INDEX episode_event_end_user ON {schema}.episode_event ((trajectory ->> 'end_user'))
    WHERE trajectory ->> 'end_user' IS NOT NULL;

-- The beginning of the evidence log, folded before its months went: rows that weigh as much as those they stand for. ------
CREATE TABLE {schema}.evidence_snapshot (
    policy text NOT NULL,
    part integer NOT NULL,
    bucket text NOT NULL,
    action text NOT NULL,
    policy_version bigint NOT NULL,
    policy_time double precision NOT NULL,      -- up to which it is discounted, seconds
    weight double precision NOT NULL,
    reward double precision NOT NULL,
    vetoed boolean NOT NULL,
    veto_weight double precision NOT NULL,
    episodes double precision NOT NULL,         -- undiscounted
    reward_sum double precision NOT NULL,
    PRIMARY KEY (policy, part)
);
CREATE TABLE {schema}.evidence_seal (
    policy text PRIMARY KEY,
    through bigint NOT NULL,                    -- sequence of the last row that is folded
    log_end bigint NOT NULL,                    -- the log's end when it was folded
    key_id integer NOT NULL,
    signature text NOT NULL,
    make_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT, DELETE ON {schema}.evidence_snapshot, {schema}.evidence_seal TO {role};

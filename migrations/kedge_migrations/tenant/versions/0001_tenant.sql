-- Tenant tree: one tenant's record. {schema} and {role} are filled in by control.create_tenant or by Alembic.
-- Tables that grow are range-partitioned by month; rows of another month fall into the default partition.

-- Configuration ----------------------------------------------------------------------------------------------------

CREATE TABLE {schema}.policy (
    policy text PRIMARY KEY,
    policy_version bigint NOT NULL,
    configuration_version bigint NOT NULL,      -- policy_version of the last change of arms, features, reward or learner
    mode text NOT NULL CHECK (mode IN ('APPLY', 'OBSERVE', 'FROZEN', 'BYPASS')),
    seed_epoch bigint NOT NULL,
    spec jsonb NOT NULL,
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL
);

CREATE TABLE {schema}.policy_version (
    policy text NOT NULL,
    policy_version bigint NOT NULL,
    configuration_version bigint NOT NULL,
    mode text NOT NULL,
    seed_epoch bigint NOT NULL,
    spec jsonb NOT NULL,
    change_time timestamptz NOT NULL,
    PRIMARY KEY (policy, policy_version)
);

-- Every change of the tenant's mode (policy is null) or of one policy's; policy time is computed from it.
CREATE TABLE {schema}.mode_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy text,
    mode text NOT NULL CHECK (mode IN ('APPLY', 'OBSERVE', 'FROZEN', 'BYPASS')),
    change_time timestamptz NOT NULL
);

CREATE TABLE {schema}.arm (
    content_hash text NOT NULL,
    dimension text NOT NULL CHECK (dimension IN ('MODEL_ROUTE', 'REASONING_DEPTH', 'PROMPT_VARIANT')),
    name text NOT NULL,
    content text NOT NULL,
    create_time timestamptz NOT NULL,
    PRIMARY KEY (content_hash, dimension, name)
);

-- What an unfreeze decided about evidence that was quarantined meanwhile; the worker carries it out.
CREATE TABLE {schema}.quarantine_release (
    release_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy text NOT NULL,
    choice text NOT NULL CHECK (choice IN ('REPLAY', 'KEEP', 'DROP')),
    release_time timestamptz NOT NULL,
    done boolean NOT NULL DEFAULT false
);

-- Raw rows, written by write_rows only. x orders them for the worker: rows below the oldest running transaction are final.

CREATE TABLE {schema}.idempotency_key (
    scope text NOT NULL,                        -- 'episode_event', 'outcome', 'write'
    key text NOT NULL,
    payload_hash text NOT NULL,
    seen_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (scope, key)
);

CREATE TABLE {schema}.decision_key (
    policy text NOT NULL,
    episode_id text NOT NULL,
    decision_id uuid NOT NULL,
    decision_time timestamptz NOT NULL,
    PRIMARY KEY (policy, episode_id)
);

CREATE TABLE {schema}.decision (
    decision_id uuid NOT NULL,
    decision_time timestamptz NOT NULL,
    policy text NOT NULL,
    episode_id text NOT NULL,
    request_id text NOT NULL,
    context jsonb,                              -- null when rebuilt from its token
    bucket text NOT NULL,
    available text[],                           -- action keys the caller could serve; null: all
    action text NOT NULL,
    propensity double precision NOT NULL CHECK (propensity > 0 AND propensity <= 1),
    policy_version bigint NOT NULL,
    allocation_version bigint NOT NULL,
    seed_epoch bigint NOT NULL,
    mode text NOT NULL,
    reason text NOT NULL,
    is_randomised boolean NOT NULL,
    judge_requested boolean NOT NULL,
    judge_rate double precision NOT NULL,
    shadow_action text,
    superseded boolean NOT NULL,
    x bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    PRIMARY KEY (decision_id, decision_time)
) PARTITION BY RANGE (decision_time);
CREATE INDEX decision_x ON {schema}.decision (x);
CREATE TABLE {schema}.decision_default PARTITION OF {schema}.decision DEFAULT;

-- What was said about an episode as a whole: LOG (a trajectory), ACTIVATE, CANCEL, SETTLE.
CREATE TABLE {schema}.episode_event (
    key text NOT NULL,
    receive_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL CHECK (kind IN ('LOG', 'ACTIVATE', 'CANCEL', 'SETTLE', 'IMPORT')),
    policy text NOT NULL,
    episode_id text NOT NULL,
    decision_id uuid,
    served_action text,
    trajectory jsonb,
    source text NOT NULL,
    x bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
) PARTITION BY RANGE (receive_time);
CREATE INDEX episode_event_x ON {schema}.episode_event (x);
CREATE INDEX episode_event_episode ON {schema}.episode_event (policy, episode_id);
CREATE TABLE {schema}.episode_event_default PARTITION OF {schema}.episode_event DEFAULT;

CREATE TABLE {schema}.outcome (
    key text NOT NULL,
    receive_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    policy text,                                -- null while only the decision is known
    episode_id text,
    decision_id uuid,
    signal text NOT NULL,
    payload jsonb NOT NULL,                     -- the whole outcome, raw units
    served_action text,
    x bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
) PARTITION BY RANGE (receive_time);
CREATE INDEX outcome_x ON {schema}.outcome (x);
CREATE TABLE {schema}.outcome_default PARTITION OF {schema}.outcome DEFAULT;

-- The worker's record ----------------------------------------------------------------------------------------------

CREATE TABLE {schema}.fold_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    x bigint NOT NULL,                          -- raw rows below it are folded
    evidence_sequence bigint NOT NULL,
    system_identifier text NOT NULL,            -- transaction numbers mean something in this cluster only
    counted_before timestamptz                  -- after a restore: older decisions went into the self-check before it
);
INSERT INTO {schema}.fold_state (x, evidence_sequence, system_identifier)
SELECT 0, 0, system_identifier::text FROM pg_control_system();

CREATE TABLE {schema}.episode (
    policy text NOT NULL,
    episode_id text NOT NULL,
    open_time timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('PENDING', 'SETTLED', 'VETOED', 'UNSCORED', 'CANCELLED')),
    logged boolean NOT NULL,
    decision_id uuid,
    facts jsonb NOT NULL,                       -- events and outcomes so far, as the settlement reads them
    due_time timestamptz,                       -- when a pending episode settles by itself
    quarantined boolean NOT NULL DEFAULT false,
    reward_version bigint NOT NULL DEFAULT 0,
    evidence_sequence bigint NOT NULL DEFAULT 0, -- of its newest evidence
    PRIMARY KEY (policy, episode_id, open_time)
) PARTITION BY RANGE (open_time);
CREATE INDEX episode_open ON {schema}.episode (policy, open_time, episode_id);
CREATE INDEX episode_due ON {schema}.episode (due_time) WHERE due_time IS NOT NULL;
CREATE INDEX episode_quarantined ON {schema}.episode (policy) WHERE quarantined;
CREATE TABLE {schema}.episode_default PARTITION OF {schema}.episode DEFAULT;

-- Outcomes whose episode is not known yet (they name a decision that has not arrived).
CREATE TABLE {schema}.unmatched (
    decision_id uuid NOT NULL,
    key text NOT NULL,
    payload jsonb NOT NULL,
    served_action text,
    receive_time timestamptz NOT NULL,
    PRIMARY KEY (decision_id, key)
);

-- The evidence log: one row per reward version of an episode, appended by one worker at a time.
CREATE TABLE {schema}.evidence (
    evidence_sequence bigint NOT NULL,
    settle_time timestamptz NOT NULL,
    policy text NOT NULL,
    bucket text NOT NULL,
    action text NOT NULL,
    episode_id text NOT NULL,
    decision_id uuid,
    reward_version bigint NOT NULL,
    policy_version bigint NOT NULL,             -- of the decision
    decision_time timestamptz NOT NULL,
    policy_time double precision NOT NULL,      -- of the decision, seconds
    weight double precision NOT NULL CHECK (weight >= 0),
    weight_reason text,
    reward double precision CHECK (reward >= 0 AND reward <= 1),
    vetoed boolean NOT NULL,
    veto_weight double precision NOT NULL,      -- 1 where the episode counts for the veto belief
    verdict jsonb NOT NULL,                     -- components, veto reasons
    PRIMARY KEY (evidence_sequence, settle_time)
) PARTITION BY RANGE (settle_time);
CREATE INDEX evidence_episode ON {schema}.evidence (policy, episode_id);
CREATE TABLE {schema}.evidence_default PARTITION OF {schema}.evidence DEFAULT;

-- What made older evidence of a cell worth less, and which action started from another's: part of the evidence log.
CREATE TABLE {schema}.known_change (
    evidence_sequence bigint NOT NULL,
    change_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    policy text NOT NULL,
    bucket text NOT NULL,
    action text NOT NULL,
    source text NOT NULL,                       -- whose rows: the action's own, or its predecessor's
    policy_time double precision NOT NULL,      -- rows whose decision is older are concerned, seconds
    factor double precision NOT NULL CHECK (factor >= 0 AND factor <= 1),
    cause text NOT NULL,
    PRIMARY KEY (policy, evidence_sequence, bucket, action)
);

-- Provider's model ids seen behind each route arm; a new one is a known change.
CREATE TABLE {schema}.model_seen (
    policy text NOT NULL,
    arm_id text NOT NULL,
    model_id text NOT NULL,
    see_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (policy, arm_id, model_id)
);

-- Fold of the evidence log.
CREATE TABLE {schema}.cell (
    policy text NOT NULL,
    bucket text NOT NULL,
    action text NOT NULL,
    n double precision NOT NULL,
    s double precision NOT NULL,
    s2 double precision NOT NULL,
    as_of double precision NOT NULL,            -- policy time at which the sums hold
    PRIMARY KEY (policy, bucket, action)
);

-- One action over all buckets: veto belief (discounted) and exploration budget (plain sums of this configuration).
CREATE TABLE {schema}.action_state (
    policy text NOT NULL,
    action text NOT NULL,
    veto_episodes double precision NOT NULL,
    vetoes double precision NOT NULL,
    as_of double precision NOT NULL,
    configuration_version bigint NOT NULL,
    episodes bigint NOT NULL,
    reward_sum double precision NOT NULL,
    ineligible boolean NOT NULL,
    over_cap double precision NOT NULL,         -- P(veto rate > cap) when last computed
    PRIMARY KEY (policy, action)
);

CREATE TABLE {schema}.policy_state (
    policy text PRIMARY KEY,
    allocation_version bigint NOT NULL,
    policy_version bigint NOT NULL,             -- configuration that the newest allocations were made for
    half_life_seconds double precision NOT NULL, -- that cells and action_state are discounted with
    settled_version bigint NOT NULL,            -- whose reward spec and features recent evidence follows, or will
    features_version bigint NOT NULL,           -- since which the features are as they are
    resettle_time timestamptz,                  -- up to this episode it follows them; null: all of it does
    resettle_episode text,
    self_check jsonb,
    learning_held text,                         -- why learning is held; null when it is not
    safety_window text NOT NULL DEFAULT '',     -- last 1,000 learnable episodes: '1' without safety verdict, else '0'
    budget_spent boolean NOT NULL DEFAULT false
);

-- Newest allocation of each bucket, and the evidence it was made from.
CREATE TABLE {schema}.bucket_state (
    policy text NOT NULL,
    bucket text NOT NULL,
    allocation_version bigint NOT NULL,         -- 0: none yet
    publish_time timestamptz,
    n double precision NOT NULL,                -- discounted evidence that it was made from
    fresh double precision NOT NULL DEFAULT 0,  -- evidence rows folded since
    PRIMARY KEY (policy, bucket)
);

CREATE TABLE {schema}.episode_count (
    policy text NOT NULL,
    name text NOT NULL,                         -- an episode state, or late, unmatched, no_safety_verdict, ...
    count bigint NOT NULL,
    PRIMARY KEY (policy, name)
);

CREATE TABLE {schema}.allocation (
    policy text NOT NULL,
    allocation_version bigint NOT NULL,
    publish_time timestamptz NOT NULL,
    bucket text NOT NULL,
    policy_version bigint NOT NULL,
    configuration_version bigint NOT NULL,
    seed_epoch bigint NOT NULL,
    as_of double precision NOT NULL,
    evidence_sequence bigint NOT NULL,          -- made from the evidence up to here
    evidence_hash text NOT NULL,
    actions text[] NOT NULL,
    baseline integer NOT NULL,                  -- place of the baseline in actions, from 0
    floor double precision NOT NULL,
    uniform_slice double precision NOT NULL,
    caps double precision[],
    q double precision[] NOT NULL,
    p double precision[] NOT NULL,
    mean double precision[] NOT NULL,
    eligible boolean[] NOT NULL,
    budget_spent boolean NOT NULL,
    PRIMARY KEY (policy, allocation_version, publish_time)
) PARTITION BY RANGE (publish_time);
CREATE TABLE {schema}.allocation_default PARTITION OF {schema}.allocation DEFAULT;

-- Audit ------------------------------------------------------------------------------------------------------------

CREATE TABLE {schema}.audit_event (
    audit_sequence bigint NOT NULL,
    event_time timestamptz NOT NULL,
    actor text NOT NULL,
    verb text NOT NULL,
    subject text NOT NULL,
    because text NOT NULL,
    payload_hash text NOT NULL,
    previous_hash text NOT NULL,
    row_hash text NOT NULL,
    PRIMARY KEY (audit_sequence, event_time)
) PARTITION BY RANGE (event_time);
CREATE TABLE {schema}.audit_event_default PARTITION OF {schema}.audit_event DEFAULT;

CREATE TABLE {schema}.audit_payload (
    payload_hash text PRIMARY KEY,
    payload text NOT NULL
);

CREATE TABLE {schema}.audit_head (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    audit_sequence bigint NOT NULL,
    row_hash text NOT NULL
);
INSERT INTO {schema}.audit_head (audit_sequence, row_hash) VALUES (0, repeat('0', 64));

-- Partitions of this month and the next; ensure_partitions makes later ones.
DO $body$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['decision', 'episode_event', 'outcome', 'episode', 'evidence', 'allocation', 'audit_event']
    LOOP
        PERFORM control.ensure_partitions(format('%s.%I', '{schema}', parent)::regclass, (now() AT TIME ZONE 'UTC')::date, 2);
    END LOOP;
END $body$;

-- The hot path's write -----------------------------------------------------------------------------------------------

-- rows: {"decisions": [...], "episode_events": [...], "outcomes": [...]}; each row carries n, its place in the caller's
-- batch. Keys are unique inside a batch. Answers the n of superseded decisions, of duplicates and of conflicts.
CREATE FUNCTION {schema}.write_rows(rows jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $body$
DECLARE
    lost jsonb := '[]';
    event_duplicates jsonb := '[]';
    event_conflicts jsonb := '[]';
    outcome_duplicates jsonb := '[]';
    outcome_conflicts jsonb := '[]';
    fresh text[];
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
            shadow_action, superseded)
        SELECT r.decision_id, r.decision_time, r.policy, r.episode_id, r.request_id, r.context, r.bucket, r.available,
            r.action, r.propensity, r.policy_version, r.allocation_version, r.seed_epoch, r.mode, r.reason,
            r.is_randomised, r.judge_requested, r.judge_rate, r.shadow_action, k.decision_id <> r.decision_id
        FROM jsonb_to_recordset(rows -> 'decisions') AS r (
            decision_id uuid, decision_time timestamptz, policy text, episode_id text, request_id text, context jsonb,
            bucket text, available text[], action text, propensity double precision, policy_version bigint,
            allocation_version bigint, seed_epoch bigint, mode text, reason text, is_randomised boolean,
            judge_requested boolean, judge_rate double precision, shadow_action text)
        JOIN {schema}.decision_key k ON k.policy = r.policy AND k.episode_id = r.episode_id
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
        WITH added AS (
            INSERT INTO {schema}.idempotency_key (scope, key, payload_hash)
            SELECT 'episode_event', r.key, r.payload_hash
            FROM jsonb_to_recordset(rows -> 'episode_events') AS r (key text, payload_hash text)
            ORDER BY r.key
            ON CONFLICT DO NOTHING
            RETURNING key
        )
        SELECT coalesce(array_agg(added.key), '{}') INTO fresh FROM added;

        INSERT INTO {schema}.episode_event
            (key, kind, policy, episode_id, decision_id, served_action, trajectory, source)
        SELECT r.key, r.kind, r.policy, r.episode_id, r.decision_id, r.served_action, r.trajectory, r.source
        FROM jsonb_to_recordset(rows -> 'episode_events') AS r (
            key text, kind text, policy text, episode_id text, decision_id uuid, served_action text, trajectory jsonb,
            source text)
        WHERE r.key = ANY (fresh);

        SELECT coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash = r.payload_hash), '[]'),
            coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash <> r.payload_hash), '[]')
        INTO event_duplicates, event_conflicts
        FROM jsonb_to_recordset(rows -> 'episode_events') AS r (n integer, key text, payload_hash text)
        JOIN {schema}.idempotency_key k ON k.scope = 'episode_event' AND k.key = r.key
        WHERE r.key <> ALL (fresh);
    END IF;

    IF rows ? 'outcomes' THEN
        WITH added AS (
            INSERT INTO {schema}.idempotency_key (scope, key, payload_hash)
            SELECT 'outcome', r.key, r.payload_hash
            FROM jsonb_to_recordset(rows -> 'outcomes') AS r (key text, payload_hash text)
            ORDER BY r.key
            ON CONFLICT DO NOTHING
            RETURNING key
        )
        SELECT coalesce(array_agg(added.key), '{}') INTO fresh FROM added;

        INSERT INTO {schema}.outcome (key, policy, episode_id, decision_id, signal, payload, served_action)
        SELECT r.key, r.policy, r.episode_id, r.decision_id, r.signal, r.payload, r.served_action
        FROM jsonb_to_recordset(rows -> 'outcomes') AS r (
            key text, policy text, episode_id text, decision_id uuid, signal text, payload jsonb, served_action text)
        WHERE r.key = ANY (fresh);

        SELECT coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash = r.payload_hash), '[]'),
            coalesce(jsonb_agg(r.n) FILTER (WHERE k.payload_hash <> r.payload_hash), '[]')
        INTO outcome_duplicates, outcome_conflicts
        FROM jsonb_to_recordset(rows -> 'outcomes') AS r (n integer, key text, payload_hash text)
        JOIN {schema}.idempotency_key k ON k.scope = 'outcome' AND k.key = r.key
        WHERE r.key <> ALL (fresh);
    END IF;

    RETURN jsonb_build_object(
        'superseded', lost,
        'event_duplicates', event_duplicates, 'event_conflicts', event_conflicts,
        'outcome_duplicates', outcome_duplicates, 'outcome_conflicts', outcome_conflicts);
END $body$;

-- Rights: the tenant's role sees its schema only, and can never change or delete what is append-only. ------------------

GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT UPDATE ON {schema}.policy, {schema}.quarantine_release, {schema}.decision, {schema}.fold_state, {schema}.episode,
    {schema}.cell, {schema}.action_state, {schema}.policy_state, {schema}.bucket_state, {schema}.episode_count,
    {schema}.audit_head TO {role};
GRANT DELETE ON {schema}.unmatched, {schema}.cell, {schema}.action_state, {schema}.bucket_state TO {role};
REVOKE ALL ON FUNCTION {schema}.write_rows(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION {schema}.write_rows(jsonb) TO {role};

-- What proposals, the gate and ramps need of one tenant's record.


-- Proposals: what may come to serve, and who consented. ------------------------------------------------------------------
-- What was proposed, by whom and against what never changes: the tenant's role may update the other columns only.
CREATE TABLE {schema}.proposal (
    proposal_id text PRIMARY KEY,
    policy text NOT NULL,
    kind text NOT NULL CHECK (kind IN
        ('PROMPT', 'LORA', 'ENVIRONMENT_POLICY', 'BASELINE', 'FLOOR_STAGE', 'CONFIG', 'ARM')),
    candidate jsonb NOT NULL,
    base jsonb NOT NULL,                        -- the policy's spec when it was proposed, without tombstones
    content_hash text NOT NULL,                 -- of what would be served and nothing beside it
    author text NOT NULL,
    author_issuer text,
    author_subject text,                        -- who answers for it, also where a program proposed it
    author_is_operator boolean NOT NULL,        -- the operator, or a program that the operator made
    because text NOT NULL,
    lineage text NOT NULL,
    supersedes text NOT NULL,
    create_time timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN
        ('SUBMITTED', 'GATE_RUNNING', 'GATE_FAILED', 'INCONCLUSIVE', 'AWAITING_APPROVAL', 'APPROVED', 'REJECTED',
        'EXPIRED', 'WITHDRAWN', 'VOIDED', 'SERVING', 'REVERTED', 'SUPERSEDED')),
    version bigint NOT NULL CHECK (version >= 1),
    state_because text NOT NULL,
    binding_hash text NOT NULL,
    evaluation_hash text NOT NULL DEFAULT '',
    gate_result jsonb,
    approver text NOT NULL DEFAULT '',
    approver_issuer text,
    approver_subject text,
    approve_because text NOT NULL DEFAULT '',
    approve_time timestamptz,
    forced boolean NOT NULL DEFAULT false,
    expire_time timestamptz,
    update_time timestamptz NOT NULL,
    audit_sequence bigint NOT NULL,             -- of its newest step
    CHECK ((author_issuer IS NULL) = (author_subject IS NULL) AND (approver_issuer IS NULL) = (approver_subject IS NULL)),
    CONSTRAINT four_eyes CHECK (approver_issuer IS NULL OR author_issuer IS NULL
        OR (approver_issuer, approver_subject) <> (author_issuer, author_subject)),
    CONSTRAINT known_author CHECK (NOT forced OR author_issuer IS NOT NULL OR author_is_operator),
    CONSTRAINT consent CHECK (state NOT IN ('APPROVED', 'SERVING', 'REVERTED', 'SUPERSEDED')
        OR (approver_issuer IS NOT NULL AND approve_time IS NOT NULL)),
    CONSTRAINT verdict CHECK (state NOT IN ('AWAITING_APPROVAL', 'APPROVED', 'SERVING') OR forced
        OR kind IN ('FLOOR_STAGE', 'CONFIG') OR (gate_result IS NOT NULL AND gate_result ->> 'verdict' = 'PASS')),
    CONSTRAINT vetoes CHECK (state NOT IN ('APPROVED', 'SERVING') OR gate_result IS NULL
        OR (gate_result ->> 'vetoes')::integer = 0)
);
CREATE INDEX proposal_policy ON {schema}.proposal (policy, content_hash);
CREATE INDEX proposal_open ON {schema}.proposal (state)
    WHERE state IN ('SUBMITTED', 'GATE_RUNNING', 'INCONCLUSIVE', 'AWAITING_APPROVAL', 'APPROVED', 'SERVING');
CREATE INDEX proposal_sequence ON {schema}.proposal (audit_sequence);

-- A step leads where the state table says, or is an admin's force; nothing leads out of a final state.
CREATE FUNCTION {schema}.check_proposal_step() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'SUBMITTED' OR NEW.version <> 1 THEN
            RAISE EXCEPTION 'a proposal begins as SUBMITTED, at version 1' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
        RAISE EXCEPTION 'a step raises the version by one' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state AND OLD.state IN ('SUBMITTED', 'GATE_RUNNING', 'INCONCLUSIVE') THEN
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) IN (
            ('SUBMITTED', 'GATE_RUNNING'), ('SUBMITTED', 'WITHDRAWN'), ('GATE_RUNNING', 'GATE_FAILED'),
            ('GATE_RUNNING', 'INCONCLUSIVE'), ('GATE_RUNNING', 'AWAITING_APPROVAL'), ('GATE_RUNNING', 'WITHDRAWN'),
            ('INCONCLUSIVE', 'GATE_RUNNING'),
            ('INCONCLUSIVE', 'WITHDRAWN'), ('AWAITING_APPROVAL', 'APPROVED'), ('AWAITING_APPROVAL', 'REJECTED'),
            ('AWAITING_APPROVAL', 'EXPIRED'), ('AWAITING_APPROVAL', 'WITHDRAWN'), ('AWAITING_APPROVAL', 'VOIDED'),
            ('APPROVED', 'SERVING'), ('APPROVED', 'VOIDED'), ('APPROVED', 'EXPIRED'), ('SERVING', 'REVERTED'),
            ('SERVING', 'SUPERSEDED'))
        OR (NEW.forced AND NEW.state = 'APPROVED' AND OLD.state IN ('SUBMITTED', 'INCONCLUSIVE', 'GATE_FAILED')) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'no step leads from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
END $body$;
REVOKE ALL ON FUNCTION {schema}.check_proposal_step() FROM PUBLIC;
CREATE TRIGGER check_step BEFORE INSERT OR UPDATE ON {schema}.proposal
    FOR EACH ROW EXECUTE FUNCTION {schema}.check_proposal_step();
CREATE TRIGGER proposal_moved AFTER INSERT OR UPDATE ON {schema}.proposal
    FOR EACH ROW EXECUTE FUNCTION control.proposal_moved();

CREATE TABLE {schema}.proposal_step (
    proposal_id text NOT NULL REFERENCES {schema}.proposal,
    version bigint NOT NULL,
    state text NOT NULL,
    actor text NOT NULL,
    because text NOT NULL,
    step_time timestamptz NOT NULL,
    PRIMARY KEY (proposal_id, version)
);
CREATE TABLE {schema}.proposal_comment (
    comment_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    proposal_id text NOT NULL REFERENCES {schema}.proposal,
    author text NOT NULL,
    comment text NOT NULL CHECK (length(comment) BETWEEN 1 AND 4000),
    create_time timestamptz NOT NULL
);
CREATE INDEX proposal_comment_proposal ON {schema}.proposal_comment (proposal_id);
-- Said before a rejection takes its turn: no approval comes through once it is there.
CREATE TABLE {schema}.proposal_objection (
    proposal_id text PRIMARY KEY REFERENCES {schema}.proposal,
    actor text NOT NULL,
    because text NOT NULL,
    object_time timestamptz NOT NULL
);
-- Scores that a platform's own harness reported, each report whole.
CREATE TABLE {schema}.proposal_evaluation (
    proposal_id text NOT NULL REFERENCES {schema}.proposal,
    scores_hash text NOT NULL,
    scores jsonb NOT NULL,
    actor text NOT NULL,
    report_time timestamptz NOT NULL,
    PRIMARY KEY (proposal_id, scores_hash)
);
CREATE TABLE {schema}.preference (
    preference_key text PRIMARY KEY,
    policy text NOT NULL,
    first_episode_id text NOT NULL,
    second_episode_id text NOT NULL,
    preference text NOT NULL CHECK (preference IN ('FIRST', 'SECOND', 'TIE')),
    actor text NOT NULL,
    record_time timestamptz NOT NULL
);
-- Windows in which nothing starts to serve; an empty policy: none of the tenant's.
CREATE TABLE {schema}.not_now (
    policy text NOT NULL,
    start_time timestamptz NOT NULL,
    end_time timestamptz NOT NULL CHECK (end_time > start_time),
    because text NOT NULL,
    PRIMARY KEY (policy, start_time)
);
-- Version of a policy's holdout in force, as the gate states it; the cases themselves are out of reach here.
CREATE TABLE {schema}.holdout_in_force (
    policy text PRIMARY KEY,
    holdout_version text NOT NULL,
    change_time timestamptz NOT NULL
);
GRANT SELECT, INSERT ON {schema}.proposal, {schema}.proposal_step, {schema}.proposal_comment,
    {schema}.proposal_objection, {schema}.proposal_evaluation, {schema}.preference, {schema}.not_now,
    {schema}.holdout_in_force TO {role};
GRANT UPDATE (state, version, state_because, binding_hash, evaluation_hash, gate_result, approver, approver_issuer,
    approver_subject, approve_because, approve_time, forced, expire_time, update_time, audit_sequence)
    ON {schema}.proposal TO {role};
GRANT UPDATE (holdout_version, change_time) ON {schema}.holdout_in_force TO {role};
GRANT DELETE ON {schema}.not_now TO {role};

-- Who stopped something, so that another person lets it go on.
ALTER TABLE {schema}.mode_change ADD COLUMN actor text NOT NULL DEFAULT '';

-- Ramps: how far traffic was given, one of a policy's floor and one of each arm under a cap. -------------------------------
CREATE TABLE {schema}.ramp (
    policy text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('FLOOR', 'ARM_CAP')),
    arm_id text NOT NULL DEFAULT '',            -- empty for the floor
    state text NOT NULL CHECK (state IN ('RUNNING', 'PAUSED', 'ROLLED_BACK', 'ABORTED', 'COMPLETE')),
    stages jsonb NOT NULL,                      -- value, origin, proposal of each
    at integer NOT NULL CHECK (at >= 0),        -- place of the one in force
    reached integer NOT NULL CHECK (reached >= at),
    stage_time timestamptz NOT NULL,
    why text NOT NULL DEFAULT '',
    PRIMARY KEY (policy, kind, arm_id),
    CHECK ((kind = 'FLOOR') = (arm_id = ''))
);

-- Alarms that tripped. An incident that is not closed keeps every ramp of its policy where it is.
CREATE TABLE {schema}.incident (
    incident_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy text NOT NULL,
    detector text NOT NULL,
    state text NOT NULL CHECK (state IN ('OPEN', 'ACKNOWLEDGED', 'CLOSED')),
    owner text NOT NULL DEFAULT '',
    cause text NOT NULL DEFAULT '',
    statistic double precision NOT NULL,
    evidence text NOT NULL DEFAULT '',
    open_time timestamptz NOT NULL,
    close_time timestamptz,
    CHECK ((state = 'CLOSED') = (close_time IS NOT NULL)),
    CHECK (state <> 'CLOSED' OR cause <> '')
);
CREATE INDEX incident_open ON {schema}.incident (policy) WHERE state <> 'CLOSED';
GRANT SELECT, INSERT ON {schema}.ramp, {schema}.incident TO {role};
GRANT UPDATE (state, stages, at, reached, stage_time, why) ON {schema}.ramp TO {role};
GRANT UPDATE (state, owner, cause, close_time) ON {schema}.incident TO {role};

-- A policy that exists gets no content to serve but what a second person consented to, or what was served before that;
-- whoever writes the row, by whatever door: use case, import, migration or hand.
CREATE FUNCTION {schema}.check_policy_content() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
DECLARE
    fresh jsonb;
BEGIN
    FOR fresh IN
        SELECT jsonb_build_object('dimension', a -> 'dimension', 'name', a -> 'name', 'content', a -> 'content')
        FROM jsonb_array_elements(NEW.spec -> 'arms') a WHERE NOT (a ->> 'retired')::boolean
        EXCEPT
        SELECT jsonb_build_object('dimension', a -> 'dimension', 'name', a -> 'name', 'content', a -> 'content')
        FROM jsonb_array_elements(OLD.spec -> 'arms') a WHERE NOT (a ->> 'retired')::boolean
    LOOP
        IF NOT EXISTS (
            SELECT 1 FROM {schema}.proposal p WHERE p.policy = NEW.policy AND (
                (p.state IN ('APPROVED', 'SERVING') AND p.candidate -> 'arm' @> fresh)
                OR (p.state IN ('SERVING', 'REVERTED') AND p.base -> 'arms' @> jsonb_build_array(fresh)))
        ) THEN
            RAISE EXCEPTION 'arm % of policy % was approved by nobody', fresh ->> 'name', NEW.policy
                USING ERRCODE = 'check_violation', CONSTRAINT = 'approved_content';
        END IF;
    END LOOP;
    RETURN NEW;
END $body$;
REVOKE ALL ON FUNCTION {schema}.check_policy_content() FROM PUBLIC;
CREATE TRIGGER approved_content BEFORE UPDATE OF spec ON {schema}.policy
    FOR EACH ROW WHEN (NEW.spec IS DISTINCT FROM OLD.spec) EXECUTE FUNCTION {schema}.check_policy_content();

-- Webhooks: who is told of which audited verbs, and what became of each telling. ------------------------------------------
CREATE TABLE {schema}.webhook (
    name text PRIMARY KEY,
    url text NOT NULL,
    verbs text[] NOT NULL,                      -- "policy.frozen", "proposal.*" or "*"
    secret text NOT NULL,                       -- shown once, when it is made
    told bigint NOT NULL,                       -- sequence of the newest audit event that was looked at
    create_time timestamptz NOT NULL,
    update_time timestamptz NOT NULL
);
CREATE TABLE {schema}.webhook_delivery (
    delivery_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL REFERENCES {schema}.webhook (name) ON DELETE CASCADE,
    audit_sequence bigint NOT NULL,             -- of the event; 0 for a test
    state text NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts integer NOT NULL DEFAULT 0,
    create_time timestamptz NOT NULL,           -- retries end a day later
    due_time timestamptz,                       -- of the next attempt
    answer text NOT NULL DEFAULT '',            -- to the newest attempt: a status, or why there was none
    answer_time timestamptz,
    CHECK ((state = 'PENDING') = (due_time IS NOT NULL))
);
CREATE UNIQUE INDEX webhook_delivery_event ON {schema}.webhook_delivery (webhook, audit_sequence) WHERE audit_sequence > 0;
CREATE INDEX webhook_delivery_due ON {schema}.webhook_delivery (due_time) WHERE due_time IS NOT NULL;
GRANT SELECT, INSERT ON {schema}.webhook, {schema}.webhook_delivery TO {role};
GRANT UPDATE (url, verbs, secret, told, update_time), DELETE ON {schema}.webhook TO {role};
GRANT UPDATE (state, attempts, create_time, due_time, answer, answer_time) ON {schema}.webhook_delivery TO {role};

-- What watching, experiments and evaluation need of one tenant's record.

-- Divergence: every check with its figures, written by the gate's own login and by nobody else. ----------------------------
CREATE TABLE {schema}.divergence_check (
    check_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy text NOT NULL,
    begin_time timestamptz NOT NULL,
    check_time timestamptz NOT NULL,
    policy_time double precision NOT NULL,      -- at its end, in seconds
    outcome text NOT NULL CHECK (outcome IN ('COMPARED', 'TOO_FEW', 'FAILED')),
    because text NOT NULL,                      -- why it failed, or who asked for it
    actor text NOT NULL,
    reward_lift double precision,
    reward_error double precision,
    learned_episodes integer NOT NULL,
    baseline_episodes integer NOT NULL,
    through bigint NOT NULL,                    -- evidence up to here was compared
    holdout_lift double precision,
    holdout_error double precision,
    spread double precision,                    -- standard deviation of the lift between cases
    holdout_version text NOT NULL,
    pool integer NOT NULL,
    cases integer NOT NULL,
    answers integer NOT NULL,
    cost_usd double precision NOT NULL,
    readings jsonb NOT NULL,                    -- of every detector, with the state that the next check goes on from
    incident_id bigint
);
CREATE INDEX divergence_check_policy ON {schema}.divergence_check (policy, check_id);
GRANT SELECT ON {schema}.divergence_check TO {role};
GRANT USAGE ON SCHEMA {schema} TO kedge_gate;
GRANT INSERT ON {schema}.divergence_check TO kedge_gate;

-- Which policies are checked, when the gate looks at one next, and for how long no check has succeeded.
CREATE TABLE {schema}.divergence_watch (
    policy text PRIMARY KEY,
    watch_time timestamptz NOT NULL,            -- since when there are sensor cases, and somebody who answers them
    due_time timestamptz NOT NULL,              -- of the gate's next look
    asked_by text NOT NULL DEFAULT '',          -- who wants a check at once
    lease_until timestamptz,                    -- while one is made
    blind integer NOT NULL DEFAULT 0 CHECK (blind BETWEEN 0 AND 2) -- 1: the floor is back at its first stage; 2: OBSERVE
);
GRANT SELECT, INSERT ON {schema}.divergence_watch TO {role};
GRANT UPDATE (due_time, asked_by, lease_until, blind) ON {schema}.divergence_watch TO {role};
CREATE TRIGGER divergence_moved AFTER INSERT OR UPDATE OF due_time ON {schema}.divergence_watch
    FOR EACH ROW EXECUTE FUNCTION control.divergence_moved();

-- An incident that froze its policy is acknowledged before anybody lets the policy go on.
ALTER TABLE {schema}.incident ADD COLUMN froze boolean NOT NULL DEFAULT false;

-- What the pairwise judge gave the learned answer, case by case; sorted, so that no place tells which case it was.
ALTER TABLE {schema}.divergence_check ADD COLUMN judged double precision[] NOT NULL DEFAULT '{}';

-- Experiments: what was fixed before the first episode never changes; a report is written once, when one ends. --------------
CREATE TABLE {schema}.experiment (
    experiment_id text PRIMARY KEY,
    policy text NOT NULL,
    unit text NOT NULL CHECK (unit IN ('EPISODE', 'SESSION', 'COHORT')),
    start_time timestamptz NOT NULL,
    end_time timestamptz NOT NULL CHECK (end_time > start_time),
    control_share double precision CHECK (control_share BETWEEN 0.05 AND 0.95),
    primary_metrics text[] NOT NULL,
    guardrail_metrics text[] NOT NULL,
    because text NOT NULL,
    create_time timestamptz NOT NULL CHECK (create_time <= start_time),
    end_because text NOT NULL DEFAULT '',
    ended_time timestamptz,
    report jsonb,
    CHECK ((ended_time IS NULL) = (report IS NULL)),
    CHECK ((unit = 'EPISODE') = (control_share IS NULL))
);
CREATE FUNCTION {schema}.check_experiment_ended() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
BEGIN
    RAISE EXCEPTION 'the report of experiment % is frozen', OLD.experiment_id USING ERRCODE = 'check_violation';
END $body$;
REVOKE ALL ON FUNCTION {schema}.check_experiment_ended() FROM PUBLIC;
CREATE TRIGGER frozen BEFORE UPDATE ON {schema}.experiment
    FOR EACH ROW WHEN (OLD.ended_time IS NOT NULL) EXECUTE FUNCTION {schema}.check_experiment_ended();
GRANT SELECT, INSERT ON {schema}.experiment TO {role};
GRANT UPDATE (end_because, ended_time, report) ON {schema}.experiment TO {role};

-- Detectors that need no holdout: how far each has read in the evidence log, and what it made of it. -------------------------
CREATE TABLE {schema}.detector (
    policy text NOT NULL,
    detector text NOT NULL CHECK (detector IN ('judge_gap', 'answer_length', 'veto_rate')),
    through bigint NOT NULL,
    looks bigint NOT NULL,
    look_time timestamptz NOT NULL,
    usual jsonb NOT NULL,                       -- the baseline's vetoes, fading
    known double precision NOT NULL,            -- what people were told of already
    reading jsonb,                              -- of its last look; none before the first, and after an alarm
    PRIMARY KEY (policy, detector)
);
GRANT SELECT, INSERT, UPDATE ON {schema}.detector TO {role};

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
    spread double precision,                    -- standard deviation of the paired differences
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

-- A row of every table of the first revision, those that only the worker and people write. {schema} is filled in.

INSERT INTO {schema}.policy VALUES ('support', 2, 1, 'APPLY', 1, '{"learner": "beta"}', '2026-03-01Z', '2026-03-02Z');
INSERT INTO {schema}.policy_version VALUES ('support', 1, 1, 'APPLY', 1, '{"learner": "beta"}', '2026-03-01Z');
INSERT INTO {schema}.mode_change (policy, mode, change_time) VALUES (NULL, 'FROZEN', '2026-03-01Z');
INSERT INTO {schema}.arm VALUES ('ab', 'MODEL_ROUTE', 'small', 'small-model', '2026-03-01Z');
INSERT INTO {schema}.quarantine_release (policy, choice, release_time) VALUES ('support', 'KEEP', '2026-03-01Z');
INSERT INTO {schema}.episode VALUES
    ('support', 'e1', now(), 'SETTLED', true, '00000000-0000-7000-8000-000000000001', '{"events": []}', NULL, false, 1, 1),
    ('support', 'e0', '2020-01-01Z', 'PENDING', true, NULL, '{}', '2020-01-02Z', true, 0, 0);
INSERT INTO {schema}.unmatched VALUES ('00000000-0000-7000-8000-000000000009', 'k', '{"value": 1}', 'small', now());
INSERT INTO {schema}.evidence VALUES
    (1, now(), 'support', 'task=math', 'small', 'e1', '00000000-0000-7000-8000-000000000001', 1, 1, now(), 12.5, 1, NULL,
     0.1, false, 1, '{"veto_reasons": []}');
INSERT INTO {schema}.known_change (evidence_sequence, policy, bucket, action, source, policy_time, factor, cause)
VALUES (2, 'support', 'task=math', 'small', 'small', 13.5, 0.4, 'another model');
INSERT INTO {schema}.model_seen (policy, arm_id, model_id) VALUES ('support', 'small', 'm-1');
INSERT INTO {schema}.cell VALUES ('support', 'task=math', 'small', 1, 0.1, 0.01, 12.5);
INSERT INTO {schema}.action_state VALUES ('support', 'small', 1, 0, 12.5, 1, 1, 0.1, false, 0.01);
INSERT INTO {schema}.policy_state VALUES
    ('support', 2, 1, 60, 1, 0, NULL, NULL, '{"count": 1}', NULL, '0', true),
    ('other', 1, 1, 60, 1, 0, now(), 'e7', NULL, 'SELF_CHECK', '01', false);
INSERT INTO {schema}.bucket_state VALUES ('support', 'task=math', 1, now(), 1, 0);
INSERT INTO {schema}.episode_count VALUES ('support', 'SETTLED', 1);
INSERT INTO {schema}.allocation VALUES
    ('support', 1, now(), '', 1, 1, 1, 12.5, 0, 'ab', '{small,large}', 0, 0.8, 0.1, '{1,0.05}', '{0.5,0.5}', '{1,0}',
     '{0.5,0.5}', '{true,true}', true),
    ('support', 2, '2020-01-01Z', 'task=math', 1, 1, 1, 12.5, 1, 'cd', '{small,large}', 0, 0.8, 0.1, NULL, '{0.3,0.7}',
     '{0.9,0.1}', '{0.5,0.6}', '{true,true}', false);
INSERT INTO {schema}.audit_event VALUES (1, now(), 'key:ada', 'policy.created', 's', 'test', 'ab', 'cd', 'ef');
INSERT INTO {schema}.audit_payload VALUES ('ab', '{}');

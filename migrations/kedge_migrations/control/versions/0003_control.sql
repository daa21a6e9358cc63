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

"""Describe the tables of the control schema, which all tenants share."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import big, flag, integer, made_by, raw, real, string, time

SCHEMA = "control"

_metadata = MetaData()

control_tenant = Table(
    "tenant",
    _metadata,
    string("name"),
    string("schema_name"),
    string("role_name"),
    string("dsn"),
    string("revision"),
    flag("store_content"),
    time("create_time"),
    flag("durable"),
    real("decisions_per_second"),
    real("rows_per_second"),
    integer("retention_days"),
    schema=SCHEMA,
)
api_key = Table(
    "api_key",
    _metadata,
    string("key_id"),
    raw("key_hash"),
    string("principal"),
    string("role"),
    string("tenant"),
    time("create_time"),
    time("revoke_time"),
    time("expire_time"),
    string("person_issuer"),
    string("person_subject"),
    *made_by(),
    schema=SCHEMA,
)
identity_binding = Table(
    "identity_binding",
    _metadata,
    string("tenant"),
    string("name"),
    string("role"),
    time("create_time"),
    *made_by(),
    schema=SCHEMA,
)
token_key = Table(
    "token_key",
    _metadata,
    integer("key_id"),
    raw("secret"),
    time("create_time"),
    schema=SCHEMA,
)
global_mode_change = Table(
    "mode_change",
    _metadata,
    big("change_id"),
    string("mode"),
    time("change_time"),
    string("actor"),
    string("because"),
    schema=SCHEMA,
)
serving = Table(
    "serving",
    _metadata,
    string("tenant"),
    string("kind"),
    big("version"),
    time("change_time"),
    schema=SCHEMA,
)
proposal_open = Table(
    "proposal_open",
    _metadata,
    string("tenant"),
    string("proposal_id"),
    string("state"),
    time("expire_time"),
    schema=SCHEMA,
)
divergence_due = Table(
    "divergence_due",
    _metadata,
    string("tenant"),
    string("policy"),
    time("due_time"),
    schema=SCHEMA,
)

"""Describe the tables of a tenant's record, for Core statements; a ledger puts the tenant's schema for `TENANT`."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import big, flag, integer, json, real, string, strings, time, uuid

TENANT = "tenant"
"""Schema token for `schema_translate_map`; no schema of that name exists."""

_metadata = MetaData()

policy = Table(
    "policy",
    _metadata,
    string("policy"),
    big("policy_version"),
    big("configuration_version"),
    string("mode"),
    big("seed_epoch"),
    json("spec"),
    time("create_time"),
    time("update_time"),
    schema=TENANT,
)
policy_version = Table(
    "policy_version",
    _metadata,
    string("policy"),
    big("policy_version"),
    big("configuration_version"),
    string("mode"),
    big("seed_epoch"),
    json("spec"),
    time("change_time"),
    schema=TENANT,
)
mode_change = Table(
    "mode_change",
    _metadata,
    big("change_id"),
    string("policy"),
    string("mode"),
    time("change_time"),
    string("actor"),
    schema=TENANT,
)
arm = Table(
    "arm",
    _metadata,
    string("content_hash"),
    string("dimension"),
    string("name"),
    string("content"),
    time("create_time"),
    schema=TENANT,
)
quarantine_release = Table(
    "quarantine_release",
    _metadata,
    big("release_id"),
    string("policy"),
    string("choice"),
    time("release_time"),
    flag("done"),
    schema=TENANT,
)
idempotency_key = Table(
    "idempotency_key",
    _metadata,
    string("scope"),
    string("key"),
    string("payload_hash"),
    time("seen_time"),
    schema=TENANT,
)
decision_key = Table(
    "decision_key",
    _metadata,
    string("policy"),
    string("episode_id"),
    uuid("decision_id"),
    time("decision_time"),
    schema=TENANT,
)
decision = Table(
    "decision",
    _metadata,
    uuid("decision_id"),
    time("decision_time"),
    string("policy"),
    string("episode_id"),
    string("request_id"),
    json("context"),
    string("bucket"),
    strings("available"),
    string("action"),
    real("propensity"),
    big("policy_version"),
    big("allocation_version"),
    big("seed_epoch"),
    string("mode"),
    string("reason"),
    flag("is_randomised"),
    flag("judge_requested"),
    real("judge_rate"),
    string("shadow_action"),
    flag("superseded"),
    big("x"),
    flag("is_local"),
    string("set_aside"),
    schema=TENANT,
)
episode_event = Table(
    "episode_event",
    _metadata,
    string("key"),
    time("receive_time"),
    string("kind"),
    string("policy"),
    string("episode_id"),
    uuid("decision_id"),
    string("served_action"),
    json("trajectory"),
    string("source"),
    big("x"),
    schema=TENANT,
)
outcome = Table(
    "outcome",
    _metadata,
    string("key"),
    time("receive_time"),
    string("policy"),
    string("episode_id"),
    uuid("decision_id"),
    string("signal"),
    json("payload"),
    string("served_action"),
    big("x"),
    schema=TENANT,
)
ramp = Table(
    "ramp",
    _metadata,
    string("policy"),
    string("kind"),
    string("arm_id"),
    string("state"),
    json("stages"),
    integer("at"),
    integer("reached"),
    time("stage_time"),
    string("why"),
    schema=TENANT,
)
incident = Table(
    "incident",
    _metadata,
    big("incident_id"),
    string("policy"),
    string("detector"),
    string("state"),
    string("owner"),
    string("cause"),
    real("statistic"),
    string("evidence"),
    time("open_time"),
    time("close_time"),
    flag("froze"),
    schema=TENANT,
)
webhook = Table(
    "webhook",
    _metadata,
    string("name"),
    string("url"),
    strings("verbs"),
    string("secret"),
    big("told"),
    time("create_time"),
    time("update_time"),
    schema=TENANT,
)
webhook_delivery = Table(
    "webhook_delivery",
    _metadata,
    big("delivery_id"),
    string("webhook"),
    big("audit_sequence"),
    string("state"),
    integer("attempts"),
    time("create_time"),
    time("due_time"),
    string("answer"),
    time("answer_time"),
    schema=TENANT,
)
audit_event = Table(
    "audit_event",
    _metadata,
    big("audit_sequence"),
    time("event_time"),
    string("actor"),
    string("verb"),
    string("subject"),
    string("because"),
    string("payload_hash"),
    string("previous_hash"),
    string("row_hash"),
    schema=TENANT,
)
audit_payload = Table(
    "audit_payload",
    _metadata,
    string("payload_hash"),
    string("payload"),
    schema=TENANT,
)
audit_head = Table(
    "audit_head",
    _metadata,
    flag("one"),
    big("audit_sequence"),
    string("row_hash"),
    schema=TENANT,
)

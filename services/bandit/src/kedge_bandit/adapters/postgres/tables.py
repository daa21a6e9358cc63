"""Describe the tables that migrations make, for Core statements; a ledger puts the tenant's schema for `TENANT`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

TENANT = "tenant"
"""Schema token for `schema_translate_map`; no schema of that name exists."""

_metadata = MetaData()


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True))


def _text(name: str) -> Column[str]:
    return Column(name, Text)


def _made_by() -> tuple[Column[str], Column[str], Column[bool]]:
    return _text("made_by_issuer"), _text("made_by_subject"), Column("made_by_operator", Boolean)


def _big(name: str) -> Column[int]:
    return Column(name, BigInteger)


def _real(name: str) -> Column[float]:
    return Column(name, Double)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean)


def _json(name: str) -> Column[object]:
    return Column(name, JSONB(none_as_null=True))


def _uuid(name: str) -> Column[object]:
    return Column(name, UUID(as_uuid=False))


def _reals(name: str) -> Column[object]:
    return Column(name, ARRAY(Double))


control_tenant = Table(
    "tenant",
    _metadata,
    _text("name"),
    _text("schema_name"),
    _text("role_name"),
    _text("dsn"),
    _text("revision"),
    _flag("store_content"),
    _time("create_time"),
    _flag("durable"),
    _real("decisions_per_second"),
    _real("rows_per_second"),
    Column("retention_days", Integer),
    schema="control",
)
api_key = Table(
    "api_key",
    _metadata,
    _text("key_id"),
    Column("key_hash", LargeBinary),
    _text("principal"),
    _text("role"),
    _text("tenant"),
    _time("create_time"),
    _time("revoke_time"),
    _time("expire_time"),
    _text("person_issuer"),
    _text("person_subject"),
    *_made_by(),
    schema="control",
)
identity_binding = Table(
    "identity_binding",
    _metadata,
    _text("tenant"),
    _text("name"),
    _text("role"),
    _time("create_time"),
    *_made_by(),
    schema="control",
)
token_key = Table(
    "token_key",
    _metadata,
    Column("key_id", Integer),
    Column("secret", LargeBinary),
    _time("create_time"),
    schema="control",
)
global_mode_change = Table(
    "mode_change",
    _metadata,
    _big("change_id"),
    _text("mode"),
    _time("change_time"),
    _text("actor"),
    _text("because"),
    schema="control",
)
serving = Table(
    "serving",
    _metadata,
    _text("tenant"),
    _text("kind"),
    _big("version"),
    _time("change_time"),
    schema="control",
)

policy = Table(
    "policy",
    _metadata,
    _text("policy"),
    _big("policy_version"),
    _big("configuration_version"),
    _text("mode"),
    _big("seed_epoch"),
    _json("spec"),
    _time("create_time"),
    _time("update_time"),
    schema=TENANT,
)
policy_version = Table(
    "policy_version",
    _metadata,
    _text("policy"),
    _big("policy_version"),
    _big("configuration_version"),
    _text("mode"),
    _big("seed_epoch"),
    _json("spec"),
    _time("change_time"),
    schema=TENANT,
)
mode_change = Table(
    "mode_change",
    _metadata,
    _big("change_id"),
    _text("policy"),
    _text("mode"),
    _time("change_time"),
    _text("actor"),
    schema=TENANT,
)
arm = Table(
    "arm",
    _metadata,
    _text("content_hash"),
    _text("dimension"),
    _text("name"),
    _text("content"),
    _time("create_time"),
    schema=TENANT,
)
quarantine_release = Table(
    "quarantine_release",
    _metadata,
    _big("release_id"),
    _text("policy"),
    _text("choice"),
    _time("release_time"),
    _flag("done"),
    schema=TENANT,
)
idempotency_key = Table(
    "idempotency_key",
    _metadata,
    _text("scope"),
    _text("key"),
    _text("payload_hash"),
    _time("seen_time"),
    schema=TENANT,
)
decision_key = Table(
    "decision_key",
    _metadata,
    _text("policy"),
    _text("episode_id"),
    _uuid("decision_id"),
    _time("decision_time"),
    schema=TENANT,
)
decision = Table(
    "decision",
    _metadata,
    _uuid("decision_id"),
    _time("decision_time"),
    _text("policy"),
    _text("episode_id"),
    _text("request_id"),
    _json("context"),
    _text("bucket"),
    Column("available", ARRAY(Text)),
    _text("action"),
    _real("propensity"),
    _big("policy_version"),
    _big("allocation_version"),
    _big("seed_epoch"),
    _text("mode"),
    _text("reason"),
    _flag("is_randomised"),
    _flag("judge_requested"),
    _real("judge_rate"),
    _text("shadow_action"),
    _flag("superseded"),
    _big("x"),
    _flag("is_local"),
    _text("set_aside"),
    schema=TENANT,
)
episode_event = Table(
    "episode_event",
    _metadata,
    _text("key"),
    _time("receive_time"),
    _text("kind"),
    _text("policy"),
    _text("episode_id"),
    _uuid("decision_id"),
    _text("served_action"),
    _json("trajectory"),
    _text("source"),
    _big("x"),
    schema=TENANT,
)
outcome = Table(
    "outcome",
    _metadata,
    _text("key"),
    _time("receive_time"),
    _text("policy"),
    _text("episode_id"),
    _uuid("decision_id"),
    _text("signal"),
    _json("payload"),
    _text("served_action"),
    _big("x"),
    schema=TENANT,
)
fold_state = Table(
    "fold_state",
    _metadata,
    _flag("one"),
    _big("x"),
    _big("evidence_sequence"),
    _text("system_identifier"),
    _time("counted_before"),
    schema=TENANT,
)
episode = Table(
    "episode",
    _metadata,
    _text("policy"),
    _text("episode_id"),
    _time("open_time"),
    _text("state"),
    _flag("logged"),
    _uuid("decision_id"),
    _json("facts"),
    _time("due_time"),
    _flag("quarantined"),
    _big("reward_version"),
    _big("evidence_sequence"),
    schema=TENANT,
)
unmatched = Table(
    "unmatched",
    _metadata,
    _uuid("decision_id"),
    _text("key"),
    _json("payload"),
    _text("served_action"),
    _time("receive_time"),
    schema=TENANT,
)
evidence = Table(
    "evidence",
    _metadata,
    _big("evidence_sequence"),
    _time("settle_time"),
    _text("policy"),
    _text("bucket"),
    _text("action"),
    _text("episode_id"),
    _uuid("decision_id"),
    _big("reward_version"),
    _big("policy_version"),
    _time("decision_time"),
    _real("policy_time"),
    _real("weight"),
    _text("weight_reason"),
    _real("reward"),
    _flag("vetoed"),
    _real("veto_weight"),
    _json("verdict"),
    schema=TENANT,
)
evidence_snapshot = Table(
    "evidence_snapshot",
    _metadata,
    _text("policy"),
    Column("part", Integer),
    _text("bucket"),
    _text("action"),
    _big("policy_version"),
    _real("policy_time"),
    _real("weight"),
    _real("reward"),
    _flag("vetoed"),
    _real("veto_weight"),
    _real("episodes"),
    _real("reward_sum"),
    schema=TENANT,
)
evidence_seal = Table(
    "evidence_seal",
    _metadata,
    _text("policy"),
    _big("through"),
    _big("log_end"),
    Column("key_id", Integer),
    _text("signature"),
    _time("make_time"),
    schema=TENANT,
)
known_change = Table(
    "known_change",
    _metadata,
    _big("evidence_sequence"),
    _time("change_time"),
    _text("policy"),
    _text("bucket"),
    _text("action"),
    _text("source"),
    _real("policy_time"),
    _real("factor"),
    _text("cause"),
    schema=TENANT,
)
model_seen = Table(
    "model_seen",
    _metadata,
    _text("policy"),
    _text("arm_id"),
    _text("model_id"),
    _time("see_time"),
    schema=TENANT,
)
cell = Table(
    "cell",
    _metadata,
    _text("policy"),
    _text("bucket"),
    _text("action"),
    _real("n"),
    _real("s"),
    _real("s2"),
    _real("as_of"),
    schema=TENANT,
)
action_state = Table(
    "action_state",
    _metadata,
    _text("policy"),
    _text("action"),
    _real("veto_episodes"),
    _real("vetoes"),
    _real("as_of"),
    _big("configuration_version"),
    _big("episodes"),
    _real("reward_sum"),
    _flag("ineligible"),
    _real("over_cap"),
    schema=TENANT,
)
policy_state = Table(
    "policy_state",
    _metadata,
    _text("policy"),
    _big("allocation_version"),
    _big("policy_version"),
    _real("half_life_seconds"),
    _big("settled_version"),
    _big("features_version"),
    _time("resettle_time"),
    _text("resettle_episode"),
    _json("self_check"),
    _text("learning_held"),
    _text("safety_window"),
    _text("closed"),
    _json("usage"),
    _time("capped_until"),
    schema=TENANT,
)
bucket_state = Table(
    "bucket_state",
    _metadata,
    _text("policy"),
    _text("bucket"),
    _big("allocation_version"),
    _time("publish_time"),
    _real("n"),
    _real("fresh"),
    schema=TENANT,
)
episode_count = Table(
    "episode_count",
    _metadata,
    _text("policy"),
    _text("name"),
    _big("count"),
    schema=TENANT,
)
allocation = Table(
    "allocation",
    _metadata,
    _text("policy"),
    _big("allocation_version"),
    _time("publish_time"),
    _text("bucket"),
    _big("policy_version"),
    _big("configuration_version"),
    _big("seed_epoch"),
    _real("as_of"),
    _big("evidence_sequence"),
    _text("evidence_hash"),
    Column("actions", ARRAY(Text)),
    Column("baseline", Integer),
    _real("floor"),
    _real("uniform_slice"),
    _reals("caps"),
    _reals("q"),
    _reals("p"),
    _reals("mean"),
    Column("eligible", ARRAY(Boolean)),
    _text("closed"),
    _big("non_baseline_decisions"),
    _real("non_baseline_cost_usd"),
    schema=TENANT,
)
ramp = Table(
    "ramp",
    _metadata,
    _text("policy"),
    _text("kind"),
    _text("arm_id"),
    _text("state"),
    _json("stages"),
    Column("at", Integer),
    Column("reached", Integer),
    _time("stage_time"),
    _text("why"),
    schema=TENANT,
)
incident = Table(
    "incident",
    _metadata,
    _big("incident_id"),
    _text("policy"),
    _text("detector"),
    _text("state"),
    _text("owner"),
    _text("cause"),
    _real("statistic"),
    _text("evidence"),
    _time("open_time"),
    _time("close_time"),
    schema=TENANT,
)
webhook = Table(
    "webhook",
    _metadata,
    _text("name"),
    _text("url"),
    Column("verbs", ARRAY(Text)),
    _text("secret"),
    _big("told"),
    _time("create_time"),
    _time("update_time"),
    schema=TENANT,
)
webhook_delivery = Table(
    "webhook_delivery",
    _metadata,
    _big("delivery_id"),
    _text("webhook"),
    _big("audit_sequence"),
    _text("state"),
    Column("attempts", Integer),
    _time("create_time"),
    _time("due_time"),
    _text("answer"),
    _time("answer_time"),
    schema=TENANT,
)
audit_event = Table(
    "audit_event",
    _metadata,
    _big("audit_sequence"),
    _time("event_time"),
    _text("actor"),
    _text("verb"),
    _text("subject"),
    _text("because"),
    _text("payload_hash"),
    _text("previous_hash"),
    _text("row_hash"),
    schema=TENANT,
)
audit_payload = Table(
    "audit_payload",
    _metadata,
    _text("payload_hash"),
    _text("payload"),
    schema=TENANT,
)
audit_head = Table(
    "audit_head",
    _metadata,
    _flag("one"),
    _big("audit_sequence"),
    _text("row_hash"),
    schema=TENANT,
)
proposal_open = Table(
    "proposal_open",
    _metadata,
    _text("tenant"),
    _text("proposal_id"),
    _text("policy"),
    _text("state"),
    _time("expire_time"),
    schema="control",
)
proposal = Table(
    "proposal",
    _metadata,
    _text("proposal_id"),
    _text("policy"),
    _text("kind"),
    _json("candidate"),
    _json("base"),
    _text("content_hash"),
    _text("author"),
    _text("author_issuer"),
    _text("author_subject"),
    Column("author_is_operator", Boolean),
    _text("because"),
    _text("lineage"),
    _text("supersedes"),
    _time("create_time"),
    _text("state"),
    _big("version"),
    _text("state_because"),
    _text("binding_hash"),
    _text("evaluation_hash"),
    _json("gate_result"),
    _text("approver"),
    _text("approver_issuer"),
    _text("approver_subject"),
    _text("approve_because"),
    _time("approve_time"),
    _flag("forced"),
    _time("expire_time"),
    _time("update_time"),
    _big("audit_sequence"),
    schema=TENANT,
)
proposal_step = Table(
    "proposal_step",
    _metadata,
    _text("proposal_id"),
    _big("version"),
    _text("state"),
    _text("actor"),
    _text("because"),
    _time("step_time"),
    schema=TENANT,
)
proposal_comment = Table(
    "proposal_comment",
    _metadata,
    _big("comment_id"),
    _text("proposal_id"),
    _text("author"),
    _text("comment"),
    _time("create_time"),
    schema=TENANT,
)
proposal_objection = Table(
    "proposal_objection",
    _metadata,
    _text("proposal_id"),
    _text("actor"),
    _text("because"),
    _time("object_time"),
    schema=TENANT,
)
proposal_evaluation = Table(
    "proposal_evaluation",
    _metadata,
    _text("proposal_id"),
    _text("scores_hash"),
    _json("scores"),
    _text("actor"),
    _time("report_time"),
    schema=TENANT,
)
preference = Table(
    "preference",
    _metadata,
    _text("preference_key"),
    _text("policy"),
    _text("first_episode_id"),
    _text("second_episode_id"),
    _text("preference"),
    _text("actor"),
    _time("record_time"),
    schema=TENANT,
)
not_now = Table(
    "not_now",
    _metadata,
    _text("policy"),
    _time("start_time"),
    _time("end_time"),
    _text("because"),
    schema=TENANT,
)
holdout_in_force = Table(
    "holdout_in_force",
    _metadata,
    _text("policy"),
    _text("holdout_version"),
    _time("change_time"),
    schema=TENANT,
)

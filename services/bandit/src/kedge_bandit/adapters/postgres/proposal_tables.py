"""Describe the tables of a tenant's proposals, and of what people say about them."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import big, flag, json, string, time
from kedge_bandit.adapters.postgres.tables import TENANT

_metadata = MetaData()

proposal = Table(
    "proposal",
    _metadata,
    string("proposal_id"),
    string("policy"),
    string("kind"),
    json("candidate"),
    json("base"),
    string("content_hash"),
    string("author"),
    string("author_issuer"),
    string("author_subject"),
    flag("author_is_operator"),
    string("because"),
    string("lineage"),
    string("supersedes"),
    time("create_time"),
    string("state"),
    big("version"),
    string("state_because"),
    string("binding_hash"),
    string("evaluation_hash"),
    json("gate_result"),
    string("approver"),
    string("approver_issuer"),
    string("approver_subject"),
    string("approve_because"),
    time("approve_time"),
    flag("forced"),
    time("expire_time"),
    time("update_time"),
    big("audit_sequence"),
    schema=TENANT,
)
proposal_step = Table(
    "proposal_step",
    _metadata,
    string("proposal_id"),
    big("version"),
    string("state"),
    string("actor"),
    string("because"),
    time("step_time"),
    schema=TENANT,
)
proposal_comment = Table(
    "proposal_comment",
    _metadata,
    big("comment_id"),
    string("proposal_id"),
    string("author"),
    string("comment"),
    time("create_time"),
    schema=TENANT,
)
proposal_objection = Table(
    "proposal_objection",
    _metadata,
    string("proposal_id"),
    string("actor"),
    string("because"),
    time("object_time"),
    schema=TENANT,
)
proposal_evaluation = Table(
    "proposal_evaluation",
    _metadata,
    string("proposal_id"),
    string("scores_hash"),
    json("scores"),
    string("actor"),
    time("report_time"),
    schema=TENANT,
)
preference = Table(
    "preference",
    _metadata,
    string("preference_key"),
    string("policy"),
    string("first_episode_id"),
    string("second_episode_id"),
    string("preference"),
    string("actor"),
    time("record_time"),
    schema=TENANT,
)
not_now = Table(
    "not_now",
    _metadata,
    string("policy"),
    time("start_time"),
    time("end_time"),
    string("because"),
    schema=TENANT,
)
holdout_in_force = Table(
    "holdout_in_force",
    _metadata,
    string("policy"),
    string("holdout_version"),
    time("change_time"),
    schema=TENANT,
)

"""Describe the tables of what watches a policy: the divergence checks, and when the next one is due."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import big, integer, json, real, reals, string, time
from kedge_bandit.adapters.postgres.tables import TENANT

_metadata = MetaData()

divergence_check = Table(
    "divergence_check",
    _metadata,
    big("check_id"),
    string("policy"),
    time("begin_time"),
    time("check_time"),
    real("policy_time"),
    string("outcome"),
    string("because"),
    string("actor"),
    real("reward_lift"),
    real("reward_error"),
    integer("learned_episodes"),
    integer("baseline_episodes"),
    big("through"),
    real("holdout_lift"),
    real("holdout_error"),
    real("spread"),
    reals("judged"),
    string("holdout_version"),
    integer("pool"),
    integer("cases"),
    integer("answers"),
    real("cost_usd"),
    json("readings"),
    big("incident_id"),
    schema=TENANT,
)
divergence_watch = Table(
    "divergence_watch",
    _metadata,
    string("policy"),
    time("watch_time"),
    time("due_time"),
    string("asked_by"),
    time("lease_until"),
    integer("blind"),
    schema=TENANT,
)

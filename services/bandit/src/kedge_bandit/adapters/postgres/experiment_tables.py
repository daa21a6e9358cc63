"""Describe the table of a tenant's experiments."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import json, real, string, strings, time
from kedge_bandit.adapters.postgres.tables import TENANT

_metadata = MetaData()

experiment = Table(
    "experiment",
    _metadata,
    string("experiment_id"),
    string("policy"),
    string("unit"),
    time("start_time"),
    time("end_time"),
    real("control_share"),
    strings("primary_metrics"),
    strings("guardrail_metrics"),
    string("because"),
    time("create_time"),
    string("end_because"),
    time("ended_time"),
    json("report"),
    schema=TENANT,
)

"""Describe the holdout's tables, which only the gate's login can reach."""

from sqlalchemy import MetaData, Table

from kedge_bandit.adapters.postgres.columns import bigs, flag, integer, json, raw, real, string, time

SCHEMA = "holdout"

_metadata = MetaData()

version = Table(
    "version",
    _metadata,
    string("tenant"),
    string("policy"),
    integer("version_number"),
    string("version"),
    flag("is_rotation"),
    time("create_time"),
    string("actor"),
    string("stale_because"),
    schema=SCHEMA,
)
item = Table(
    "item",
    _metadata,
    string("tenant"),
    string("policy"),
    string("case_hash"),
    string("case_id"),
    string("part"),
    string("kind"),
    flag("adversarial"),
    json("content"),
    bigs("shingles"),
    integer("added_version"),
    integer("removed_version"),
    time("add_time"),
    time("open_time"),
    time("near_time"),
    integer("lift_count"),
    real("lift_total"),
    real("lift_squares"),
    schema=SCHEMA,
)
opening = Table(
    "opening",
    _metadata,
    string("tenant"),
    string("policy"),
    string("actor"),
    time("open_time"),
    schema=SCHEMA,
)
query = Table(
    "query",
    _metadata,
    string("tenant"),
    string("policy"),
    integer("version_number"),
    integer("query"),
    string("proposal"),
    real("alpha"),
    time("open_time"),
    time("lease_until"),
    integer("done"),
    integer("total"),
    time("close_time"),
    string("verdict"),
    real("discordance"),
    schema=SCHEMA,
)
answer = Table(
    "answer",
    _metadata,
    string("tenant"),
    string("policy"),
    integer("version_number"),
    integer("query"),
    string("case_hash"),
    string("side"),
    string("output"),
    real("score"),
    flag("vetoed"),
    real("cost_usd"),
    real("latency_ms"),
    string("model_id"),
    schema=SCHEMA,
)
answerer = Table(
    "answerer",
    _metadata,
    string("tenant"),
    string("policy"),
    string("part"),
    json("settings"),
    string("model_seen"),
    time("change_time"),
    string("set_by"),
    schema=SCHEMA,
)
secret = Table("secret", _metadata, string("tenant"), raw("secret"), schema=SCHEMA)
training_text = Table(
    "training_text",
    _metadata,
    string("tenant"),
    string("policy"),
    string("text_hash"),
    bigs("shingles"),
    schema=SCHEMA,
)

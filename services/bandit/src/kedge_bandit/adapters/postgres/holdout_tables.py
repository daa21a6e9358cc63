"""Describe the holdout's tables, which only the gate's login can reach."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

SCHEMA = "holdout"

_metadata = MetaData()


def _text(name: str) -> Column[str]:
    return Column(name, Text)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer)


def _time(name: str) -> Column[object]:
    return Column(name, DateTime(timezone=True))


version = Table(
    "version",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _integer("version_number"),
    _text("version"),
    Column("is_rotation", Boolean),
    _time("create_time"),
    _text("actor"),
    _text("stale_because"),
    schema=SCHEMA,
)
item = Table(
    "item",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _text("case_hash"),
    _text("case_id"),
    _text("part"),
    _text("kind"),
    Column("adversarial", Boolean),
    Column("content", JSONB),
    Column("shingles", ARRAY(BigInteger)),
    _integer("added_version"),
    _integer("removed_version"),
    _time("add_time"),
    _time("open_time"),
    _time("near_time"),
    schema=SCHEMA,
)
opening = Table(
    "opening",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _text("actor"),
    _time("open_time"),
    schema=SCHEMA,
)
query = Table(
    "query",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _integer("version_number"),
    _integer("query"),
    _text("proposal"),
    Column("alpha", Double),
    _time("open_time"),
    _time("lease_until"),
    _integer("done"),
    _integer("total"),
    _time("close_time"),
    _text("verdict"),
    Column("discordance", Double),
    schema=SCHEMA,
)
answer = Table(
    "answer",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _integer("version_number"),
    _integer("query"),
    _text("case_hash"),
    _text("side"),
    _text("output"),
    Column("score", Double),
    Column("vetoed", Boolean),
    Column("cost_usd", Double),
    Column("latency_ms", Double),
    _text("model_id"),
    schema=SCHEMA,
)
answerer = Table(
    "answerer",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _text("part"),
    Column("settings", JSONB),
    _text("model_seen"),
    _time("change_time"),
    _text("set_by"),
    schema=SCHEMA,
)
secret = Table("secret", _metadata, _text("tenant"), Column("secret", LargeBinary), schema=SCHEMA)
training_text = Table(
    "training_text",
    _metadata,
    _text("tenant"),
    _text("policy"),
    _text("text_hash"),
    Column("shingles", ARRAY(BigInteger)),
    schema=SCHEMA,
)

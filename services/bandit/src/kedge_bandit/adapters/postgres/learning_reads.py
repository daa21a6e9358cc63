"""Hold the statements by which the learn flow reads, built once."""

from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    DateTime,
    Select,
    Table,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import UUID

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.tenant_sql import SCHEMA

GROWTH: Final = 0.02
"""Share by which a bucket's evidence must have grown before it is published again."""

_low, _high = bindparam("low", type_=BigInteger), bindparam("high", type_=BigInteger)
_limit, _now = bindparam("limit", type_=BigInteger), bindparam("now", type_=DateTime(timezone=True))
_policies, _episodes = bindparam("policies", type_=ARRAY(Text)), bindparam("episodes", type_=ARRAY(Text))
_ids = bindparam("ids", type_=ARRAY(UUID(as_uuid=False)))
_sequences = bindparam("sequences", type_=ARRAY(BigInteger))
_policy = bindparam("policy", type_=Text)

_decision, _key, _episode, _entry = (
    tables.decision.c,
    tables.decision_key.c,
    learning_tables.episode.c,
    learning_tables.evidence.c,
)

# Any number of episodes is two parameters, read as rows (policy, episode_id).
_wanted: TableValuedAlias = (
    func.unnest(_policies, _episodes)
    .table_valued(column("policy", Text), column("episode_id", Text))
    .render_derived(name="wanted")
)

CHOSEN_COLUMNS: Final = (
    _decision.decision_id,
    _decision.decision_time,
    _decision.policy,
    _decision.episode_id,
    _decision.bucket,
    _decision.action,
    _decision.policy_version,
    _decision.reason,
    _decision.judge_requested,
    _decision.set_aside,
)


def _fresh(table: Table, *columns: ColumnElement[Any]) -> Select[Any]:
    return select(*columns, table.c.x).where(table.c.x >= _low, table.c.x < _high).order_by(table.c.x).limit(_limit)


FRESH_DECISIONS: Final = _fresh(
    tables.decision,
    *CHOSEN_COLUMNS,
    _decision.available,
    _decision.allocation_version,
    _decision.is_randomised,
    _decision.superseded,
)
FRESH_EVENTS: Final = _fresh(
    tables.episode_event,
    *(c for c in tables.episode_event.c if c.name not in ("source", "x", "decision_id")),
)
FRESH_OUTCOMES: Final = _fresh(
    tables.outcome,
    *(c for c in tables.outcome.c if c.name not in ("signal", "key", "x")),
)

CHOSEN: Final = (
    select(*CHOSEN_COLUMNS)
    .select_from(_wanted)
    .join(tables.decision_key, and_(_key.policy == _wanted.c.policy, _key.episode_id == _wanted.c.episode_id))
    .join(
        tables.decision,
        and_(_decision.decision_id == _key.decision_id, _decision.decision_time == _key.decision_time),
    )
)
FILES: Final = select(learning_tables.episode).join(
    _wanted, and_(_episode.policy == _wanted.c.policy, _episode.episode_id == _wanted.c.episode_id)
)
DUE_FILES: Final = (
    select(learning_tables.episode).where(_episode.due_time <= _now).order_by(_episode.due_time).limit(_limit)
)
QUARANTINED_FILES: Final = (
    select(learning_tables.episode)
    .where(_episode.quarantined, _episode.policy == _policy)
    .order_by(_episode.open_time)
    .limit(_limit)
)
SETTLED_FILES: Final = (
    select(learning_tables.episode)
    .where(
        _episode.policy == _policy,
        _episode.state == func.any(bindparam("states", ["SETTLED", "VETOED", "UNSCORED"], type_=ARRAY(Text))),
        func.row(_episode.open_time, _episode.episode_id)
        > func.row(bindparam("time", type_=DateTime(timezone=True)), bindparam("episode", type_=Text)),
    )
    .order_by(_episode.open_time, _episode.episode_id)
    .limit(_limit)
)
CONTEXTS: Final = select(_decision.decision_id, _decision.context).where(
    _decision.decision_id == func.any(_ids), _decision.context.is_not(None)
)
EPISODES_OF: Final = select(_decision.decision_id, _decision.policy, _decision.episode_id).where(
    _decision.decision_id == func.any(_ids)
)
TAKE_UNMATCHED: Final = (
    delete(learning_tables.unmatched)
    .where(learning_tables.unmatched.c.decision_id == func.any(_ids))
    .returning(*learning_tables.unmatched.c)
)
ENTRIES: Final = select(learning_tables.evidence).where(_entry.evidence_sequence == func.any(_sequences))
LOG: Final = (
    select(
        _entry.evidence_sequence,
        _entry.bucket,
        _entry.action,
        _entry.episode_id,
        _entry.policy_version,
        _entry.policy_time,
        _entry.weight,
        _entry.reward,
        _entry.vetoed,
        _entry.veto_weight,
    )
    .where(
        _entry.policy == _policy,
        _entry.evidence_sequence > bindparam("after", type_=BigInteger),
        _entry.evidence_sequence <= bindparam("upto", type_=BigInteger),
    )
    .order_by(_entry.evidence_sequence)
)

SEAL: Final = select(learning_tables.evidence_seal).where(learning_tables.evidence_seal.c.policy == _policy)
SNAPSHOT: Final = (
    select(learning_tables.evidence_snapshot)
    .where(learning_tables.evidence_snapshot.c.policy == _policy)
    .order_by(learning_tables.evidence_snapshot.c.part)
)

SAMPLE: Final = select(_decision.decision_id).where(_decision.policy == _policy).order_by(func.random()).limit(_limit)
STATES: Final = (
    select(_episode.state, func.count().label("number"))
    .where(_episode.policy == _policy, _episode.logged)
    .group_by(_episode.state)
)
COUNTS: Final = select(
    learning_tables.episode_count.c.name, learning_tables.episode_count.c["count"].label("number")
).where(learning_tables.episode_count.c.policy == _policy)
LOGGED: Final = select(func.count(tables.episode_event.c.episode_id.distinct()).label("number")).where(
    tables.episode_event.c.policy == _policy,
    tables.episode_event.c.kind == "LOG",
    or_(
        tables.episode_event.c.x < select(learning_tables.fold_state.c.x).scalar_subquery(),
        tables.episode_event.c.receive_time <= select(learning_tables.fold_state.c.counted_before).scalar_subquery(),
    ),
)


def learned(table: Table) -> Select[Any]:
    """Read what a table keeps of the policies in the parameter `policies`."""
    return select(table).where(table.c.policy == func.any(_policies))


def heads() -> Select[Any]:
    """Read every policy's version, and whether something other than a raw row asks for a look at it."""
    policy, kept = tables.policy.c, learning_tables.policy_state.c
    bucket, action, release = (
        learning_tables.bucket_state.c,
        learning_tables.action_state.c,
        tables.quarantine_release.c,
    )
    stale = or_(kept.policy.is_(None), kept.policy_version < policy.policy_version, kept.resettle_time.is_not(None))
    reopens = and_(kept.closed == "CAP", func.coalesce(kept.capped_until, func.now()) <= func.clock_timestamp())
    grown = exists().where(bucket.policy == policy.policy, bucket.fresh >= func.greatest(1.0, GROWTH * bucket.n))
    excluded = exists().where(action.policy == policy.policy, action.ineligible)
    released = exists().where(release.policy == policy.policy, ~release.done)
    return select(
        policy.policy, policy.policy_version, or_(stale, reopens, grown, excluded, released).label("wants_attention")
    ).outerjoin_from(tables.policy, learning_tables.policy_state, kept.policy == policy.policy)


HEADS: Final = heads()
CELLS: Final = learned(learning_tables.cell)
ACTIONS: Final = learned(learning_tables.action_state)
BUCKETS: Final = learned(learning_tables.bucket_state)
POLICIES: Final = learned(learning_tables.policy_state)
RELEASES: Final = learned(tables.quarantine_release).order_by(tables.quarantine_release.c.release_id)
CHANGES: Final = learned(learning_tables.known_change).order_by(learning_tables.known_change.c.evidence_sequence)
MODELS: Final = learned(learning_tables.model_seen)


_cluster = func.pg_control_system().table_valued("system_identifier").c.system_identifier
XMIN: Final = cast(cast(func.pg_snapshot_xmin(func.pg_current_snapshot()), Text), BigInteger)
_attention = HEADS.subquery("head")
_releases = select(func.count()).select_from(tables.quarantine_release).scalar_subquery()
POINT: Final = select(
    learning_tables.fold_state.c.x,
    learning_tables.fold_state.c.evidence_sequence,
    learning_tables.fold_state.c.system_identifier,
    learning_tables.fold_state.c.counted_before,
    XMIN.label("high"),
    func.clock_timestamp(type_=DateTime(timezone=True)).label("now"),
    cast(select(_cluster).scalar_subquery(), Text).label("cluster"),
    exists(select(learning_tables.unmatched.c.key)).label("has_unmatched"),
    select(tables.audit_head.c.audit_sequence).scalar_subquery().label("audit_sequence"),
    select(func.json_agg(_attention.table_valued())).scalar_subquery().label("heads"),
    # What the record can be told by, and what the modes can: rows of both other tables are only ever added.
    func.concat_ws(":", literal_column(f"{SCHEMA}.fold_state.xmin"), _releases).label("stamp"),
    select(func.count()).select_from(tables.mode_change).scalar_subquery().label("modes"),
)

"""Write what a pass changed: one statement per table, its rows as one JSON parameter."""

from typing import Final

from sqlalchemy import Table, bindparam, cast, column, func, select
from sqlalchemy import Text as SqlText
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB, Insert
from sqlalchemy.sql.dml import ReturningInsert

from kedge_bandit.adapters.postgres import learning_tables as tables
from kedge_bandit.adapters.postgres.learning_rows import as_json, entry_values, file_values, waiting_values
from kedge_bandit.adapters.postgres.tenant_sql import SCHEMA, Text, text, text_of
from kedge_bandit.application.learned import ActionRecord, BucketRecord, Changes, PolicyRecord
from kedge_bandit.domain.known_change import CellChange
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.published import Allocation

ROWS: Final = "rows"
STAMPS: Final = ("change_time", "see_time")
"""Columns that the database fills in."""


def insert_rows(table: Table) -> Insert:
    """Build an INSERT of the rows in the parameter `rows`."""
    names = [c.name for c in table.columns if c.name not in STAMPS]
    rows = (
        func.jsonb_to_recordset(cast(bindparam(ROWS, type_=SqlText), JSONB))
        .table_valued(*(column(name, table.c[name].type) for name in names))
        .render_derived(name="r", with_types=True)
    )
    return postgresql.insert(table).from_select(names, select(*(rows.c[name] for name in names)))


def upsert_rows(table: Table, *key: str) -> Insert:
    """Build an INSERT of the rows in the parameter `rows` that replaces those of the same key."""
    insert = insert_rows(table)
    others = [c.name for c in table.columns if c.name not in key]
    return insert.on_conflict_do_update(index_elements=key, set_={name: insert.excluded[name] for name in others})


def add_counts() -> ReturningInsert[tuple[str, str, int]]:
    """Build an INSERT of changes of counts that adds them up and answers the sums."""
    insert = insert_rows(tables.episode_count)
    kept = tables.episode_count.c
    added = insert.on_conflict_do_update(
        index_elements=["policy", "name"], set_={"count": kept["count"] + insert.excluded["count"]}
    )
    return added.returning(kept.policy, kept.name, kept["count"].label("total"))


INSERT_UNMATCHED: Final = text_of(insert_rows(tables.unmatched).on_conflict_do_nothing())
INSERT_ENTRIES: Final = text_of(insert_rows(tables.evidence))
INSERT_CHANGES: Final = text_of(insert_rows(tables.known_change))
INSERT_MODELS: Final = text_of(insert_rows(tables.model_seen).on_conflict_do_nothing())
INSERT_ALLOCATIONS: Final = text_of(insert_rows(tables.allocation))
UPSERT_FILES: Final = text_of(upsert_rows(tables.episode, "policy", "episode_id", "open_time"))
UPSERT_CELLS: Final = text_of(upsert_rows(tables.cell, "policy", "bucket", "action"))
UPSERT_ACTIONS: Final = text_of(upsert_rows(tables.action_state, "policy", "action"))
UPSERT_BUCKETS: Final = text_of(upsert_rows(tables.bucket_state, "policy", "bucket"))
UPSERT_POLICIES: Final = text_of(upsert_rows(tables.policy_state, "policy"))
ADD_COUNTS: Final = text_of(add_counts())
RELEASE: Final = text(
    f"UPDATE {SCHEMA}.quarantine_release SET done = true WHERE release_id = ANY (%(ids)s::bigint[])"  # noqa: S608
)
RESTORED: Final = text(
    f"UPDATE {SCHEMA}.fold_state SET counted_before = %(counted_before)s::timestamptz, "  # noqa: S608 - a constant
    "system_identifier = (SELECT system_identifier::text FROM pg_control_system())"
)
MOVE: Final = text(
    f"UPDATE {SCHEMA}.fold_state SET x = %(x)s, evidence_sequence = %(evidence_sequence)s "  # noqa: S608 - a constant
    "RETURNING pg_current_xact_id()::xid::text AS stamp"
)
"""Answers the row's new version, which stamps the record."""


def statements(changes: Changes) -> list[tuple[Text, dict[str, object]]]:
    """Pair each statement that has rows with them; the last one moves the watermark."""
    every: list[tuple[Text, list[dict[str, object]]]] = [
        (INSERT_UNMATCHED, [waiting_values(row) for row in changes.unmatched]),
        (UPSERT_FILES, [file_values(file) for file in changes.files]),
        (INSERT_ENTRIES, [entry_values(entry) for entry in changes.entries]),
        (INSERT_CHANGES, [_change(*change) for change in changes.cell_changes]),
        (INSERT_MODELS, [{"policy": p, "arm_id": arm, "model_id": seen} for p, arm, seen in changes.versions]),
        (UPSERT_CELLS, [_cell(*cell) for cell in changes.cells]),
        (UPSERT_ACTIONS, [_action(*action) for action in changes.actions]),
        (UPSERT_BUCKETS, [_bucket(*bucket) for bucket in changes.buckets]),
        (UPSERT_POLICIES, [_policy(*policy) for policy in changes.policies]),
        (INSERT_ALLOCATIONS, [_allocation(allocation) for allocation in changes.allocations]),
        (ADD_COUNTS, [{"policy": p, "name": n, "count": c} for (p, n), c in changes.counts.items() if c != 0]),
    ]
    made: list[tuple[Text, dict[str, object]]] = [(one, {ROWS: as_json(rows)}) for one, rows in every if rows]
    if changes.released:
        made.append((RELEASE, {"ids": changes.released}))
    moved: dict[str, object] = {"x": changes.high, "evidence_sequence": changes.evidence_sequence}
    if changes.restored_time is not None:
        made.append((RESTORED, {"counted_before": changes.restored_time}))
    return [*made, (MOVE, moved)]


def _cell(policy: str, bucket: str, action: str, evidence: Evidence) -> dict[str, object]:
    return {
        "policy": policy,
        "bucket": bucket,
        "action": action,
        "n": evidence.n,
        "s": evidence.s,
        "s2": evidence.s2,
        "as_of": evidence.as_of,
    }


def _change(policy: str, change: CellChange) -> dict[str, object]:
    return {
        "evidence_sequence": change.sequence,
        "policy": policy,
        "bucket": change.bucket,
        "action": change.action,
        "source": change.source,
        "policy_time": change.policy_time,
        "factor": change.factor,
        "cause": change.cause,
    }


def _action(policy: str, action: str, record: ActionRecord) -> dict[str, object]:
    return {
        "policy": policy,
        "action": action,
        "veto_episodes": record.vetoes.n,
        "vetoes": record.vetoes.s,
        "as_of": record.vetoes.as_of,
        "configuration_version": record.configuration_version,
        "episodes": record.episodes,
        "reward_sum": record.reward_sum,
        "ineligible": record.ineligible,
        "over_cap": record.over_cap,
    }


def _bucket(policy: str, bucket: str, record: BucketRecord) -> dict[str, object]:
    return {
        "policy": policy,
        "bucket": bucket,
        "allocation_version": record.allocation_version,
        "publish_time": record.publish_time,
        "n": record.n,
        "fresh": record.fresh,
    }


def _policy(policy: str, record: PolicyRecord) -> dict[str, object]:
    return {
        "policy": policy,
        "allocation_version": record.allocation_version,
        "policy_version": record.policy_version,
        "half_life_seconds": record.half_life.total_seconds(),
        "settled_version": record.settled_version,
        "features_version": record.features_version,
        "resettle_time": None if record.resettle_after is None else record.resettle_after[0],
        "resettle_episode": None if record.resettle_after is None else record.resettle_after[1],
        "self_check": record.self_check,
        "learning_held": record.learning_held,
        "safety_window": record.safety_window,
        "closed": record.closed,
        "usage": record.usage,
        "capped_until": record.capped_until,
    }


def _allocation(allocation: Allocation) -> dict[str, object]:
    return {
        "policy": allocation.policy,
        "allocation_version": allocation.version,
        "publish_time": allocation.publish_time,
        "bucket": allocation.bucket,
        "policy_version": allocation.policy_version,
        "configuration_version": allocation.configuration_version,
        "seed_epoch": allocation.seed_epoch,
        "as_of": allocation.as_of,
        "evidence_sequence": allocation.evidence_sequence,
        "evidence_hash": allocation.evidence_hash,
        "actions": allocation.actions,
        "baseline": allocation.baseline,
        "floor": allocation.floor,
        "uniform_slice": allocation.uniform_slice,
        "caps": allocation.caps,
        "q": allocation.q,
        "p": allocation.p,
        "mean": allocation.mean,
        "eligible": allocation.eligible,
        "closed": allocation.closed,
        "non_baseline_decisions": allocation.non_baseline_decisions,
        "non_baseline_cost_usd": allocation.non_baseline_cost_usd,
    }

"""Check draws: the worker compares what was drawn with what was published, over every first decision of an episode."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import structlog

from kedge_bandit.application.allocation_memory import AllocationMemory
from kedge_bandit.application.learning_port import DecisionRow, FoldPoint
from kedge_bandit.application.ports import Ledger
from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.eligibility import Wish, choose
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.self_check import Finding, SelfCheck

log = structlog.get_logger(__name__)


def counted(rows: Iterable[DecisionRow], point: FoldPoint) -> dict[PolicyName, list[DecisionRow]]:
    """Pick the randomised first decisions of episodes, by policy; after a restore none is counted a second time.

    A decision that a client made counts like any other, so that a client that picks its episodes to get an action is
    found; one that was set aside does not, because nothing is learned from it.
    """
    by_policy: defaultdict[PolicyName, list[DecisionRow]] = defaultdict(list)
    for row in rows:
        is_sound = row.is_randomised and not row.superseded and row.chosen.set_aside is None
        if is_sound and point.is_new(row.chosen.time):
            by_policy[row.key.policy].append(row)
    return by_policy


async def check_draws(
    check: SelfCheck, rows: Iterable[DecisionRow], ledger: Ledger, memory: AllocationMemory
) -> tuple[SelfCheck, Finding | None]:
    """Add decisions of one policy.

    Returns:
        The check with them, and what it found where it was time to look.
    """
    drawn_rows = list(rows)
    groups: defaultdict[tuple[str, ...], list[tuple[FloatArray | tuple[float, ...], int]]] = defaultdict(list)
    for row, (actions, vector) in zip(drawn_rows, await _vectors(drawn_rows, ledger, memory), strict=True):
        if row.chosen.action not in actions:
            log.error("decision.outside_its_allocation", policy=row.key.policy, decision=row.chosen.decision_id)
            continue
        groups[actions].append((vector, actions.index(row.chosen.action)))
    for actions, drawn in groups.items():
        p = np.array([vector for vector, _ in drawn])
        check = check.add(actions, p, np.array([index for _, index in drawn], dtype=np.int64))
    return check.look() if check.due else (check, None)


async def _vectors(
    rows: Sequence[DecisionRow], ledger: Ledger, memory: AllocationMemory
) -> list[tuple[tuple[str, ...], FloatArray | tuple[float, ...]]]:
    """Give actions and vector of each draw of one policy; those that are not remembered are read in one statement."""
    found = [memory.find(ledger.tenant, row.key.policy, row.allocation_version, row.available) for row in rows]
    unknown = {row.allocation_version for row, known in zip(rows, found, strict=True) if known is None}
    read: dict[int, Allocation] = {}
    if unknown:
        read = {each.version: each for each in await ledger.decisions.published(rows[0].key.policy, unknown)}
        memory.keep(ledger.tenant, read.values())
    return [known or _drawn_from(read[row.allocation_version], row) for row, known in zip(rows, found, strict=True)]


def _drawn_from(allocation: Allocation, row: DecisionRow) -> tuple[tuple[str, ...], tuple[float, ...]]:
    if row.available is None:
        return allocation.actions, allocation.p
    return allocation.actions, choose(allocation, Wish(available=row.available), Mode.APPLY, 0.0).vector

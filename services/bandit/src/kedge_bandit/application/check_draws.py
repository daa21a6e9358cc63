"""Check draws: the worker compares what was drawn with what was published, over every first decision of an episode."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import structlog

from kedge_bandit.application.learning_port import DecisionRow, FoldPoint
from kedge_bandit.application.ports import Ledger
from kedge_bandit.domain.eligibility import Wish, choose
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.self_check import Finding, SelfCheck

MEMORY = 4_096
"""Allocations that a worker remembers over all tenants; they never change once committed."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class AllocationMemory:
    """Remember the allocations that were read or published last."""

    known: OrderedDict[tuple[TenantId, PolicyName, int], Allocation] = field(default_factory=OrderedDict)

    async def get(self, ledger: Ledger, policy: PolicyName, version: int) -> Allocation:
        """Read an allocation, or remember it."""
        found = self.known.get((ledger.tenant, policy, version))
        if found is None:
            found = await ledger.decisions.allocation(policy, version)
            self.keep(ledger.tenant, [found])
        return found

    def keep(self, tenant: TenantId, committed: Iterable[Allocation]) -> None:
        """Remember allocations that are committed."""
        for allocation in committed:
            self.known[tenant, allocation.policy, allocation.version] = allocation
        while len(self.known) > MEMORY:
            self.known.popitem(last=False)


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
    groups: defaultdict[tuple[str, ...], list[tuple[tuple[float, ...], int]]] = defaultdict(list)
    for row in rows:
        allocation = await memory.get(ledger, row.key.policy, row.allocation_version)
        vector = allocation.p
        if row.available is not None:
            vector = choose(allocation, Wish(available=row.available), Mode.APPLY, 0.0).vector
        if row.chosen.action not in allocation.index:
            log.error("decision.outside_its_allocation", policy=row.key.policy, decision=row.chosen.decision_id)
            continue
        groups[allocation.actions].append((vector, allocation.index[row.chosen.action]))
    for actions, drawn in groups.items():
        p = np.array([vector for vector, _ in drawn])
        check = check.add(actions, p, np.array([index for _, index in drawn], dtype=np.int64))
    return check.look() if check.due else (check, None)

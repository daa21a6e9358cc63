"""Remember what the worker keeps of tenants between passes, as long as nobody else can have changed it.

One worker at a time writes a tenant's record, and every pass that writes also moves the row of `fold_state`. That row's
version (PostgreSQL's xmin, the transaction that wrote it) therefore stamps the whole record: the same stamp, the same
record. A worker that takes over a tenant sees another stamp than its own and reads everything anew.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from kedge_bandit.application.learned import LearnedRecord
from kedge_bandit.domain.identifiers import PolicyName, TenantId

MOST_CELLS = 20_000
"""Cells of all remembered records, about 0.4 kB each; beyond that the tenant seen longest ago is read anew."""


@dataclass(slots=True)
class LearnedMemory:
    """Records of tenants, those used last at the end."""

    most_cells: int = MOST_CELLS
    _kept: OrderedDict[TenantId, tuple[str, int, dict[PolicyName, LearnedRecord]]] = field(default_factory=OrderedDict)
    _cells: int = 0

    def take(self, tenant: TenantId, stamp: str) -> dict[PolicyName, LearnedRecord]:
        """Hand out what was kept under this very stamp, and forget it: the pass may change it and fail."""
        found = self._kept.pop(tenant, None)
        if found is None:
            return {}
        self._cells -= found[1]
        return found[2] if found[0] == stamp else {}

    def keep(self, tenant: TenantId, stamp: str, records: dict[PolicyName, LearnedRecord]) -> None:
        """Remember a tenant's records after their transaction has been committed."""
        weight = sum(1 + len(record.cells) for record in records.values())
        self._kept[tenant] = stamp, weight, records
        self._cells += weight
        while self._cells > self.most_cells:
            self._cells -= self._kept.popitem(last=False)[1][1]

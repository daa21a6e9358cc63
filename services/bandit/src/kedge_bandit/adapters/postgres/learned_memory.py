"""Remember what the worker keeps of tenants between passes, as long as nobody else can have changed it.

One worker at a time writes a tenant's record, and every pass that writes also moves the row of `fold_state`. That row's
version (PostgreSQL's xmin, the transaction that wrote it) therefore stamps the whole record: the same stamp, the same
record. A worker that takes over a tenant sees another stamp than its own and reads everything anew.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from kedge_bandit.application.learned import LearnedRecord
from kedge_bandit.domain.identifiers import PolicyName, TenantId

MOST_BYTES = 4 * 2**20
"""Of all remembered records, about; beyond that the tenant seen longest ago is read anew."""
_POLICY_BYTES, _BUCKET_BYTES, _ACTION_BYTES = 4_096, 160, 400
"""Of the objects beside the sums, as tracemalloc finds them."""


@dataclass(slots=True)
class LearnedMemory:
    """Records of tenants, those used last at the end."""

    most_bytes: int = MOST_BYTES
    _kept: OrderedDict[TenantId, tuple[str, int, dict[PolicyName, LearnedRecord]]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def take(self, tenant: TenantId, stamp: str) -> dict[PolicyName, LearnedRecord]:
        """Hand out what was kept under this very stamp, and forget it: the pass may change it and fail."""
        found = self._kept.pop(tenant, None)
        if found is None:
            return {}
        self._bytes -= found[1]
        return found[2] if found[0] == stamp else {}

    def keep(self, tenant: TenantId, stamp: str, records: dict[PolicyName, LearnedRecord]) -> None:
        """Remember a tenant's records after their transaction has been committed."""
        weight = sum(map(size_bytes, records.values()))
        self._kept[tenant] = stamp, weight, records
        self._bytes += weight
        while self._bytes > self.most_bytes:
            self._bytes -= self._kept.popitem(last=False)[1][1]


def size_bytes(record: LearnedRecord) -> int:
    """Say about what a policy's record takes, without names, which are shared."""
    return (
        _POLICY_BYTES
        + record.cells.size_bytes
        + _BUCKET_BYTES * len(record.buckets)
        + _ACTION_BYTES * len(record.actions)
    )

"""Ration: hold every tenant to its quota on this replica, so that a flood of one leaves the others what is theirs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent, RowWriter
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.quota import Quota, QuotaExhausted, TokenBucket

DECISIONS, ROWS = "decisions", "rows"


@dataclass(slots=True)
class Rations:
    """Buckets of the tenants that have a quota.

    Attributes:
        clock: seconds that never go back.
        refused: called with tenant, DECISIONS or ROWS, and how many were over the quota.
    """

    clock: Callable[[], float]
    refused: Callable[[TenantId, str, int], None] = lambda _tenant, _kind, _count: None
    _quotas: Mapping[TenantId, Quota] = field(default_factory=dict)
    _decisions: dict[TenantId, TokenBucket] = field(default_factory=dict)
    _rows: dict[TenantId, TokenBucket] = field(default_factory=dict)

    def replace(self, quotas: Mapping[TenantId, Quota]) -> None:
        """Take over the quotas as they stand; the bucket of an unchanged one keeps its level."""
        if quotas == self._quotas:
            return
        self._quotas = dict(quotas)
        now = self.clock()
        decisions = {tenant: quota.decisions_per_second for tenant, quota in quotas.items()}
        rows = {tenant: quota.rows_per_second for tenant, quota in quotas.items()}
        for buckets, wanted in ((self._decisions, decisions), (self._rows, rows)):
            rates = {tenant: rate for tenant, rate in wanted.items() if rate}
            kept = {tenant: bucket for tenant, bucket in buckets.items() if rates.get(tenant) == bucket.rate}
            buckets.clear()
            buckets.update({tenant: kept.get(tenant) or TokenBucket(rate=r, now=now) for tenant, r in rates.items()})

    def may_decide(self, tenant: TenantId) -> bool:
        """Take one decision out of the tenant's quota; False where it is used up."""
        bucket = self._decisions.get(tenant)
        if bucket is None or not bucket.take(1, now=self.clock()):
            return True
        self.refused(tenant, DECISIONS, 1)
        return False

    def take_rows(self, tenant: TenantId, count: int) -> None:
        """Take rows out of the tenant's quota. Raises QuotaExhausted."""
        bucket = self._rows.get(tenant)
        if bucket is not None and (seconds := bucket.take(count, now=self.clock())):
            self.refused(tenant, ROWS, count)
            raise QuotaExhausted(retry_seconds=seconds)


@dataclass(frozen=True, slots=True)
class RationedRows:
    """Write rows as the writer does, those that callers send against their tenant's quota; raises QuotaExhausted.

    Decisions that this replica makes itself are rationed where they are made.
    """

    writer: RowWriter
    rations: Rations

    def decision(self, decision: Decision) -> None:
        """Hand a decision over."""
        self.writer.decision(decision)

    def first_decision(self, decision: Decision) -> Awaitable[bool]:
        """Write the first decision of an episode."""
        return self.writer.first_decision(decision)

    def decisions(self, tenant: TenantId, decisions: Sequence[Decision]) -> Awaitable[Sequence[str]]:
        """Write reported decisions."""
        self.rations.take_rows(tenant, len(decisions))
        return self.writer.decisions(tenant, decisions)

    def episode_event(self, tenant: TenantId, event: EpisodeEvent) -> Awaitable[str]:
        """Write what was said about an episode."""
        self.rations.take_rows(tenant, 1)
        return self.writer.episode_event(tenant, event)

    def outcomes(self, tenant: TenantId, events: Sequence[OutcomeEvent]) -> Awaitable[Sequence[str]]:
        """Write outcomes."""
        self.rations.take_rows(tenant, len(events))
        return self.writer.outcomes(tenant, events)

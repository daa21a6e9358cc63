"""Retain: let months of raw rows go once they are older than the tenant keeps them, and what they taught stay.

Before a month goes, the evidence that was settled in it is folded into a signed snapshot, in the same transaction. A
rebuild checks the signature and starts from there.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Final, Protocol

from kedge_bandit.application.ports import Clock, Ledger
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import KedgeError, StoreUnavailable
from kedge_bandit.domain.evidence_log import EvidenceLog
from kedge_bandit.domain.evidence_snapshot import Sealed, fold, largest_difference
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import policy_clock
from kedge_bandit.domain.policy import Policy

TOLERANCE: Final = 1e-9
_ATTEMPTS: Final = 5


class SnapshotAltered(KedgeError):
    """Refuse a snapshot whose signature does not fit, or that does not weigh what it stands for; nothing is dropped."""

    reason: ClassVar[str] = "NUMERICAL_FAILURE"


class Seals(Protocol):
    """Signs and checks with the service's token keys."""

    def sign(self, body: bytes) -> tuple[int, str]:
        """Give key id and signature."""

    def holds(self, body: bytes, key_id: int, signature: str) -> bool:
        """Say whether a signature is of this body."""


class Months(Protocol):
    """One tenant's months, open for one transaction."""

    @property
    def ledger(self) -> Ledger:
        """The tenant's record."""

    async def oldest(self) -> date | None:
        """Name the oldest month that is older than the tenant keeps it, by its first day; None where there is none."""

    async def last_settled(self, policy: PolicyName, month: date) -> int:
        """Read the sequence of a policy's last evidence that was settled in a month or before; 0 where none was.

        Raises StoreUnavailable where evidence of a later month has a lower sequence: a clock was turned back.
        """

    async def seal(self, policy: PolicyName, sealed: Sealed) -> None:
        """Put a snapshot in place of a policy's earlier one."""

    async def drop(self, month: date) -> int:
        """Let a month go; rows that went."""


class RetentionStore(Protocol):
    """Opens a tenant's months."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[Months]:
        """Open them. Raises TenantDenied, StoreUnavailable."""


@dataclass(frozen=True, slots=True)
class Retain:
    """Let months go, oldest first."""

    store: RetentionStore
    seals: Seals
    clock: Clock

    async def __call__(self, tenant: TenantId) -> list[tuple[date, int]]:
        """Drop every month that is due, each in a transaction of its own; gives them with the rows that went.

        Raises:
            TenantDenied, StoreUnavailable.
            SnapshotAltered: the earlier snapshot is not what was signed, or the new one would weigh something else.
        """
        gone: list[tuple[date, int]] = []
        while (dropped := await self._until_free(tenant)) is not None:
            gone.append(dropped)
        return gone

    async def _until_free(self, tenant: TenantId) -> tuple[date, int] | None:
        """Try from the start where somebody reads the month: all tenants' learning waits for an open transaction."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._drop_oldest(tenant)
            except StoreUnavailable:
                continue
        return await self._drop_oldest(tenant)

    async def _drop_oldest(self, tenant: TenantId) -> tuple[date, int] | None:
        async with self.store.open(tenant) as months:
            month = await months.oldest()
            if month is None:
                return None
            if await months.ledger.learning.lock(wait=True) is None:
                raise StoreUnavailable("a worker is at this tenant: try again in a moment")
            for policy in await months.ledger.policies.list():
                await self._fold(tenant, months, policy, month)
            facts = {"month": month.isoformat()[:7]}
            change = Change(tenant=tenant, actor=KEDGE, because="older than the tenant keeps it", at=self.clock.now())
            await months.ledger.audit.append(change.event("month.dropped", f"tenants/{tenant}", facts))
            return month, await months.drop(month)

    async def _fold(self, tenant: TenantId, months: Months, policy: Policy, month: date) -> None:
        learning = months.ledger.learning
        earlier = await learning.snapshot(policy.name)
        check_seal(tenant, policy.name, earlier, self.seals)
        through = await months.last_settled(policy.name, month)
        if through <= (0 if earlier is None else earlier.snapshot.through):
            return
        log = await learning.evidence_log(policy.name)
        record = (await learning.learned([policy.name]))[policy.name]
        half_life = record.policy.half_life or policy.spec.half_life
        snapshot = fold(log, through=through, half_life=half_life)
        key_id, signature = self.seals.sign(snapshot.body(tenant, policy.name))
        await months.seal(policy.name, Sealed(snapshot, key_id, signature))
        clock = policy_clock(await months.ledger.policies.mode_changes(policy.name))
        kept = await learning.evidence_log(policy.name)
        _check_weight(policy, log, kept, as_of=clock.at(self.clock.now()), versions=_versions(log))


def check_seal(tenant: TenantId, policy: PolicyName, sealed: Sealed | None, seals: Seals) -> None:
    """Refuse a snapshot that is not what was signed. Raises SnapshotAltered."""
    if sealed is None:
        return
    if not seals.holds(sealed.snapshot.body(tenant, policy), sealed.key_id, sealed.signature):
        raise SnapshotAltered(f"the evidence snapshot of policy {policy!r} was changed: restore it from a backup")


def _versions(log: EvidenceLog) -> Sequence[int]:
    return sorted(set(log.policy_version.tolist()))


def _check_weight(
    policy: Policy, whole: EvidenceLog, kept: EvidenceLog, *, as_of: float, versions: Sequence[int]
) -> None:
    error = largest_difference(whole, kept, as_of=as_of, half_life=policy.spec.half_life, versions=versions)
    if error > TOLERANCE:
        raise SnapshotAltered(f"a snapshot of policy {policy.name!r} would be off by {error:.2g}: nothing was dropped")

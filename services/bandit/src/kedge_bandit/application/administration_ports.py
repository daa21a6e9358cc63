"""What governing and administration need from the outside beyond `ports`: tenants, and reads about a policy."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from kedge_bandit.application.divergence_ports import Divergences
from kedge_bandit.application.ports import AuditLog, Policies
from kedge_bandit.application.ramp_ports import Detectors, Incidents, Ramps
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, ModeChange
from kedge_bandit.domain.quota import Quota
from kedge_bandit.domain.self_check import Finding
from kedge_bandit.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class WriteId:
    """Identifies one write, so that sending it again does nothing again.

    Attributes:
        request_id: made by the caller; empty: every call counts.
        payload_hash: of verb and request.
    """

    request_id: str = ""
    payload_hash: str = ""


LEAST_DAYS: Final = 90
"""Fewest days that raw rows are kept: by then an episode has settled, and no correction of it is taken any more."""
MOST_DAYS: Final = 3650


class Override(Protocol):
    """What restricts this replica from outside the database: environment, file, flag provider."""

    def __call__(self, tenant: TenantId, policy: PolicyName) -> Mode:
        """Read the most restrictive of them for a policy."""

    def levels(self, tenant: TenantId | None, policy: PolicyName | None) -> dict[str, Mode]:
        """Read each by its name: "environment", "file", "flags"."""

    def complaint(self) -> str:
        """Say what is wrong with what one of them says; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class ChainHead:
    """Where the audit chain of a tenant ends: sequence 0 and the genesis hash when it is empty."""

    sequence: int
    row_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionTotals:
    """One action over all buckets, as the worker left it.

    Attributes:
        episodes: settled and vetoed episodes learned from in this configuration, undiscounted.
        reward_sum: their rewards, vetoes counted 0.
        veto_episodes, vetoes: of the veto belief, discounted.
        over_cap: P(veto rate > cap) when last computed, in [0, 1].
    """

    action_key: str
    episodes: int
    reward_sum: float
    veto_episodes: float
    vetoes: float
    over_cap: float
    is_ineligible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSums:
    """Discounted evidence of one bucket and action; the sums hold at policy time `as_of`, in seconds."""

    bucket: str
    action_key: str
    n: float
    s: float
    s2: float
    as_of: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedState:
    """What the worker has learned of one policy.

    Attributes:
        allocation_version, publish_time: of the newest allocation; 0 and None before the first.
        closed: why the baseline alone is published, BUDGET or CAP; None: it is not.
        usage, capped_until: what counts against the caps, and when one that is reached gives way at the soonest.
        learning_held: why learning is held; empty when it is not.
        episode_counts: by episode state, and late, unmatched, no_safety_verdict, ...
        backlog: raw rows that are not folded yet, over all policies of the tenant.
        backlog_age: since the oldest of them came; zero without one.
        decisions_per_second: over the last day, or since the first decision where that is later; 0 where it came within
            the last hour.
        buckets: buckets that have an allocation of their own.
    """

    allocation_version: int
    publish_time: datetime | None
    actions: tuple[ActionTotals, ...]
    cells: tuple[CellSums, ...]
    self_check: Finding | None
    closed: Reason | None
    usage: Usage | None
    capped_until: datetime | None
    learning_held: str
    episode_counts: dict[str, int]
    backlog: int
    backlog_age: timedelta
    decisions_per_second: float
    buckets: int


class AdministeredPolicies(Policies, Protocol):
    """The policies of the open tenant with what changing and watching them needs."""

    async def is_first(self, write: WriteId) -> bool:
        """Remember a write; False when the same one was made before. Raises IdempotencyConflict for another payload."""

    async def learned(self, name: PolicyName, *, with_cells: bool) -> LearnedState:
        """Read what the worker has learned of a policy."""

    async def tenant_mode_changes(self) -> Sequence[ModeChange]:
        """Read every change of the tenant's own mode, oldest first."""


class VerifiedAuditLog(AuditLog, Protocol):
    """The tenant's hash chain with its recorded end, by which a truncation is found."""

    async def head(self) -> ChainHead:
        """Read where the chain ends."""


class HeldLearning(Protocol):
    """Learning as a person may let it go on."""

    async def lock(self, *, wait: bool = False) -> object:
        """Become the one writer until the transaction ends."""

    async def clear_hold(self, policy: PolicyName) -> None:
        """Let learning go on after an alarm of the self-check, which starts anew."""


class GovernedLedger(Protocol):
    """One tenant's record as governing sees it, open for one transaction."""

    @property
    def policies(self) -> AdministeredPolicies:
        """Policies, arms, modes."""

    @property
    def audit(self) -> VerifiedAuditLog:
        """The hash chain."""

    @property
    def learning(self) -> HeldLearning:
        """The worker's record."""

    @property
    def ramps(self) -> Ramps:
        """How far traffic was given."""

    @property
    def detectors(self) -> Detectors:
        """Alarms that need no holdout."""

    @property
    def incidents(self) -> Incidents:
        """Alarms that tripped."""

    @property
    def divergence(self) -> Divergences:
        """Divergence checks."""


class GovernedLedgers(Protocol):
    """Opens ledgers for governing."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[GovernedLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """What a tenant may choose.

    Attributes:
        store_content: redacted content of episodes is kept.
        durable: a decision is committed before it is answered.
        decisions_per_second, rows_per_second: its quota on each replica; 0 is none.
        retention_days: how long raw rows are kept, 90 to 3,650 days; 0: for ever.
    """

    store_content: bool = False
    durable: bool = False
    decisions_per_second: float = 0.0
    rows_per_second: float = 0.0
    retention_days: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no rate, and what would drop rows that still change. Raises InvalidValue."""
        Quota(self.decisions_per_second, self.rows_per_second)
        if self.retention_days and not LEAST_DAYS <= self.retention_days <= MOST_DAYS:
            raise InvalidValue(
                "retention_days", str(self.retention_days), f"0 (for ever), or {LEAST_DAYS} to {MOST_DAYS}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """Which of a tenant's settings become what; None: as it is."""

    store_content: bool | None = None
    durable: bool | None = None
    decisions_per_second: float | None = None
    rows_per_second: float | None = None
    retention_days: int | None = None

    @property
    def is_of_quota(self) -> bool:
        """Whether it sets a quota, which protects others."""
        return self.decisions_per_second is not None or self.rows_per_second is not None

    def of(self, settings: TenantSettings) -> TenantSettings:
        """Give the settings with the change made. Raises InvalidValue.

        >>> changed = SettingsChange(durable=True).of(TenantSettings(retention_days=90))
        >>> changed.durable, changed.retention_days
        (True, 90)
        """
        return replace(settings, **{name: value for name, value in asdict(self).items() if value is not None})


@dataclass(frozen=True, slots=True)
class Tenant:
    """An isolated owner of policies and episodes."""

    name: TenantId
    settings: TenantSettings
    create_time: datetime


class TenantRegistry(Protocol):
    """What belongs to no tenant: the list of tenants, and the mode of everything."""

    async def onboard(self, settings: TenantSettings, change: Change, write: WriteId) -> Tenant:
        """Make the change's tenant with its schema and role, and its first audit event. Raises TenantExists."""

    async def update(self, changed: SettingsChange, change: Change, write: WriteId) -> Tenant:
        """Change settings of the change's tenant, audited; NOTIFY at commit. Raises TenantDenied, InvalidValue."""

    async def list(self, *, after: str, limit: int) -> Sequence[Tenant]:
        """Read tenants by name, those after a name."""

    async def global_mode_changes(self) -> Sequence[ModeChange]:
        """Read every change of the mode of everything, oldest first."""

    async def put_global_mode(self, mode: Mode, event: AuditEvent) -> None:
        """Change the mode of everything, with who, why and when; NOTIFY at commit."""

"""Publish: what a policy has learned becomes the probability of every action, checked before anybody draws from it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.domain.allocation import allocate, baseline_only
from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.audit import KEDGE, AuditEvent
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.learners.learner import EvidenceTable, Learner, believe
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import COLD, Allocation

GROWTH = 0.02
"""Share by which a bucket's evidence must have grown before it is published again."""
SHORTEST_INTERVAL = timedelta(seconds=1)
"""Least time between two allocations of a bucket that only evidence asks for."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Published:
    """What publishing came to."""

    allocations: list[Allocation] = field(default_factory=list)
    events: list[AuditEvent] = field(default_factory=list)
    failures: int = 0


def publish(
    tenant: TenantId, fold: PolicyFold, learners: Mapping[str, Learner], *, now: datetime, evidence_sequence: int
) -> Published:
    """Renew what has to be renewed.

    A change of configuration, of an action's eligibility or of the budget renews every bucket at once. Evidence renews
    a bucket when it grew by 2 %, at least one row, and a second has passed. Frozen or bypassed nothing is renewed.
    While learning is held, evidence renews nothing; a person's change, an exclusion and a closing still do. While
    episodes are settled anew, the old allocations serve until that is done; a cap closes them even then.
    """
    done = Published()
    record, closed = fold.record.policy, fold.closed(now)
    closes = closed is not None and record.closed is None
    if fold.mode.stops_time or fold.is_put_off or (fold.is_resettling and not (closes and closed is Reason.CAP)):
        return done
    as_of = fold.clock.at(now)
    subject = f"tenants/{tenant}/policies/{fold.policy.name}"
    done.events = [
        _event(subject, now, key, over_cap=over, is_eligible=is_eligible)
        for key, is_eligible, over in fold.update_eligibility(as_of)
    ]
    is_new = record.policy_version < fold.policy.version
    if record.closed and not closed and not (is_new or done.events or _may_renew(fold, COLD, now)):
        return done  # closing is at once, opening waits its turn; till then what was published stands
    everything = is_new or bool(done.events) or closed is not record.closed
    wanted = _buckets(fold) if everything else _grown(fold, now)
    if not wanted or (record.learning_held is not None and not (is_new or closes or done.events)):
        return done
    learner = learners.get(fold.policy.spec.learner_in_force)
    if learner is None:
        done.failures += 1
        log.error("allocation.refused", policy=fold.policy.name, reason="LEARNER_NOT_REGISTERED")
        return done
    buckets, table = fold.table(as_of)
    digest = evidence_hash(buckets, table, fold.policy.spec.action_keys, as_of)
    _make(_Making(fold, learner, buckets, table, digest, as_of, now, evidence_sequence, closed), wanted, done)
    if not done.failures:
        record.policy_version = record.policy_version if fold.is_resettling else fold.policy.version
        _note_closed(fold, closed)
    fold.is_touched = True
    return done


def _note_closed(fold: PolicyFold, closed: Reason | None) -> None:
    record = fold.record.policy
    if closed is not record.closed:
        log.info("exploration.closed" if closed else "exploration.opened", policy=fold.policy.name, reason=closed)
    record.closed = closed


def _make(making: "_Making", wanted: Iterable[str], done: Published) -> None:
    """Make the allocations of the wanted buckets; one that fails its checks leaves the old one standing."""
    record = making.fold.record.policy
    for bucket in wanted:
        try:
            allocation = making.allocation(bucket, record.allocation_version + 1)
        except KedgeError as error:
            done.failures += 1
            log.error("allocation.refused", policy=making.fold.policy.name, bucket=bucket, reason=error.reason)
            continue
        record.allocation_version += 1
        done.allocations.append(allocation)
        making.note(bucket, allocation)


def _buckets(fold: PolicyFold) -> list[str]:
    """Name every bucket that has evidence or an allocation, the cold one first."""
    return sorted({COLD, *fold.record.buckets, *fold.record.cells.buckets})


def _may_renew(fold: PolicyFold, bucket: str, now: datetime) -> bool:
    published = fold.bucket(bucket).publish_time
    return published is None or now - published >= SHORTEST_INTERVAL


def _grown(fold: PolicyFold, now: datetime) -> list[str]:
    return sorted(
        name
        for name, bucket in fold.record.buckets.items()
        if bucket.fresh >= max(1.0, GROWTH * bucket.n) and _may_renew(fold, name, now)
    )


@dataclass(slots=True)
class _Making:
    """Everything that the allocations of one policy at one moment have in common."""

    fold: PolicyFold
    learner: Learner
    buckets: tuple[str, ...]
    table: EvidenceTable
    digest: str
    as_of: float
    now: datetime
    evidence_sequence: int
    closed: Reason | None

    def allocation(self, bucket: str, version: int) -> Allocation:
        """Make one allocation. Raises NumericalFailure; nothing is published then."""
        policy = self.fold.policy
        spec, exploration = policy.spec, policy.spec.exploration
        eligible, usage = self.fold.eligible, self.fold.usage(self.now)
        place = self.buckets.index(bucket) if bucket in self.buckets else None
        belief = believe(
            self.learner,
            self.table,
            bucket=place,
            eligible=eligible,
            strength=spec.prior_strength,
            seed=seed_of(policy.name, bucket, version),
        )
        p = vector(belief.q, policy, eligible, is_closed=self.closed is not None)
        return Allocation(
            policy=policy.name,
            bucket=bucket,
            version=version,
            policy_version=policy.version,
            configuration_version=policy.configuration_version,
            seed_epoch=policy.seed_epoch,
            as_of=self.as_of,
            evidence_sequence=self.evidence_sequence,
            evidence_hash=self.digest,
            actions=spec.action_keys,
            baseline=spec.baseline_index,
            floor=exploration.floor,
            uniform_slice=exploration.uniform_slice,
            caps=spec.action_caps,
            q=tuple(belief.q.tolist()),
            p=p,
            mean=tuple(belief.mean.tolist()),
            eligible=tuple(eligible.tolist()),
            closed=self.closed,
            non_baseline_decisions=0 if usage is None else usage.decided,
            non_baseline_cost_usd=0.0 if usage is None else usage.cost_usd,
            publish_time=self.now,
        )

    def note(self, bucket: str, allocation: Allocation) -> None:
        """Keep when a bucket was published, and from how much evidence."""
        record = self.fold.bucket(bucket)
        rows = self.table.n if bucket == COLD else self.table.n[[i for i, b in enumerate(self.buckets) if b == bucket]]
        record.allocation_version, record.publish_time = allocation.version, allocation.publish_time
        record.n, record.fresh = float(rows.sum()), 0.0
        self.fold.touched_buckets.add(bucket)


def vector(q: FloatArray, policy: Policy, eligible: BoolArray, *, is_closed: bool) -> tuple[float, ...]:
    """Turn P(best) into what is published: the baseline alone where exploring is closed.

    Raises:
        NumericalFailure: it would be no simplex.
    """
    spec = policy.spec
    if is_closed:
        return tuple(baseline_only(len(spec.action_keys), spec.baseline_index).tolist())
    p = allocate(
        q,
        subset=eligible,
        baseline=spec.baseline_index,
        floor=spec.exploration.floor,
        uniform_slice=spec.exploration.uniform_slice,
        caps=spec.action_caps,
    )
    return tuple(p.tolist())


def evidence_hash(buckets: tuple[str, ...], table: EvidenceTable, actions: tuple[str, ...], as_of: float) -> str:
    """Hash the sums that an allocation was made from: SHA-256 over their exact values, in hex."""
    sums = [[value.hex() for value in part.ravel().tolist()] for part in (table.n, table.s, table.s2)]
    text = json.dumps([as_of.hex(), buckets, actions, sums], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def seed_of(policy: str, bucket: str, version: int) -> int:
    """Give the seed of learners that integrate by drawing: 63 bits of a hash."""
    digest = hashlib.sha256("\0".join(("kedge.learner.v1", policy, bucket, str(version))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _event(subject: str, now: datetime, action: str, *, is_eligible: bool, over_cap: float) -> AuditEvent:
    verb, why = ("arm.readmitted", "fell under .9") if is_eligible else ("arm.excluded", "rose above .99")
    return AuditEvent(
        time=now,
        actor=KEDGE,
        verb=verb,
        subject=subject,
        because=f"the probability that its veto rate is over the cap {why}",
        payload={"action": action, "over_cap": over_cap},
    )

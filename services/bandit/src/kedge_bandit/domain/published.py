"""A published allocation: the one place from which an action is drawn, complete enough to be replayed by itself."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName

COLD = ""
"""Bucket name under which the vector of buckets without an allocation of their own is published."""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Probability of every action of one bucket, as published.

    All tuples run over `actions`, in canonical order.

    Attributes:
        bucket: its name; `COLD` for buckets that have no allocation yet.
        version: `allocation_version`, increasing per policy.
        policy_version: configuration, stage and mode it was made for.
        as_of: policy time in seconds at which the belief was read.
        evidence_sequence: the evidence log up to here went in.
        evidence_hash: of the folded sums, so that a replay sees at once where it departs.
        baseline: place of the baseline.
        floor, uniform_slice, caps: φ, e and caps that `p` was made with; narrowing uses them again.
        q: P(best); 0 where not eligible.
        p: published probability; sums to 1 within 1e-9.
        mean: posterior means.
        closed: why p is the baseline alone, BUDGET or CAP; None: it is open.
        non_baseline_decisions: of the last hour, as the cap on them saw it; 0 without caps.
        non_baseline_cost_usd: of the last day, likewise.
    """

    policy: PolicyName
    bucket: str
    version: int
    policy_version: int
    configuration_version: int
    seed_epoch: int
    as_of: float
    evidence_sequence: int
    evidence_hash: str
    actions: tuple[str, ...]
    baseline: int
    floor: float
    uniform_slice: float
    caps: tuple[float, ...] | None
    q: tuple[float, ...]
    p: tuple[float, ...]
    mean: tuple[float, ...]
    eligible: tuple[bool, ...]
    closed: Reason | None
    non_baseline_decisions: int = 0
    non_baseline_cost_usd: float = 0.0
    publish_time: datetime

    @cached_property
    def cumulative(self) -> tuple[float, ...]:
        """Running sums of p, left to right in float64."""
        return tuple(accumulate(self.p))

    @cached_property
    def last_possible(self) -> int:
        """Last action with p > 0: it takes a draw above every sum."""
        return max(i for i, p in enumerate(self.p) if p > 0)

    @cached_property
    def index(self) -> dict[str, int]:
        """Place of each action key."""
        return {key: i for i, key in enumerate(self.actions)}

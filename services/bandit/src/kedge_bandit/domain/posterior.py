"""Fold the evidence log into discounted sums, in whatever order rows arrive.

For one cell (policy, bucket, action) at policy time `as_of`, with half-life H:

    N = Σ w·2^(−age/H)    S = Σ w·2^(−age/H)·r    S2 = Σ w·2^(−age/H)·r²    age = as_of − time of the decision

`Evidence` is those three sums with the policy time they hold at. It adds up (`plus`), takes back a replaced row
(`minus`) and ages (`at`); a state kept that way equals a fresh `fold` of the log to 1e-9 relative to max(1, N).
A known change multiplies the weight of every row whose decision is older than it, early or late, by its factor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import exp2, fsum, isfinite, prod
from typing import NamedTuple

from kedge_bandit.domain.errors import EvidenceContradicts, InvalidValue

LARGEST_GROWTH = 500.0
"""Most half-lives a weight may grow by when read before its decision; 2^500 keeps every sum finite."""


def discount(age: float, half_life: timedelta) -> float:
    """Give 2^(−age/H); 0 for ages beyond about 1,074 half-lives, at most 2^500 for decisions later than the reading.

    Args:
        age: seconds of policy time, negative when the decision is later than the reading.
        half_life: H, positive.

    >>> discount(0.0, timedelta(days=14)), discount(86400.0, timedelta(days=1)), discount(1e12, timedelta(seconds=1))
    (1.0, 0.5, 0.0)
    """
    return exp2(min(-age / half_life.total_seconds(), LARGEST_GROWTH))


class Cell(NamedTuple):
    """Name what shares one belief: an action within a bucket of a policy."""

    policy: str
    bucket: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """Hold what one settled episode says; a correction is a row of the same episode with a higher reward version.

    Attributes:
        policy_time: seconds of policy time at the decision.
        weight: evidence weight, 0 (stored, not learned from) or 1.
        reward: in [0, 1]; 0 if vetoed.
        vetoed: whether a hard rule was broken.
        veto_weight: 1 if the episode counts for the veto belief, else 0.
    """

    policy: str
    bucket: str
    action: str
    episode_id: str
    reward_version: int
    policy_time: float
    weight: float
    reward: float
    vetoed: bool = False
    veto_weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a row that would poison a sum."""
        if not 0.0 <= self.reward <= 1.0:
            raise InvalidValue("reward of an evidence row", repr(self.reward), "a number in [0, 1]")
        if not (0.0 <= self.weight <= 1.0 and 0.0 <= self.veto_weight <= 1.0):
            raise InvalidValue(
                "weight of an evidence row", f"{self.weight!r}, {self.veto_weight!r}", "numbers in [0, 1]"
            )
        if not isfinite(self.policy_time):
            raise InvalidValue("policy time of an evidence row", repr(self.policy_time), "finite seconds")

    @property
    def cell(self) -> Cell:
        """What the row is evidence about."""
        return Cell(self.policy, self.bucket, self.action)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownChange:
    """Hold an event that made older evidence of a cell worth less: a provider changed a model, a judge was replaced.

    Attributes:
        policy_time: seconds of policy time of the event.
        factor: stored f in [0, 1], applied to rows whose decision is older.
    """

    cell: Cell
    policy_time: float
    factor: float

    def __post_init__(self) -> None:
        """Refuse a factor that would add evidence nobody saw."""
        if not (0.0 <= self.factor <= 1.0 and isfinite(self.policy_time)):
            raise InvalidValue("factor of a known change", repr(self.factor), "a number in [0, 1] at a finite time")


class Evidence(NamedTuple):
    """Hold discounted sums of one cell: weight n, rewards s, squared rewards s2, with 0 ≤ s2 ≤ s ≤ n.

    A named tuple because one is made for every row learned, in less than half the time of a frozen dataclass.

    Attributes:
        as_of: seconds of policy time at which the sums hold.
    """

    n: float
    s: float
    s2: float
    as_of: float

    @classmethod
    def none(cls, as_of: float) -> "Evidence":
        """Start a cell that has seen nothing."""
        return cls(0.0, 0.0, 0.0, as_of)

    @classmethod
    def of(cls, reward: float, weight: float, policy_time: float) -> "Evidence":
        """Take one row at the time of its decision; multiply `weight` by `change_factor` where a change is known."""
        return cls(weight, weight * reward, weight * reward * reward, policy_time)

    def at(self, as_of: float, half_life: timedelta) -> "Evidence":
        """Read the same evidence at another policy time.

        >>> Evidence.of(0.5, 1.0, 0.0).at(60.0, timedelta(seconds=60))
        Evidence(n=0.5, s=0.25, s2=0.125, as_of=60.0)
        """
        if as_of == self.as_of:
            return self
        by = discount(as_of - self.as_of, half_life)
        return Evidence(self.n * by, self.s * by, self.s2 * by, as_of)

    def plus(self, other: "Evidence", half_life: timedelta) -> "Evidence":
        """Add evidence of the same cell, at the later of the two times, so that no weight ever grows."""
        late, early = (self, other) if self.as_of >= other.as_of else (other, self)
        by = discount(late.as_of - early.as_of, half_life)
        return Evidence(late.n + early.n * by, late.s + early.s * by, late.s2 + early.s2 * by, late.as_of)

    def minus(self, other: "Evidence", half_life: timedelta) -> "Evidence":
        """Take back what `plus` added, e.g. a row that a correction replaces; rounding never leaves a negative sum."""
        as_of = max(self.as_of, other.as_of)
        one, two = self.at(as_of, half_life), other.at(as_of, half_life)
        n = max(0.0, one.n - two.n)
        s = min(max(0.0, one.s - two.s), n)
        return Evidence(n, s, min(max(0.0, one.s2 - two.s2), s), as_of)

    def scaled(self, factor: float) -> "Evidence":
        """Apply a known change to sums that hold no decision later than it; where they might, fold again."""
        return Evidence(self.n * factor, self.s * factor, self.s2 * factor, self.as_of)


def change_factor(changes: Iterable[KnownChange], cell: Cell, policy_time: float) -> float:
    """Multiply the factors of the changes of a cell that came after a decision.

    >>> cell = Cell("support", "short", "a")
    >>> change_factor([KnownChange(cell=cell, policy_time=10.0, factor=0.25)], cell, 9.0)
    0.25
    """
    return prod(sorted(c.factor for c in changes if c.cell == cell and policy_time < c.policy_time))


def newest_rows(rows: Iterable[EvidenceRow]) -> list[EvidenceRow]:
    """Keep, of each (policy, episode), the row with the highest reward version; duplicates do nothing.

    Raises:
        EvidenceContradicts: two different rows claim the same version.
    """
    said: dict[tuple[str, str, int], EvidenceRow] = {}
    newest: dict[tuple[str, str], EvidenceRow] = {}
    for row in rows:
        if said.setdefault((row.policy, row.episode_id, row.reward_version), row) != row:
            raise EvidenceContradicts(policy=row.policy, episode_id=row.episode_id, reward_version=row.reward_version)
        if row.reward_version >= newest.setdefault((row.policy, row.episode_id), row).reward_version:
            newest[row.policy, row.episode_id] = row
    return list(newest.values())


def fold(
    rows: Iterable[EvidenceRow], *, as_of: float, half_life: timedelta, changes: Sequence[KnownChange] = ()
) -> dict[Cell, Evidence]:
    """Compute the evidence of every cell from its log, exactly: any permutation or duplication gives the same bits.

    Args:
        rows: the log, in any order.
        as_of: seconds of policy time to read at.
        half_life: H.
        changes: known changes of any cells.

    Returns:
        Evidence by cell, for cells with at least one row.

    Raises:
        EvidenceContradicts: two different rows claim the same version of one episode.
    """
    known = _by_cell(changes)
    terms: dict[Cell, list[tuple[float, float]]] = {}
    for row in newest_rows(rows):
        by = row.weight * discount(as_of - row.policy_time, half_life)
        by *= change_factor(known.get(row.cell, ()), row.cell, row.policy_time)
        terms.setdefault(row.cell, []).append((by, row.reward))
    return {
        cell: Evidence(fsum(w for w, _ in seen), fsum(w * r for w, r in seen), fsum(w * r * r for w, r in seen), as_of)
        for cell, seen in terms.items()
    }


def fold_vetoes(
    rows: Iterable[EvidenceRow], *, as_of: float, half_life: timedelta, changes: Sequence[KnownChange] = ()
) -> dict[tuple[str, str], Evidence]:
    """Compute the veto belief's sums of every (policy, action), pooled over buckets and discounted like evidence.

    Returns:
        Evidence whose n is the discounted number of episodes and whose s is that of vetoes.

    Raises:
        EvidenceContradicts: two different rows claim the same version of one episode.
    """
    known = _by_cell(changes)
    terms: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for row in newest_rows(rows):
        by = row.veto_weight * discount(as_of - row.policy_time, half_life)
        by *= change_factor(known.get(row.cell, ()), row.cell, row.policy_time)
        terms.setdefault((row.policy, row.action), []).append((by, row.vetoed))
    return {
        key: Evidence(fsum(w for w, _ in seen), (vetoes := fsum(w for w, vetoed in seen if vetoed)), vetoes, as_of)
        for key, seen in terms.items()
    }


def _by_cell(changes: Iterable[KnownChange]) -> dict[Cell, list[KnownChange]]:
    grouped: dict[Cell, list[KnownChange]] = {}
    for change in changes:
        grouped.setdefault(change.cell, []).append(change)
    return grouped

"""Say how much one tenant may take of a replica: a bucket of tokens that fills at a rate, up to a second's worth."""

from dataclasses import dataclass
from typing import ClassVar, Final

from kedge_bandit.domain.errors import InvalidValue, KedgeError

MAX_RATE: Final = 1_000_000.0
"""Largest rate, per second."""
MIN_RATE: Final = 0.01
"""Smallest rate that is one, per second: slower than that is a tenant that should be frozen or erased."""
BURST_SECONDS: Final = 1.0
"""How long a tenant that was quiet may save up."""


class QuotaExhausted(KedgeError):
    """Push back: the tenant writes more rows than it may; the same request may be sent again after the delay."""

    reason: ClassVar[str] = "QUOTA_EXHAUSTED"

    def __init__(self, *, retry_seconds: float) -> None:
        super().__init__(
            f"the tenant's quota of rows is used up: send the same request again in {retry_seconds:.3g} s."
        )
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, slots=True)
class Quota:
    """What a tenant may do on one replica; 0 is no limit.

    Attributes:
        decisions_per_second: answers of Decide and BestAction that are drawn; beyond it the baseline is answered.
        rows_per_second: logs, outcomes, reports, activations; beyond it they are refused.
    """

    decisions_per_second: float = 0.0
    rows_per_second: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no rate."""
        for name in ("decisions_per_second", "rows_per_second"):
            rate = getattr(self, name)
            if rate and not MIN_RATE <= rate <= MAX_RATE:  # nan is refused, too
                raise InvalidValue(name, f"{rate:g}", f"0 (no limit), or {MIN_RATE:g} to {MAX_RATE:g}")


@dataclass(slots=True)
class TokenBucket:
    """Admit at a rate over time, with a burst of a second's worth, at least one.

    >>> bucket = TokenBucket(rate=2.0, now=0.0)
    >>> [bucket.take(1, now=0.0) for _ in range(3)]
    [0.0, 0.0, 0.5]
    >>> bucket.take(1, now=0.5)
    0.0
    """

    rate: float
    level: float
    as_of: float

    def __init__(self, *, rate: float, now: float) -> None:
        self.rate = rate
        self.level = self.burst
        self.as_of = now

    @property
    def burst(self) -> float:
        """Most tokens it holds."""
        return max(1.0, self.rate * BURST_SECONDS)

    def take(self, count: int, *, now: float) -> float:
        """Take tokens; what is larger than the burst is admitted from a full bucket, and owed.

        Args:
            count: tokens.
            now: seconds of a clock that never goes back.

        Returns:
            0 where they were taken, else seconds until they can be.
        """
        self.level = min(self.burst, self.level + max(0.0, now - self.as_of) * self.rate)
        self.as_of = now
        wanted = min(float(count), self.burst)
        if self.level < wanted:
            return (wanted - self.level) / self.rate
        self.level -= count
        return 0.0

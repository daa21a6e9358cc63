"""Plan a rotation: which cases leave a holdout, so that it stays young without losing its memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

LEAVING_SHARE: Final = 0.22
"""Of each part, per quarter: between the 20 and 25 hundredths that a holdout should renew."""
ANCHOR_SHARE: Final = 0.5
"""Of each part: the half that never leaves by age, so that versions stay comparable."""
STALE_AFTER: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A case as a rotation sees it.

    Attributes:
        is_opened: a person saw it with its answers: it leaves, anchor or not.
        is_near: it resembles what may be trained on: it leaves before older ones, anchor or not.
    """

    case_hash: str
    part: str
    add_time: datetime
    is_opened: bool
    is_near: bool = False

    @property
    def is_anchor(self) -> bool:
        """Whether it belongs to the half that age never removes; by its hash alone."""
        return int(self.case_hash[8:16], 16) < ANCHOR_SHARE * 2**32


def leaving(cases: Sequence[Held]) -> list[str]:
    """Name the cases that leave: every opened one, then 22 in 100 of each part, near ones first, old ones next.

    However much is said to be trained on, no more leave: who may name such texts cannot wear the holdout out.

    >>> from datetime import UTC
    >>> day = datetime(2026, 1, 1, tzinfo=UTC)
    >>> cases = [
    ...     Held(case_hash=f"{n:08x}ffffffff", part="GATE", add_time=day + timedelta(days=n), is_opened=n == 99)
    ...     for n in range(100)
    ... ]
    >>> gone = leaving(cases)
    >>> len(gone), gone[0][:8], gone[-1][:8]
    (22, '00000063', '00000014')
    """
    found: list[str] = []
    for part in sorted({case.part for case in cases}):
        held = [case for case in cases if case.part == part]
        opened = [case.case_hash for case in held if case.is_opened]
        aging = sorted(
            (c for c in held if not c.is_opened and (c.is_near or not c.is_anchor)),
            key=lambda c: (not c.is_near, c.add_time, c.case_hash),
        )
        wanted = max(0, round(LEAVING_SHARE * len(held)) - len(opened))
        found += opened + [case.case_hash for case in aging[:wanted]]
    return found

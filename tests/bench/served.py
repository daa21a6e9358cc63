"""Do for one policy, in one process and without a database, what the service does for a decision and an outcome.

A decision is picked from its bucket's published vector by the episode's number. An outcome is added to the evidence of
its cell. A bucket is published anew, P(best) included, when it is due. No floor, no slice.
"""

from collections.abc import Callable
from datetime import timedelta

import numpy as np

from kedge_bandit.application.publish import GROWTH
from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.draw import pick
from kedge_bandit.domain.learners.learner import EvidenceTable, Learner, believe
from kedge_bandit.domain.posterior import Evidence

FOREVER = timedelta(days=36_500_000)
"""A half-life that discounts nothing that counts; a step is a second."""

Due = Callable[[int, int], bool]
"""Whether a bucket is published anew, by its rows since the last time and its rows till then."""


def grown(fresh: int, known: int) -> bool:
    """Follow the service's rule; its further bound, one second, has no counterpart where steps take microseconds.

    >>> grown(1, 0), grown(1, 49), grown(1, 51), grown(2, 51)
    (True, True, False, True)
    """
    return fresh >= max(1.0, GROWTH * known)


class ServedPolicy:
    """One policy: evidence and vectors by bucket."""

    def __init__(
        self, learner: Learner, actions: tuple[str, ...], *, due: Due, buckets: tuple[str, ...] = ("",)
    ) -> None:
        self._learner, self._actions, self._buckets, self._due = learner, actions, buckets, due
        self._cells = {bucket: [Evidence.none(0.0) for _ in actions] for bucket in buckets}
        self._published = dict.fromkeys(buckets, [1.0 / len(actions)] * len(actions))
        self._fresh, self._known = dict.fromkeys(buckets, 0), dict.fromkeys(buckets, 0)
        self.version = 0
        self._everyone = np.ones(len(actions), dtype=np.bool_)

    def decide(self, bucket: str, u: float) -> int:
        """Pick an action by the episode's number u in [0, 1)."""
        return pick(self._published[bucket], u)

    def learn(self, bucket: str, action: int, reward: float, at: float) -> None:
        """Add one outcome, at the policy time of its decision."""
        cells = self._cells[bucket]
        cells[action] = cells[action].plus(Evidence.of(reward, 1.0, at), FOREVER)
        self._fresh[bucket] += 1

    def publish(self, bucket: str, as_of: float) -> None:
        """Make the bucket's vector anew if that is due."""
        if not self._due(self._fresh[bucket], self._known[bucket]):
            return
        belief = believe(self._learner, self._table(as_of), bucket=self._buckets.index(bucket), eligible=self._everyone)
        p = allocate(belief.q, subset=self._everyone, baseline=0, floor=0.0, uniform_slice=0.0)
        self._published[bucket] = p.tolist()
        self.version += 1
        self._known[bucket] += self._fresh[bucket]
        self._fresh[bucket] = 0

    def _table(self, as_of: float) -> EvidenceTable:
        table = EvidenceTable.empty(self._buckets, self._actions)
        for row, bucket in enumerate(self._buckets):
            for column, cell in enumerate(self._cells[bucket]):
                now = cell.at(as_of, FOREVER)
                table.n[row, column], table.s[row, column], table.s2[row, column] = now.n, now.s, now.s2
        return table

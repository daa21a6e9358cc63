"""Keep the sums of a policy's cells in one array: an object for each would cost eight times the memory."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.learners.learner import EvidenceTable
from kedge_bandit.domain.posterior import LARGEST_GROWTH, Evidence

_AS_OF = 3


class Cells(Mapping[tuple[str, str], Evidence]):
    """Evidence by (bucket, action), like a dictionary that forgets nothing.

    Buckets and actions are sorted; the sums [B, K, 4] are n, s, s2 and as_of, which is NaN where nothing was put in.

    >>> cells = Cells([(("long", "a"), Evidence(2.0, 1.0, 0.5, 60.0))])
    >>> cells["short", "b"] = Evidence.of(1.0, 1.0, 60.0)
    >>> list(cells), cells["long", "a"].n, cells.get(("long", "b"))
    ([('long', 'a'), ('short', 'b')], 2.0, None)
    """

    __slots__ = ("_actions", "_buckets", "_sums")

    def __init__(self, cells: Iterable[tuple[tuple[str, str], Evidence]] = ()) -> None:
        """Take cells, each once."""
        known = list(cells)
        self._buckets = sorted({bucket for (bucket, _), _ in known})
        self._actions = sorted({action for (_, action), _ in known})
        self._sums: FloatArray = np.full((len(self._buckets), len(self._actions), 4), np.nan)
        for key, evidence in known:
            self[key] = evidence

    def __getitem__(self, key: tuple[str, str]) -> Evidence:
        """Give a cell's evidence. Raises KeyError where nothing was put in."""
        row, column = _place(self._buckets, key[0]), _place(self._actions, key[1])
        if row is None or column is None or np.isnan(self._sums[row, column, _AS_OF]):
            raise KeyError(key)
        return Evidence(*self._sums[row, column].tolist())

    def __setitem__(self, key: tuple[str, str], evidence: Evidence) -> None:
        """Put evidence in the place of what a cell had."""
        places = []
        for axis, (names, name) in enumerate(zip((self._buckets, self._actions), key, strict=True)):
            place = bisect_left(names, name)
            if place == len(names) or names[place] != name:
                names.insert(place, name)
                self._sums = np.insert(self._sums, place, np.nan, axis=axis)
            places.append(place)
        self._sums[places[0], places[1]] = evidence

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Name the cells that have evidence, in order; what is put in meanwhile is not named."""
        for row, column in np.argwhere(self._present).tolist():
            yield self._buckets[row], self._actions[column]

    def __len__(self) -> int:
        """Count the cells that have evidence."""
        return int(np.count_nonzero(self._present))

    @property
    def _present(self) -> BoolArray:
        return np.asarray(~np.isnan(self._sums[..., _AS_OF]))

    @property
    def buckets(self) -> tuple[str, ...]:
        """Names [B] of the buckets that have evidence, sorted."""
        return tuple(self._buckets)

    @property
    def size_bytes(self) -> int:
        """What the sums take, without the names, which policies share."""
        return self._sums.nbytes

    def table(self, actions: Sequence[str], *, as_of: float, half_life: timedelta) -> EvidenceTable:
        """Read the evidence that learners read, at a policy time, as `Evidence.at` does.

        Args:
            actions: keys [K] of the columns; evidence of others is left out.
        """
        table = EvidenceTable.empty(self.buckets, tuple(actions))
        kept = [action for action in actions if _place(self._actions, action) is not None]
        here = [self._actions.index(action) for action in kept]
        there = [table.actions.index(action) for action in kept]
        sums = self._sums[:, here]
        growth = np.minimum((sums[..., _AS_OF] - as_of) / half_life.total_seconds(), LARGEST_GROWTH)
        by = np.where(np.isnan(growth), 0.0, np.exp2(growth))
        for part, target in enumerate((table.n, table.s, table.s2)):
            target[:, there] = np.where(np.isnan(growth), 0.0, sums[..., part]) * by
        return table


def _place(names: Sequence[str], name: str) -> int | None:
    """Find a name in a sorted list."""
    place = bisect_left(names, name)
    return place if place < len(names) and names[place] == name else None

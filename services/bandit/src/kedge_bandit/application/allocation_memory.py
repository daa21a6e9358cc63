"""Remember the vectors that decisions are drawn from, of many tenants in few bytes."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.published import Allocation

MOST_BYTES = 2**20
"""Of all remembered vectors; beyond that those of the policy published longest ago are read anew."""
SUPERSEDED = 16
"""Vectors of a policy that are kept after their bucket got a newer one: decisions drawn from them still arrive."""
_POLICY_BYTES, _ROW_BYTES = 600, 16


@dataclass(frozen=True, slots=True, eq=False)
class _Vectors:
    """Vectors of one policy over the same actions, in order of version.

    Attributes:
        buckets: [M], each with its newest vector and some with earlier ones.
        p: [M, K].
    """

    actions: tuple[str, ...]
    eligible: tuple[bool, ...]
    versions: IntArray
    buckets: tuple[str, ...]
    p: FloatArray

    @classmethod
    def of(cls, allocation: Allocation) -> "_Vectors":
        """Start with nothing, over an allocation's actions."""
        none = np.zeros((0, len(allocation.actions)))
        return cls(allocation.actions, allocation.eligible, np.zeros(0, dtype=np.int64), (), none)

    def fits(self, allocation: Allocation) -> bool:
        """Whether an allocation has the same actions, and may serve the same."""
        return allocation.actions == self.actions and allocation.eligible == self.eligible

    def with_more(self, more: Sequence[Allocation]) -> "_Vectors":
        """Add allocations that fit, and leave out what was superseded long ago."""
        versions = np.concatenate([self.versions, np.array([each.version for each in more], dtype=np.int64)])
        buckets = (*self.buckets, *(each.bucket for each in more))
        p = np.concatenate([self.p, np.array([each.p for each in more]).reshape(len(more), len(self.actions))])
        order = np.unique(versions, return_index=True)[1].tolist()
        newest = {buckets[place]: place for place in order}
        superseded = [place for place in order if newest[buckets[place]] != place]
        gone = set(superseded[:-SUPERSEDED])
        kept = [place for place in order if place not in gone]
        return _Vectors(self.actions, self.eligible, versions[kept], tuple(buckets[place] for place in kept), p[kept])

    def find(self, version: int) -> FloatArray | None:
        """Give a version's vector [K]."""
        place = int(np.searchsorted(self.versions, version))
        if place == self.versions.size or self.versions[place] != version:
            return None
        return np.asarray(self.p[place])

    @property
    def size_bytes(self) -> int:
        """About what it takes, without names, which are shared."""
        return _POLICY_BYTES + self.p.nbytes + _ROW_BYTES * len(self.buckets)


@dataclass(slots=True)
class AllocationMemory:
    """Vectors by tenant and policy, those published last at the end; a committed allocation never changes."""

    most_bytes: int = MOST_BYTES
    _known: OrderedDict[tuple[TenantId, PolicyName], _Vectors] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def find(
        self, tenant: TenantId, policy: PolicyName, version: int, available: Collection[str] | None
    ) -> tuple[tuple[str, ...], FloatArray] | None:
        """Give the actions and the vector [K] of a draw; None where it is not known, or availability narrowed it."""
        known = self._known.get((tenant, policy))
        if known is None:
            return None
        if available is not None and any(
            eligible and action not in available for action, eligible in zip(known.actions, known.eligible, strict=True)
        ):
            return None
        vector = known.find(version)
        return None if vector is None else (known.actions, vector)

    def keep(self, tenant: TenantId, committed: Iterable[Allocation]) -> None:
        """Remember allocations that are committed; over other actions than before, only newer ones."""
        ordered = sorted(committed, key=lambda each: (each.policy, each.version))
        for policy, found in groupby(ordered, key=lambda each: each.policy):
            allocations = list(found)
            newest = allocations[-1]
            known = self._known.pop((tenant, policy), None) or _Vectors.of(newest)
            self._bytes -= known.size_bytes if known.buckets else 0
            if not known.fits(newest) and newest.version > known.versions[-1]:
                known = _Vectors.of(newest)
            known = known.with_more([each for each in allocations if known.fits(each)])
            self._known[tenant, policy] = known
            self._bytes += known.size_bytes
        while self._bytes > self.most_bytes:
            self._bytes -= self._known.popitem(last=False)[1].size_bytes

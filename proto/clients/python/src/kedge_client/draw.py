"""Draw as the server draws: pure functions of identifiers and a vector, fixed by golden files for every language."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Final

LEAST_MASS: Final = 1e-9
"""P(best) of a subset below which its actions count as equally good."""


def uniform(tenant: str, policy: str, episode_id: str, seed_epoch: int, allocation_version: int) -> float:
    """Derive the episode's number u in [0, 1), a multiple of 2⁻⁵³.

    The first 8 bytes, big-endian, of SHA-256 over "kedge.draw.v1" and the five parts, joined by zero bytes, shifted
    right by 11 bits. Text is taken as it came (no Unicode normalisation), integers in decimal.

    >>> uniform("acme", "support", "e-1", 0, 7)
    0.570449930675558
    """
    return _share(f"kedge.draw.v1\0{tenant}\0{policy}\0{episode_id}\0{seed_epoch}\0{allocation_version}")


def judge_requested(tenant: str, policy: str, episode_id: str, rate: float) -> bool:
    """Draw whether a judge is asked about an episode; the rate is a share in [0, 1].

    >>> [judge_requested("acme", "support", "e-1", rate) for rate in (0.0, 0.5, 1.0)]
    [False, True, True]
    """
    if rate <= 0.0 or rate >= 1.0:
        return rate >= 1.0
    return _share(f"kedge.judge.v1\0{tenant}\0{policy}\0{episode_id}") < rate


def pick(p: Sequence[float], u: float) -> int:
    """Find the first action whose cumulative probability exceeds u, else the last one with p > 0.

    >>> pick([0.25, 0.0, 0.75], 0.25)
    2
    """
    reached, last = 0.0, -1
    for index, share in enumerate(p):
        if share > 0.0:
            reached += share
            last = index
            if reached > u:
                break
    return last


def narrow(
    q: Sequence[float],
    *,
    subset: Sequence[bool],
    baseline: int,
    floor: float,
    uniform_slice: float,
    caps: Sequence[float],
) -> tuple[float, ...]:
    """Give the probabilities of a subset of the actions, 0 elsewhere.

    Every step is one float64 operation per action in canonical order, and sums run left to right: so the result has
    the server's very bits. A language whose compiler fuses multiplication and addition must be told not to.

    Args:
        q: P(best) of every action.
        subset: which actions can be served and are eligible; the baseline is one of them.
        baseline: its place.
        floor: exploitation floor.
        uniform_slice: share of the rest that is spread evenly.
        caps: largest probability of every action; empty where there is none. The excess goes to the baseline.

    >>> [round(p, 6) for p in narrow([0.1, 0.9, 0.0], subset=[True, True, True], baseline=0, floor=0.8,
    ...                              uniform_slice=0.1, caps=[])]
    [0.824667, 0.168667, 0.006667]
    """
    size = sum(subset)
    inside = [share if kept else 0.0 for share, kept in zip(q, subset, strict=True)]
    mass = _sum(inside)
    learned = [(1.0 if kept else 0.0) / size for kept in subset]
    if not mass < LEAST_MASS:
        learned = [share / mass for share in inside]
    even = uniform_slice / size
    explored, kept_part = 1.0 - floor, 1.0 - uniform_slice
    p = [explored * (kept_part * share + even) if kept else 0.0 for share, kept in zip(learned, subset, strict=True)]
    if caps:
        bound = [min(share, cap) for share, cap in zip(p, caps, strict=True)]
        bound[baseline] = p[baseline]
        bound[baseline] += _sum([share - most for share, most in zip(p, bound, strict=True)])
        p = bound
    p[baseline] += floor
    return tuple(p)


def _sum(values: Sequence[float]) -> float:
    """Add left to right; `sum` compensates its rounding from Python 3.12 on, and other languages do not."""
    *_, total = accumulate(values)
    return total


def _share(message: str) -> float:
    return (int.from_bytes(sha256(message.encode()).digest()[:8], "big") >> 11) * 2.0**-53

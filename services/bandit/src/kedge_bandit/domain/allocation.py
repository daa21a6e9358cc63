"""Turn the probability of being best into the published probability of every action, and refuse what is no simplex.

On a subset B with baseline d, exploitation floor φ and uniform slice e:

    p_B(a) = φ·[a = d] + (1 − φ)·((1 − e)·q(a)/Σ_B q + e/|B|)

The published vector is the case B = eligible actions. Every step is one float64 operation per action in canonical
action order, with sums taken left to right, so that a client in another language gets the same bits.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kedge_bandit.domain.arrays import BoolArray, FloatArray
from kedge_bandit.domain.errors import ExplorationRefused, NumericalFailure

LEAST_MASS = 1e-9
SIMPLEX_TOLERANCE = 1e-9
FLOOR_RANGE = (0.05, 1.0)
LARGEST_SLICE = 0.5


def baseline_only(actions: int, baseline: int) -> FloatArray:
    """Give the vector [K] that serves the baseline with probability 1.

    >>> baseline_only(3, 1).tolist()
    [0.0, 1.0, 0.0]
    """
    p = np.zeros(actions)
    p[baseline] = 1.0
    return p


def allocate(
    q: Sequence[float] | FloatArray,
    *,
    subset: Sequence[bool] | BoolArray,
    baseline: int,
    floor: float,
    uniform_slice: float,
    caps: Sequence[float] | FloatArray | None = None,
) -> FloatArray:
    """Give p_B [K] over the actions of `subset`, 0 elsewhere.

    Args:
        q: probability of being best [K]; only its values on the subset matter, and if they sum to less than 1e-9 they
            count as equal.
        subset: mask [K] of the actions that are eligible and available; holds the baseline.
        baseline: index of the baseline d.
        floor: exploitation floor φ in [0.05, 1], the least probability of the baseline.
        uniform_slice: share e in (0, 0.5] of the rest that is spread evenly.
        caps: upper bounds [K] in [0, 1] (1 where there is none); what exceeds a cap goes to the baseline, whose own
            cap is not read.

    Returns:
        Probabilities [K] that pass `check_simplex`.

    Raises:
        ValueError: the baseline is not in the subset (such a request is answered without randomisation).
        NumericalFailure: the result is no simplex, for instance because q holds a NaN.

    >>> p = allocate([0.1, 0.9, 0.0], subset=[True, True, True], baseline=0, floor=0.8, uniform_slice=0.1)
    >>> p.round(6).tolist()
    [0.824667, 0.168667, 0.006667]
    """
    kept = np.asarray(subset, dtype=np.bool_)
    if not kept[baseline]:
        raise ValueError("the baseline is not in the subset: answer by the available action of highest mean instead")
    inside = np.where(kept, q, 0.0)
    mass = np.add.accumulate(inside)[-1]
    size = np.count_nonzero(kept)
    learned = inside / mass if not mass < LEAST_MASS else kept / size
    p = (1.0 - floor) * ((1.0 - uniform_slice) * learned + uniform_slice / size)
    p[~kept] = 0.0
    if caps is not None:
        bound = np.minimum(p, caps)
        bound[baseline] = p[baseline]
        bound[baseline] += np.add.accumulate(p - bound)[-1]
        p = bound
    p[baseline] += floor
    check_simplex(p, baseline=baseline, floor=floor)
    return p


def check_simplex(p: FloatArray, *, baseline: int, floor: float) -> None:
    """Refuse a vector that must not be published; it is never clipped or renormalised into shape.

    Raises:
        NumericalFailure: a value is not finite or negative, the sum differs from 1 by more than 1e-9, or the baseline
            has less than the floor.
    """
    total = float(np.add.accumulate(p)[-1])
    if not abs(total - 1.0) <= SIMPLEX_TOLERANCE:
        raise NumericalFailure("sum of an allocation", total)
    if not p.min() >= 0.0:
        raise NumericalFailure("smallest probability of an allocation", float(p.min()))
    if not p[baseline] >= floor:
        raise NumericalFailure("baseline's probability in an allocation", float(p[baseline]))


def check_exploration(
    *, floor: float, uniform_slice: float, actions: int, caps: Mapping[str, float] | None = None
) -> None:
    """Refuse floor, slice and caps at the moment somebody writes them, so that serving never has to repair them.

    Args:
        floor: exploitation floor φ; in [0.05, 1].
        uniform_slice: e; in (0, 0.5].
        actions: number K of live actions, at least 1.
        caps: upper bound by action key; at most 1 and at least the slice's own share (1 − φ)·e/K.

    Raises:
        ExplorationRefused: with one sentence for each thing that is wrong.

    >>> check_exploration(floor=0.8, uniform_slice=0.1, actions=4, caps={"new": 0.05})
    """
    reasons: list[str] = []
    if not FLOOR_RANGE[0] <= floor <= FLOOR_RANGE[1]:
        reasons.append(f"the exploitation floor must be in [{FLOOR_RANGE[0]}, {FLOOR_RANGE[1]:g}], got {floor!r}")
    if not 0.0 < uniform_slice <= LARGEST_SLICE:
        reasons.append(f"the uniform slice must be in (0, {LARGEST_SLICE}], got {uniform_slice!r}")
    if not reasons:
        least = (1.0 - floor) * uniform_slice / actions
        reasons.extend(
            f"the cap of {key} must be in [{least:.6g}, 1], got {cap!r}; below that it would cut into the slice"
            for key, cap in (caps or {}).items()
            if not least <= cap <= 1.0
        )
    if reasons:
        raise ExplorationRefused(tuple(reasons))

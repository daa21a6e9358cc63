"""Choose one action from a published allocation, given what the caller can serve and what the mode allows."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from kedge_bandit.domain.allocation import allocate
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import pick
from kedge_bandit.domain.errors import UnknownAction
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation

_BASELINE_MODES = {Mode.FROZEN: Reason.FROZEN, Mode.BYPASS: Reason.BYPASS, Mode.OBSERVE: Reason.OBSERVE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a request asks for beside its context.

    Attributes:
        available: action keys the caller can serve; empty: all.
        pinned: action key to serve whatever the policy says; empty: none.
        best: the eligible action of highest mean instead of a draw.
    """

    available: tuple[str, ...] = ()
    pinned: str = ""
    no_exploration: bool = False
    in_tool_loop: bool = False
    best: bool = False


PLAIN = Wish()


@dataclass(frozen=True, slots=True)
class Choice:
    """An action of the allocation with its probability.

    Attributes:
        index: place in the allocation's actions.
        vector: the distribution that was used, over the allocation's actions.
        shadow: place of what would have been drawn, in OBSERVE.
    """

    index: int
    propensity: float
    reason: Reason
    is_randomised: bool
    vector: tuple[float, ...]
    shadow: int | None = None


def choose(allocation: Allocation, wish: Wish, mode: Mode, u: float) -> Choice:
    """Choose by mode, wish and draw; pure, so a replay calls the same function.

    Args:
        u: the seeded draw in [0, 1).

    Raises:
        UnknownAction: the pinned action is not one of the allocation's.
    """
    subset = subset_of(allocation, wish)
    if mode is Mode.APPLY and subset is None and wish is PLAIN:
        return _drawn(allocation, u)
    fixed = _fixed(allocation, wish, mode, subset)
    if fixed is not None:
        index, reason = fixed
        shadow = None
        if reason is Reason.OBSERVE:
            shadow = _narrowed(allocation, subset, u).index
        return Choice(index, 1.0, reason, False, _alone(len(allocation.actions), index), shadow)
    return _narrowed(allocation, subset, u)


def subset_of(allocation: Allocation, wish: Wish) -> tuple[bool, ...] | None:
    """Mark the actions that are both available and eligible; None when availability narrows nothing."""
    if not wish.available:
        return None
    able = frozenset(wish.available)
    if all(key in able for key, eligible in zip(allocation.actions, allocation.eligible, strict=True) if eligible):
        return None
    return tuple(key in able and ok for key, ok in zip(allocation.actions, allocation.eligible, strict=True))


def best_index(allocation: Allocation, wish: Wish) -> int:
    """Find the available action of highest mean, an eligible one where there is one; the baseline if none is known."""
    able = frozenset(wish.available) if wish.available else frozenset(allocation.actions)
    candidates = [i for i, key in enumerate(allocation.actions) if key in able]
    eligible = [i for i in candidates if allocation.eligible[i]]
    return max(eligible or candidates or [allocation.baseline], key=lambda i: (allocation.mean[i], -i))


def _fixed(
    allocation: Allocation, wish: Wish, mode: Mode, subset: tuple[bool, ...] | None
) -> tuple[int, Reason] | None:
    """Name the action that is served without a draw, and why; None when a draw decides."""
    if wish.pinned and mode is Mode.APPLY:
        if wish.pinned not in allocation.index:
            raise UnknownAction(wish.pinned)
        return allocation.index[wish.pinned], Reason.PINNED
    if subset is not None and not subset[allocation.baseline]:
        return best_index(allocation, wish), Reason.BASELINE_UNAVAILABLE
    if mode is not Mode.APPLY:
        return allocation.baseline, _BASELINE_MODES[mode]
    if wish.best:
        return best_index(allocation, wish), Reason.BEST_ACTION
    if wish.no_exploration:
        return allocation.baseline, Reason.NO_EXPLORATION
    if wish.in_tool_loop:
        return allocation.baseline, Reason.TOOL_LOOP
    return None


def _drawn(allocation: Allocation, u: float) -> Choice:
    if allocation.closed is not None:
        return Choice(allocation.baseline, 1.0, allocation.closed, False, allocation.p)
    index = min(bisect_right(allocation.cumulative, u), allocation.last_possible)
    propensity = allocation.p[index]
    return Choice(index, propensity, Reason.DRAWN, propensity < 1.0, allocation.p)


def _narrowed(allocation: Allocation, subset: tuple[bool, ...] | None, u: float) -> Choice:
    if subset is None or allocation.closed is not None:
        return _drawn(allocation, u)
    vector = allocate(
        np.array(allocation.q),
        subset=np.array(subset),
        baseline=allocation.baseline,
        floor=allocation.floor,
        uniform_slice=allocation.uniform_slice,
        caps=None if allocation.caps is None else np.array(allocation.caps),
    ).tolist()
    index = pick(vector, u)
    return Choice(index, vector[index], Reason.DRAWN, vector[index] < 1.0, tuple(vector))


def _alone(size: int, index: int) -> tuple[float, ...]:
    return tuple(1.0 if i == index else 0.0 for i in range(size))

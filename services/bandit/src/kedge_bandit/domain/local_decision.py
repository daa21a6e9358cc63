"""Recompute a decision that a client made in its own process, from what was in force around its time.

A client hears of a change a moment later than it was committed, at most one lease later; so everything that was in
force within a lease before the decision is taken as what the client may have known.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from kedge_bandit.domain.context import bucket, check_context
from kedge_bandit.domain.decision import Decision, Reason, SetAside
from kedge_bandit.domain.draw import judge_requested, uniform
from kedge_bandit.domain.eligibility import Choice, Wish, choose
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.mode import Mode, ModeChange, most_restrictive
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import COLD, Allocation
from kedge_bandit.domain.settlement import EXPIRY

LEASE: Final = timedelta(seconds=5)
"""Longest time by which what a client knows may lie behind."""
SKEW: Final = timedelta(seconds=5)
"""Largest difference of a client's clock that is let pass."""
FRESH_FOR: Final = timedelta(seconds=60)
"""How long after an allocation was replaced a decision drawn from it is still learned from."""

LATEST: Final = timedelta(minutes=10)
"""How long after its time a decision may be reported and still be learned from. A client reports within a second; one
that knows how the episode went could choose an older allocation, mode or cap that suits it."""

_WITHOUT_ALLOCATION: Final = {Reason.STALE: None, Reason.FROZEN: Mode.FROZEN, Reason.BYPASS: Mode.BYPASS}


class Refusal(StrEnum):
    """What is wrong with a reported decision; the first that is found."""

    TIME_OUT_OF_RANGE = "TIME_OUT_OF_RANGE"
    VERSION_UNKNOWN = "VERSION_UNKNOWN"
    VERSION_DIFFERS = "VERSION_DIFFERS"
    MODE_DIFFERS = "MODE_DIFFERS"
    BUCKET_DIFFERS = "BUCKET_DIFFERS"
    JUDGE_DIFFERS = "JUDGE_DIFFERS"
    ACTION_DIFFERS = "ACTION_DIFFERS"
    PROPENSITY_DIFFERS = "PROPENSITY_DIFFERS"
    RANDOMISED_DIFFERS = "RANDOMISED_DIFFERS"
    REASON_DIFFERS = "REASON_DIFFERS"
    SHADOW_DIFFERS = "SHADOW_DIFFERS"


@dataclass(frozen=True, slots=True)
class ModeHistory:
    """The effective mode over time, by the log of mode changes; APPLY before the first.

    Attributes:
        times: when it changed, increasing.
        modes: from then on.
    """

    times: tuple[datetime, ...] = ()
    modes: tuple[Mode, ...] = ()

    def at(self, moment: datetime) -> Mode:
        """Read the mode of a moment."""
        place = bisect_right(self.times, moment)
        return self.modes[place - 1] if place else Mode.APPLY

    def between(self, start: datetime, end: datetime) -> frozenset[Mode]:
        """Read the modes of an interval, both ends included."""
        inside = self.modes[bisect_left(self.times, start) : bisect_right(self.times, end)]
        return frozenset({self.at(start), *inside})


def mode_history(changes: Iterable[ModeChange]) -> ModeHistory:
    """Combine the changes of all levels that bear on a policy.

    >>> from datetime import UTC
    >>> at = lambda s: datetime.fromtimestamp(s, UTC)
    >>> history = mode_history([ModeChange("policy", Mode.FROZEN, at(10)), ModeChange("tenant", Mode.OBSERVE, at(20)),
    ...                         ModeChange("policy", Mode.APPLY, at(30))])
    >>> [str(history.at(at(s))) for s in (5, 10, 25, 40)]
    ['APPLY', 'FROZEN', 'FROZEN', 'OBSERVE']
    """
    levels: dict[str, Mode] = {}
    times: list[datetime] = []
    modes: list[Mode] = []
    for change in sorted(changes, key=lambda change: change.time):
        levels[change.level] = change.mode
        times.append(change.time)
        modes.append(most_restrictive(levels.values()))
    return ModeHistory(tuple(times), tuple(modes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What a decision is judged by.

    Attributes:
        policies: the policy as it stood at any moment within a lease before the decision, newest first.
        allocation: the one that it names; None where it names none, or one that does not exist.
        replaced_time: when a newer allocation served the decision's bucket; None: none does yet.
        modes: of the policy.
        now: the database's clock.
    """

    policies: Sequence[Policy]
    allocation: Allocation | None
    replaced_time: datetime | None
    modes: ModeHistory
    now: datetime


def is_taken(time: datetime, *, now: datetime) -> bool:
    """Say whether a decision of that time may be reported now; what may is far from the calendar's ends."""
    return now - EXPIRY <= time <= now + SKEW


def refusal_of(said: Decision, grounds: Grounds) -> str | None:
    """Recompute a reported decision and compare.

    Args:
        said: as reported, with its context.
        grounds: everything that its draw depends on.

    Returns:
        None where it is what the server would have decided; else a `Refusal`, or the reason of the error that its
        context or its pin is.
    """
    allocation = grounds.allocation
    if not is_taken(said.time, now=grounds.now):
        return Refusal.TIME_OUT_OF_RANGE
    if allocation is not None and said.time < allocation.publish_time - SKEW:
        return Refusal.TIME_OUT_OF_RANGE
    if allocation is None and said.allocation_version:
        return Refusal.VERSION_UNKNOWN
    known = grounds.modes.between(said.time - LEASE, said.time + SKEW)
    # A mode from a file, an environment or a flag service is in no log; it can only restrict.
    if said.reason is not Reason.STALE and all(said.mode.restriction < mode.restriction for mode in known):
        return Refusal.MODE_DIFFERS
    found: str | None = Refusal.VERSION_UNKNOWN
    for policy in grounds.policies:
        try:
            found = _configured(said, policy, allocation) or _compared(said, policy, allocation)
        except KedgeError as error:
            found = error.reason
        if found is None:
            return None
    return found


def set_aside(said: Decision, grounds: Grounds) -> SetAside | None:
    """Say why a decision that was not refused is not learned from; None where it may be.

    A mode that was in force at its time beats what the client knew of it, and so does an allocation that had long been
    replaced. What is reported long afterwards is kept and not learned from.
    """
    mode = grounds.modes.at(said.time)
    if mode.stops_time and not said.mode.stops_time:
        return SetAside(mode.value)
    if grounds.replaced_time is not None and said.time - grounds.replaced_time > FRESH_FOR:
        return SetAside.OUTDATED
    return SetAside.LATE if grounds.now - said.time > LATEST else None


def asked_for(said: Decision) -> Wish:
    """Read back from a decision what was asked for."""
    return Wish(
        available=said.available or (),
        pinned=said.action if said.reason is Reason.PINNED else "",
        no_exploration=said.reason is Reason.NO_EXPLORATION,
        in_tool_loop=said.reason is Reason.TOOL_LOOP,
        best=said.reason is Reason.BEST_ACTION,
    )


def _configured(said: Decision, policy: Policy, allocation: Allocation | None) -> Refusal | None:
    """Compare version, bucket and judge with a policy that the client may have known."""
    spec, source = policy.spec, allocation or policy
    version = policy.version if allocation is None else allocation.policy_version
    if (said.policy_version, said.seed_epoch) != (version, source.seed_epoch):
        return Refusal.VERSION_DIFFERS
    if said.context is None:
        return Refusal.BUCKET_DIFFERS
    check_context(said.context, spec.features)
    name = bucket(said.context, spec.features)
    if said.bucket != (COLD if said.reason is Reason.STALE and allocation is None else name):
        return Refusal.BUCKET_DIFFERS
    if allocation is not None and allocation.bucket not in (name, COLD):
        return Refusal.BUCKET_DIFFERS
    rate = spec.settlement.judge_rate
    asked = judge_requested(said.tenant, said.policy, said.episode_id, rate)
    return None if (said.judge_requested, said.judge_rate) == (asked, rate) else Refusal.JUDGE_DIFFERS


def _compared(said: Decision, policy: Policy, allocation: Allocation | None) -> Refusal | None:
    """Decide again and compare; without an allocation it is the policy's baseline, if there is a reason for that."""
    if allocation is None:
        if said.reason not in _WITHOUT_ALLOCATION or _WITHOUT_ALLOCATION[said.reason] not in (None, said.mode):
            return Refusal.REASON_DIFFERS
        action, shadow = policy.spec.baseline_key, None
        choice = Choice(0, 1.0, said.reason, False, (1.0,))
    else:
        u = uniform(said.tenant, said.policy, said.episode_id, allocation.seed_epoch, allocation.version)
        choice = choose(allocation, asked_for(said), said.mode, u)
        action = allocation.actions[choice.index]
        shadow = None if choice.shadow is None else allocation.actions[choice.shadow]
    for same, refusal in (
        (said.action == action, Refusal.ACTION_DIFFERS),
        (said.propensity == choice.propensity, Refusal.PROPENSITY_DIFFERS),
        (said.is_randomised is choice.is_randomised, Refusal.RANDOMISED_DIFFERS),
        (said.reason is choice.reason, Refusal.REASON_DIFFERS),
        (said.shadow_action == shadow, Refusal.SHADOW_DIFFERS),
    ):
        if not same:
            return refusal
    return None

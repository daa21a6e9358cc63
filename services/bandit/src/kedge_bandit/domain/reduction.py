"""Reduce the many outcomes of an episode to one value a signal, in whatever order and however often they arrived.

Of several outcomes of a signal the one observed last stands, ties broken by key. A person's reaction is ranked by how
it was observed first. What was measured outright outranks what is added up from the trajectory.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from kedge_bandit.domain.episode import (
    SafetyVerdict,
    Trajectory,
    safety_verdict,
    total_cost_usd,
    total_latency_ms,
    vetoes,
)
from kedge_bandit.domain.outcome import Outcome, Provenance, SignalKind, VetoReason
from kedge_bandit.domain.reward import Signals
from kedge_bandit.domain.reward_spec import RewardSpec

_RANK: Final[Mapping[Provenance, int]] = MappingProxyType(
    {Provenance.THUMB: 2, Provenance.EDITED: 1, Provenance.ACCEPTED: 1, Provenance.RESOLVED: 0}
)
_NOTHING: Final = Trajectory()


def reduce_outcomes(
    outcomes: Iterable[Outcome], trajectory: Trajectory | None, spec: RewardSpec, *, judge_requested: bool
) -> Signals:
    """Gather what is known of an episode.

    Args:
        outcomes: every outcome that takes part, in any order, repetitions allowed.
        trajectory: what was logged; None if nothing was.
        spec: for the cut points of edits.
        judge_requested: whether the decision asked for a judge; a score nobody requested is left out.

    Returns:
        One value a signal. Every veto of every outcome and of the trajectory is kept: none is ever superseded.

    >>> reduce_outcomes([], None, RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0), judge_requested=True)
    Signals(human=None, judge=None, task_success=None, cost_usd=None, latency_ms=None, vetoes=(), \
safety_verdict=<SafetyVerdict.ABSENT: 'ABSENT'>)
    """
    known = tuple(outcomes)
    logged = _NOTHING if trajectory is None else trajectory
    broken = _all_vetoes(known, logged)
    cost = _measured(known, SignalKind.COST)
    latency = _measured(known, SignalKind.LATENCY)
    asked = tuple(outcome for outcome in known if is_wanted(outcome, judge_requested=judge_requested))
    return Signals(
        human=human_value(known, spec),
        judge=_measured(asked, SignalKind.JUDGE),
        task_success=_measured(known, SignalKind.TASK_SUCCESS),
        cost_usd=total_cost_usd(logged) if cost is None else cost,
        latency_ms=total_latency_ms(logged) if latency is None else latency,
        vetoes=broken,
        safety_verdict=SafetyVerdict.TRIPPED if broken else _untripped_verdict(known, logged),
    )


def human_value(outcomes: Iterable[Outcome], spec: RewardSpec) -> float | None:
    """Read what people made of an episode: −1, 0 or +1, or None if nobody reacted.

    A thumb outranks an edit (or acceptance unchanged), and that outranks *resolved*. In each rank only a rater's last
    reaction counts, however often they reacted, and an ABSENT one withdraws it. Of what is left the highest rank
    decides, and within it the latest.

    Args:
        outcomes: outcomes of any signal, in any order, repetitions allowed.
        spec: the cut points of edits.
    """
    standing: dict[tuple[str | None, int], Outcome] = {}
    for outcome in outcomes:
        if outcome.signal is not SignalKind.HUMAN or outcome.provenance is None:
            continue
        place = (outcome.rater_hash, _RANK[outcome.provenance])
        if place not in standing or _recency(standing[place]) < _recency(outcome):
            standing[place] = outcome
    reactions = [
        (rank, _recency(outcome), _reaction(outcome, spec))
        for (_, rank), outcome in standing.items()
        if outcome.absent is None
    ]
    return max(reactions)[2] if reactions else None


def latest(outcomes: Iterable[Outcome], signal: SignalKind) -> Outcome | None:
    """Find the outcome of a signal that stands: the one observed last, measured or ABSENT; None if there is none."""
    return max((outcome for outcome in outcomes if outcome.signal is signal), key=_recency, default=None)


def is_wanted(outcome: Outcome, *, judge_requested: bool) -> bool:
    """Say whether an outcome may be learned from; a judge's score that nobody requested may not.

    Who chooses after the fact which episodes to judge can choose the ones that look good.
    """
    return outcome.signal is not SignalKind.JUDGE or (judge_requested and outcome.requested is not False)


def _measured(outcomes: Iterable[Outcome], signal: SignalKind) -> float | None:
    standing = latest(outcomes, signal)
    return None if standing is None else standing.value


def _all_vetoes(outcomes: Iterable[Outcome], trajectory: Trajectory) -> tuple[VetoReason, ...]:
    broken = {outcome.veto_reason for outcome in outcomes} | set(vetoes(trajectory))
    return tuple(reason for reason in VetoReason if reason in broken)


def _untripped_verdict(outcomes: Iterable[Outcome], trajectory: Trajectory) -> SafetyVerdict:
    """Read the verdict of an episode without vetoes; an explicit one, also ABSENT, outranks the trajectory's."""
    stated = latest(outcomes, SignalKind.SAFETY)
    if stated is None:
        return safety_verdict(trajectory)
    return SafetyVerdict.ABSENT if stated.value is None else SafetyVerdict.CLEAN


def _reaction(outcome: Outcome, spec: RewardSpec) -> float:
    if outcome.edit_distance is not None:
        if outcome.edit_distance <= spec.edit_accept:
            return 1.0
        return 0.0 if outcome.edit_distance <= spec.edit_neutral else -1.0
    value = outcome.value or 0.0
    return value * 2.0 - 1.0 if outcome.provenance is Provenance.RESOLVED else value


def _recency(outcome: Outcome) -> tuple[datetime, str]:
    return outcome.observed_time, outcome.key

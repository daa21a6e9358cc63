"""Score the last days again under another reward spec, so that a person sees what it would have paid for.

What is scored are the signals that each verdict rests on. They were reduced to one value each under the spec of their
day: thresholds at which an edited answer counts as accepted act on future episodes only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kedge_bandit.domain.reward import Signals, contribution, reward
from kedge_bandit.domain.reward_spec import RewardSpec

LOOKED_BACK: Final = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Judged:
    """One episode as it was judged: by which signals, and its reward in [0, 1], None where nothing was learned."""

    action: str
    signals: Signals
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """One action's episodes under the spec in force and under the other.

    Attributes:
        episodes: that were judged; learned_before, learned_after: of those, how many are learned from.
        before, after: mean reward of what is learned from; 0 of nothing.
    """

    action: str
    episodes: int
    learned_before: int
    learned_after: int
    before: float
    after: float


def rescore(judged: Iterable[Judged], spec: RewardSpec) -> tuple[Rescored, ...]:
    """Score episodes again, by action, the one with the most reward after first.

    >>> dear = RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0, weight_cost=0.5, weight_latency=0.0)
    >>> from kedge_bandit.domain.episode import SafetyVerdict
    >>> clean = SafetyVerdict.CLEAN
    >>> seen = [
    ...     Judged("large", Signals(task_success=1.0, cost_usd=0.8, safety_verdict=clean), 0.9),
    ...     Judged("small", Signals(task_success=1.0, cost_usd=0.2, safety_verdict=clean), 0.8),
    ... ]
    >>> [(one.action, one.before, round(one.after, 2)) for one in rescore(seen, dear)]
    [('small', 0.8, 0.8), ('large', 0.9, 0.5)]
    """
    by_action: dict[str, list[tuple[float | None, float | None]]] = {}
    for episode in judged:
        share = contribution(reward(episode.signals, spec))
        again = None if share is None or share.weight == 0 else share.reward
        by_action.setdefault(episode.action, []).append((episode.reward, again))
    found = [_rescored(action, rewards) for action, rewards in by_action.items()]
    return tuple(sorted(found, key=lambda one: (-one.after, one.action)))


def _rescored(action: str, rewards: list[tuple[float | None, float | None]]) -> Rescored:
    before = [was for was, _ in rewards if was is not None]
    after = [again for _, again in rewards if again is not None]
    return Rescored(
        action=action,
        episodes=len(rewards),
        learned_before=len(before),
        learned_after=len(after),
        before=sum(before) / max(len(before), 1),
        after=sum(after) / max(len(after), 1),
    )

"""Say in sentences what is allowed but deserves a second look."""

import math

from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.reward_spec import SafetySource

MANY_ACTIONS = 12
"""Live joint actions up to which a cell sees enough episodes at ordinary traffic (vetted in simulations)."""
FEWEST_EFFECTIVE = 100.0
"""Effective episodes per live cell under which belief is mostly prior (vetted in simulations)."""


def warnings_of(spec: PolicySpec) -> tuple[str, ...]:
    """Say in sentences what is allowed but deserves a second look."""
    found: list[str] = []
    if spec.reward.judge_share_is_high:
        found.append(
            f"the judge has {spec.reward.judge_share:.2f} of the quality weight; above one third it is easily flattered"
        )
    if spec.reward.safety_source is SafetySource.NONE:
        found.append("safety_source is NONE: nothing can veto an episode but tools, approvals and assertions")
    if spec.exploration.budget_off:
        found.append("the exploration budget is off: nothing bounds what exploring costs but floor and caps")
    if spec.exploration.floor >= 1:
        found.append("the floor is 1: the baseline alone is served and nothing is learned of other actions")
    if len(spec.actions) > MANY_ACTIONS:
        found.append(f"{len(spec.actions)} joint actions: above {MANY_ACTIONS} a cell needs 500 episodes per half-life")
    return tuple(found)


def effective_episodes(*, per_second: float, half_life_seconds: float, coverage: float, live_cells: int) -> float:
    """Give the discounted episodes that a live cell holds in the long run: rate·H·coverage/ln 2, shared evenly.

    Args:
        per_second: decisions per second of policy time.
        coverage: share of decisions that became evidence, in [0, 1].
        live_cells: buckets seen times actions, at least 1.

    >>> round(effective_episodes(per_second=math.log(2), half_life_seconds=1000.0, coverage=0.5, live_cells=5), 9)
    100.0
    """
    return per_second * half_life_seconds * coverage / math.log(2) / live_cells

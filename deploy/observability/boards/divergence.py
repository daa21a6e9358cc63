"""The main board: does the reward rise while the holdout does not."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from deploy.observability.boards.parts import POLICY, Panel, Query, banded, lines, number
from deploy.observability.boards.parts import board as laid_out

_NAME = "{{policy}}"


def board() -> models.Dashboard:
    """Build it."""
    about = "Reward on live traffic against the holdout that nothing learns from, and the alarm between the two."
    return laid_out("divergence", "reward against holdout", about, [("Now", _now()), ("Over time", _over_time())])


def _of(metric: str) -> str:
    return f"max by (policy) (kedge_divergence_{metric}{{{POLICY}}})"


def _now() -> Sequence[Panel]:
    mode = Query(f"max by (policy) (kedge_mode{{{POLICY}}})", _NAME)
    age = Query(f"time() - {_of('last_check_time_seconds')}", _NAME)
    reached = Query(f"{_of('evidence')} / {_of('evidence_threshold')}", _NAME)
    return [
        number("Mode", "0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS.", mode),
        number("Reward lift", "Quality of the learned part less the baseline's.", Query(_of("reward_lift"), _NAME)),
        number("Holdout lift", "The same on sensor cases.", Query(_of("holdout_lift"), _NAME)),
        number("Evidence over its threshold", "At 1 the policy freezes.", reached, unit="percentunit"),
        number("Since the last check", "Of those that came to a result.", age, unit="s"),
        number("Blind", "1: the floor is back at its first stage, 2: OBSERVE.", Query(_of("blind"), _NAME)),
    ]


def _over_time() -> Sequence[Panel]:
    lifts = [
        Query(_of(f"{side}_lift{bound}"), f"{side}{bound.replace('_', ' ')}")
        for side in ("reward", "holdout")
        for bound in ("", "_lower", "_upper")
    ]
    about = "With 95 % intervals. Reward up and holdout down: what is learned pleases the scores and not the task."
    lift = lines("Lift of $policy", about, *lifts, unit="percentunit", width=24).repeat("policy")
    evidence = lines(
        "Evidence of the alarm",
        "On a log axis; where it reaches the threshold the policy freezes.",
        Query(_of("evidence"), f"{_NAME} evidence"),
        Query(_of("evidence_threshold"), f"{_NAME} threshold"),
    )
    logarithmic = common.ScaleDistributionConfig().type(common_models.ScaleDistribution.LOG).log(10)
    since = Query(f"time() - {_of('last_check_time_seconds')}", _NAME)
    return [
        banded(banded(lift, "reward", "blue"), "holdout", "orange"),
        evidence.scale_distribution(logarithmic),
        lines("Since the last check", "A saw tooth; where it climbs, the sensor is blind.", since, unit="s"),
    ]

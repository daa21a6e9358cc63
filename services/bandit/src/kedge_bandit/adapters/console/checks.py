"""Draw what divergence checks measured: both lifts, and how far the evidence of each detector has come."""

import math
from collections.abc import Sequence
from typing import Any, Final

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.adapters.console.charts import Interval
from kedge_bandit.adapters.console.curves import Curve, Point

_Z95: Final = 1.959964
_LEAST_EVIDENCE: Final = 0.01
OUTCOMES: Final = {
    "COMPARED": ("compared", "good"),
    "TOO_FEW": ("too few episodes", "warn"),
    "FAILED": ("failed", "bad"),
}


def outcome(check: pb.DivergenceCheck) -> tuple[str, str]:
    """Say what a check came to, with its tone."""
    name = pb.DivergenceOutcome.Name(check.outcome).removeprefix("DIVERGENCE_OUTCOME_")
    return OUTCOMES.get(name, (name.lower(), ""))


def lifts(checks: Sequence[pb.DivergenceCheck]) -> list[Curve]:
    """Draw the reward's lift and the holdout's, the oldest check first, each with its 95 % interval."""
    places = list(enumerate(checks))
    online = [
        _point(i, len(checks), one.reward_lift, one.reward_error) for i, one in places if one.HasField("reward_lift")
    ]
    held = [
        _point(i, len(checks), one.holdout_lift, one.holdout_error) for i, one in places if one.HasField("holdout_lift")
    ]
    return [Curve(points=online), Curve(points=held, tone="good", dashed=True)]


def evidence(checks: Sequence[pb.DivergenceCheck], detector: str) -> tuple[Curve, float] | None:
    """Draw a detector's evidence in powers of ten, with its threshold; None where it never spoke."""
    read = [(place, one) for place, check in enumerate(checks) for one in check.readings if one.detector == detector]
    if not read:
        return None
    points = [_point(place, len(checks), math.log10(max(one.evidence, _LEAST_EVIDENCE)), None) for place, one in read]
    return Curve(points=points, tone="bad"), math.log10(max(read[-1][1].threshold, _LEAST_EVIDENCE))


def detectors(checks: Sequence[pb.DivergenceCheck]) -> list[tuple[str, Curve, float]]:
    """Draw the evidence of every detector that spoke: its name, the curve, its threshold."""
    names = dict.fromkeys(one.detector for check in checks for one in check.readings)
    return [(name, *found) for name in names if (found := evidence(checks, name)) is not None]


def _point(place: int, count: int, value: float, error: float | None) -> Point:
    at = place / max(1, count - 1)
    if error is None:
        return Point(at=at, value=value)
    return Point(at=at, value=value, lower=value - _Z95 * error, upper=value + _Z95 * error)


def last_lifts(page: Any) -> list[Interval]:
    """Give both lifts of the newest check that measured the holdout, the reward's first; none where there is none."""
    check = next((one for one in page.checks if one.HasField("holdout_lift")), None) if page is not None else None
    if check is None:
        return []
    found = [("reward", check.reward_lift, check.reward_error)] if check.HasField("reward_lift") else []
    found.append(("holdout", check.holdout_lift, check.holdout_error))
    return [
        Interval(
            label=name,
            mean=lift,
            lower=lift - _Z95 * error,
            upper=lift + _Z95 * error,
            tone="accent" if name == "reward" else "bad" if lift + _Z95 * error < 0 else "good",
        )
        for name, lift, error in found
    ]

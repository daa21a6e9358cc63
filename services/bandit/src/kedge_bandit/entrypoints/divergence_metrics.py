"""State what the divergence checks found, for /metrics. Labels stop at tenant and policy."""

from dataclasses import dataclass, field
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from kedge_bandit.application.read_divergence import Standing
from kedge_bandit.domain.divergence import DIVERGENCE, REWARD_LIFT, Lift
from kedge_bandit.domain.divergence_check import Outcome

_GAUGES: Final = {
    "reward_lift": "Quality of the learned part less the baseline's, at the newest comparison",
    "reward_lift_lower": "Lower end of its 95 percent interval",
    "reward_lift_upper": "Upper end of its 95 percent interval",
    "holdout_lift": "Score of the learned part on the holdout less the baseline's, at the newest measurement",
    "holdout_lift_lower": "Lower end of its 95 percent interval",
    "holdout_lift_upper": "Upper end of its 95 percent interval",
    "evidence": "Evidence of the divergence detector",
    "evidence_threshold": "Evidence at which the detector trips",
    "reward_evidence": "Evidence that there is a reward lift, without which the detector does not freeze",
    "reward_evidence_threshold": "Evidence at which the reward lift is taken for one",
    "last_check_time_seconds": "When a check succeeded last, seconds since the epoch",
    "blind": "1: no check has succeeded for two intervals, 2: for four, and the policy observes",
}
_REACH: Final = 1.96


@dataclass(slots=True)
class DivergenceMetrics:
    """Twelve gauges of each policy that is watched, and how often what came out of a check."""

    registry: CollectorRegistry = REGISTRY
    _gauges: dict[str, Gauge] = field(init=False)
    _checks: Counter = field(init=False)

    def __post_init__(self) -> None:
        """Register every series."""
        self._gauges = {
            name: Gauge(f"kedge_divergence_{name}", text, ("tenant", "policy"), registry=self.registry)
            for name, text in _GAUGES.items()
        }
        self._checks = Counter(
            "kedge_divergence_checks", "Divergence checks made", ("tenant", "outcome"), registry=self.registry
        )

    def checked(self, tenant: str, outcome: Outcome) -> None:
        """Count a check."""
        self._checks.labels(tenant, outcome.value).inc()

    def stands(self, tenant: str, policy: str, standing: Standing) -> None:
        """State how a policy stands; what was never measured has no series."""
        figures: dict[str, float] = {"blind": 0 if standing.watch is None else standing.watch.blind}
        if standing.success is not None:
            figures["last_check_time_seconds"] = standing.success.check_time.timestamp()
            figures |= _bounded("reward_lift", standing.success.reward)
            figures |= _bounded("holdout_lift", standing.success.holdout.lift)
            for name, detector in (("evidence", DIVERGENCE), ("reward_evidence", REWARD_LIFT)):
                reading = standing.success.readings.get(detector)
                if reading is not None:
                    figures |= {name: reading.evidence, f"{name}_threshold": reading.threshold}
        for name, value in figures.items():
            self._gauges[name].labels(tenant, policy).set(value)


def _bounded(name: str, lift: Lift | None) -> dict[str, float]:
    if lift is None:
        return {}
    reach = _REACH * lift.error
    return {name: lift.value, f"{name}_lower": lift.value - reach, f"{name}_upper": lift.value + reach}

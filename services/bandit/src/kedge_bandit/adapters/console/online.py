"""What online data says of a policy: all that a person has who decides about a floor, which no gate looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kedge.bandit.v1 import proposal_pb2
from kedge_bandit.adapters.console import promotion, reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.charts import Interval
from kedge_bandit.adapters.console.standing import Standing
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.ramp import AUTOMATIC_FLOOR, LEAST_LEARNED, VETO_DOUBT
from kedge_bandit.domain.ramp_metrics import LARGEST_GROWTH

_SAME: Final = 1e-9
_RATIOS: Final = {"cost_usd": "Cost", "latency_ms": "Latency"}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to weigh: what it is, its value, more about it, and a tone."""

    name: str
    value: str
    more: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Online:
    """Online data of a policy as it is now."""

    standing: Standing

    @property
    def ramp(self) -> Any:
        """The floor's ramp; None where the server tells of none."""
        return next((one for one in self.standing.ramps if not one.arm_id), None)

    @property
    def episodes(self) -> tuple[int, int]:
        """Count those that ended: learned, and the baseline's."""
        counts = [(one.action_key == self.standing.baseline_key, one.episodes) for one in self.standing.status.actions]
        return sum(n for is_baseline, n in counts if not is_baseline), sum(n for own, n in counts if own)

    @property
    def is_enough(self) -> bool:
        """Whether the learned side has what an automatic stage asks for."""
        return self.episodes[0] >= LEAST_LEARNED

    @property
    def lift(self) -> Interval | None:
        """Online reward of the learned part less the baseline's; None where too little is known."""
        return self.standing.lift if self.is_enough else None

    @property
    def lines(self) -> Sequence[Line]:
        """Say what there is to weigh."""
        return [self._lift_line(), *self._ramp_lines()]

    def _lift_line(self) -> Line:
        learned, baseline = self.episodes
        found = self.lift
        if found is None:
            more = f"{learned:,} of {LEAST_LEARNED} learned episodes, against {baseline:,} of the baseline"
            return Line("Online reward", "too little data", more)
        more = f"{learned:,} learned against {baseline:,} baseline episodes"
        tone = "good" if found.lower > 0 else "bad" if found.upper < 0 else ""
        interval = f"95 % interval {wording.signed(found.lower)} to {wording.signed(found.upper)}"
        return Line("Online reward", wording.signed(found.mean), f"{interval}; {more}", tone)

    def _ramp_lines(self) -> list[Line]:
        if self.ramp is None:
            return []
        known = self.ramp.learned_episodes and self.ramp.baseline_episodes
        found = []
        for one in self.ramp.metrics:
            is_known = known and one.HasField("lower")
            if one.name in _RATIOS:
                found.append(_ratio(_RATIOS[one.name], one, is_known=is_known))
            elif one.name == "veto_rate":
                found.append(_veto(one, is_known=is_known))
        return found


def _ratio(name: str, metric: Any, *, is_known: bool) -> Line:
    if not is_known or metric.baseline <= 0:
        return Line(name, "too little data")
    ratio = metric.learned / metric.baseline
    more = f"{metric.learned:.3g} against {metric.baseline:.3g} {'$' if name == 'Cost' else 'ms'} an episode"
    is_more = metric.breached or ratio > 1 + LARGEST_GROWTH
    return Line(name, f"{ratio:.2f} times the baseline's", more, "bad" if is_more else "good")


def _veto(metric: Any, *, is_known: bool) -> Line:
    if not is_known:
        return Line("Vetoes", "too little data")
    more = f"{wording.percent(metric.learned, 1)} of learned answers, {wording.percent(metric.baseline, 1)} of others"
    risk = f"{wording.percent(metric.lower)} chance that the rate is over its cap"
    return Line("Vetoes", risk, more, "bad" if metric.breached or metric.lower > VETO_DOUBT else "")


def doubts(proposal: proposal_pb2.Proposal, online: Online) -> list[str]:
    """List what speaks for a second look before a floor is lowered."""
    before, after = promotion.floor_of(proposal)
    said = []
    if after.baseline < AUTOMATIC_FLOOR - _SAME and before.baseline > AUTOMATIC_FLOOR + _SAME:
        said.append(f"It skips the stage at {wording.percent(AUTOMATIC_FLOOR)}, which is never seen at work.")
    if after.baseline < before.baseline and not online.is_enough:
        said.append(f"Few learned episodes: the service itself waits for {LEAST_LEARNED} before a step.")
    ramp = online.ramp
    if ramp is not None and ramp.why:
        said.append(f"Its ramp stands: {ramp.why}")
    if ramp is not None:
        said += ramp.holds
    return said


async def online_of(visit: Visit, name: str) -> Online | None:
    """Read what online data says of a policy; None where it cannot be read."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    try:
        return Online(await reading.standing_of(visit, visit.tenant, name, metrics=True))
    except CallRefused:
        return None

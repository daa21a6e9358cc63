"""Turn the signals of one episode into one reward in [0, 1], a veto, or no score at all.

With h = (HUMAN + 1)/2, j = clip(JUDGE, .05, .95), g = min(j, .7) + max(j − .7, 0)/3, t = TASK_SUCCESS,
W = w_H + w_J + w_T, σ = w_J / W and M the sum of the weights of those of HUMAN and TASK_SUCCESS that are present:

    M > 0             Q_V = Σ w_i s_i / M,  Q = Q_V + σ·[judge present]·(g − Q_V)      learned from
    M = 0, judge only Q = ½ + σ·(g − ½)                                                 shown, not learned from
    nothing           no reward
    reward = clip(W·Q − w_C·C − w_L·L, 0, 1)

With every signal present this is w_H·h + w_J·g + w_T·t − w_C·C − w_L·L. An absent signal neither rewards nor punishes,
and the judge moves W·Q by the same w_J·(g_max − g_min) whatever else is missing, so collecting fewer verified signals
never makes flattering a judge worth more. A veto is not a number: nothing can be added to it.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.errors import FactsInvalid
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource

_HUMAN_VALUES: Final = (-1.0, 0.0, 1.0)
_SLOPE_ABOVE_KNEE: Final = 1.0 / 3.0
_NEUTRAL: Final = 0.5


class WeightReason(StrEnum):
    """Say why a reward is learned from or only shown."""

    LEARNED = "LEARNED"
    JUDGE_ONLY = "JUDGE_ONLY"
    NO_SAFETY_VERDICT = "NO_SAFETY_VERDICT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Hold what is known of one episode, one value a signal; None is ABSENT.

    Attributes:
        human: −1, 0 or +1.
        judge: in [0, 1], only if it was requested.
        task_success: in [0, 1].
        cost_usd: US dollars, not negative.
        latency_ms: milliseconds, not negative.
        vetoes: every hard rule that was broken.
        safety_verdict: TRIPPED exactly if there are vetoes.

    Raises:
        FactsInvalid: a value is out of range or the verdict contradicts the vetoes.
    """

    human: float | None = None
    judge: float | None = None
    task_success: float | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None
    vetoes: tuple[VetoReason, ...] = ()
    safety_verdict: SafetyVerdict = SafetyVerdict.ABSENT

    def __post_init__(self) -> None:
        if self.human is not None and self.human not in _HUMAN_VALUES:
            raise FactsInvalid(field="human", problem=f"must be -1, 0 or +1, found {self.human!r}")
        for name, share in (("judge", self.judge), ("task_success", self.task_success)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise FactsInvalid(field=name, problem=f"must be in [0, 1], found {share!r}")
        for name, amount in (("cost_usd", self.cost_usd), ("latency_ms", self.latency_ms)):
            if amount is not None and not 0.0 <= amount < math.inf:
                raise FactsInvalid(field=name, problem=f"must be finite and not negative, found {amount!r}")
        if bool(self.vetoes) is not (self.safety_verdict is SafetyVerdict.TRIPPED):
            raise FactsInvalid(field="safety_verdict", problem="must be TRIPPED exactly if there are vetoes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """Carry the one number that is learned from, with every component for the explanation.

    Attributes:
        value: the reward, in [0, 1].
        raw: W·Q − w_C·C − w_L·L, before the clip.
        quality: Q, in [0, 1].
        verifiable_weight: M, the weight of the verifiable signals that are present.
        verifiable_quality: Q_V, in [0, 1]; None if M = 0.
        judge_credit: g, the judge's score after clamps and knee; None if the judge is absent.
        cost: C in [0, 1], the assumed one if none arrived.
        latency: L likewise.
        weight_reason: why it is learned from or only shown.
        signals: what it was computed from.
        spec_version: the reward spec that was applied.
    """

    value: float
    raw: float
    quality: float
    verifiable_weight: float
    verifiable_quality: float | None
    judge_credit: float | None
    cost: float
    latency: float
    weight_reason: WeightReason
    signals: Signals
    spec_version: int

    @property
    def weight(self) -> float:
        """Evidence weight: 1 learned from, 0 stored and shown only."""
        return 1.0 if self.weight_reason is WeightReason.LEARNED else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Veto:
    """Say that the episode broke a hard rule; it has no number that other signals could raise.

    Two vetoes for the same reasons are equal whatever else was observed.
    """

    reasons: tuple[VetoReason, ...]
    signals: Signals = field(compare=False)
    spec_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """Say that nothing was observed which the episode could be scored by."""

    signals: Signals
    spec_version: int


Verdict: TypeAlias = Reward | Veto | Unscored


@dataclass(frozen=True, slots=True)
class Contribution:
    """Hold what a verdict adds to the evidence: weight 0 or 1, reward in [0, 1], and whether it was vetoed."""

    weight: float
    reward: float
    vetoed: bool


def reward(signals: Signals, spec: RewardSpec) -> Verdict:
    """Score one episode; the module's docstring has the formula.

    >>> spec = RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0)
    >>> seen = Signals(human=1.0, judge=0.7, task_success=1.0, cost_usd=0.0, latency_ms=0.0,
    ...                safety_verdict=SafetyVerdict.CLEAN)
    >>> verdict = reward(seen, spec)
    >>> isinstance(verdict, Reward) and round(verdict.value, 9)
    0.825
    """
    if signals.vetoes:
        return Veto(reasons=signals.vetoes, signals=signals, spec_version=spec.version)
    human = None if signals.human is None else (signals.human + 1.0) / 2.0
    credit = None if signals.judge is None else judge_credit(signals.judge, spec)
    verifiable = ((spec.weight_human, human), (spec.weight_task_success, signals.task_success))
    present = [(weight, value) for weight, value in verifiable if value is not None]
    mass = sum(weight for weight, _ in present)
    verified = sum(weight * value for weight, value in present) / mass if mass > 0.0 else None
    if verified is None and credit is None:
        return Unscored(signals=signals, spec_version=spec.version)
    start = _NEUTRAL if verified is None else verified
    quality = start if credit is None else start + spec.judge_share * (credit - start)
    cost = _scaled(signals.cost_usd, spec.cost_reference_usd, spec.missing_cost)
    latency = _scaled(signals.latency_ms, spec.latency_reference_ms, spec.missing_latency)
    raw = spec.quality_weight * quality - spec.weight_cost * cost - spec.weight_latency * latency
    return Reward(
        value=min(max(raw, 0.0), 1.0),
        raw=raw,
        quality=quality,
        verifiable_weight=mass,
        verifiable_quality=verified,
        judge_credit=credit,
        cost=cost,
        latency=latency,
        weight_reason=_weight_reason(signals, spec, is_verified=verified is not None),
        signals=signals,
        spec_version=spec.version,
    )


def judge_credit(score: float, spec: RewardSpec) -> float:
    """Bound what a judge's score in [0, 1] can earn: clipped, and worth a third above the knee.

    >>> spec = RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0)
    >>> [round(judge_credit(score, spec), 4) for score in (0.0, 0.7, 1.0)]
    [0.05, 0.7, 0.7833]
    """
    clipped = min(max(score, spec.judge_floor), spec.judge_ceiling)
    return min(clipped, spec.judge_knee) + max(clipped - spec.judge_knee, 0.0) * _SLOPE_ABOVE_KNEE


def lacks_safety_verdict(signals: Signals, spec: RewardSpec) -> bool:
    """Say whether an episode that should carry a safety verdict carries none.

    >>> lacks_safety_verdict(Signals(), RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0))
    True
    """
    return spec.safety_source is SafetySource.GUARDRAILS and signals.safety_verdict is SafetyVerdict.ABSENT


def contribution(verdict: Verdict) -> Contribution | None:
    """Say what a verdict adds to the evidence; None if it adds no row.

    A veto counts as a full episode of reward 0, whatever is missing.

    >>> tripped = Signals(vetoes=(VetoReason.TOOL_BLOCKED,), safety_verdict=SafetyVerdict.TRIPPED)
    >>> contribution(Veto(reasons=tripped.vetoes, signals=tripped, spec_version=1))
    Contribution(weight=1.0, reward=0.0, vetoed=True)
    """
    match verdict:
        case Reward():
            return Contribution(weight=verdict.weight, reward=verdict.value, vetoed=False)
        case Veto():
            return Contribution(weight=1.0, reward=0.0, vetoed=True)
        case Unscored():
            return None
        case _:
            assert_never(verdict)


def _weight_reason(signals: Signals, spec: RewardSpec, *, is_verified: bool) -> WeightReason:
    if lacks_safety_verdict(signals, spec):
        return WeightReason.NO_SAFETY_VERDICT
    return WeightReason.LEARNED if is_verified else WeightReason.JUDGE_ONLY


def _scaled(amount: float | None, reference: float, missing: float) -> float:
    return missing if amount is None else min(amount / reference, 1.0)

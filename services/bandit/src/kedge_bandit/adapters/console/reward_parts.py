"""Take a reward apart into the steps that lead to it, for people who ask where it came from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kedge.bandit.v1 import outcome_pb2
from kedge_bandit.adapters.console.curves import Bar

_NEUTRAL: Final = 0.5
"""Quality where nothing verifiable was observed, as the reward's formula has it."""
_SAME: Final = 5e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the sum.

    Attributes:
        name, why: what it is, and how it came about.
        value: what it adds; of a sum, where it stands.
        bar: as it is drawn.
    """

    name: str
    why: str
    value: float
    bar: Bar
    is_sum: bool = False


def steps(episode: Any, spec: Any) -> Sequence[Step]:
    """Give the steps from 0 to the reward; none where the episode has no reward or its spec is not known.

    R = clip(W·Q − w_C·C − w_L·L), with W the weights of human, judge and task success together, and Q the verifiable
    quality moved towards the judge's credit (docs/reward.md).
    """
    parts = {one.component: one.value for one in episode.components}
    if spec is None or "raw" not in parts:
        return []
    signals = dict(episode.signals)
    whole = spec.weight_human + spec.weight_judge + spec.weight_task_success
    verified = parts.get("verifiable_quality")
    start = _NEUTRAL if verified is None else verified
    judged = parts["quality"] - start
    moves = [("Verified quality", _verified(signals, verified, spec), whole * start)]
    if "judge_credit" in parts:
        moves.append(("Judge", _judged(signals, parts["judge_credit"]), whole * judged))
    moves.append(
        (
            "Cost",
            _spent("cost_usd", " $", signals, parts["cost"], spec.cost_reference_usd),
            -spec.weight_cost * parts["cost"],
        )
    )
    moves.append(
        (
            "Latency",
            _spent("latency_ms", " ms", signals, parts["latency"], spec.latency_reference_ms),
            -spec.weight_latency * parts["latency"],
        )
    )
    return list(_summed(moves, parts["raw"], episode.reward))


def _summed(moves: Sequence[tuple[str, str, float]], raw: float, reward: float) -> Iterator[Step]:
    at = 0.0
    for name, why, value in moves:
        tone = "good" if value > 0 else "bad" if value < 0 else "quiet"
        yield Step(name=name, why=why, value=value, bar=Bar(at, at + value, tone))
        at += value
    if abs(raw - reward) > _SAME:
        yield Step(name="Clip", why="a reward lies in [0, 1]", value=reward - raw, bar=Bar(raw, reward, "warn"))
    yield Step(name="Reward", why="", value=reward, bar=Bar(0.0, reward, "accent"), is_sum=True)


def reach(found: Sequence[Step]) -> tuple[float, float]:
    """Give the ends of the axis that all steps share."""
    ends = [0.0, *(end for one in found for end in (one.bar.start, one.bar.end))]
    return min(ends), max(1.0, *ends)


def _verified(signals: Mapping[str, float], verified: float | None, spec: Any) -> str:
    if verified is None:
        return "nothing verifiable was observed: it starts in the middle, at .5"
    said = []
    if "human" in signals:
        said.append(f"people {signals['human']:+.0f} with weight {spec.weight_human:.2f}".replace("-", "−"))
    if "task_success" in signals:
        said.append(f"task success {signals['task_success']:.2f} with weight {spec.weight_task_success:.2f}")
    return f"{' and '.join(said)}: {verified:.3f} of 1"


def _judged(signals: Mapping[str, float], credit: float) -> str:
    score = signals.get("judge")
    if score is None:
        return f"credit {credit:.3f}"
    bounded = f"scored {score:.2f}, worth {credit:.3f} after floor, ceiling and knee"
    return bounded if abs(score - credit) > _SAME else f"scored {score:.2f}"


def _spent(name: str, unit: str, signals: Mapping[str, float], share: float, reference: float) -> str:
    if name not in signals:
        return f"none arrived: {share:.2f} is assumed"
    return f"{signals[name]:.4g}{unit} against {reference:.4g}{unit}: {share:.2f} of 1"


VETOES: Final[Mapping[str, str]] = {
    "GUARDRAIL_PII": "a guardrail found personal data",
    "GUARDRAIL_POLICY": "a guardrail found what your policy forbids",
    "GUARDRAIL_INJECTION": "a guardrail found an injected instruction",
    "TOOL_BLOCKED": "a tool call was blocked before it acted",
    "TOOL_VERIFIER_FAILED": "a tool's verifier said no",
    "APPROVAL_DENIED": "a person denied what needed approval",
    "APPROVAL_BYPASSED": "nobody waited for an approval that was required",
    "ASSERTION_SCHEMA": "the answer broke its schema",
    "ASSERTION_FORBIDDEN_CONTENT": "the answer held forbidden content",
    "ASSERTION_TENANT_ISOLATION": "the answer held another tenant's data",
}
"""What broke, in words."""


def vetoes(episode: Any) -> list[str]:
    """Say why an episode was vetoed."""
    names = [outcome_pb2.VetoReason.Name(one).removeprefix("VETO_REASON_") for one in episode.veto_reasons]
    return [VETOES.get(name, name.replace("_", " ").lower()) for name in names]


NOT_LEARNED: Final[Mapping[str, str]] = {
    "JUDGE_ONLY": "only the judge spoke, and a judge alone teaches nothing",
    "NO_SAFETY_VERDICT": "no guardrail reported, so nobody knows whether it was safe",
    "QUARANTINED": "it came while the policy stood still, and nobody has said yet what becomes of it",
    "DROPPED": "whoever unfroze decided that it never counts",
    "OTHER_ACTION_SERVED": "another action was served than the one that was decided",
    "SUPERSEDED": "another decision of the episode came out otherwise",
    "RETIRED_ARM": "its action is none of the policy's any more",
    "DECISION_UNKNOWN": "its decision never arrived",
    "UNSCORED": "nothing came in that it could be scored by",
    "CANCELLED": "its decision was never served",
}


def not_learned(reason: str) -> str:
    """Say why nothing is learned from an episode.

    >>> not_learned("JUDGE_ONLY"), not_learned("PINNED"), not_learned("")
    ('only the judge spoke, and a judge alone teaches nothing', 'it was decided for the reason PINNED', '')
    """
    return NOT_LEARNED.get(reason, f"it was decided for the reason {reason}" if reason else "")

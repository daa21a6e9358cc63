"""Show that the ten things which keep a reward from being gamed hold in a tenant, each by what was measured there."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kedge_bandit.domain.candidate import ProposalKind
from kedge_bandit.domain.conditions import MAX_KL_STOP
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.gate import Verdict
from kedge_bandit.domain.phases import breach
from kedge_bandit.domain.readiness import Mitigation, PolicyFacts, TenantFacts
from kedge_bandit.domain.reward import Reward, Signals, reward
from kedge_bandit.domain.reward_spec import RewardSpec

_ROUNDING: Final = 1e-9

Found = tuple[str, bool]


def mitigations(tenant: TenantFacts) -> Sequence[Mitigation]:
    """Measure all ten."""
    return [
        *(_of_all(name, look, tenant.policies) for name, look in _BY_POLICY[:8]),
        Mitigation(
            "per-tenant isolation",
            f"{tenant.attempts} attempts as its role at what is not its own, {len(tenant.faults)} went through",
            tenant.attempts > 0 and not tenant.faults,
        ),
        *(_of_all(name, look, tenant.policies) for name, look in _BY_POLICY[8:]),
    ]


def _of_all(name: str, look: Callable[[PolicyFacts], Found], policies: Sequence[PolicyFacts]) -> Mitigation:
    found = [(policy.name, *look(policy)) for policy in policies]
    texts = [text if len(found) == 1 else f"{policy}: {text}" for policy, text, _ in found]
    return Mitigation(name, "; ".join(texts) or "no policy", bool(found) and all(holds for _, _, holds in found))


def _verifiable(policy: PolicyFacts) -> Found:
    spec = policy.spec.reward
    verified = spec.weight_human + spec.weight_task_success
    return f"verifiable {verified:g} of the weight, the judge {spec.weight_judge:g}", verified >= spec.weight_judge


def _clipped(policy: PolicyFacts) -> Found:
    least, most = policy.settled.least, policy.settled.most
    if least is None or most is None:
        return "no reward yet", False
    return f"{policy.settled.episodes} newest rewards in [{least:.3f}, {most:.3f}]", 0.0 <= least <= most <= 1.0


def flattery(spec: RewardSpec) -> tuple[float, float]:
    """Give by how much a judge can move the reward of an otherwise equal episode, and its weight without the clamp.

    >>> moved, weight = flattery(RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0))
    >>> round(moved, 3), weight
    (0.183, 0.25)
    """
    middling = Signals(human=0.0, task_success=0.5, cost_usd=0.0, latency_ms=0.0)
    scored = [reward(replace(middling, judge=judge), spec) for judge in (0.0, 1.0)]
    values = [each.value for each in scored if isinstance(each, Reward)]
    return values[-1] - values[0], spec.weight_judge


def _clamped(policy: PolicyFacts) -> Found:
    moved, weight = flattery(policy.spec.reward)
    text = f"from worst to best a judge moves the reward by {moved:.3f}, of a weight of {weight:g}"
    return text, moved < weight - _ROUNDING or weight == 0.0


def _vetoed(policy: PolicyFacts) -> Found:
    clean, tripped = breach(policy.spec.reward)
    worst = policy.settled.most_vetoed or 0.0
    text = f"an episode worth {clean:.2f} earns {tripped:.2f} with a breach"
    return f"{text}; {policy.settled.vetoed} vetoed, most {worst:.2f}", tripped == 0.0 and worst == 0.0


def _constrained(policy: PolicyFacts) -> Found:
    used = sorted({arm.dimension.value for arm in policy.spec.arms})
    return f"arms of {', '.join(used)}; there is no other kind", set(used) <= {
        dimension.value for dimension in Dimension
    }


def _min_form(policy: PolicyFacts) -> Found:
    steps = sorted(policy.settled.signals.keys() - {"human", "judge", "task_success", "guarded"})
    return f"rewards of steps: {', '.join(steps) or 'none, an episode has one value a signal'}", not steps


def _anchored(policy: PolicyFacts) -> Found:
    weights = [each for each in policy.serving if each.kind is ProposalKind.LORA]
    passed = [each for each in weights if each.gate_result is not None and each.gate_result.verdict is Verdict.PASS]
    text = f"{len(weights)} trained weights served, {len(passed)} of them passed the stop bound of {MAX_KL_STOP:g} nats"
    return text, len(passed) == len(weights)


def _compared(policy: PolicyFacts) -> Found:
    watched = policy.watched
    if watched is None:
        return "the policy is not watched", False
    live = "blind" if watched.is_blind else f"{watched.checks} checks compared"
    text = f"{live}, evidence {watched.evidence:.3g} of {watched.threshold:g}"
    return text, not watched.is_blind and watched.success_time is not None


def _by_people(policy: PolicyFacts) -> Found:
    forced = [each for each in policy.serving if each.forced]
    approved = [each for each in policy.serving if each.approver and not each.forced]
    text = f"{len(policy.serving)} proposals serve: {len(approved)} approved by somebody, {len(forced)} forced"
    return text, len(approved) == len(policy.serving)


_BY_POLICY: Final[Sequence[tuple[str, Callable[[PolicyFacts], Found]]]] = (
    ("verifiable reward first", _verifiable),
    ("clip to [0, 1]", _clipped),
    ("clamped judge", _clamped),
    ("safety veto", _vetoed),
    ("constrained actions, none with side effects", _constrained),
    ("no sum of step rewards", _min_form),
    ("KL anchor for weights", _anchored),
    ("divergence alarm", _compared),
    ("human promotion gate", _by_people),
)

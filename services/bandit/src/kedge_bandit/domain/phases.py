"""Hold a tenant against the criteria of the phases P0 to P4; a tenant meets one where each of its policies does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from kedge_bandit.domain.allocation import FLOOR_RANGE
from kedge_bandit.domain.candidate import ProposalKind
from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.episode import SafetyVerdict
from kedge_bandit.domain.experiment_report import ExperimentDecision
from kedge_bandit.domain.gate import Verdict
from kedge_bandit.domain.outcome import VetoReason
from kedge_bandit.domain.peek import MARGIN
from kedge_bandit.domain.readiness import Criterion, CriterionKind, Phase, PolicyFacts, TenantFacts
from kedge_bandit.domain.reward import Signals, contribution, reward
from kedge_bandit.domain.reward_spec import RewardSpec, SafetySource

LEAST_FEEDBACK: Final = 100
"""Outcomes of people that make a sample."""
LEAST_EPISODES: Final = 1_000
"""Settled episodes from which prompts can be worked on."""
LEAST_PAIRS: Final = 500
"""Compared pairs from which weights can be trained."""
LEAST_GUARDED: Final = 0.99
MOST_CORRECTED: Final = 0.2
FRESH: Final = timedelta(days=7)
EFFECT: Final = timedelta(seconds=6)
"""Longest time until a freeze has effect everywhere, with the database away."""
_NORMAL_95: Final = 1.645
_FAILED: Final = frozenset({ExperimentDecision.HACKED, ExperimentDecision.GUARDRAIL, ExperimentDecision.WORSE})

Found = tuple[str, bool]
"""What was measured, and whether it is enough."""


@dataclass(frozen=True, slots=True)
class _Asked:
    phase: Phase
    kind: CriterionKind
    criterion: str
    look: Callable[[PolicyFacts, datetime], Found]


def criteria(tenant: TenantFacts) -> Sequence[Criterion]:
    """Measure all criteria, in order of phases."""
    return [_of_all(asked, tenant) for asked in _ASKED]


def _of_all(asked: _Asked, tenant: TenantFacts) -> Criterion:
    found = [(policy.name, *asked.look(policy, tenant.now)) for policy in tenant.policies]
    texts = [text if len(found) == 1 else f"{name}: {text}" for name, text, _ in found]
    return Criterion(
        phase=asked.phase,
        kind=asked.kind,
        criterion=asked.criterion,
        measured="; ".join(texts) or "no policy",
        met=bool(found) and all(met for _, _, met in found),
    )


# P0, feedback -------------------------------------------------------------------------------------------------------


def _configured(policy: PolicyFacts, _: datetime) -> Found:
    return f"policy with {len(policy.spec.actions)} actions, in {policy.mode}", True


def _feedback(policy: PolicyFacts, _: datetime) -> Found:
    return f"{policy.feedback} outcomes of people, {LEAST_FEEDBACK} or more", policy.feedback >= LEAST_FEEDBACK


def _shown(policy: PolicyFacts, _: datetime) -> Found:
    shares = ", ".join(f"{name} {policy.settled.share(name):.2f}" for name in ("human", "task_success", "judge"))
    return f"share of {policy.settled.episodes} settled episodes with {shares}", policy.settled.share("human") > 0.0


# P1, reward and trajectory ------------------------------------------------------------------------------------------


def _flowing(policy: PolicyFacts, now: datetime) -> Found:
    newest = policy.settled.newest_human
    if newest is None:
        return "no episode with a person's signal has settled", False
    days = (now - newest) / timedelta(days=1)
    return f"newest person's signal {days:.1f} days ago, {FRESH.days} at most", now - newest <= FRESH


def _callable(policy: PolicyFacts, _: datetime) -> Found:
    settled, spec = policy.settled, policy.spec.reward
    judged = settled.signals.get("judge", 0)
    guarded = settled.share("guarded")
    is_judged = judged > 0 or spec.weight_judge == 0.0
    is_guarded = spec.safety_source is SafetySource.GUARDRAILS and guarded >= LEAST_GUARDED
    text = f"{judged} episodes judged, share with a safety verdict {guarded:.3f} of {LEAST_GUARDED}"
    return text if spec.weight_judge else f"{text}; the judge weighs nothing", is_judged and is_guarded


def _every_turn(policy: PolicyFacts, _: datetime) -> Found:
    ended = sum(policy.counts.get(state, 0) for state in ("SETTLED", "VETOED", "UNSCORED"))
    return (
        f"{ended} episodes ended, {policy.unaccounted} of them without their row",
        ended > 0 and not policy.unaccounted,
    )


def breach(spec: RewardSpec) -> tuple[float, float]:
    """Score the best possible episode of a spec, and the same with a guardrail tripped.

    >>> breach(RewardSpec(cost_reference_usd=1.0, latency_reference_ms=1.0))[1]
    0.0
    """
    best = Signals(
        human=1.0, judge=1.0, task_success=1.0, cost_usd=0.0, latency_ms=0.0, safety_verdict=SafetyVerdict.CLEAN
    )
    tripped = Signals(
        human=1.0,
        judge=1.0,
        task_success=1.0,
        cost_usd=0.0,
        latency_ms=0.0,
        vetoes=(VetoReason.GUARDRAIL_POLICY,),
        safety_verdict=SafetyVerdict.TRIPPED,
    )
    clean, vetoed = contribution(reward(best, spec)), contribution(reward(tripped, spec))
    return (clean.reward if clean else 0.0), (vetoed.reward if vetoed else 1.0)


def _veto(policy: PolicyFacts, _: datetime) -> Found:
    clean, vetoed = breach(policy.spec.reward)
    worst = policy.settled.most_vetoed
    text = f"a synthetic breach of an episode worth {clean:.2f} earns {vetoed:.2f}"
    if worst is not None:
        text = f"{text}; the most of {policy.settled.vetoed} vetoed episodes {worst:.2f}"
    return text, vetoed == 0.0 and not worst


def _weights(policy: PolicyFacts, _: datetime) -> Found:
    spec = policy.spec.reward
    named = (
        f"human {spec.weight_human:g}, judge {spec.weight_judge:g}, task success {spec.weight_task_success:g}, "
        f"cost {spec.weight_cost:g}, latency {spec.weight_latency:g}"
    )
    return f"{named}; {policy.configured or 'stated by nobody who is known'}", bool(policy.configured)


# P2, online bandit --------------------------------------------------------------------------------------------------


def _stable(policy: PolicyFacts, _: datetime) -> Found:
    episodes = policy.settled.episodes
    corrected = policy.settled.corrected / episodes if episodes else 0.0
    drawn = "not looked at yet" if policy.p_value is None else f"p = {policy.p_value:.2g}"
    text = f"share corrected later {corrected:.3f} of {MOST_CORRECTED}, self-check {drawn}"
    held = f"; learning is held: {policy.learning_held}" if policy.learning_held else ""
    return text + held, episodes > 0 and corrected <= MOST_CORRECTED and not policy.learning_held


def _gating(policy: PolicyFacts, _: datetime) -> Found:
    floor, holdout = policy.spec.exploration.floor, policy.holdout_version
    text = f"floor {floor:g}, {FLOOR_RANGE[0]} or more; holdout {holdout[:12] or 'missing'}"
    return text, floor >= FLOOR_RANGE[0] and bool(holdout)


def _no_regression(policy: PolicyFacts, _: datetime) -> Found:
    lift = policy.watched.holdout if policy.watched is not None else None
    if policy.watched is None or lift is None:
        return "no check has measured the holdout", False
    low = lift.value - _NORMAL_95 * lift.error
    text = f"lift {lift.value:+.3f} over {policy.watched.checks} checks, lower bound {low:+.3f}, above -{MARGIN}"
    return text, low > -MARGIN


def _no_less_reward(policy: PolicyFacts, _: datetime) -> Found:
    lift = policy.watched.reward if policy.watched is not None else None
    if lift is None:
        return "no check has compared both sides of the traffic", False
    text, ended = f"lift over the concurrent baseline {_interval(lift)}, 0 or more", policy.experiment
    if ended is None:
        return text, lift.value >= 0.0
    return f"{text}; experiment {ended.name}: {ended.decision}", lift.value >= 0.0 and ended.decision not in _FAILED


def _alarm(policy: PolicyFacts, now: datetime) -> Found:
    watched = policy.watched
    if watched is None or watched.success_time is None:
        return "no check has succeeded", False
    age, due = now - watched.success_time, 2 * watched.interval
    text = (
        f"evidence {watched.evidence:.3g} of {watched.threshold:g}, last check "
        f"{age / timedelta(hours=1):.1f} h ago, {due / timedelta(hours=1):g} at most"
    )
    blind = "; blind" if watched.is_blind else ""
    return text + blind, age <= due and not watched.is_blind


def _rollback(policy: PolicyFacts, _: datetime) -> Found:
    stopped = policy.stopped
    if stopped is None:
        return "never frozen: freeze it once under traffic, and unfreeze it", False
    drawn = f"last drawn decision {stopped.latest_drawn.total_seconds():.2f} s later" if stopped.drawn else "none drawn"
    text = f"frozen {stopped.time:%Y-%m-%d %H:%M} UTC: {drawn}, {stopped.frozen} served the baseline"
    return text, stopped.frozen > 0 and stopped.latest_drawn <= EFFECT


def _interval(lift: Lift) -> str:
    reach = 1.96 * lift.error
    return f"{lift.value:+.3f} [{lift.value - reach:+.3f}, {lift.value + reach:+.3f}]"


# P3 and P4, better prompts and weights ------------------------------------------------------------------------------


def _material(policy: PolicyFacts, _: datetime) -> Found:
    scored = policy.counts.get("SETTLED", 0) + policy.counts.get("VETOED", 0)
    return f"{scored} scored trajectories, {LEAST_EPISODES} or more", scored >= LEAST_EPISODES


def _frozen_set(policy: PolicyFacts, _: datetime) -> Found:
    return f"holdout {policy.holdout_version[:12] or 'missing'}", bool(policy.holdout_version)


def _promoted(kind: ProposalKind, policy: PolicyFacts, _: datetime) -> Found:
    served = [each for each in policy.serving if each.kind is kind]
    passed = [
        each
        for each in served
        if each.gate_result is not None and each.gate_result.verdict is Verdict.PASS and each.approver_person
    ]
    if not passed:
        return f"{len(served)} served, none of them by a PASS and a person", False
    newest = max(passed, key=lambda each: each.update_time)
    return f"{newest.proposal_id}: PASS, approved by {newest.approver}", True


def _improved(policy: PolicyFacts, now: datetime) -> Found:
    text, met = _no_less_reward(policy, now)
    return f"{text}; {policy.open_incidents} open incidents", met and not policy.open_incidents


def _pairs(policy: PolicyFacts, _: datetime) -> Found:
    return f"{policy.preferences} compared pairs, {LEAST_PAIRS} or more", policy.preferences >= LEAST_PAIRS


def _not_built(policy: PolicyFacts, _: datetime) -> Found:
    return "weights cannot be trained yet", False


_P0, _P1, _P2, _P3, _P4 = Phase
_ENTRY, _EXIT = CriterionKind
_ASKED: Final = (
    _Asked(_P0, _ENTRY, "a policy is configured", _configured),
    _Asked(_P0, _EXIT, "feedback is kept for a meaningful sample of the traffic", _feedback),
    _Asked(_P0, _EXIT, "feedback is shown", _shown),
    _Asked(_P1, _ENTRY, "feedback flows", _flowing),
    _Asked(_P1, _ENTRY, "judge and guardrails answer", _callable),
    _Asked(_P1, _EXIT, "every completed turn has a reward row", _every_turn),
    _Asked(_P1, _EXIT, "a safety veto zeroes the reward", _veto),
    _Asked(_P1, _EXIT, "the weights are reviewed", _weights),
    _Asked(_P2, _ENTRY, "rewards are stable", _stable),
    _Asked(_P2, _ENTRY, "floor and gate are in place", _gating),
    _Asked(_P2, _EXIT, "no regression on the holdout", _no_regression),
    _Asked(_P2, _EXIT, "reward no less than the control's", _no_less_reward),
    _Asked(_P2, _EXIT, "the divergence alarm is live", _alarm),
    _Asked(_P2, _EXIT, "instant rollback is demonstrated", _rollback),
    _Asked(_P3, _ENTRY, "trajectories and rewards are available", _material),
    _Asked(_P3, _ENTRY, "the golden set is frozen", _frozen_set),
    _Asked(
        _P3,
        _EXIT,
        "a prompt passed the holdout, was approved by a person and serves",
        partial(_promoted, ProposalKind.PROMPT),
    ),
    _Asked(_P3, _EXIT, "online reward is no less, without divergence", _improved),
    _Asked(_P4, _ENTRY, "preferences at scale", _pairs),
    _Asked(_P4, _ENTRY, "a recipe with a KL anchor is reviewed, and there is a GPU for it", _not_built),
    _Asked(
        _P4,
        _EXIT,
        "weights passed the holdout under the anchor, were approved and serve",
        partial(_promoted, ProposalKind.LORA),
    ),
)

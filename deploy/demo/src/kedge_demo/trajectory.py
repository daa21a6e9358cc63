"""Spell what the core application observed of one turn: its trajectory, and the outcomes that follow."""

from kedge.bandit.v1 import episode_pb2 as episodes
from kedge.bandit.v1.outcome_pb2 import Outcome
from kedge_client.outcomes import OutcomeMaker
from kedge_demo.world import World

GUARDRAILS = (
    episodes.GUARDRAIL_KIND_PII,
    episodes.GUARDRAIL_KIND_POLICY,
    episodes.GUARDRAIL_KIND_INJECTION,
)


def trajectory(world: World, turn: int, action: int) -> episodes.Trajectory:
    """Log one model call with its cost and latency, and the guardrail's verdict, clean or tripped."""
    truth = world.truth
    call = episodes.LlmCall(
        model_id=world.model_ids[action],
        prompt_tokens=int(truth.prompt_tokens[turn]),
        completion_tokens=int(truth.completion_tokens[turn, action]),
        cost_usd=float(truth.cost_usd[turn, action]),
        latency_ms=float(truth.latency_ms[turn, action]),
    )
    kind, tripped = GUARDRAILS[turn % len(GUARDRAILS)], bool(truth.tripped[turn, action])
    verdict = episodes.GuardrailEvent(kind=kind, tripped=tripped)
    return episodes.Trajectory(llm_calls=[call], guardrail_events=[verdict], terminated=True)


def prompt_outcomes(
    world: World, turn: int, action: int, make: OutcomeMaker, *, name: str, judged: bool
) -> list[Outcome]:
    """Report what is known when the turn ends: the verifier's word or its absence, and the judge's if it was asked.

    Args:
        name: of the episode, which the keys of its outcomes begin with.
    """
    truth = world.truth
    if truth.has_verifier[turn]:
        found = [make.task_success(float(truth.score[turn, action]), key=f"{name}:task")]
    else:
        found = [make.absent("TASK_SUCCESS", "NOT_APPLICABLE", key=f"{name}:task")]
    if judged:
        found.append(make.judge(float(truth.judge[turn, action]), key=f"{name}:judge"))
    return found


def thumb(world: World, turn: int, action: int, make: OutcomeMaker, *, name: str) -> Outcome | None:
    """Report the thumb that a person gives some turns later, on one turn in twenty."""
    truth = world.truth
    if not truth.has_thumb[turn]:
        return None
    return make.thumb(1 if truth.thumb_up[turn, action] else -1, rater_id=f"reader-{turn % 997}", key=f"{name}:thumb")


def final_state(world: World, turn: int, action: int, *, judged: bool) -> str:
    """Name the state that the episode must end in once all of its outcomes are in."""
    truth = world.truth
    if truth.tripped[turn, action]:
        return "VETOED"
    scored = judged or truth.has_verifier[turn] or truth.has_thumb[turn]
    return "SETTLED" if scored else "UNSCORED"

"""Say what scenes about caps have in common."""

from dataclasses import replace

from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import PLAIN, choose
from kedge_bandit.domain.episode import LlmCall, Trajectory
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import Allocation
from tests.bandit.application.scene import CLEAN, SPEC, SUPPORT, Row, Scene


def capped(*, decisions: int = 0, usd: float = 0.0) -> PolicySpec:
    exploration = replace(
        SPEC.exploration, max_non_baseline_decisions_per_hour=decisions, max_non_baseline_cost_usd_per_day=usd
    )
    return replace(SPEC, exploration=exploration)


HOURLY = capped(decisions=3)
DAILY = capped(usd=1.0)


def costing(usd: float) -> Trajectory:
    return replace(CLEAN, llm_calls=(LlmCall(model_id="m", prompt_tokens=1, completion_tokens=1, cost_usd=usd),) * 2)


def windows_move_on(scene: Scene, minutes: int) -> None:
    """Move everything that the caps count into the past."""
    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '2 seconds'")
    scene.sql(
        """UPDATE policy_state SET capped_until = capped_until - make_interval(mins => %s), usage = usage ||
            jsonb_build_object('decisions', (
                SELECT coalesce(jsonb_agg(jsonb_build_array((slot ->> 0)::bigint - %s, slot -> 1)), '[]')
                FROM jsonb_array_elements(usage -> 'decisions') slot))""",
        minutes,
        minutes,
    )


def decided_by(allocation: Allocation, scene: Scene, episode: str) -> Row:
    """Decide as a replica does that serves this allocation."""
    u = uniform(scene.tenant, SUPPORT, episode, allocation.seed_epoch, allocation.version)
    choice = choose(allocation, PLAIN, Mode.APPLY, u)
    return scene.decide(
        episode,
        action=allocation.actions[choice.index],
        propensity=choice.propensity,
        reason=choice.reason,
        is_randomised=choice.is_randomised,
        policy_version=allocation.policy_version,
        allocation_version=allocation.version,
        seed_epoch=allocation.seed_epoch,
    )

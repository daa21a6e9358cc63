"""The worker freezes a policy whose vetoes rise, and says where its judge or its answers part from the baseline's."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from kedge_bandit.application.watch_detectors import WatchDetectors
from kedge_bandit.domain.episode import LlmCall
from kedge_bandit.domain.lifecycle import unfreeze
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.outcome import SignalKind
from kedge_bandit.domain.policy import Exploration, PolicySpec
from kedge_bandit.domain.switch import QuarantineChoice
from kedge_bandit.entrypoints.retention import LocalClock
from tests.bandit.application.ramped_scene import BASELINE, newest_allocation
from tests.bandit.application.scene import CLEAN, LEAKED, SPEC, SUPPORT, Row, Scene, Scenes

HALVED: PolicySpec = replace(SPEC, exploration=Exploration(floor=0.5, uniform_slice=0.2, budget_off=True))
TURNS = 1_000
"""Enough for more than 300 on either side of a vector that gives the baseline between .5 and .65."""


@dataclass(frozen=True, slots=True)
class Side:
    """How the turns of one side go: what a judge and a verifier say, tokens of an answer, and the share vetoed."""

    judged: float = 0.6
    verified: float = 0.6
    tokens: int = 100
    vetoed: float = 0.01


async def play(scene: Scene, name: int, learned: Side, *, only: str = "") -> None:
    """Play turns against a baseline that is a plain Side, drawn as the newest vector says.

    Args:
        only: arm that goes as `learned` says, the others being plain; empty: every arm but the baseline.
    """
    rng = np.random.default_rng(name)
    version, vector = newest_allocation(scene)
    drawn = rng.choice(list(vector), size=TURNS, p=list(vector.values()))
    rows: list[Row] = []
    for place, arm in enumerate(drawn):
        side, episode = (learned if arm == only or (not only and arm != BASELINE) else Side()), f"{name}-{place}"
        call = LlmCall(model_id="m", prompt_tokens=10, completion_tokens=int(side.tokens * rng.uniform(0.5, 1.5)))
        safe = LEAKED if rng.random() < side.vetoed else CLEAN
        judged = float(np.clip(rng.normal(side.judged, 0.2), 0, 1))
        rows += [
            scene.decide(
                episode,
                str(arm),
                propensity=vector[arm],
                allocation_version=version,
                is_randomised=True,
                judge_requested=True,
            ),
            scene.outcome(episode, float(rng.random() < side.verified)),
            scene.outcome(episode, judged, signal=SignalKind.JUDGE),
            scene.log(episode, replace(safe, llm_calls=(call,))),
        ]
    scene.write(*rows)
    while (await scene.learn()).is_truncated:
        pass


async def alarms(scene: Scene, watch: WatchDetectors, learned: Side, *, rounds: range) -> bool:
    """Play and look until something trips; says whether it did."""
    for name in rounds:
        await play(scene, name, learned)
        if await watch(scene.tenant):
            return True
    return False


async def mode(scene: Scene) -> Mode:
    async with scene.ledgers.open(scene.tenant) as ledger:
        return (await ledger.policies.get(SUPPORT)).mode


async def test_a_rise_of_vetoes_freezes_the_policy_and_says_why(scenes: Scenes) -> None:
    scene = await scenes(HALVED)

    assert await alarms(scene, WatchDetectors(scene.ledgers, LocalClock()), Side(vetoed=0.12), rounds=range(4))

    assert await mode(scene) is Mode.FROZEN
    [(tripped, froze, evidence)] = scene.sql("SELECT detector, froze, evidence FROM incident")
    assert (tripped, froze) == ("veto_rate", True)
    assert "evidence" in evidence
    verbs = scene.sql("SELECT verb, actor FROM audit_event ORDER BY audit_sequence DESC LIMIT 2")
    assert verbs == [("incident.opened", "kedge"), ("policy.frozen", "kedge")]
    [(because,)] = scene.sql("SELECT because FROM audit_event WHERE verb = 'policy.frozen'")
    assert because == evidence


@pytest.mark.parametrize(
    ("detector", "learned"),
    [("judge_gap", Side(judged=0.95, verified=0.5)), ("answer_length", Side(tokens=180))],
)
async def test_a_pleased_judge_and_longer_answers_open_one_incident_and_freeze_nothing(
    scenes: Scenes, detector: str, learned: Side
) -> None:
    scene = await scenes(HALVED)
    watch = WatchDetectors(scene.ledgers, LocalClock())

    assert await alarms(scene, watch, learned, rounds=range(4))
    assert not await alarms(scene, watch, learned, rounds=range(4, 6))  # people know of it

    assert await mode(scene) is Mode.APPLY
    assert scene.sql("SELECT detector, state, froze FROM incident") == [(detector, "OPEN", False)]


async def test_a_healthy_policy_is_looked_at_and_left_alone(scenes: Scenes) -> None:
    scene = await scenes(HALVED)
    watch = WatchDetectors(scene.ledgers, LocalClock())

    assert not await alarms(scene, watch, Side(judged=0.65, verified=0.65), rounds=range(2))

    assert await mode(scene) is Mode.APPLY
    looks = scene.sql("SELECT detector, looks FROM detector ORDER BY detector")
    assert looks == [("answer_length", 2), ("judge_gap", 2), ("veto_rate", 2)]


async def test_after_a_freeze_the_detector_starts_anew(scenes: Scenes) -> None:
    scene = await scenes(HALVED)
    watch = WatchDetectors(scene.ledgers, LocalClock())
    assert await alarms(scene, watch, Side(vetoed=0.12), rounds=range(4))
    async with scene.ledgers.open(scene.tenant) as ledger:
        found = await ledger.policies.get(SUPPORT)
        moved = unfreeze(found, scene.because(), resume=Mode.APPLY, quarantine=QuarantineChoice.KEEP)
        await ledger.policies.put(*moved)
    await scene.learn()

    [(reading, known)] = scene.sql("SELECT reading, known FROM detector WHERE detector = 'veto_rate'")
    assert (reading, known) == (None, 0.0)


async def test_a_look_reads_no_episode_twice(scenes: Scenes) -> None:
    scene = await scenes(HALVED)
    await play(scene, 0, Side())
    await WatchDetectors(scene.ledgers, LocalClock())(scene.tenant)

    await WatchDetectors(scene.ledgers, LocalClock())(scene.tenant)

    assert scene.sql("SELECT max(looks) FROM detector") == [(1,)]


async def test_the_vetoes_of_an_arm_that_is_excluded_already_stop_nobody_else(scenes: Scenes) -> None:
    scene = await scenes(HALVED)
    await play(scene, 0, Side(vetoed=0.3), only="other")

    assert await WatchDetectors(scene.ledgers, LocalClock())(scene.tenant) == []

    assert scene.sql("SELECT action FROM action_state WHERE ineligible") == [(scene.key("other"),)]
    assert scene.sql("SELECT looks FROM detector WHERE detector = 'veto_rate'") == [(1,)]

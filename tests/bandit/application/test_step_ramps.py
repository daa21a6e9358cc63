"""The worker gives the next stage when every condition holds, and takes it back when a guardrail is breached."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kedge_bandit.application.floor_stages import begin_arm_ramp, take_floor_stage
from kedge_bandit.application.govern import Order
from kedge_bandit.application.ramps import (
    MoveRamp,
    ReadRamps,
    Seen,
    aborting,
    advancing,
    pausing,
)
from kedge_bandit.application.step_ramps import StepRamps
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.incident import Incident, close
from kedge_bandit.domain.ramp import Ramp, RampState
from kedge_bandit.domain.ramp_step import Step
from kedge_bandit.entrypoints.retention import LocalClock
from tests.bandit.application.ramped_scene import FLOORED, play_turns
from tests.bandit.application.scene import SUPPORT, Scene, Scenes, route
from tests.fixtures.administered import StatedOverride

ENOUGH = 2_600
"""Turns that bring what the automatic step asks for: 2,000 settled, 300 of them beside the baseline."""


async def step(scene: Scene) -> list[Step]:
    done = await StepRamps(scene.ledgers)(scene.tenant)
    return done.get(SUPPORT, [])


async def floor_ramp(scene: Scene) -> Seen:
    report = await ReadRamps(scene.ledgers, StatedOverride())(scene.tenant, SUPPORT)
    return report.seen[0]


async def floor(scene: Scene) -> float:
    async with scene.ledgers.open(scene.tenant) as ledger:
        return (await ledger.policies.get(SUPPORT)).spec.exploration.floor


async def move(scene: Scene, movement: object, arm_id: str = "") -> Ramp:
    by = MoveRamp(scene.ledgers, LocalClock(), StatedOverride())
    order = Order(Actor("person:https://login.example#ada"), "we looked into it")
    return await by(scene.tenant, SUPPORT, arm_id, order, movement)  # type: ignore[arg-type]  # one of three functions


async def open_incident(scene: Scene) -> Incident:
    incident = Incident(
        policy=SUPPORT, detector="divergence", statistic=7.0, evidence="a test", open_time=datetime.now(UTC)
    )
    async with scene.ledgers.open(scene.tenant) as ledger:
        return await ledger.incidents.open(incident, scene.because())


async def close_incidents(scene: Scene) -> None:
    async with scene.ledgers.open(scene.tenant) as ledger:
        for incident in await ledger.incidents.list(before=None, limit=10):
            await ledger.incidents.put(*close(incident, scene.because()))


def events(scene: Scene, *verbs: str) -> list[tuple[str, str]]:
    return scene.sql("SELECT verb, actor FROM audit_event WHERE verb = ANY(%s) ORDER BY audit_sequence", list(verbs))


@pytest.fixture
async def ready(scenes: Scenes) -> Scene:
    """A policy at .8 that has settled enough, at a veto rate of .5 %."""
    scene = await scenes(FLOORED)
    await play_turns(scene, ENOUGH, name="first", vetoed_every=200)
    return scene


async def test_the_floor_steps_to_a_half_at_a_veto_rate_of_half_a_percent_and_not_with_an_open_incident(
    ready: Scene,
) -> None:
    await open_incident(ready)
    assert await step(ready) == []
    assert len((await floor_ramp(ready)).judged.holds) == 1

    await close_incidents(ready)
    assert await step(ready) == [Step.ADVANCE]

    assert await floor(ready) == 0.5
    assert events(ready, "ramp.advanced", "policy.staged") == [("policy.staged", "kedge"), ("ramp.advanced", "kedge")]
    assert await step(ready) == []
    assert await floor(ready) == 0.5


async def test_before_two_thousand_episodes_nothing_moves(scenes: Scenes) -> None:
    scene = await scenes(FLOORED)
    await play_turns(scene, 1500, name="first")

    assert await step(scene) == []
    assert any("2,000 settled episodes" in sentence for sentence in (await floor_ramp(scene)).judged.waits_for)


async def test_a_guardrail_that_is_breached_at_the_next_stage_rolls_back_and_opens_an_incident(ready: Scene) -> None:
    assert await step(ready) == [Step.ADVANCE]
    await ready.learn()
    await play_turns(ready, 500, name="second", vetoed_every=8)

    assert await step(ready) == [Step.ROLL_BACK]

    assert await floor(ready) == 0.8
    assert events(ready, "ramp.rolled_back", "incident.opened") == [
        ("ramp.rolled_back", "kedge"),
        ("incident.opened", "kedge"),
    ]
    ramp = await floor_ramp(ready)
    assert (ramp.ramp.state, ramp.ramp.permitted) == (RampState.ROLLED_BACK, 0.8)
    with pytest.raises(IllegalTransition, match="incident"):
        await move(ready, advancing)
    await close_incidents(ready)
    assert (await move(ready, advancing)).state is RampState.RUNNING
    assert await floor(ready) == 0.8
    assert await step(ready) == []


async def test_a_signal_that_is_breached_pauses_and_a_person_lets_it_go_on(scenes: Scenes) -> None:
    scene = await scenes(FLOORED)
    await play_turns(scene, ENOUGH, name="first", cost_usd={"small": 0.01, "large": 0.03, "other": 0.03})

    assert await step(scene) == [Step.PAUSE]
    assert await floor(scene) == 0.8
    assert (await floor_ramp(scene)).ramp.why.startswith("signal cost_usd")

    assert (await move(scene, advancing)).stage.value == 0.5
    assert await floor(scene) == 0.5
    assert ("ramp.advanced", "person:https://login.example#ada") in events(scene, "ramp.advanced")


async def test_draws_that_do_not_fit_what_was_published_hold_the_stage(scenes: Scenes) -> None:
    scene = await scenes(FLOORED)
    await play_turns(scene, ENOUGH, name="first", drawn_by={"large": 0.09, "other": 0.09, "small": 0.82})

    assert await step(scene) == []
    seen = await floor_ramp(scene)
    assert seen.judged.waits_for == ()
    assert [hold.split(":")[0] for hold in seen.judged.holds] == ["sample ratio"]
    with pytest.raises(IllegalTransition, match="sample ratio"):
        await move(scene, advancing)


async def test_an_aborted_ramp_goes_back_at_once_and_the_service_leaves_it_there(ready: Scene) -> None:
    await step(ready)
    await move(ready, aborting)

    assert await floor(ready) == 0.8
    assert await step(ready) == []
    with pytest.raises(IllegalTransition):
        await move(ready, pausing)


async def test_an_approved_floor_is_taken_at_once_and_named_by_its_proposal(ready: Scene) -> None:
    await step(ready)
    async with ready.ledgers.open(ready.tenant) as ledger:
        policy = await ledger.policies.get(SUPPORT)
        await take_floor_stage(
            ledger, policy, ready.because(), floor=0.2, uniform_slice=None, proposal="tenants/acme/proposals/1"
        )

    seen = await floor_ramp(ready)
    assert await floor(ready) == 0.2
    assert [stage.value for stage in seen.ramp.stages] == [0.8, 0.5, 0.2]
    assert seen.ramp.stage.proposal == "tenants/acme/proposals/1"


async def test_an_approved_arm_is_given_more_once_it_is_surely_better(scenes: Scenes) -> None:
    fresh = route("fresh")
    exploration = replace(FLOORED.exploration, arm_caps={fresh.arm_id: 0.05})
    scene = await scenes(replace(FLOORED, arms=(*FLOORED.arms, fresh), exploration=exploration))
    async with scene.ledgers.open(scene.tenant) as ledger:
        policy = await ledger.policies.get(SUPPORT)
        arm_id = fresh.arm_id
        await begin_arm_ramp(ledger, policy, scene.because(), arm_id=arm_id, proposal="tenants/acme/proposals/1")
    await scene.learn()
    await play_turns(scene, 7000, name="first", success={"fresh": 1.0, "small": 0.3})

    assert await step(scene) == [Step.ADVANCE, Step.ADVANCE]  # the floor's and the arm's

    async with scene.ledgers.open(scene.tenant) as ledger:
        exploration = (await ledger.policies.get(SUPPORT)).spec.exploration
    assert (exploration.floor, exploration.arm_caps[arm_id]) == (0.5, 0.2)

"""Where no divergence check succeeds, traffic is taken back on time, and comes again by an approval only."""

from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.application.floor_stages import take_floor_stage
from kedge_bandit.application.govern import Order, StagePolicy
from kedge_bandit.application.ramps import MoveRamp, ReadRamps, advancing
from kedge_bandit.application.step_ramps import StepRamps
from kedge_bandit.application.watch_blind import WatchBlind
from kedge_bandit.domain.audit import Actor
from kedge_bandit.domain.errors import IllegalTransition
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.incident import Incident, close
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.ramp import Ramp, RampState
from kedge_bandit.domain.ramp_step import FloorNotApproved
from kedge_bandit.entrypoints.retention import LocalClock
from tests.bandit.application.ramped_scene import FLOORED, watch
from tests.bandit.application.scene import SUPPORT, Scene, Scenes
from tests.fixtures.administered import StatedOverride
from tests.fixtures.proposing import FixedClock

APPROVED = "tenants/acme/proposals/1"
ADA = Order(Actor("person:https://login.example#ada"), "we looked into it")


@pytest.fixture
async def watched(scenes: Scenes) -> Scene:
    """A policy whose floor was approved down to .2, checked from now on."""
    scene = await scenes(FLOORED)
    await watch(scene)
    await approve(scene)
    return scene


async def approve(scene: Scene) -> None:
    async with scene.ledgers.open(scene.tenant) as ledger:
        policy = await ledger.policies.get(SUPPORT)
        await take_floor_stage(ledger, policy, scene.because(), floor=0.2, uniform_slice=None, proposal=APPROVED)


async def after(scene: Scene, days: float) -> dict[PolicyName, int]:
    """Let the worker look so many days after the watch began, by the database's clock."""
    [(since,)] = scene.sql("SELECT watch_time FROM divergence_watch")
    return await WatchBlind(scene.ledgers, FixedClock(since + timedelta(days=days)))(scene.tenant)


async def now(scene: Scene) -> tuple[Policy, Ramp]:
    async with scene.ledgers.open(scene.tenant) as ledger:
        policy = await ledger.policies.get(SUPPORT)
    return policy, (await ReadRamps(scene.ledgers, StatedOverride())(scene.tenant, SUPPORT)).seen[0].ramp


async def incidents(scene: Scene) -> list[Incident]:
    async with scene.ledgers.open(scene.tenant) as ledger:
        return list(await ledger.incidents.list(before=None, limit=10))


async def test_after_two_intervals_the_floor_is_back_and_only_an_approval_lowers_it(watched: Scene) -> None:
    assert await after(watched, 1.99) == {}
    assert (await now(watched))[0].spec.exploration.floor == 0.2
    assert await after(watched, 2.0) == {SUPPORT: 1}

    policy, ramp = await now(watched)
    assert (policy.spec.exploration.floor, ramp.state, policy.mode) == (0.8, RampState.ROLLED_BACK, Mode.APPLY)
    assert "no divergence check has succeeded" in ramp.why
    [incident] = await incidents(watched)
    assert (incident.detector, incident.froze) == ("blind", False)
    assert await after(watched, 3.9) == {}

    async with watched.ledgers.open(watched.tenant) as ledger:
        await ledger.incidents.put(*close(incident, watched.because()))
        await ledger.divergence.release(SUPPORT, datetime.now(UTC), sees=True)
    assert await StepRamps(watched.ledgers)(watched.tenant) == {}
    with pytest.raises(FloorNotApproved):
        await StagePolicy(watched.ledgers, LocalClock())(watched.tenant, SUPPORT, ADA, floor=0.5)
    move = MoveRamp(watched.ledgers, LocalClock(), StatedOverride())
    assert (await move(watched.tenant, SUPPORT, "", ADA, advancing)).stage.value == 0.8
    assert (await now(watched))[0].spec.exploration.floor == 0.8
    await approve(watched)
    assert (await now(watched))[0].spec.exploration.floor == 0.2


async def test_after_four_intervals_the_policy_observes(watched: Scene) -> None:
    assert await after(watched, 2.5) == {SUPPORT: 1}
    assert await after(watched, 4.0) == {SUPPORT: 2}
    assert (await now(watched))[0].mode is Mode.OBSERVE
    assert len(await incidents(watched)) == 1
    verbs = watched.sql("SELECT verb, actor FROM audit_event ORDER BY audit_sequence DESC LIMIT 1")
    assert verbs == [("policy.mode_set", "kedge")]
    assert await after(watched, 9.0) == {}


async def test_a_worker_that_was_away_takes_both_steps_at_once(watched: Scene) -> None:
    assert await after(watched, 7.0) == {SUPPORT: 2}
    policy, _ = await now(watched)
    assert (policy.mode, policy.spec.exploration.floor) == (Mode.OBSERVE, 0.8)


async def test_time_that_a_policy_stands_still_makes_nobody_blind(watched: Scene) -> None:
    await watched.freeze()
    assert await after(watched, 30.0) == {}


async def test_what_nobody_watches_is_never_blind_and_stays_at_its_first_stage(scenes: Scenes) -> None:
    scene = await scenes(FLOORED)
    assert await WatchBlind(scene.ledgers, FixedClock(datetime.now(UTC) + timedelta(days=30)))(scene.tenant) == {}
    with pytest.raises(IllegalTransition, match="a deception would be seen"):
        await approve(scene)
    [seen] = (await ReadRamps(scene.ledgers, StatedOverride())(scene.tenant, SUPPORT)).seen
    assert any("a holdout" in line for line in seen.judged.waits_for)

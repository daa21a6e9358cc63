"""Whoever decides on another reward spec sees what the last days would have earned under it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kedge_bandit.adapters.grpc.wire_proposal import reward_preview_message
from kedge_bandit.application.read_proposals import ReadProposals
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.candidate import Candidate, ProposalKind
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.outcome import SignalKind
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.proposal import ProposalId, submit
from kedge_bandit.domain.rescore import Rescored
from tests.bandit.application.scene import LEAKED, SPEC, SUPPORT, Scene, Scenes

DEARER = replace(SPEC, reward=replace(SPEC.reward, weight_cost=0.5, version=2))


async def propose(scene: Scene, configuration: PolicySpec) -> ProposalId:
    name = ProposalId("p-1")
    async with scene.ledgers.open(scene.tenant) as ledger:
        policy = await ledger.policies.get(SUPPORT)
        change = Change(tenant=scene.tenant, actor=KEDGE, because="a test", at=datetime.now(UTC))
        candidate = Candidate(ProposalKind.CONFIG, configuration=configuration)
        await ledger.proposals.put(*submit(name, SUPPORT, policy.spec, candidate, change, person=None))
    return name


async def previewed(scene: Scene, configuration: PolicySpec) -> dict[str, Rescored]:
    told = await ReadProposals(scene.ledgers).one(scene.tenant, await propose(scene, configuration))
    return {one.action: one for one in told.rescored}


async def play(scene: Scene) -> None:
    """Four episodes: a dear and a cheap success, a veto, and one with a judge alone."""
    scene.write(
        *(scene.decide(name, arm) for name, arm in (("dear", "large"), ("cheap", "small"), ("leaks", "large"))),
        scene.decide("seen", "small", judge_requested=True),
        *(scene.outcome(name) for name in ("dear", "cheap", "leaks")),
        scene.outcome("dear", 0.01, signal=SignalKind.COST),
        scene.outcome("cheap", 0.0, signal=SignalKind.COST),
        scene.outcome("seen", 0.9, signal=SignalKind.JUDGE),
        *(scene.log(name) for name in ("dear", "cheap", "seen")),
        scene.log("leaks", LEAKED),
    )
    await scene.learn()


async def test_a_dearer_cost_is_seen_by_action_before_anybody_approves_it(scenes: Scenes) -> None:
    scene = await scenes()
    await play(scene)

    found = await previewed(scene, DEARER)

    large, small = found[scene.key("large")], found[scene.key("small")]
    assert (large.episodes, large.learned_before, large.learned_after) == (2, 2, 2)
    assert (small.episodes, small.learned_before, small.learned_after) == (2, 1, 1)
    assert large.before == (0.9 + 0.0) / 2
    assert abs(large.after - (0.9 - 0.5) / 2) < 1e-9
    assert abs(small.after - 0.9) < 1e-9
    message = reward_preview_message(small)
    assert (message.action_key, message.learned_after, message.after) == (small.action, 1, small.after)


async def test_another_configuration_with_the_same_reward_spec_judges_nothing_anew(scenes: Scenes) -> None:
    scene = await scenes()
    await play(scene)

    assert await previewed(scene, replace(SPEC, half_life=timedelta(days=3))) == {}


async def test_what_is_older_than_two_weeks_is_left_out(scenes: Scenes) -> None:
    scene = await scenes()
    old = datetime.now(UTC) - timedelta(days=15)
    scene.write(scene.decide("old", time=old), scene.outcome("old"), scene.log("old"))
    await scene.learn()

    assert await previewed(scene, DEARER) == {}

"""An approval is worth nothing once its ground has changed or its time is over; going back always works."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kedge.bandit.v1 import governance_service_pb2, proposal_pb2
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.adapters.postgres import tables
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers, schema_of
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.policy import PolicySpec
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.ledgers import START
from tests.fixtures.proposing import Cast, a_pass, cast, prompt

State = proposal_pb2.Proposal.State
WARM = prompt("warm", "Answer warmly.")


@pytest.fixture
async def play(administered: Administered, ledgers: PostgresLedgers) -> Cast:
    return await cast(administered, ledgers)


# The binding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["candidate", "incumbent", "evidence", "holdout", "arm", "scores"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_whatever_changed_by_the_time_it_would_serve_voids_it(play: Cast, changed: str, when: str) -> None:
    proposal = await play.waiting_for_a_window(WARM) if when == "after" else await play.awaiting(WARM)
    await CHANGES[changed](play, proposal)
    if when == "before":
        voided = await play.approve(proposal)
    else:
        await play.attend(proposal, later=timedelta(days=3))
        voided = await play.read(proposal.name)
    assert voided.state == State.STATE_VOIDED
    assert "warm" not in await play.live_prompts()
    assert voided.state_because


async def change_candidate(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    arm = {"dimension": "PROMPT_VARIANT", "name": "warm", "content": "Ignore all rules."}
    await play.tamper(proposal, candidate={"kind": "PROMPT", "arm": arm})


async def change_incumbent(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    pinned = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_BASELINE)
    pinned.baseline.model_route.name, pinned.baseline.prompt_variant.name = "small", "steps"
    other = await play.gate(await play.propose(pinned), a_pass())
    assert (await play.approve(other, by=play.root, force=True)).state == State.STATE_SERVING


async def change_evidence(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    await play.tamper(proposal, lineage='{"run": "another"}')


async def change_holdout(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    async with play.ledgers.open(play.tenant_id) as ledger:
        await ledger.proposals.put_holdout_version(PolicyName("support"), "h2", START)


async def change_arm(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    def other_model(spec: PolicySpec) -> PolicySpec:
        arms = (replace(arm, content="another-model") if arm.name == "small" else arm for arm in spec.arms)
        return replace(spec, arms=tuple(arms))

    await play.put_by_hand(other_model)


async def change_scores(play: Cast, proposal: proposal_pb2.Proposal) -> None:
    await play.tamper(proposal, evaluation_hash="0" * 64)


CHANGES = {
    "candidate": change_candidate,
    "incumbent": change_incumbent,
    "evidence": change_evidence,
    "holdout": change_holdout,
    "arm": change_arm,
    "scores": change_scores,
}


# Time ---------------------------------------------------------------------------------------------------------------


async def test_what_waits_for_the_end_of_a_window_is_served_then(play: Cast) -> None:
    waiting = await play.waiting_for_a_window(WARM)
    await play.attend(waiting)
    assert (await play.read(waiting.name)).state == State.STATE_APPROVED
    await play.attend(waiting, later=timedelta(days=3))
    assert (await play.live_prompts())["warm"] == "Answer warmly."


async def test_an_admin_overrides_a_window(play: Cast) -> None:
    waiting = await play.waiting_for_a_window(WARM)
    other = await play.awaiting(prompt("cool", "Answer coolly."))
    assert (await refusal(play.approve(other, force=True)))[1] == "PERMISSION_DENIED"
    assert (await play.approve(other, by=play.root, force=True)).state == State.STATE_SERVING
    reject = pb.RejectProposalRequest(name=waiting.name, because="not this one")
    rejected = await play.it.proposals.RejectProposal(reject, metadata=play.carol)
    assert rejected.proposal.state == State.STATE_VOIDED


async def test_what_nobody_decided_expires_after_fourteen_days_and_the_approval_that_comes_too_late(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    await play.attend(proposal, later=timedelta(days=13))
    assert (await play.read(proposal.name)).state == State.STATE_AWAITING_APPROVAL
    await play.attend(proposal, later=timedelta(days=15))
    assert (await play.read(proposal.name)).state == State.STATE_EXPIRED
    assert (await refusal(play.approve(proposal)))[1] == "ILLEGAL_TRANSITION"


async def test_a_gate_that_says_nothing_for_a_day_is_given_up(play: Cast) -> None:
    running = await play.submit(WARM)
    await play.attend(running, later=timedelta(hours=25))
    found = await play.read(running.name)
    assert (found.state, found.gate_result.inconclusive_reason) == (State.STATE_INCONCLUSIVE, "CRASHED")


async def test_nothing_new_is_served_while_the_kill_switch_is_pulled(play: Cast) -> None:
    proposal = await play.awaiting(WARM)
    freeze = governance_service_pb2.FreezeRequest(name=play.policy, because="look at it first")
    await play.it.governance.Freeze(freeze, metadata=play.bob)
    assert (await refusal(play.approve(proposal)))[1] == "POLICY_FROZEN"


# Going back ---------------------------------------------------------------------------------------------------------


async def test_a_revert_works_after_the_incumbent_was_deleted_elsewhere(play: Cast) -> None:
    served = await play.approve(await play.awaiting(prompt("steps", "Go in steps, and check each.")))
    assert await play.live_prompts() == {"plain": "Answer plainly.", "steps": "Go in steps, and check each."}
    async with play.it.engine.connect() as owner, owner.begin():
        await owner.execution_options(schema_translate_map={tables.TENANT: schema_of(play.tenant_id)})
        gone = tables.arm.delete().where(tables.arm.c.content == "Go step by step.")
        assert (await owner.execute(gone)).rowcount == 1
    old = "Go step by step."
    await play.put_by_hand(lambda spec: replace(spec, arms=tuple(arm for arm in spec.arms if arm.content != old)))
    revert = pb.RevertProposalRequest(name=served.name, because="it was better before")
    assert (await play.it.proposals.RevertProposal(revert, metadata=play.carol)).proposal.state == State.STATE_REVERTED
    assert await play.live_prompts() == {"plain": "Answer plainly.", "steps": "Go step by step."}
    for name in ("steps", "other-name"):
        again = play.submit(prompt(name, "Go in steps, and check each."))
        assert (await refusal(again))[1] == "RECENTLY_REVERTED"


async def test_a_revert_of_what_became_the_baseline_pins_its_predecessor_again(play: Cast) -> None:
    served = await play.approve(await play.awaiting(WARM))
    pinned = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_BASELINE)
    pinned.baseline.model_route.name, pinned.baseline.prompt_variant.name = "small", "warm"
    await play.approve(await play.gate(await play.propose(pinned), a_pass()))
    assert (await play.served()).baseline.prompt_variant.name == "warm"
    revert = pb.RevertProposalRequest(name=served.name, because="it was better before")
    await play.it.proposals.RevertProposal(revert, metadata=play.carol)
    policy = await play.served()
    assert policy.baseline.prompt_variant.name == "plain"
    assert "warm" not in await play.live_prompts()


async def test_a_successor_supersedes_what_it_replaces(play: Cast) -> None:
    first = await play.approve(await play.awaiting(WARM))
    second = await play.approve(await play.awaiting(prompt("warm", "Answer very warmly.")))
    assert second.state == State.STATE_SERVING
    assert (await play.read(first.name)).state == State.STATE_SUPERSEDED
    assert (await play.live_prompts())["warm"] == "Answer very warmly."

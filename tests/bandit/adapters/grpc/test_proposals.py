"""ProposalService over a real channel and a real database, with a stand-in for the gate's verdict."""

import grpc
import pytest

from kedge.bandit.v1 import proposal_pb2
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.proposing import Cast, a_pass, cast, inconclusive, prompt

State = proposal_pb2.Proposal.State
FAILED = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture
async def play(administered: Administered, ledgers: PostgresLedgers) -> Cast:
    return await cast(administered, ledgers)


async def test_a_prompt_goes_from_a_proposal_to_serving_under_a_cap_and_back(play: Cast) -> None:
    proposal = await play.submit(prompt("warm", "Answer warmly."))
    assert proposal.state == State.STATE_GATE_RUNNING
    assert (proposal.candidate, proposal.incumbent) == ("Answer warmly.", "Answer plainly.")
    assert "warm" not in await play.live_prompts()
    proposal = await play.gate(proposal, a_pass())
    assert proposal.state == State.STATE_AWAITING_APPROVAL
    assert "warm" not in await play.live_prompts()
    served = await play.approve(proposal)
    assert served.state == State.STATE_SERVING
    assert (await play.live_prompts())["warm"] == "Answer warmly."
    policy = await play.served()
    [arm] = [arm for arm in policy.arms if arm.name == "warm"]
    assert policy.exploration.arm_caps[f"warm@{arm.content_hash[:12]}"] == 0.05
    reverting = pb.RevertProposalRequest(name=proposal.name, because="people dislike it")
    reverted = await play.it.proposals.RevertProposal(reverting, metadata=play.bob)
    assert reverted.proposal.state == State.STATE_REVERTED
    assert await play.live_prompts() == {"plain": "Answer plainly.", "steps": "Go step by step."}
    told = await play.read(proposal.name)
    assert [State.Name(step.state) for step in told.steps] == [
        f"STATE_{name}"
        for name in ("SUBMITTED", "GATE_RUNNING", "AWAITING_APPROVAL", "APPROVED", "SERVING", "REVERTED")
    ]
    assert told.steps[3].actor == "person:https://login.example#bob by key:bob"


async def test_an_approval_of_another_hash_is_refused(play: Cast) -> None:
    proposal = await play.awaiting(prompt("warm", "Answer warmly."))
    proposal.binding_hash = "0" * 64
    assert await refusal(play.approve(proposal)) == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
    assert (await play.read(proposal.name)).state == State.STATE_AWAITING_APPROVAL


async def test_an_inconclusive_gate_takes_an_admin_of_another_person(play: Cast) -> None:
    proposal = await play.gate(await play.submit(prompt("warm", "Answer warmly.")), inconclusive())
    assert proposal.state == State.STATE_INCONCLUSIVE
    assert (await refusal(play.approve(proposal)))[1] == "ILLEGAL_TRANSITION"
    assert (await refusal(play.approve(proposal, force=True)))[1] == "PERMISSION_DENIED"
    forced = await play.approve(proposal, by=play.root, force=True)
    assert (forced.state, forced.forced) == (State.STATE_SERVING, True)

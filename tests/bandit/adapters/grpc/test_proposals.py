"""ProposalService over a real channel and a real database, with a stand-in for the gate's verdict."""

import grpc
import pytest

from kedge.bandit.v1 import proposal_pb2
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.identifiers import PolicyName
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.ledgers import START
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


async def test_a_request_that_is_sent_again_proposes_once_and_approves_once(play: Cast) -> None:
    wish = proposal_pb2.Proposal(
        policy=play.policy,
        kind=proposal_pb2.PROPOSAL_KIND_PROMPT,
        arm=prompt("warm", "Answer warmly."),
        because="it reads better",
    )
    request = pb.SubmitProposalRequest(parent=play.tenant, proposal=wish, request_id="r1", hold=True)
    first = await play.it.proposals.SubmitProposal(request, metadata=play.alice)
    assert await play.it.proposals.SubmitProposal(request, metadata=play.alice) == first
    consent = pb.ApproveProposalRequest(
        name=first.proposal.name,
        binding_hash=first.proposal.binding_hash,
        because="it is an emergency",
        force=True,
        request_id="r2",
    )
    served = await play.it.proposals.ApproveProposal(consent, metadata=play.root)
    assert await play.it.proposals.ApproveProposal(consent, metadata=play.root) == served
    assert (await play.served()).policy_version == 2


async def test_the_same_content_is_proposed_once_and_what_is_live_not_at_all(play: Cast) -> None:
    old = await play.submit(prompt("warm", "Answer warmly."), hold=True)
    for arm in (
        prompt("warm", "Answer warmly."),
        prompt("other", "Answer warmly."),
        prompt("plain", "Answer plainly."),
    ):
        assert await refusal(play.submit(arm)) == (FAILED, "ILLEGAL_TRANSITION")
    assert (await refusal(play.submit(prompt("plain", "Answer rudely."))))[1] == "ILLEGAL_TRANSITION"
    new = await play.submit(prompt("warm", "Answer very warmly."), supersedes=old.name)
    assert (await play.read(old.name)).state == State.STATE_WITHDRAWN
    assert new.supersedes == old.name


async def test_only_who_proposed_it_or_an_admin_takes_it_back(play: Cast) -> None:
    proposal = await play.submit(prompt("warm", "Answer warmly."), hold=True)
    withdraw = pb.WithdrawProposalRequest(name=proposal.name, because="not now")
    assert (await refusal(play.it.proposals.WithdrawProposal(withdraw, metadata=play.robot)))[1] == "PERMISSION_DENIED"
    taken = await play.it.proposals.WithdrawProposal(withdraw, metadata=play.alice)
    assert taken.proposal.state == State.STATE_WITHDRAWN
    other = await play.submit(prompt("cool", "Answer coolly."), hold=True, by=play.robot)
    withdraw.name = other.name
    assert (
        await play.it.proposals.WithdrawProposal(withdraw, metadata=play.root)
    ).proposal.state == taken.proposal.state


async def test_an_inbox_has_what_a_person_may_approve_and_pages_end(play: Cast) -> None:
    by_alice = await play.awaiting(prompt("warm", "Answer warmly."))
    by_robot = await play.gate(await play.submit(prompt("cool", "Answer coolly."), by=play.robot), a_pass())
    await play.submit(prompt("long", "Answer at length."), hold=True)

    async def listed(by: object, **fields: object) -> list[str]:
        request = pb.ListProposalsRequest(parent=play.tenant, **fields)  # type: ignore[arg-type]
        return [one.name for one in (await play.it.proposals.ListProposals(request, metadata=by)).proposals]

    assert await listed(play.bob, mine_to_approve=True) == [by_robot.name, by_alice.name]
    first = await play.it.proposals.ListProposals(
        pb.ListProposalsRequest(parent=play.tenant, page_size=2), metadata=play.viewer
    )
    rest = await listed(play.viewer, page_size=2, page_token=first.next_page_token)
    assert len({*[one.name for one in first.proposals], *rest}) == 3
    assert await listed(play.viewer, states=[State.STATE_SUBMITTED]) != []
    assert (await refusal(listed(play.robot, mine_to_approve=True)))[1] == "INVALID_VALUE"


async def test_a_watcher_sees_what_is_there_and_each_step(play: Cast) -> None:
    proposal = await play.submit(prompt("warm", "Answer warmly."))
    watching = play.it.proposals.WatchProposals(
        pb.WatchProposalsRequest(parent=play.tenant, name=proposal.name), metadata=play.viewer
    )
    seen = aiter(watching)
    assert (await anext(seen)).proposal.state == State.STATE_GATE_RUNNING
    await play.gate(proposal, a_pass())
    assert (await anext(seen)).proposal.state == State.STATE_AWAITING_APPROVAL
    watching.cancel()


async def test_scores_of_a_harness_are_part_of_what_is_approved(play: Cast) -> None:
    proposal = await play.submit(prompt("warm", "Answer warmly."), hold=True)
    judge = await play.it.key(play.tenant, "ROLE_EVALUATOR")
    report = pb.ReportEvaluationRequest(name=proposal.name)
    report.scores.add(case_id="c1", candidate_score=0.9, incumbent_score=0.8)
    told = (await play.it.proposals.ReportEvaluation(report, metadata=judge)).proposal
    assert told.binding_hash != proposal.binding_hash
    assert (await refusal(play.approve(proposal, by=play.root, force=True)))[1] == "VERSION_MISMATCH"
    report.scores[0].candidate_score = 1.5
    assert (await refusal(play.it.proposals.ReportEvaluation(report, metadata=judge)))[1] == "INVALID_VALUE"
    assert (await play.approve(told, by=play.root, force=True)).state == State.STATE_SERVING
    report.scores[0].candidate_score = 0.95
    assert (await refusal(play.it.proposals.ReportEvaluation(report, metadata=judge)))[1] == "ILLEGAL_TRANSITION"
    assert (await refusal(play.approve(told, by=judge)))[1] == "PERMISSION_DENIED"


async def test_programs_comment_and_preferences_count_once(play: Cast) -> None:
    proposal = await play.submit(prompt("warm", "Answer warmly."), hold=True)
    said = pb.CommentProposalRequest(name=proposal.name, text="trained on 3 weeks of data")
    await play.it.proposals.CommentProposal(said, metadata=play.robot)
    assert [one.text for one in (await play.read(proposal.name)).comments] == ["trained on 3 weeks of data"]
    prefer = pb.RecordPreferenceRequest(
        parent=play.tenant,
        policy=play.policy,
        first_episode_id="e1",
        second_episode_id="e2",
        preference=pb.PREFERENCE_FIRST,
        idempotency_key="k1",
    )
    assert not (await play.it.proposals.RecordPreference(prefer, metadata=play.bob)).duplicate
    assert (await play.it.proposals.RecordPreference(prefer, metadata=play.bob)).duplicate
    prefer.preference = pb.PREFERENCE_TIE
    assert (await refusal(play.it.proposals.RecordPreference(prefer, metadata=play.bob)))[1] == "IDEMPOTENCY_CONFLICT"


async def test_no_floor_leaves_its_first_stage_where_nobody_would_see_a_deception(play: Cast) -> None:
    wish = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE)
    wish.floor_stage.exploitation_floor = 0.4
    over = await play.approve(await play.propose(wish))
    assert over.state == State.STATE_VOIDED
    assert "a holdout with somebody who answers it" in over.state_because
    assert (await play.served()).exploration.exploitation_floor == 0.8


@pytest.mark.parametrize("kind", ["config", "floor"])
async def test_what_changes_no_arm_needs_no_query_but_a_second_person(play: Cast, kind: str) -> None:
    async with play.ledgers.open(play.tenant_id) as ledger:
        await ledger.divergence.begin(PolicyName("support"), START)
    wish = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE)
    wish.floor_stage.exploitation_floor = 0.4
    if kind == "config":
        wish = proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_CONFIG)
        wish.configuration.CopyFrom(await play.served())
        wish.configuration.half_life.seconds = 86_400
    proposal = await play.propose(wish)
    assert proposal.state == State.STATE_AWAITING_APPROVAL
    assert not proposal.gate_result.verdict
    assert (await play.approve(proposal)).state == State.STATE_SERVING
    after = await play.served()
    assert (after.half_life.seconds == 86_400, after.exploration.exploitation_floor == 0.4) == (
        kind == "config",
        kind == "floor",
    )
    revert = pb.RevertProposalRequest(name=proposal.name, because="back")
    await play.it.proposals.RevertProposal(revert, metadata=play.carol)
    assert (await play.served()).exploration.exploitation_floor == 0.8

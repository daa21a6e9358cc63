"""Serve ProposalService. Nothing here runs a gate: it hands proposals to the gate process, which has the holdout."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from kedge.bandit.v1 import proposal_pb2, proposal_service_pb2_grpc
from kedge.bandit.v1 import proposal_service_pb2 as pb
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire_governance import order_of, page_size_of, sequence_of
from kedge_bandit.adapters.grpc.wire_proposal import (
    candidate_of,
    comment_message,
    parse_proposal,
    policy_within,
    preview_message,
    proposal_message,
    proposal_within,
    reward_preview_message,
    scores_of,
    step_message,
    wanted_of,
    window_message,
    window_of,
)
from kedge_bandit.application.decide_proposal import ApproveProposal, Consent, RejectProposal, RevertProposal
from kedge_bandit.application.govern import Order
from kedge_bandit.application.propose import (
    CommentProposal,
    ReportEvaluation,
    RunGate,
    SubmitProposal,
    Wish,
    WithdrawProposal,
)
from kedge_bandit.application.read_proposals import NotNow, ReadProposals, RecordPreference
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import TenantId, parse_tenant, text_id
from kedge_bandit.domain.involvement import is_author
from kedge_bandit.domain.principal import Principal, Role
from kedge_bandit.domain.proposal import Proposal, ProposalId

_ALLOWED = permissions_of("ProposalService")
_SEE_ALL: Final = (Role.APPROVER, Role.ADMIN, Role.OPERATOR)
_PREFERENCE: Final = {pb.PREFERENCE_FIRST: "FIRST", pb.PREFERENCE_SECOND: "SECOND", pb.PREFERENCE_TIE: "TIE"}


@dataclass(frozen=True, slots=True)
class ProposalServicer(proposal_service_pb2_grpc.ProposalServiceServicer):
    """Take candidates to the gate and to a person."""

    keyring: Keyring
    read: ReadProposals
    submit: SubmitProposal
    run_gate: RunGate
    approve: ApproveProposal
    reject: RejectProposal
    withdraw: WithdrawProposal
    revert: RevertProposal
    comment: CommentProposal
    not_now: NotNow
    prefer: RecordPreference
    report: ReportEvaluation

    @answering
    async def SubmitProposal(self, request: pb.SubmitProposalRequest, context: Context) -> pb.SubmitProposalResponse:
        """Propose a candidate."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["SubmitProposal"], tenant)
        said = request.proposal
        order = order_of(caller.actor, "SubmitProposal", request, because=said.because, request_id=request.request_id)
        wish = Wish(
            policy=policy_within(said.policy, tenant),
            candidate=candidate_of(said),
            person=caller.answering.person,
            lineage=said.lineage_json,
            supersedes=proposal_within(said.supersedes, tenant) or "",
            hold=request.hold,
        )
        return pb.SubmitProposalResponse(proposal=_shown(tenant, await self.submit(tenant, wish, order), caller))

    @answering
    async def GetProposal(self, request: pb.GetProposalRequest, context: Context) -> pb.GetProposalResponse:
        """Read a proposal with its steps and comments."""
        tenant, proposal = parse_proposal(request.name)
        caller = self.keyring.require(context, _ALLOWED["GetProposal"], tenant)
        told = await self.read.one(tenant, proposal)
        message = _shown(tenant, told.proposal, caller)
        message.steps.extend(step_message(step) for step in told.steps)
        message.comments.extend(comment_message(comment) for comment in told.comments)
        message.previews.extend(preview_message(one) for one in told.previews)
        message.reward_previews.extend(reward_preview_message(one) for one in told.rescored)
        return pb.GetProposalResponse(proposal=message)

    @answering
    async def ListProposals(self, request: pb.ListProposalsRequest, context: Context) -> pb.ListProposalsResponse:
        """List proposals, those with the newest step first; the page token is the place of the last one's step."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["ListProposals"], tenant)
        size = page_size_of(request.page_size)
        wanted = wanted_of(request, tenant, caller.person)
        found = await self.read.page(tenant, wanted, before=sequence_of(request.page_token), limit=size + 1)
        return pb.ListProposalsResponse(
            proposals=[_shown(tenant, proposal, caller) for _, proposal in found[:size]],
            next_page_token=str(found[size - 1][0]) if len(found) > size else "",
        )

    @answering
    async def WatchProposals(
        self, request: pb.WatchProposalsRequest, context: Context
    ) -> AsyncIterator[pb.WatchProposalsResponse]:
        """Stream proposals as they take steps, until the caller hangs up."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["WatchProposals"], tenant)
        one = proposal_within(request.name, tenant)
        async for proposal in self.read.follow(tenant, one):
            caller = self.keyring.require(context, _ALLOWED["WatchProposals"], tenant)
            yield pb.WatchProposalsResponse(proposal=_shown(tenant, proposal, caller))

    @answering
    async def RunGate(self, request: pb.RunGateRequest, context: Context) -> pb.RunGateResponse:
        """Hand a proposal to the gate."""
        tenant, proposal, caller, _ = self._asked("RunGate", request, context)
        order = order_of(caller.actor, "RunGate", request, because="run the gate", request_id=request.request_id)
        return pb.RunGateResponse(proposal=_shown(tenant, await self.run_gate(tenant, proposal, order), caller))

    @answering
    async def ApproveProposal(self, request: pb.ApproveProposalRequest, context: Context) -> pb.ApproveProposalResponse:
        """Consent as a second person."""
        tenant, proposal, caller, order = self._asked("ApproveProposal", request, context)
        consent = Consent(
            person=caller.person,
            role=_role(caller, tenant),
            binding_hash=request.binding_hash,
            force=request.force,
        )
        approved = await self.approve(tenant, proposal, consent, order)
        return pb.ApproveProposalResponse(proposal=_shown(tenant, approved, caller))

    @answering
    async def RejectProposal(self, request: pb.RejectProposalRequest, context: Context) -> pb.RejectProposalResponse:
        """Refuse a proposal."""
        tenant, proposal, caller, order = self._asked("RejectProposal", request, context)
        return pb.RejectProposalResponse(proposal=_shown(tenant, await self.reject(tenant, proposal, order), caller))

    @answering
    async def WithdrawProposal(
        self, request: pb.WithdrawProposalRequest, context: Context
    ) -> pb.WithdrawProposalResponse:
        """Take a proposal back."""
        tenant, proposal, caller, order = self._asked("WithdrawProposal", request, context)
        role = _role(caller, tenant)
        withdrawn = await self.withdraw(tenant, proposal, order, person=caller.answering.person, role=role)
        return pb.WithdrawProposalResponse(proposal=_shown(tenant, withdrawn, caller))

    @answering
    async def RevertProposal(self, request: pb.RevertProposalRequest, context: Context) -> pb.RevertProposalResponse:
        """Serve the predecessor again."""
        tenant, proposal, caller, order = self._asked("RevertProposal", request, context)
        return pb.RevertProposalResponse(proposal=_shown(tenant, await self.revert(tenant, proposal, order), caller))

    @answering
    async def CommentProposal(self, request: pb.CommentProposalRequest, context: Context) -> pb.CommentProposalResponse:
        """Say something about a proposal."""
        tenant, proposal, caller, _ = self._asked("CommentProposal", request, context)
        order = order_of(caller.actor, "CommentProposal", request, because="comment", request_id=request.request_id)
        comment = await self.comment(tenant, proposal, request.text, order)
        return pb.CommentProposalResponse(comment=comment_message(comment))

    @answering
    async def PutNotNow(self, request: pb.PutNotNowRequest, context: Context) -> pb.PutNotNowResponse:
        """Replace the not-now windows."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["PutNotNow"], tenant)
        order = order_of(caller.actor, "PutNotNow", request, because=request.because, request_id=request.request_id)
        windows = await self.not_now.put(tenant, [window_of(one, tenant) for one in request.windows], order)
        return pb.PutNotNowResponse(windows=[window_message(tenant, window) for window in windows])

    @answering
    async def GetNotNow(self, request: pb.GetNotNowRequest, context: Context) -> pb.GetNotNowResponse:
        """Read the not-now windows."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["GetNotNow"], tenant)
        windows = await self.not_now.read(tenant)
        return pb.GetNotNowResponse(windows=[window_message(tenant, window) for window in windows])

    @answering
    async def RecordPreference(
        self, request: pb.RecordPreferenceRequest, context: Context
    ) -> pb.RecordPreferenceResponse:
        """Record which of two answers a person prefers."""
        tenant = parse_tenant(request.parent)
        caller = self.keyring.require(context, _ALLOWED["RecordPreference"], tenant)
        preference = _PREFERENCE.get(request.preference)
        if preference is None:
            raise InvalidValue("preference", str(request.preference), "FIRST, SECOND or TIE")
        facts = {
            "first_episode_id": text_id(request.first_episode_id, field="first_episode_id"),
            "second_episode_id": text_id(request.second_episode_id, field="second_episode_id"),
            "preference": preference,
        }
        key = text_id(request.idempotency_key, field="idempotency_key")
        policy = policy_within(request.policy, tenant)
        is_new = await self.prefer(tenant, policy, key, facts, actor=caller.actor.name)
        return pb.RecordPreferenceResponse(duplicate=not is_new)

    @answering
    async def ReportEvaluation(
        self, request: pb.ReportEvaluationRequest, context: Context
    ) -> pb.ReportEvaluationResponse:
        """Take per-case scores of a platform's own harness."""
        tenant, proposal, caller, _ = self._asked("ReportEvaluation", request, context)
        order = order_of(caller.actor, "ReportEvaluation", request, because="scores", request_id=request.request_id)
        reported = await self.report(tenant, proposal, scores_of(request.scores), order, person=caller.answering.person)
        return pb.ReportEvaluationResponse(proposal=_shown(tenant, reported, caller))

    def _asked(self, rpc: str, request: Any, context: Context) -> tuple[TenantId, ProposalId, Principal, Order]:
        """Admit a call about one proposal, and read who asks for what and why."""
        tenant, proposal = parse_proposal(request.name)
        caller = self.keyring.require(context, _ALLOWED[rpc], tenant)
        because, request_id = getattr(request, "because", ""), request.request_id
        order = order_of(caller.actor, rpc, request, because=because, request_id=request_id)
        return tenant, proposal, caller, order


def _shown(tenant: TenantId, proposal: Proposal, caller: Principal) -> proposal_pb2.Proposal:
    """Put a proposal on the wire as far as the caller may see it: who proposed it sees what any proposer does."""
    shows_all = _role(caller, tenant) in _SEE_ALL and not is_author(proposal, caller.actor, caller.answering.person)
    return proposal_message(tenant, proposal, shows_all=shows_all)


def _role(caller: Principal, tenant: TenantId) -> Role:
    return caller.roles.get(tenant) or caller.roles[None]

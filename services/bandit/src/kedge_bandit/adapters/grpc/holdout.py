"""Serve HoldoutService, in the gate process alone. What it answers holds no case, but to who may open some."""

from dataclasses import dataclass

from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge.bandit.v1 import holdout_service_pb2_grpc
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.wire_governance import order_of
from kedge_bandit.adapters.grpc.wire_holdout import (
    answerer_message,
    answerer_of,
    cases_of,
    holdout_message,
    opened_message,
    refused_message,
    reserved_message,
)
from kedge_bandit.adapters.grpc.wire_proposal import parse_proposal
from kedge_bandit.application.keep_holdout import ImportCases, RecordTraining, RotateHoldout
from kedge_bandit.application.put_answerer import PutAnswerer
from kedge_bandit.application.read_holdout import GetAnswerer, GetHoldout, OpenCases, ProposeCases
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.identifiers import MAX_ID_CHARACTERS, parse_policy

_ALLOWED = permissions_of("HoldoutService")
_DEFAULT_PAGE, _MAX_PAGE = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutServicer(holdout_service_pb2_grpc.HoldoutServiceServicer):
    """Keep and read holdouts."""

    keyring: Keyring
    import_cases: ImportCases
    propose: ProposeCases
    get: GetHoldout
    rotate: RotateHoldout
    put_answerer: PutAnswerer
    get_answerer: GetAnswerer
    open_cases: OpenCases
    record_training: RecordTraining

    @answering
    async def ImportCases(self, request: pb.ImportCasesRequest, context: Context) -> pb.ImportCasesResponse:
        """Add cases; every one is taken or refused by itself."""
        tenant, policy = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["ImportCases"], tenant).actor
        order = order_of(actor, "ImportCases", request, because=request.because, request_id=request.request_id)
        found = await self.import_cases(tenant, policy, cases_of(request.cases), order)
        return pb.ImportCasesResponse(
            imported=found.imported,
            refused=[refused_message(one) for one in found.refused],
            holdout=holdout_message(tenant, policy, await self.get(tenant, policy)),
        )

    @answering
    async def ProposeCases(self, request: pb.ProposeCasesRequest, context: Context) -> pb.ProposeCasesResponse:
        """List reserved episodes by id; the page token is the last one."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["ProposeCases"], tenant)
        if request.page_size < 0 or len(request.page_token) > MAX_ID_CHARACTERS or "\0" in request.page_token:
            raise InvalidValue("page", f"{request.page_size}", f"a page_size of 1 to {_MAX_PAGE}, and the token before")
        size = min(request.page_size or _DEFAULT_PAGE, _MAX_PAGE)
        found = await self.propose(tenant, policy, after=request.page_token, limit=size + 1)
        return pb.ProposeCasesResponse(
            episodes=[reserved_message(one) for one in found[:size]],
            next_page_token=found[size - 1].episode_id if len(found) > size else "",
        )

    @answering
    async def GetHoldout(self, request: pb.GetHoldoutRequest, context: Context) -> pb.GetHoldoutResponse:
        """Read sizes, age, power and ledger."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["GetHoldout"], tenant)
        return pb.GetHoldoutResponse(holdout=holdout_message(tenant, policy, await self.get(tenant, policy)))

    @answering
    async def RotateHoldout(self, request: pb.RotateHoldoutRequest, context: Context) -> pb.RotateHoldoutResponse:
        """Plan a rotation, or make it."""
        tenant, policy = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["RotateHoldout"], tenant).actor
        order = order_of(actor, "RotateHoldout", request, because=request.because, request_id=request.request_id)
        if request.plan_only:
            plan = await self.rotate.plan(tenant, policy)
        else:
            plan = await self.rotate(tenant, policy, order)
        return pb.RotateHoldoutResponse(
            leaving=plan.leaving,
            leaving_opened=plan.leaving_opened,
            staying=plan.staying,
            to_import=plan.to_import,
            holdout=holdout_message(tenant, policy, await self.get(tenant, policy)),
        )

    @answering
    async def PutAnswerer(self, request: pb.PutAnswererRequest, context: Context) -> pb.PutAnswererResponse:
        """Name who answers, and who judges."""
        tenant, policy = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["PutAnswerer"], tenant).actor
        order = order_of(actor, "PutAnswerer", request, because=request.because, request_id=request.request_id)
        judge = answerer_of(request.judge) if request.HasField("judge") else None
        await self.put_answerer(tenant, policy, answerer_of(request.answerer), judge, order)
        found = await self.get_answerer(tenant, policy)
        return pb.PutAnswererResponse(answerer=answerer_message(found[0]), judge=answerer_message(found[1]))

    @answering
    async def GetAnswerer(self, request: pb.GetAnswererRequest, context: Context) -> pb.GetAnswererResponse:
        """Read who answers, and who judges; left out where nobody does."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["GetAnswerer"], tenant)
        found = await self.get_answerer(tenant, policy)
        return pb.GetAnswererResponse(answerer=answerer_message(found[0]), judge=answerer_message(found[1]))

    @answering
    async def OpenCases(self, request: pb.OpenCasesRequest, context: Context) -> pb.OpenCasesResponse:
        """Show a second person the cases most improved and most harmed."""
        tenant, proposal = parse_proposal(request.proposal)
        caller = self.keyring.require(context, _ALLOWED["OpenCases"], tenant)
        improved, harmed = await self.open_cases(
            tenant, proposal, caller.actor, caller.answering.person, request.because
        )
        return pb.OpenCasesResponse(
            improved=[opened_message(one) for one in improved], harmed=[opened_message(one) for one in harmed]
        )

    @answering
    async def RecordTrainingTexts(
        self, request: pb.RecordTrainingTextsRequest, context: Context
    ) -> pb.RecordTrainingTextsResponse:
        """Remember what may be trained on."""
        tenant, policy = parse_policy(request.policy)
        actor = self.keyring.require(context, _ALLOWED["RecordTrainingTexts"], tenant).actor
        order = order_of(actor, "RecordTrainingTexts", request, because=request.because, request_id=request.request_id)
        return pb.RecordTrainingTextsResponse(
            recorded=await self.record_training(tenant, policy, list(request.texts), order)
        )

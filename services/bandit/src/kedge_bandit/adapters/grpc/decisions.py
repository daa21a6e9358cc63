"""Serve DecisionService."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeAlias

from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge.bandit.v1 import decision_service_pb2_grpc
from kedge_bandit.adapters.grpc.answers import DecideAnswers, mean_of
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.gather import Gather
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire import context_of, decision_message
from kedge_bandit.adapters.grpc.wire_browse import explanation_message, found_message, search_of
from kedge_bandit.adapters.grpc.wire_local import action_keys, reported, watch_message
from kedge_bandit.adapters.grpc.wire_policy import arm_message
from kedge_bandit.adapters.telemetry import Telemetry
from kedge_bandit.application.browse_ports import BrowsedLedgers
from kedge_bandit.application.decide import Ask, Decide, Decided
from kedge_bandit.application.explain import Explain, ReadDecision
from kedge_bandit.application.ports import Clock, Ledgers, TokenSigner
from kedge_bandit.application.record import EpisodeReport, RecordEpisode
from kedge_bandit.application.replay import Replay
from kedge_bandit.application.report import ReportDecisions
from kedge_bandit.application.watch import WatchAllocations
from kedge_bandit.domain.eligibility import PLAIN, Wish
from kedge_bandit.domain.errors import IdempotencyConflict
from kedge_bandit.domain.holdout import is_reserved
from kedge_bandit.domain.identifiers import (
    EpisodeId,
    PolicyName,
    TenantId,
    parse_decision,
    parse_policy,
    parse_tenant,
    text_id,
)
from kedge_bandit.domain.policy import PolicySpec

_ALLOWED = permissions_of("DecisionService")

_Call: TypeAlias = tuple[pb.DecideRequest, Context, float]
"""A request, its RPC, and when it came in by the performance counter."""
_Asked: TypeAlias = tuple[pb.DecideRequest, float, Ask]
_Decided: TypeAlias = tuple[pb.DecideRequest, float, Decided]
_Waiting: TypeAlias = tuple[_Asked, Decided | None]
"""What has to wait: for a read where nothing is decided yet, else for its commit."""


@completing(pb.DESCRIPTOR.services_by_name["DecisionService"])
@dataclass(slots=True)
class DecisionServicer(decision_service_pb2_grpc.DecisionServiceServicer):
    """Decide, say why, and give arms' contents out."""

    keyring: Keyring
    decide: Decide
    record: RecordEpisode
    read: ReadDecision
    explain: Explain
    replay: Replay
    watch: WatchAllocations
    report: ReportDecisions
    clock: Clock
    tokens: TokenSigner
    ledgers: Ledgers
    browsed: BrowsedLedgers
    answers: DecideAnswers
    telemetry: Telemetry
    _names: dict[str, tuple[TenantId, PolicyName]] = field(default_factory=dict)
    _gather: Gather[_Call, pb.DecideResponse | _Waiting] = field(init=False)
    _gather_later: Gather[_Decided, pb.DecideResponse] = field(init=False)

    def __post_init__(self) -> None:
        """Chain the stages of Decide."""
        self._gather = Gather(self._ask, self._decide, self._answer)
        self._gather_later = Gather(self._answered)

    @answering
    async def Decide(self, request: pb.DecideRequest, context: Context) -> pb.DecideResponse:
        """Choose one action for an episode."""
        made = await self._gather((request, context, perf_counter()))
        if isinstance(made, pb.DecideResponse):
            return made
        (_, begun, ask), pending = made
        decided = await (self.decide(ask) if pending is None else self.decide.commit(ask, pending))
        # Those of one commit go on together.
        return await self._gather_later((request, begun, decided))

    def _ask(self, call: _Call) -> _Asked:
        request, context, begun = call
        tenant, policy = self._names.get(request.policy) or self._parse(request.policy)
        self.keyring.require(context, _ALLOWED["Decide"], tenant)
        token = request.decision_token
        ask = Ask(
            tenant=tenant,
            policy=policy,
            request_id=request.request_id,
            episode_id=EpisodeId(request.episode_id),
            context=context_of(request.context),
            wish=_wish(request),
            earlier=self.tokens.read(token, tenant=tenant) if token else None,
            continues=request.continues_episode,
        )
        return request, begun, ask

    def _decide(self, asked: _Asked) -> _Waiting:
        return asked, self.decide.at_once(asked[2])

    def _answer(self, made: _Waiting) -> pb.DecideResponse | _Waiting:
        (request, begun, _), decided = made
        if decided is None or decided.is_pending:
            return made
        return self._answered((request, begun, decided))

    def _answered(self, call: _Decided) -> pb.DecideResponse:
        request, begun, decided = call
        if request.baseline_hash and request.baseline_hash != baseline_hash(decided.serving.policy.spec):
            self.telemetry.baseline_mismatch(decided.decision.tenant)
        answer = self.answers.build(decided)
        self.telemetry.decided(decided.decision, perf_counter() - begun)
        return answer

    @answering
    async def BestAction(self, request: pb.BestActionRequest, context: Context) -> pb.BestActionResponse:
        """Answer the eligible action of highest mean, not randomised."""
        tenant, policy = self._parse(request.policy)
        self.keyring.require(context, _ALLOWED["BestAction"], tenant)
        decided = await self.decide(
            Ask(
                tenant=tenant,
                policy=policy,
                request_id=request.request_id,
                episode_id=EpisodeId(request.episode_id),
                context=context_of(request.context),
                wish=Wish(available=action_keys(request.available_action_keys), best=True),
            )
        )
        return pb.BestActionResponse(decision=self.answers.build(decided), mean=mean_of(decided))

    @answering
    async def Activate(self, request: pb.ActivateRequest, context: Context) -> pb.ActivateResponse:
        """Say which action was really served."""
        await self._report(request, context, "ACTIVATE", "Activate", served=request.served_action_key)
        return pb.ActivateResponse()

    @answering
    async def Cancel(self, request: pb.CancelRequest, context: Context) -> pb.CancelResponse:
        """Say that the decision was never served."""
        await self._report(request, context, "CANCEL", "Cancel")
        return pb.CancelResponse()

    @answering
    async def GetDecision(self, request: pb.GetDecisionRequest, context: Context) -> pb.GetDecisionResponse:
        """Read one decision's full record."""
        tenant, decision_id = parse_decision(request.name)
        self.keyring.require(context, _ALLOWED["GetDecision"], tenant)
        found = await self.read(tenant, decision_id)
        return pb.GetDecisionResponse(decision=found_message(found))

    @answering
    async def ListDecisions(self, request: pb.ListDecisionsRequest, context: Context) -> pb.ListDecisionsResponse:
        """List a policy's decisions, newest first; nothing reserved to a trainer."""
        tenant, policy = parse_policy(request.policy)
        caller = self.keyring.require(context, _ALLOWED["ListDecisions"], tenant)
        async with self.browsed.open(tenant) as ledger:
            page = await ledger.browsing.decisions(search_of(request, policy))
        hides = caller.is_trainer(tenant)
        return pb.ListDecisionsResponse(
            decisions=[
                decision_message(one, action=None)
                for one in page.found
                if not (hides and is_reserved(tenant, policy, one.episode_id))
            ],
            next_page_token=page.next_token,
        )

    @answering
    async def ExplainDecision(self, request: pb.ExplainDecisionRequest, context: Context) -> pb.ExplainDecisionResponse:
        """Say why this action was chosen and what would change it."""
        tenant, decision_id = parse_decision(request.name)
        self.keyring.require(context, _ALLOWED["ExplainDecision"], tenant)
        return explanation_message(await self.explain(tenant, decision_id))

    @answering
    async def ReplayDecision(self, request: pb.ReplayDecisionRequest, context: Context) -> pb.ReplayDecisionResponse:
        """Recompute a decision from the log alone and compare."""
        tenant, decision_id = parse_decision(request.name)
        self.keyring.require(context, _ALLOWED["ReplayDecision"], tenant)
        outcome = await self.replay(tenant, decision_id)
        return pb.ReplayDecisionResponse(
            matches=outcome.matches,
            vector_error=outcome.vector_error,
            recomputed_action_key=outcome.recomputed_action,
            stored_action_key=outcome.stored_action,
            detail=outcome.detail,
        )

    @answering
    async def WatchAllocations(
        self, request: pb.WatchAllocationsRequest, context: Context
    ) -> AsyncIterator[pb.WatchAllocationsResponse]:
        """Stream vectors, mode and a lease to a client that decides by itself, while its key is good."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["WatchAllocations"], tenant)
        async for news in self.watch(tenant, policy):
            self.keyring.require(context, _ALLOWED["WatchAllocations"], tenant)
            yield watch_message(tenant, news, self.clock.now())

    @answering
    async def ReportDecisions(self, request: pb.ReportDecisionsRequest, context: Context) -> pb.ReportDecisionsResponse:
        """Recompute the decisions that a client made, and write what is true."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["ReportDecisions"], tenant)
        answers = await self.report(tenant, policy, [reported(each, tenant, policy) for each in request.decisions])
        for answer in answers:
            self.telemetry.reported(tenant, answer.refusal or answer.set_aside or "ACCEPTED")
        return pb.ReportDecisionsResponse(
            refusals=[answer.refusal for answer in answers], set_aside=[answer.set_aside or "" for answer in answers]
        )

    @answering
    async def GetArm(self, request: pb.GetArmRequest, context: Context) -> pb.GetArmResponse:
        """Read an arm's content by its hash."""
        tenant = parse_tenant(request.parent)
        self.keyring.require(context, _ALLOWED["GetArm"], tenant)
        async with self.ledgers.open(tenant) as ledger:
            return pb.GetArmResponse(
                arm=arm_message(await ledger.policies.arm(text_id(request.content_hash, field="content_hash")))
            )

    @answering
    async def WatchArms(self, request: pb.WatchArmsRequest, context: Context) -> AsyncIterator[pb.WatchArmsResponse]:
        """Stream a policy's arms: first all, then all again after each change, until the caller hangs up."""
        tenant, policy = parse_policy(request.policy)
        self.keyring.require(context, _ALLOWED["WatchArms"], tenant)
        async for arms in self.read.arms(tenant, policy):
            self.keyring.require(context, _ALLOWED["WatchArms"], tenant)
            yield pb.WatchArmsResponse(arms=[arm_message(arm) for arm in arms])

    def _parse(self, name: str) -> tuple[TenantId, PolicyName]:
        parsed = parse_policy(name)
        if len(self._names) < 10_000:
            self._names[name] = parsed
        return parsed

    async def _report(
        self, request: pb.ActivateRequest | pb.CancelRequest, context: Context, kind: str, rpc: str, served: str = ""
    ) -> None:
        tenant, decision_id = parse_decision(request.decision)
        principal = self.keyring.require(context, _ALLOWED[rpc], tenant)
        policy = episode_id = None
        if not request.decision_token:
            found = (await self.read(tenant, decision_id)).decision
            policy, episode_id = found.policy, found.episode_id
        status = await self.record(
            EpisodeReport(
                tenant=tenant,
                kind=kind,
                request_id=request.request_id or f"{kind}:{decision_id}",
                source=principal.actor.name,
                policy=policy,
                episode_id=episode_id,
                decision_id=decision_id,
                token=request.decision_token,
                served_action=served,
            )
        )
        if status == "CONFLICT":
            raise IdempotencyConflict(request.request_id or str(decision_id))


def baseline_hash(spec: PolicySpec) -> str:
    """Hash the baseline as a caller does that holds it in its own configuration: SHA-256 of its action key in hex."""
    return hashlib.sha256(spec.baseline_key.encode()).hexdigest()


def _wish(request: pb.DecideRequest) -> Wish:
    if not (
        request.available_action_keys or request.pinned_action_key or request.no_exploration or request.in_tool_loop
    ):
        return PLAIN
    return Wish(
        available=action_keys(request.available_action_keys),
        pinned=request.pinned_action_key,
        no_exploration=request.no_exploration,
        in_tool_loop=request.in_tool_loop,
    )

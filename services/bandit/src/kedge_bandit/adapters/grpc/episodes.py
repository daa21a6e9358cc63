"""Serve EpisodeService."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from kedge.bandit.v1 import episode_service_pb2 as pb
from kedge.bandit.v1 import episode_service_pb2_grpc, policy_pb2
from kedge_bandit.adapters.grpc.credentials import Keyring
from kedge_bandit.adapters.grpc.permissions import permissions_of
from kedge_bandit.adapters.grpc.status import Context, answering
from kedge_bandit.adapters.grpc.unimplemented import completing
from kedge_bandit.adapters.grpc.wire import (
    action_message,
    allocation_message,
    context_of,
    decision_message,
    episode_message,
    moment,
)
from kedge_bandit.adapters.grpc.wire_browse import episode_search_of, timeline_message
from kedge_bandit.adapters.grpc.wire_policy import known_change_message, policy_message, self_check_message
from kedge_bandit.adapters.grpc.wire_trajectory import trajectory_of
from kedge_bandit.adapters.telemetry import Telemetry
from kedge_bandit.application.browse import ReadTimeline
from kedge_bandit.application.browse_ports import BrowsedLedgers
from kedge_bandit.application.export import ExportDecisions
from kedge_bandit.application.import_episodes import ImportedEpisode, ImportEpisodes
from kedge_bandit.application.ports import Ledgers, LoggedDecision
from kedge_bandit.application.record import EpisodeReport, RecordEpisode, rater_hash
from kedge_bandit.domain.errors import EpisodeNotFound, IdempotencyConflict, KedgeError
from kedge_bandit.domain.holdout import is_reserved
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, parse_policy, text_id
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.principal import Principal

_ALLOWED = permissions_of("EpisodeService")
_IN_FLIGHT = 256


@completing(pb.DESCRIPTOR.services_by_name["EpisodeService"])
@dataclass(frozen=True, slots=True)
class EpisodeServicer(episode_service_pb2_grpc.EpisodeServiceServicer):
    """Take trajectories, give verdicts and the log out."""

    keyring: Keyring
    record: RecordEpisode
    importer: ImportEpisodes
    export: ExportDecisions
    ledgers: Ledgers
    browsed: BrowsedLedgers
    telemetry: Telemetry

    @answering
    async def LogEpisode(self, request: pb.LogEpisodeRequest, context: Context) -> pb.LogEpisodeResponse:
        """Log one episode."""
        return pb.LogEpisodeResponse(duplicate=await self._log(request, context, "LogEpisode"))

    @answering
    async def StreamEpisodes(
        self, request_iterator: AsyncIterator[pb.StreamEpisodesRequest], context: Context
    ) -> AsyncIterator[pb.StreamEpisodesResponse]:
        """Log many episodes, up to 256 at once; answers come in the order of the requests."""
        self.keyring.caller(context).check_anywhere(_ALLOWED["StreamEpisodes"])
        answers: asyncio.Queue[asyncio.Task[pb.StreamEpisodesResponse] | None] = asyncio.Queue(_IN_FLIGHT)

        async def read() -> KedgeError | None:
            refused = None
            try:
                async for message in request_iterator:
                    await answers.put(asyncio.create_task(self._logged(message.episode, context)))
            except KedgeError as error:
                refused = error
            await answers.put(None)
            return refused

        reader = asyncio.create_task(read())
        try:
            while (task := await answers.get()) is not None:
                yield await task
            if refused := await reader:
                raise refused
        finally:
            reader.cancel()

    @answering
    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Context) -> pb.GetEpisodeResponse:
        """Read one episode and its present verdict."""
        tenant, policy = parse_policy(request.policy)
        caller = self.keyring.require(context, _ALLOWED["GetEpisode"], tenant)
        episode_id = _readable(caller, tenant, policy, request.episode_id)
        async with self.ledgers.open(tenant) as ledger:
            record = await ledger.decisions.episode(policy, episode_id)
        return pb.GetEpisodeResponse(episode=episode_message(tenant, record))

    @answering
    async def ListEpisodes(self, request: pb.ListEpisodesRequest, context: Context) -> pb.ListEpisodesResponse:
        """List a policy's episodes, newest first; nothing reserved to a trainer."""
        tenant, policy = parse_policy(request.policy)
        hides = self.keyring.require(context, _ALLOWED["ListEpisodes"], tenant).is_trainer(tenant)
        async with self.browsed.open(tenant) as ledger:
            page = await ledger.browsing.episodes(episode_search_of(request, policy))
        kept = [one for one in page.found if not (hides and is_reserved(tenant, policy, one.episode_id))]
        return pb.ListEpisodesResponse(
            episodes=[episode_message(tenant, one) for one in kept], next_page_token=page.next_token
        )

    @answering
    async def GetTimeline(self, request: pb.GetTimelineRequest, context: Context) -> pb.GetTimelineResponse:
        """Tell what was said about an episode, and every verdict it had."""
        tenant, policy = parse_policy(request.policy)
        caller = self.keyring.require(context, _ALLOWED["GetTimeline"], tenant)
        episode_id = _readable(caller, tenant, policy, request.episode_id)
        return timeline_message(tenant, await ReadTimeline(self.browsed)(tenant, policy, episode_id))

    @answering
    async def SettleEpisode(self, request: pb.SettleEpisodeRequest, context: Context) -> pb.SettleEpisodeResponse:
        """Settle now, without waiting for the windows."""
        tenant, policy = parse_policy(request.policy)
        principal = self.keyring.require(context, _ALLOWED["SettleEpisode"], tenant)
        report = EpisodeReport(
            tenant=tenant,
            kind="SETTLE",
            request_id=request.request_id or f"SETTLE:{request.episode_id}"[:128],
            source=principal.actor.name,
            policy=policy,
            episode_id=EpisodeId(request.episode_id),
        )
        if await self.record(report) == "CONFLICT":
            raise IdempotencyConflict(report.request_id)
        return pb.SettleEpisodeResponse()

    @answering
    async def ExportDecisions(
        self, request: pb.ExportDecisionsRequest, context: Context
    ) -> AsyncIterator[pb.ExportDecisionsResponse]:
        """Stream policy, allocations, decisions with their rewards, then the belief; nothing reserved to a trainer."""
        tenant, policy = parse_policy(request.policy)
        is_trainer = self.keyring.require(context, _ALLOWED["ExportDecisions"], tenant).is_trainer(tenant)
        start = moment(request.start_time, field="start_time") if request.HasField("start_time") else None
        end = moment(request.end_time, field="end_time") if request.HasField("end_time") else None
        async with self.export.open(tenant, policy, start=start, end=end) as log:
            yield pb.ExportDecisionsResponse(policy=policy_message(tenant, log.policy))
            async for allocation in log.allocations:
                yield pb.ExportDecisionsResponse(allocation=allocation_message(allocation))
            async for logged in log.decisions:
                if is_trainer and is_reserved(tenant, policy, logged.decision.episode_id):
                    continue
                yield pb.ExportDecisionsResponse(decision=_record(logged, log.policy))
            for change in log.changes:
                yield pb.ExportDecisionsResponse(known_change=known_change_message(change))
            for cell in log.cells:
                yield pb.ExportDecisionsResponse(
                    cell=policy_pb2.Cell(
                        bucket=cell.bucket,
                        action_key=cell.action_key,
                        weight=cell.n,
                        reward_sum=cell.s,
                        reward_square_sum=cell.s2,
                        as_of=cell.as_of,
                    )
                )
            yield pb.ExportDecisionsResponse(self_check=self_check_message(log.self_check))

    @answering
    async def ImportEpisodes(
        self, request_iterator: AsyncIterator[pb.ImportEpisodesRequest], context: Context
    ) -> pb.ImportEpisodesResponse:
        """Take episodes a platform already has; never learned from."""
        self.keyring.caller(context).check_anywhere(_ALLOWED["ImportEpisodes"])
        response = pb.ImportEpisodesResponse()
        async for message in request_iterator:
            tenant, policy = parse_policy(message.policy)
            principal = self.keyring.require(context, _ALLOWED["ImportEpisodes"], tenant)
            try:
                duplicate = await self.importer(
                    ImportedEpisode(
                        tenant=tenant,
                        policy=policy,
                        episode_id=EpisodeId(message.episode_id),
                        context=context_of(message.context),
                        trajectory=trajectory_of(message.trajectory),
                        source=principal.actor.name,
                    )
                )
            except KedgeError as error:
                if len(response.refusals) < 100:
                    response.refusals.append(f"{message.episode_id[:80]}: {error}")
            else:
                response.duplicates += duplicate
                response.imported += not duplicate
        return response

    async def _log(self, request: pb.LogEpisodeRequest, context: Context, rpc: str) -> bool:
        tenant, policy = parse_policy(request.policy)
        principal = self.keyring.require(context, _ALLOWED[rpc], tenant)
        status = await self.record(
            EpisodeReport(
                tenant=tenant,
                kind="LOG",
                request_id=request.request_id,
                source=principal.actor.name,
                policy=policy,
                episode_id=EpisodeId(request.episode_id),
                token=request.decision_token,
                served_action=request.served_action_key,
                trajectory=trajectory_of(request.trajectory),
                end_user=_end_user(tenant, request.end_user_id),
            )
        )
        self.telemetry.episode_logged(tenant, status)
        if status == "CONFLICT":
            raise IdempotencyConflict(request.request_id)
        return status == "DUPLICATE"

    async def _logged(self, request: pb.LogEpisodeRequest, context: Context) -> pb.StreamEpisodesResponse:
        try:
            duplicate = await self._log(request, context, "StreamEpisodes")
        except KedgeError as error:
            return pb.StreamEpisodesResponse(
                request_id=request.request_id, error_reason=error.reason, detail=str(error)[:500]
            )
        return pb.StreamEpisodesResponse(request_id=request.request_id, duplicate=duplicate)


def _readable(caller: Principal, tenant: TenantId, policy: PolicyName, episode_id: str) -> EpisodeId:
    """Read an episode's id that somebody may look at. Raises EpisodeNotFound for a trainer and what is reserved."""
    found = EpisodeId(text_id(episode_id, field="episode_id"))
    if caller.is_trainer(tenant) and is_reserved(tenant, policy, found):
        raise EpisodeNotFound("this episode is reserved for the holdout: a trainer does not read it")
    return found


def _end_user(tenant: TenantId, end_user_id: str) -> str | None:
    return rater_hash(tenant, text_id(end_user_id, field="end_user_id")) if end_user_id else None


def _record(logged: LoggedDecision, policy: Policy) -> pb.DecisionRecord:
    decision, episode = logged.decision, logged.episode
    place = policy.spec.index.get(decision.action)
    action = None if place is None else action_message(policy.spec.actions[place])
    record = pb.DecisionRecord(
        decision=decision_message(decision, action=action),
        available_action_keys=decision.available or (),
    )
    if episode is not None:
        record.episode.CopyFrom(episode_message(decision.tenant, episode))
        record.policy_time = episode.policy_time or 0.0
        record.evidence_sequence = episode.evidence_sequence
        record.evidence_bucket = episode.evidence_bucket
    return record

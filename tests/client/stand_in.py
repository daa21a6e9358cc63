"""A real gRPC server with a scripted servicer: healthy from memory, and failing exactly as a test says."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from kedge.bandit.v1 import decision_pb2, error_reason_pb2, policy_pb2
from kedge.bandit.v1 import decision_service_pb2 as decision
from kedge.bandit.v1 import episode_service_pb2 as episode
from kedge.bandit.v1 import feedback_service_pb2 as feedback
from kedge.bandit.v1 import outcome_pb2 as outcome
from kedge.bandit.v1.decision_service_pb2_grpc import DecisionServiceServicer, add_DecisionServiceServicer_to_server
from kedge.bandit.v1.episode_service_pb2_grpc import EpisodeServiceServicer, add_EpisodeServiceServicer_to_server
from kedge.bandit.v1.feedback_service_pb2_grpc import FeedbackServiceServicer, add_FeedbackServiceServicer_to_server
from kedge_client import Action, Arm, ArmRef, Baseline

SMALL = Arm("small", "gemma-2-9b-it")
LARGE = Arm("large", "llama-3.1-nemotron-51b-instruct")
DIRECT = Arm("direct", "Answer at once: {question}", ("question",))
BASELINE = Baseline(model_route=SMALL, prompt_variant=DIRECT)
SERVED = Baseline(model_route=LARGE, prompt_variant=DIRECT)

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Fail:
    """Answer one call with an error, before or after its effect."""

    code: grpc.StatusCode
    reason: str = ""
    retry_after_s: float | None = None
    committed: bool = False


@dataclass(frozen=True)
class Hang:
    """Hold one call until it goes away, or until the test releases it."""

    released: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Answer:
    """Answer one call with this message."""

    message: decision.DecideResponse | feedback.RecordOutcomesResponse


Step = Fail | Hang | Answer
UNAVAILABLE = Fail(code=grpc.StatusCode.UNAVAILABLE, reason="STORE_UNAVAILABLE")


class StandIn(DecisionServiceServicer, EpisodeServiceServicer, FeedbackServiceServicer):
    """Serve `SERVED` from memory; each call takes the next scripted step of its RPC, if there is one."""

    def __init__(self) -> None:
        self.script: defaultdict[str, deque[Step]] = defaultdict(deque)
        self.always: dict[str, Step] = {}
        self.calls: Counter[str] = Counter()
        self.received: dict[str, Any] = {}
        self.authorization: set[str] = set()
        self.episodes: dict[str, episode.LogEpisodeRequest] = {}
        self.outcomes: dict[str, outcome.Outcome] = {}
        self.batches: list[int] = []
        self.poison: set[str] = set()

    async def Decide(self, request: decision.DecideRequest, context: Context) -> decision.DecideResponse:
        step = await self._step("Decide", request, context)
        if isinstance(step, Answer) and isinstance(step.message, decision.DecideResponse):
            return step.message
        return self.decided(request.episode_id)

    async def BestAction(self, request: decision.BestActionRequest, context: Context) -> decision.BestActionResponse:
        await self._step("BestAction", request, context)
        answer = self.decided(request.episode_id)
        answer.is_randomised = False
        answer.reason = decision_pb2.DECISION_REASON_BEST_ACTION
        return decision.BestActionResponse(decision=answer, mean=0.5)

    async def Activate(self, request: decision.ActivateRequest, context: Context) -> decision.ActivateResponse:
        await self._step("Activate", request, context)
        return decision.ActivateResponse()

    async def Cancel(self, request: decision.CancelRequest, context: Context) -> decision.CancelResponse:
        await self._step("Cancel", request, context)
        return decision.CancelResponse()

    async def GetArm(self, request: decision.GetArmRequest, context: Context) -> decision.GetArmResponse:
        await self._step("GetArm", request, context)
        for arm in (LARGE, DIRECT):
            if arm.ref.content_hash == request.content_hash:
                variables = arm.template_variables
                return decision.GetArmResponse(
                    arm=policy_pb2.Arm(name=arm.name, content=arm.content, template_variables=variables)
                )
        if request.content_hash == "0" * 64:
            return decision.GetArmResponse(arm=policy_pb2.Arm(name="forged", content="another text"))
        raise await _abort(context, Fail(code=grpc.StatusCode.NOT_FOUND, reason="ARM_NOT_FOUND"))

    async def LogEpisode(self, request: episode.LogEpisodeRequest, context: Context) -> episode.LogEpisodeResponse:
        step = await self._step("LogEpisode", request, context)
        kept = self.episodes.setdefault(request.request_id, request)
        if kept != request:
            raise await _abort(context, Fail(code=grpc.StatusCode.ALREADY_EXISTS, reason="IDEMPOTENCY_CONFLICT"))
        await _fail_after(step, context)
        return episode.LogEpisodeResponse(duplicate=kept is not request)

    async def StreamEpisodes(
        self, request_iterator: AsyncIterator[episode.StreamEpisodesRequest], context: Context
    ) -> AsyncIterator[episode.StreamEpisodesResponse]:
        async for each in request_iterator:
            await self._step("StreamEpisodes", each, context)
            kept = self.episodes.setdefault(each.episode.request_id, each.episode)
            if kept == each.episode:
                duplicate = kept is not each.episode
                yield episode.StreamEpisodesResponse(request_id=each.episode.request_id, duplicate=duplicate)
            else:
                yield episode.StreamEpisodesResponse(
                    request_id=each.episode.request_id, error_reason="IDEMPOTENCY_CONFLICT"
                )

    async def SettleEpisode(
        self, request: episode.SettleEpisodeRequest, context: Context
    ) -> episode.SettleEpisodeResponse:
        await self._step("SettleEpisode", request, context)
        return episode.SettleEpisodeResponse()

    async def RecordOutcomes(
        self, request: feedback.RecordOutcomesRequest, context: Context
    ) -> feedback.RecordOutcomesResponse:
        self.batches.append(len(request.outcomes))
        step = await self._step("RecordOutcomes", request, context)
        if isinstance(step, Answer) and isinstance(step.message, feedback.RecordOutcomesResponse):
            return step.message
        if self.poison & {each.idempotency_key for each in request.outcomes}:
            raise await _abort(context, Fail(code=grpc.StatusCode.INVALID_ARGUMENT, reason="INVALID_OUTCOME"))
        results = [self._record(each) for each in request.outcomes]
        await _fail_after(step, context)
        return feedback.RecordOutcomesResponse(results=results)

    def decided(self, episode_id: str) -> decision.DecideResponse:
        action = SERVED.action
        return decision.DecideResponse(
            decision=f"tenants/acme/decisions/{episode_id}",
            action=_action(action),
            action_key=action.key,
            propensity=0.25,
            reason=decision_pb2.DECISION_REASON_DRAWN,
            is_randomised=True,
            judge_requested=True,
            decision_token=f"token-{episode_id}".encode(),
        )

    def _record(self, each: outcome.Outcome) -> feedback.OutcomeResult:
        kept = self.outcomes.get(each.idempotency_key)
        if kept is None:
            self.outcomes[each.idempotency_key] = each
            return feedback.OutcomeResult(status=outcome.OUTCOME_STATUS_RECORDED)
        if kept == each:
            return feedback.OutcomeResult(status=outcome.OUTCOME_STATUS_DUPLICATE)
        return feedback.OutcomeResult(
            status=outcome.OUTCOME_STATUS_CONFLICT,
            error_reason=error_reason_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT,
        )

    async def _step(self, rpc: str, request: object, context: Context) -> Step | None:
        self.calls[rpc] += 1
        self.received[rpc] = request
        metadata = dict(context.invocation_metadata() or ())
        self.authorization.add(str(metadata.get("authorization")))
        step = self.script[rpc].popleft() if self.script[rpc] else self.always.get(rpc)
        if isinstance(step, Hang):
            step.entered.set()
            await step.released.wait()
        if isinstance(step, Fail) and not step.committed:
            raise await _abort(context, step)
        return step


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    servicer: StandIn
    server: grpc.aio.Server
    address: str


async def start(servicer: StandIn, credentials: grpc.ServerCredentials | None = None) -> Running:
    """Listen on a free port of this machine."""
    server = grpc.aio.server()
    add_DecisionServiceServicer_to_server(servicer, server)
    add_EpisodeServiceServicer_to_server(servicer, server)
    add_FeedbackServiceServicer_to_server(servicer, server)
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    return Running(servicer, server, f"127.0.0.1:{port}")


async def _fail_after(step: Step | None, context: Context) -> None:
    if isinstance(step, Fail):
        raise await _abort(context, step)


async def _abort(context: Context, fail: Fail) -> BaseException:
    """Send the error with its details, as the real server does. Never returns, whatever its type says."""
    details = []
    if fail.reason:
        info = error_details_pb2.ErrorInfo(reason=fail.reason, domain="kedge.dev")
        details.append(_packed(info))
    if fail.retry_after_s is not None:
        delay = Duration(seconds=int(fail.retry_after_s), nanos=round(fail.retry_after_s % 1 * 1e9))
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    status = status_pb2.Status(code=fail.code.value[0], message="scripted", details=details)
    await context.abort(fail.code, "scripted", (("grpc-status-details-bin", status.SerializeToString()),))


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def _action(action: Action) -> policy_pb2.Action:
    return policy_pb2.Action(
        model_route=_ref(action.model_route),
        reasoning_depth=_ref(action.reasoning_depth),
        prompt_variant=_ref(action.prompt_variant),
    )


def _ref(arm: ArmRef | None) -> policy_pb2.ArmRef | None:
    return None if arm is None else policy_pb2.ArmRef(name=arm.name, content_hash=arm.content_hash)

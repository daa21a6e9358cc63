"""Stand in for a server in the tests of a core application: a `Kedge` that always serves the same actions.

Everything but the network is the real client, so retries, fallbacks, batches and refusals behave the same.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from itertools import count

from kedge.bandit.v1 import decision_pb2, error_reason_pb2, policy_pb2
from kedge.bandit.v1 import decision_service_pb2 as decision
from kedge.bandit.v1 import episode_service_pb2 as episode
from kedge.bandit.v1 import feedback_service_pb2 as feedback
from kedge.bandit.v1 import outcome_pb2 as outcome
from kedge_client.action import Action, ArmRef, Baseline
from kedge_client.clock import Clock
from kedge_client.errors import CallFailed
from kedge_client.kedge import Kedge
from kedge_client.requests import policy_name, random_id


class FixedWire:
    """Answer every call from memory and keep what was said.

    Args:
        serves: what is served, by policy resource name.

    Attributes:
        failure: when set, every call raises it: the server is down.
        decisions: every Decide and BestAction, in order.
        episodes: each logged episode once, by request id.
        outcomes: each recorded outcome once, by idempotency key.
        settled: every SettleEpisode.
        activated: every Activate.
        cancelled: every Cancel.
    """

    def __init__(self, serves: Mapping[str, Baseline]) -> None:
        self.failure: CallFailed | None = None
        self.decisions: list[decision.DecideRequest | decision.BestActionRequest] = []
        self.episodes: dict[str, episode.LogEpisodeRequest] = {}
        self.outcomes: dict[str, outcome.Outcome] = {}
        self.settled: list[episode.SettleEpisodeRequest] = []
        self.activated: list[decision.ActivateRequest] = []
        self.cancelled: list[decision.CancelRequest] = []
        self._serves = serves
        self._arms = {arm.ref.content_hash: arm for each in serves.values() for arm in each.arms}
        self._numbers = count(1)

    async def decide(self, request: decision.DecideRequest, *, deadline_s: float) -> decision.DecideResponse:
        """Serve the fixed action; refuse a pin on another one."""
        served = self._serve(request)
        if request.pinned_action_key not in ("", served.key):
            raise CallFailed(code="INVALID_ARGUMENT", reason="UNKNOWN_ACTION", detail=request.pinned_action_key)
        return self._answer(request, served, decision_pb2.DECISION_REASON_PINNED)

    async def best_action(
        self, request: decision.BestActionRequest, *, deadline_s: float
    ) -> decision.BestActionResponse:
        """Serve the fixed action."""
        served = self._serve(request)
        return decision.BestActionResponse(
            decision=self._answer(request, served, decision_pb2.DECISION_REASON_BEST_ACTION), mean=0.5
        )

    async def activate(self, request: decision.ActivateRequest, *, deadline_s: float) -> decision.ActivateResponse:
        """Keep it."""
        self._fail_if_down()
        self.activated.append(request)
        return decision.ActivateResponse()

    async def cancel(self, request: decision.CancelRequest, *, deadline_s: float) -> decision.CancelResponse:
        """Keep it."""
        self._fail_if_down()
        self.cancelled.append(request)
        return decision.CancelResponse()

    async def watch_allocations(
        self, request: decision.WatchAllocationsRequest
    ) -> AsyncIterator[decision.WatchAllocationsResponse]:
        """Stream nothing, so that every decision is asked for."""
        nothing: tuple[decision.WatchAllocationsResponse, ...] = ()
        for message in nothing:
            yield message
        raise CallFailed(code="UNIMPLEMENTED", reason="UNIMPLEMENTED", detail=f"no vectors of {request.policy}")

    async def report_decisions(
        self, request: decision.ReportDecisionsRequest, *, deadline_s: float
    ) -> decision.ReportDecisionsResponse:
        """Accept them all."""
        self._fail_if_down()
        return decision.ReportDecisionsResponse(refusals=[""] * len(request.decisions))

    async def get_arm(self, request: decision.GetArmRequest, *, deadline_s: float) -> decision.GetArmResponse:
        """Read an arm that is served."""
        self._fail_if_down()
        arm = self._arms.get(request.content_hash)
        if arm is None:
            raise CallFailed(code="NOT_FOUND", reason="ARM_NOT_FOUND", detail=request.content_hash)
        return decision.GetArmResponse(
            arm=policy_pb2.Arm(
                name=arm.name,
                content=arm.content,
                content_hash=arm.ref.content_hash,
                template_variables=arm.template_variables,
            )
        )

    async def log_episode(self, request: episode.LogEpisodeRequest, *, deadline_s: float) -> episode.LogEpisodeResponse:
        """Keep it once."""
        self._fail_if_down()
        kept = self.episodes.setdefault(request.request_id, request)
        if kept != request:
            raise CallFailed(code="ALREADY_EXISTS", reason="IDEMPOTENCY_CONFLICT", detail=request.request_id)
        return episode.LogEpisodeResponse(duplicate=kept is not request)

    async def settle(
        self, request: episode.SettleEpisodeRequest, *, deadline_s: float
    ) -> episode.SettleEpisodeResponse:
        """Keep it."""
        self._fail_if_down()
        self.settled.append(request)
        return episode.SettleEpisodeResponse()

    async def record_outcomes(
        self, request: feedback.RecordOutcomesRequest, *, deadline_s: float
    ) -> feedback.RecordOutcomesResponse:
        """Keep each once."""
        self._fail_if_down()
        return feedback.RecordOutcomesResponse(results=[self._record(each) for each in request.outcomes])

    async def stream_episodes(
        self, episodes: AsyncIterable[episode.LogEpisodeRequest]
    ) -> AsyncIterator[episode.StreamEpisodesResponse]:
        """Keep each once."""
        async for request in episodes:
            request_id = request.request_id
            try:
                logged = await self.log_episode(request, deadline_s=0.0)
            except CallFailed as failure:
                if failure.is_transient:
                    raise
                yield episode.StreamEpisodesResponse(request_id=request_id, error_reason=failure.reason)
            else:
                yield episode.StreamEpisodesResponse(request_id=request_id, duplicate=logged.duplicate)

    async def ready(self, *, deadline_s: float) -> bool:
        """Say whether the server is up."""
        return self.failure is None

    async def close(self) -> None:
        """Nothing is open."""

    def _fail_if_down(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _serve(self, request: decision.DecideRequest | decision.BestActionRequest) -> Action:
        self._fail_if_down()
        served = self._serves.get(request.policy)
        if served is None:
            raise CallFailed(code="NOT_FOUND", reason="POLICY_NOT_FOUND", detail=request.policy)
        self.decisions.append(request)
        return served.action

    def _answer(
        self,
        request: decision.DecideRequest | decision.BestActionRequest,
        served: Action,
        reason: decision_pb2.DecisionReason.ValueType,
    ) -> decision.DecideResponse:
        tenant = request.policy.partition("/policies/")[0]
        return decision.DecideResponse(
            decision=f"{tenant}/decisions/{next(self._numbers)}",
            action=policy_pb2.Action(
                model_route=_message(served.model_route),
                reasoning_depth=_message(served.reasoning_depth),
                prompt_variant=_message(served.prompt_variant),
            ),
            action_key=served.key,
            propensity=1.0,
            reason=reason,
            decision_token=f"fixed.{request.episode_id}".encode(),
        )

    def _record(self, each: outcome.Outcome) -> feedback.OutcomeResult:
        kept = self.outcomes.setdefault(each.idempotency_key, each)
        if kept is each:
            return feedback.OutcomeResult(status=outcome.OUTCOME_STATUS_RECORDED)
        if kept == each:
            return feedback.OutcomeResult(status=outcome.OUTCOME_STATUS_DUPLICATE)
        return feedback.OutcomeResult(
            status=outcome.OUTCOME_STATUS_CONFLICT, error_reason=error_reason_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT
        )


class FixedKedge(Kedge):
    """Serve fixed actions without a server, with the same methods, and keep what was said in `said`.

    Args:
        baselines: as for `Kedge`.
        serves: what is served instead of the baseline, by policy id.
        tenant: as for `Kedge`.
        clock: as for `Kedge`.
        new_id: as for `Kedge`.

    Attributes:
        said: what the code under test said, and `said.failure` to take the server down.
    """

    def __init__(
        self,
        baselines: Mapping[str, Baseline],
        *,
        serves: Mapping[str, Baseline] | None = None,
        tenant: str = "test",
        clock: Clock | None = None,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        served = {**baselines, **(serves or {})}
        self.said = FixedWire({policy_name(tenant, policy): each for policy, each in served.items()})
        super().__init__(
            "in-memory", key="", tenant=tenant, baselines=baselines, clock=clock, new_id=new_id, wire=self.said
        )


def _message(arm: ArmRef | None) -> policy_pb2.ArmRef | None:
    return None if arm is None else policy_pb2.ArmRef(name=arm.name, content_hash=arm.content_hash)

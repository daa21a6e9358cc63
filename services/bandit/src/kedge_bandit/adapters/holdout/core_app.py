"""Ask the core application itself, by AnswerService: with the content of the arms, as an evaluation."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc import aio

from kedge.bandit.v1 import answer_service_pb2, answer_service_pb2_grpc, decision_pb2, episode_pb2, policy_pb2
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import Answer, AnswererSettings
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.holdout import HoldoutCase
from kedge_bandit.domain.identifiers import PolicyName, TenantId

TLS_SCHEME: Final = "tls://"
_FIELD: Final = {
    Dimension.MODEL_ROUTE: "model_route",
    Dimension.REASONING_DEPTH: "reasoning_depth",
    Dimension.PROMPT_VARIANT: "prompt_variant",
}


@dataclass(frozen=True, slots=True)
class CoreAppAnswers:
    """A core application, connected."""

    stub: Any
    settings: AnswererSettings
    secret: str

    async def __call__(self, tenant: TenantId, policy: PolicyName, case: HoldoutCase, arms: Sequence[Arm]) -> Answer:
        """Answer one case. Raises AnswerFailed."""
        request = answer_service_pb2.AnswerRequest(
            policy=f"tenants/{tenant}/policies/{policy}",
            case_id=case.name,
            messages=[episode_pb2.ContentMessage(role=one.role, text=one.text) for one in case.messages],
            context=decision_pb2.Context(categories=case.categories, numbers=case.numbers),
            action=_action(arms),
            evaluation=True,
            arms=[_arm(arm) for arm in arms],
        )
        metadata = (("authorization", f"Bearer {self.secret}"),) if self.secret else ()
        try:
            found = await self.stub.Answer(request, metadata=metadata, timeout=self.settings.timeout_seconds)
        except aio.AioRpcError as error:
            told = f"the core application at {self.settings.address} answered {error.code().name}"
            raise AnswerFailed(told) from error
        if not (found.cost_usd >= 0 and found.latency_ms >= 0):
            raise AnswerFailed(f"the core application at {self.settings.address} answered a cost or latency below 0")
        return Answer(
            output=found.output,
            cost_usd=found.cost_usd,
            latency_ms=found.latency_ms,
            vetoed=any(event.tripped for event in found.guardrail_events),
            model_id=found.model_id,
        )


@asynccontextmanager
async def connected(settings: AnswererSettings, secret: str) -> AsyncIterator[CoreAppAnswers]:
    """Open a channel, and close it; `tls://` before host:port encrypts it, believed by the system's authorities."""
    address = settings.address
    if address.startswith(TLS_SCHEME):
        channel = aio.secure_channel(address.removeprefix(TLS_SCHEME), grpc.ssl_channel_credentials())
    else:
        channel = aio.insecure_channel(address)
    async with channel:
        yield CoreAppAnswers(answer_service_pb2_grpc.AnswerServiceStub(channel), settings, secret)


def _action(arms: Sequence[Arm]) -> policy_pb2.Action:
    action = policy_pb2.Action()
    for arm in arms:
        getattr(action, _FIELD[arm.dimension]).CopyFrom(policy_pb2.ArmRef(name=arm.name, content_hash=arm.content_hash))
    return action


def _arm(arm: Arm) -> policy_pb2.Arm:
    return policy_pb2.Arm(
        dimension=policy_pb2.Dimension.Value(f"DIMENSION_{arm.dimension}"),
        name=arm.name,
        content=arm.content,
        content_hash=arm.content_hash,
        template_variables=arm.template_variables,
    )

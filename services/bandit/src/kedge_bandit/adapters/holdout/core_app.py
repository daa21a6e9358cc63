"""Ask the core application itself, by AnswerService: with the content of the arms, as an evaluation."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc import aio

from kedge.bandit.v1 import answer_service_pb2, answer_service_pb2_grpc, decision_pb2, episode_pb2, policy_pb2
from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import Answer, AnswererSettings, core_app_place
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.holdout import HoldoutCase
from kedge_bandit.domain.identifiers import PolicyName, TenantId

TLS_SCHEME: Final = "tls://"
MAX_ANSWER_BYTES: Final = 1024 * 1024
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),  # no proxy of the environment sees cases, or leads elsewhere
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
)


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
        if not (0 <= found.cost_usd < math.inf and 0 <= found.latency_ms < math.inf):
            told = f"the core application at {self.settings.address} answered a cost or latency that is none"
            raise AnswerFailed(told)
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
    host, port = core_app_place(settings.address)
    target = f"dns:///[{host}]:{port}" if ":" in host else f"dns:///{host}:{port}"
    if settings.address.startswith(TLS_SCHEME):
        channel = aio.secure_channel(target, grpc.ssl_channel_credentials(), options=_OPTIONS)
    else:
        channel = aio.insecure_channel(target, options=_OPTIONS)
    async with channel:
        yield CoreAppAnswers(answer_service_pb2_grpc.AnswerServiceStub(channel), settings, secret)


def _action(arms: Sequence[Arm]) -> policy_pb2.Action:
    refs = {arm.dimension.lower(): policy_pb2.ArmRef(name=arm.name, content_hash=arm.content_hash) for arm in arms}
    return policy_pb2.Action(**refs)


def _arm(arm: Arm) -> policy_pb2.Arm:
    return policy_pb2.Arm(
        dimension=policy_pb2.Dimension.Value(f"DIMENSION_{arm.dimension}"),
        name=arm.name,
        content=arm.content,
        content_hash=arm.content_hash,
        template_variables=arm.template_variables,
    )

"""Hold what `decide` answers, and what must be kept of it to speak about the episode later."""

import math
from dataclasses import dataclass
from typing import Final

from kedge.bandit.v1 import decision_pb2, policy_pb2
from kedge.bandit.v1.decision_service_pb2 import DecideResponse
from kedge_client.action import Action, ArmRef, Baseline
from kedge_client.errors import CallFailed

LOCAL_FALLBACK: Final = "LOCAL_FALLBACK"
"""Reason of a choice that this process made alone: the local baseline."""
_REASON_PREFIX: Final = "DECISION_REASON_"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeHandle:
    """Say which episode later facts belong to. Small and plain: store it with a job that ends the episode elsewhere.

    Attributes:
        policy: `tenants/{tenant}/policies/{policy}`.
        episode_id: the caller's own id.
        token: of the decision; best target, since it survives the loss of the decision's row. Empty after a fallback,
            and for a decision made here.
        decision: `tenants/{tenant}/decisions/{decision}`; empty after a fallback.
        served_action_key: what was really served where the server cannot know it; empty means what it decided.
    """

    policy: str
    episode_id: str
    token: bytes = b""
    decision: str = ""
    served_action_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Say what to serve for one episode.

    Attributes:
        policy: `tenants/{tenant}/policies/{policy}`.
        episode_id: the episode that was decided.
        action: the arms, with the hashes that `get_arm` takes.
        action_key: the action in one string, as the wire names it.
        propensity: probability with which the published allocation chose it, in (0, 1]; 1 for a fallback.
        is_randomised: whether it was drawn; False for a fallback.
        judge_requested: whether this episode should be judged.
        token: send it back with later calls of the episode; empty for a fallback and for a decision made here.
        decision: `tenants/{tenant}/decisions/{decision}`; empty for a fallback.
        reason: the DecisionReason without its prefix, or LOCAL_FALLBACK.
        fallback: the server gave no usable answer; this is the local baseline.
        failure: why there was a fallback, e.g. `DEADLINE_EXCEEDED` or `BREAKER_OPEN`; else empty.
        mean: posterior mean in [0, 1] where `best_action` was asked; else None.
    """

    policy: str
    episode_id: str
    action: Action
    action_key: str
    propensity: float
    is_randomised: bool
    judge_requested: bool
    token: bytes
    decision: str
    reason: str
    fallback: bool
    failure: str = ""
    mean: float | None = None

    @property
    def model_route(self) -> str | None:
        """Name the chosen model route; None where the policy has none."""
        return _name(self.action.model_route)

    @property
    def reasoning_depth(self) -> str | None:
        """Name the chosen reasoning depth; None where the policy has none."""
        return _name(self.action.reasoning_depth)

    @property
    def prompt_variant(self) -> str | None:
        """Name the chosen prompt variant; None where the policy has none."""
        return _name(self.action.prompt_variant)

    @property
    def handle(self) -> EpisodeHandle:
        """Keep what later calls need.

        A fallback's handle says what was served: the server may have decided something else just before the deadline,
        and an episode is learned from only if both agree.
        """
        return EpisodeHandle(
            policy=self.policy,
            episode_id=self.episode_id,
            token=self.token,
            decision=self.decision,
            served_action_key=self.action_key if self.fallback else "",
        )


def answered_choice(policy: str, episode_id: str, response: DecideResponse, *, mean: float | None = None) -> Choice:
    """Read the server's answer.

    Raises:
        CallFailed: the answer names no action or an impossible propensity, so it cannot be served.
    """
    if not response.action_key or not response.decision or not 0.0 < response.propensity <= 1.0:
        raise CallFailed(code="INTERNAL", reason="UNUSABLE_ANSWER", detail="the answer names no action to serve")
    return Choice(
        policy=policy,
        episode_id=episode_id,
        action=_action(response.action),
        action_key=response.action_key,
        propensity=response.propensity,
        is_randomised=response.is_randomised,
        judge_requested=response.judge_requested,
        token=response.decision_token,
        decision=response.decision,
        reason=reason_name(response.reason),
        fallback=False,
        mean=mean if mean is not None and math.isfinite(mean) else None,
    )


def local_choice(policy: str, episode_id: str, baseline: Baseline, *, failure: str) -> Choice:
    """Answer the local baseline: the same action every time, never randomised."""
    action = baseline.action
    return Choice(
        policy=policy,
        episode_id=episode_id,
        action=action,
        action_key=action.key,
        propensity=1.0,
        is_randomised=False,
        judge_requested=False,
        token=b"",
        decision="",
        reason=LOCAL_FALLBACK,
        fallback=True,
        failure=failure,
    )


def _name(arm: ArmRef | None) -> str | None:
    return None if arm is None else arm.name


def _action(message: policy_pb2.Action) -> Action:
    return Action(
        model_route=_ref(message.model_route),
        reasoning_depth=_ref(message.reasoning_depth),
        prompt_variant=_ref(message.prompt_variant),
    )


def _ref(message: policy_pb2.ArmRef) -> ArmRef | None:
    return ArmRef(message.name, message.content_hash) if message.name else None


def reason_name(number: int) -> str:
    """Name a reason; a newer server may know reasons that this client does not."""
    value = decision_pb2.DecisionReason.DESCRIPTOR.values_by_number.get(number)
    return f"REASON_{number}" if value is None else value.name.removeprefix(_REASON_PREFIX)

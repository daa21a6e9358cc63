"""Name what can go wrong in the domain: one leaf per fact, with a reason for the wire and the facts as attributes.

No leaf knows an HTTP or gRPC code; `adapters/grpc/status.py` alone turns reasons into codes.
"""

from datetime import datetime, timedelta
from typing import ClassVar


class KedgeError(Exception):
    """Be the root of every error the domain raises.

    `reason` is the stable UPPER_SNAKE name that callers may match on; the message says what to do.
    """

    reason: ClassVar[str] = "INTERNAL"


class OutcomeInvalid(KedgeError):
    """Refuse an outcome whose `field` cannot be believed; nothing of it is stored or learned."""

    reason: ClassVar[str] = "INVALID_OUTCOME"

    def __init__(self, *, signal: str, field: str, problem: str) -> None:
        super().__init__(f"{signal} outcome refused: {field} {problem}. Correct it and send it under a new key.")
        self.signal = signal
        self.field = field
        self.problem = problem


class OutcomeTimeOutOfRange(KedgeError):
    """Refuse an outcome observed before its decision, or further ahead of the clock than skew explains."""

    reason: ClassVar[str] = "TIME_OUT_OF_RANGE"

    def __init__(self, *, key: str, observed_time: datetime, earliest: datetime, latest: datetime) -> None:
        super().__init__(
            f"outcome {key!r} observed at {observed_time.isoformat()}, allowed {earliest.isoformat()} to "
            f"{latest.isoformat()}. Send it with the decision it belongs to, and set the sender's clock."
        )
        self.key = key
        self.observed_time = observed_time
        self.earliest = earliest
        self.latest = latest


class TrajectoryInvalid(KedgeError):
    """Refuse a trajectory whose `field` cannot be believed."""

    reason: ClassVar[str] = "INVALID_TRAJECTORY"

    def __init__(self, *, step: str, field: str, problem: str) -> None:
        super().__init__(f"trajectory refused: {field} of {step} {problem}. Correct it and log the episode again.")
        self.step = step
        self.field = field
        self.problem = problem


class RewardSpecInvalid(KedgeError):
    """Refuse a reward spec that would let a signal do what it must not; the spec in force stays."""

    reason: ClassVar[str] = "INVALID_REWARD_SPEC"

    def __init__(self, *, rule: str, found: str) -> None:
        super().__init__(f"reward spec refused: {rule}, found {found}. Change the spec so that the rule holds.")
        self.rule = rule
        self.found = found


class WindowsInvalid(KedgeError):
    """Refuse settlement windows that never close or close before they open; the policy in force stays."""

    reason: ClassVar[str] = "INVALID_POLICY"

    def __init__(self, *, window: str, found: timedelta, longest: timedelta) -> None:
        super().__init__(f"{window} window refused: {found}. Choose one from 0 to {longest}.")
        self.window = window
        self.found = found
        self.longest = longest


class FactsInvalid(KedgeError):
    """Refuse facts about an episode that cannot be true together: a bug of the caller, not of the sender."""

    reason: ClassVar[str] = "INVALID_VALUE"

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"facts of an episode refused: {field} {problem}. Correct the caller that gathered them.")
        self.field = field
        self.problem = problem


class InvalidName(KedgeError):
    """Refuse an id or a resource name that is not of its form."""

    reason: ClassVar[str] = "INVALID_NAME"

    def __init__(self, field: str, found: str, form: str) -> None:
        super().__init__(f"{field} {found!r} is not valid: use {form}.")
        self.field = field


class InvalidValue(KedgeError):
    """Refuse a value that cannot be used; state is untouched."""

    reason: ClassVar[str] = "INVALID_VALUE"

    def __init__(self, field: str, found: str, wanted: str) -> None:
        super().__init__(f"{field} is {found}: send {wanted}.")
        self.field = field


class UndeclaredFeature(KedgeError):
    """Refuse a context feature that the policy does not declare with that kind."""

    reason: ClassVar[str] = "UNDECLARED_FEATURE"

    def __init__(self, feature: str, kind: str) -> None:
        super().__init__(f"{feature!r} is not a declared {kind} feature: declare it in the policy or leave it out.")
        self.feature = feature


class ContextTooLarge(KedgeError):
    """Refuse a context over the documented limits."""

    reason: ClassVar[str] = "CONTEXT_TOO_LARGE"


class InvalidPolicy(KedgeError):
    """Refuse a configuration; the old one stays."""

    reason: ClassVar[str] = "INVALID_POLICY"


class UnknownDimension(KedgeError):
    """Refuse an arm of a dimension that is none of the three safe knobs; a tool, a spend or a send can never be one."""

    reason: ClassVar[str] = "UNKNOWN_DIMENSION"


class UnknownAction(KedgeError):
    """Refuse an action key that the policy does not have."""

    reason: ClassVar[str] = "UNKNOWN_ACTION"

    def __init__(self, action_key: str) -> None:
        super().__init__(f"{action_key[:200]!r} is not an action of the policy: read action_keys from GetPolicy.")
        self.action_key = action_key


class InvalidToken(KedgeError):
    """Refuse a decision token that this service did not sign, or that belongs to something else."""

    reason: ClassVar[str] = "INVALID_TOKEN"


class BatchTooLarge(KedgeError):
    """Refuse a batch over the documented limit; nothing of it is stored."""

    reason: ClassVar[str] = "BATCH_TOO_LARGE"


class ReasonRequired(KedgeError):
    """Refuse a change without a reason of 1 to 1,000 characters."""

    reason: ClassVar[str] = "REASON_REQUIRED"


class Unauthenticated(KedgeError):
    """Refuse a caller whose credential is missing, unknown or revoked."""

    reason: ClassVar[str] = "UNAUTHENTICATED"


class TenantDenied(KedgeError):
    """Refuse a tenant that the credential is not bound to; unknown and foreign tenants look the same."""

    reason: ClassVar[str] = "TENANT_DENIED"

    def __init__(self) -> None:
        super().__init__("no such tenant, or this credential is not bound to it: check the name and whose key it is.")


class PermissionDenied(KedgeError):
    """Refuse a verb that the credential's role does not include."""

    reason: ClassVar[str] = "PERMISSION_DENIED"


class PolicyNotFound(KedgeError):
    """Say that the tenant has no such policy; there is no shared default."""

    reason: ClassVar[str] = "POLICY_NOT_FOUND"

    def __init__(self, policy: str) -> None:
        super().__init__(f"policy {policy!r} does not exist in this tenant: apply it first.")
        self.policy = policy


class DecisionNotFound(KedgeError):
    """Say that the tenant has no such decision."""

    reason: ClassVar[str] = "DECISION_NOT_FOUND"


class EpisodeNotFound(KedgeError):
    """Say that the tenant has no such episode."""

    reason: ClassVar[str] = "EPISODE_NOT_FOUND"


class ArmNotFound(KedgeError):
    """Say that the tenant has no such arm."""

    reason: ClassVar[str] = "ARM_NOT_FOUND"


class TenantExists(KedgeError):
    """Refuse to onboard a tenant twice."""

    reason: ClassVar[str] = "TENANT_EXISTS"


class IdempotencyConflict(KedgeError):
    """Refuse a key that was seen with another payload; nothing is applied."""

    reason: ClassVar[str] = "IDEMPOTENCY_CONFLICT"

    def __init__(self, key: str) -> None:
        super().__init__(f"{key!r} was used for another payload: send new facts under a new key.")
        self.key = key


class IllegalTransition(KedgeError):
    """Refuse a move that the lifecycle does not allow."""

    reason: ClassVar[str] = "ILLEGAL_TRANSITION"


class VersionMismatch(KedgeError):
    """Refuse a change made from an older version: another change came first."""

    reason: ClassVar[str] = "VERSION_MISMATCH"

    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(f"the policy is at version {found}, not {expected}: read it again and repeat the change.")
        self.expected = expected
        self.found = found


class QueueFull(KedgeError):
    """Push back: the write queue is full; the same request may be sent again after the delay."""

    reason: ClassVar[str] = "QUEUE_FULL"

    def __init__(self, *, retry_seconds: float) -> None:
        super().__init__(f"the write queue is full: send the same request again in {retry_seconds:g} s.")
        self.retry_seconds = retry_seconds


class StoreUnavailable(KedgeError):
    """Say that the database could not be reached or refused; the same request may be sent again."""

    reason: ClassVar[str] = "STORE_UNAVAILABLE"


class NumericalFailure(KedgeError):
    """Say that a computed number cannot be true; nothing is published from it, and the old allocation stays."""

    reason: ClassVar[str] = "NUMERICAL_FAILURE"

    def __init__(self, quantity: str, found: float) -> None:
        super().__init__(f"{quantity} is {found!r}: freeze the policy, rebuild its evidence and report this.")
        self.quantity = quantity
        self.found = found


class ExplorationRefused(KedgeError):
    """Refuse a floor, slice or cap; the ones in force stay."""

    reason: ClassVar[str] = "INVALID_EXPLORATION"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(f"exploration refused: {'; '.join(problems)}.")
        self.problems = problems


class EvidenceContradicts(KedgeError):
    """Refuse to fold a log in which one version of one episode's reward says two things; it was written to by hand."""

    reason: ClassVar[str] = "NUMERICAL_FAILURE"

    def __init__(self, *, policy: str, episode_id: str, reward_version: int) -> None:
        super().__init__(
            f"episode {episode_id!r} of policy {policy!r} has two different rows for reward version {reward_version}: "
            "freeze the policy and compare the evidence table with its backup."
        )
        self.policy = policy
        self.episode_id = episode_id
        self.reward_version = reward_version

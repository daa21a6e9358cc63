"""Name what can go wrong in the domain: one leaf per fact, with a reason for the wire and the facts as attributes.

No leaf knows an HTTP or gRPC code; `adapters/grpc/status.py` alone turns reasons into codes.
"""

from typing import ClassVar


class KedgeError(Exception):
    """Be the root of every error the domain raises.

    `reason` is the stable UPPER_SNAKE name that callers may match on; the message says what to do.
    """

    reason: ClassVar[str] = "INTERNAL"


class OutcomeInvalid(KedgeError):
    """Refuse an outcome whose `field` cannot be believed; nothing of it is stored or learned."""

    reason: ClassVar[str] = "OUTCOME_INVALID"

    def __init__(self, *, signal: str, field: str, problem: str) -> None:
        super().__init__(f"{signal} outcome refused: {field} {problem}. Correct it and send it under a new key.")
        self.signal = signal
        self.field = field
        self.problem = problem


class OutcomeInFuture(KedgeError):
    """Refuse an outcome observed further ahead of the clock than skew explains."""

    reason: ClassVar[str] = "OUTCOME_IN_FUTURE"

    def __init__(self, *, key: str, ahead_seconds: float, limit_seconds: float) -> None:
        super().__init__(
            f"outcome {key!r} lies {ahead_seconds:.3f} s ahead of the clock, {limit_seconds:.0f} s are allowed. "
            "Set the sender's clock."
        )
        self.key = key
        self.ahead_seconds = ahead_seconds
        self.limit_seconds = limit_seconds


class OutcomeBeforeDecision(KedgeError):
    """Refuse an outcome observed before the decision it belongs to."""

    reason: ClassVar[str] = "OUTCOME_BEFORE_DECISION"

    def __init__(self, *, key: str, early_seconds: float) -> None:
        super().__init__(
            f"outcome {key!r} lies {early_seconds:.3f} s before its decision. "
            "Send it with the decision it belongs to, and set the sender's clock."
        )
        self.key = key
        self.early_seconds = early_seconds


class TrajectoryInvalid(KedgeError):
    """Refuse a trajectory whose `field` cannot be believed."""

    reason: ClassVar[str] = "TRAJECTORY_INVALID"

    def __init__(self, *, step: str, field: str, problem: str) -> None:
        super().__init__(f"trajectory refused: {field} of {step} {problem}. Correct it and log the episode again.")
        self.step = step
        self.field = field
        self.problem = problem


class RewardSpecInvalid(KedgeError):
    """Refuse a reward spec that would let a signal do what it must not; the spec in force stays."""

    reason: ClassVar[str] = "REWARD_SPEC_INVALID"

    def __init__(self, *, rule: str, found: str) -> None:
        super().__init__(f"reward spec refused: {rule}, found {found}. Change the spec so that the rule holds.")
        self.rule = rule
        self.found = found


class SignalsInvalid(KedgeError):
    """Refuse reduced signals outside their ranges: a bug of the caller, not of the sender."""

    reason: ClassVar[str] = "SIGNALS_INVALID"

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"signals refused: {field} {problem}. Reduce validated outcomes instead of building them.")
        self.field = field
        self.problem = problem


class SettlementInvalid(KedgeError):
    """Refuse facts or windows about an episode that contradict each other."""

    reason: ClassVar[str] = "SETTLEMENT_INVALID"

    def __init__(self, *, rule: str, found: str) -> None:
        super().__init__(f"settlement refused: {rule}, found {found}. Correct the facts or the windows.")
        self.rule = rule
        self.found = found

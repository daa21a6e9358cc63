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


class SignalsInvalid(KedgeError):
    """Refuse reduced signals outside their ranges: a bug of the caller, not of the sender."""

    reason: ClassVar[str] = "INVALID_VALUE"

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"signals refused: {field} {problem}. Reduce validated outcomes instead of building them.")
        self.field = field
        self.problem = problem


class WindowsInvalid(KedgeError):
    """Refuse settlement windows that never close or close before they open; the policy in force stays."""

    reason: ClassVar[str] = "INVALID_POLICY"

    def __init__(self, *, window: str, found: timedelta, longest: timedelta) -> None:
        super().__init__(f"{window} window refused: {found}. Choose one from 0 to {longest}.")
        self.window = window
        self.found = found
        self.longest = longest


class FactsInvalid(KedgeError):
    """Refuse facts about an episode that contradict each other: a bug of the caller, not of the sender."""

    reason: ClassVar[str] = "INVALID_VALUE"

    def __init__(self, *, rule: str) -> None:
        super().__init__(f"facts of an episode refused: {rule}. Correct the caller that gathered them.")
        self.rule = rule

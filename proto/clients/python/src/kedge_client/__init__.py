"""Ask Kedge which model route, reasoning depth and prompt variant to serve, with a local baseline for every failure."""

from kedge_client.action import Action, Arm, ArmRef, Baseline
from kedge_client.blocking import BlockingKedge
from kedge_client.breaker import BreakerState
from kedge_client.choice import LOCAL_FALLBACK, Choice, EpisodeHandle
from kedge_client.errors import ArmContentMismatch, CallFailed, KedgeClientError
from kedge_client.fixed import FixedKedge, FixedWire
from kedge_client.kedge import Kedge
from kedge_client.listener import Listener
from kedge_client.outcome_queue import OutcomeCounts, OutcomeQueue
from kedge_client.outcomes import OutcomeMaker
from kedge_client.requests import log_request

__all__ = [
    "LOCAL_FALLBACK",
    "Action",
    "Arm",
    "ArmContentMismatch",
    "ArmRef",
    "Baseline",
    "BlockingKedge",
    "BreakerState",
    "CallFailed",
    "Choice",
    "EpisodeHandle",
    "FixedKedge",
    "FixedWire",
    "Kedge",
    "KedgeClientError",
    "Listener",
    "OutcomeCounts",
    "OutcomeMaker",
    "OutcomeQueue",
    "log_request",
]

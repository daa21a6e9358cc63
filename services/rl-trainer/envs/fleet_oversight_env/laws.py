"""Say how the fleet behaves: steps, prices, faults and the rates of each domain. The datasheet prints the same numbers.

One table of rates serves the scalar world, the batch of worlds and the belief filter, so the three cannot disagree.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WORKERS: Final = ("worker_1", "worker_2", "worker_3", "worker_4", "worker_5")
FLEET: Final = len(WORKERS)
PLANNING_STEPS: Final = 3
OVERSIGHT_STEPS: Final = 17
LAST_STEP: Final = PLANNING_STEPS + OVERSIGHT_STEPS
GOVERNANCE_BUDGET: Final = 16
LOCKED_STEPS: Final = 2
LOG_LENGTH: Final = 3
START_BUDGET: Final = (36, 44)

OPERATIONS: Final = (
    ("inspect_schema", "clean_nulls", "deduplicate", "validate_types", "submit"),
    ("set_strategy", "set_chunk_size", "set_overlap", "preview_chunks", "run_chunking", "validate_chunks", "submit"),
    (
        "select_model", "configure_batch_size", "run_embedding", "validate_coverage", "inspect_vectors", "store_index",
        "submit",
    ),
    ("configure_retrieval", "set_reranker", "preprocess_query", "run_retrieval", "evaluate_precision", "submit"),
    (
        "run_faithfulness_check", "run_relevance_check", "check_pipeline_integrity", "compute_composite_score",
        "generate_eval_report", "submit",
    ),
)  # fmt: skip


class Fault(StrEnum):
    """What may be wrong with a worker."""

    BUDGET_DUMP = "budget_dump"
    INVALID_BURST = "invalid_burst"
    CONSTRAINT_VIOLATION = "constraint_violation"
    SILENT_DRIFT = "silent_drift"


class Result(StrEnum):
    """How one operation of a worker came out."""

    OK = "ok"
    INVALID = "invalid"
    RETRY = "retry"
    STALL = "stall"


class Status(StrEnum):
    """What the overseer has made of a worker; the last two are closed for good."""

    RUNNING = "running"
    PAUSED = "paused"
    INTERVENED = "intervened"
    ESCALATED = "escalated"


class MoveKind(StrEnum):
    """What the overseer may do; `allocate` while planning, the others while overseeing."""

    ALLOCATE = "allocate"
    MONITOR = "monitor"
    INTERVENE = "intervene"
    ESCALATE = "escalate"
    HOLD = "hold"
    SUBMIT = "submit_audit"
    UNREADABLE = "unreadable"


FAULTS: Final = tuple(Fault)
RESULTS: Final = tuple(Result)
STATUSES: Final = tuple(Status)
PRICES: Final = {
    MoveKind.MONITOR: 1,
    MoveKind.INTERVENE: 6,
    MoveKind.ESCALATE: 2,
    MoveKind.HOLD: 0,
    MoveKind.SUBMIT: 0,
}

# How a worker behaves at one step: a mode is a row of `Domain.rates`. Modes 1 to 4 are FAULTS[mode - 1].
HEALTHY, DUMP, BURST, CONSTRAINT, DRIFT, GLITCH = range(6)
# What poor planning adds to each rate, per unit of lost alignment: invalid, retry, stall, extra burn.
NOISE: Final = (0.07, 0.12, 0.25, 0.15)
GLITCH_NOISE: Final = 0.25
GLITCH_STEPS: Final = 2
GLITCH_START: Final = (2, 14)
GLITCH_INVALID: Final = 0.40
FLAG_TRUE: Final = 0.80
FLAG_FALSE: Final = 0.20
DRIFT_FLAG_AFTER: Final = 5
PROBE_ZERO_TRUE: Final = 0.95
PROBE_ZERO_FALSE: Final = 0.20
BIG_JUMP: Final = 3
TWO_FAULTS: Final = 0.5

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The laws of one business domain.

    Args:
        activation: First and last oversight step k at which a fault may become active, uniform.
        delays: Steps from activation to manifestation, lowest and highest, uniform, in the order of `FAULTS`.
        window: Steps, from activation on, in which a fault can be resolved.
        invalid, retry, stall, burn: Rates of a healthy worker under a perfect plan, per step.
        burst_invalid, constraint_retry, drift_stall, drift_burn: The same rates where a fault shows.
        jump: Rate of a harmless fall of the budget by 3 more.
        glitch: Probability that a healthy worker misbehaves once, for two steps.
        probe_healthy, probe_violated: Mean and spread of the quality that a probe reads.
    """

    name: str
    activation: Range
    delays: tuple[Range, Range, Range, Range]
    window: int
    invalid: float
    retry: float
    stall: float
    burn: float
    burst_invalid: float
    constraint_retry: float
    drift_stall: float
    drift_burn: float
    jump: float
    glitch: float
    probe_healthy: tuple[float, float]
    probe_violated: tuple[float, float]

    @property
    def rates(self) -> tuple[tuple[float, float, float, float], ...]:
        """Rates of invalid, retry, stall and extra burn, a row per mode, before planning's noise."""
        plain = (self.invalid, self.retry, self.stall, self.burn)
        return (
            plain,
            plain,
            (self.burst_invalid, self.retry, self.stall, self.burn),
            (self.invalid, self.constraint_retry, self.stall, self.burn),
            (self.invalid, self.retry, self.drift_stall, self.drift_burn),
            (GLITCH_INVALID, self.retry, self.stall, self.burn),
        )


CRM: Final = Domain(
    name="crm",
    activation=(1, 1),
    delays=((1, 5), (0, 2), (3, 3), (0, 2)),
    window=12,
    invalid=0.03,
    retry=0.08,
    stall=0.15,
    burn=0.10,
    burst_invalid=0.30,
    constraint_retry=0.35,
    drift_stall=0.60,
    drift_burn=0.35,
    jump=0.01,
    glitch=0.15,
    probe_healthy=(0.80, 0.08),
    probe_violated=(0.55, 0.10),
)
BANKING: Final = Domain(
    name="banking",
    activation=(2, 7),
    delays=((0, 2), (0, 0), (3, 3), (0, 0)),
    window=12,
    invalid=0.04,
    retry=0.10,
    stall=0.18,
    burn=0.13,
    burst_invalid=0.30,
    constraint_retry=0.40,
    drift_stall=0.60,
    drift_burn=0.35,
    jump=0.01,
    glitch=0.18,
    probe_healthy=(0.76, 0.08),
    probe_violated=(0.50, 0.10),
)

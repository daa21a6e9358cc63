"""An experiment: learned policy against baseline, with everything that could be bent afterwards fixed before it starts.

Of an EPISODE experiment the control is the exploitation floor, which is served in any case: every draw is a hash of the
episode, and the first φ of the baseline's interval is the floor's. Of a SESSION or COHORT experiment the unit is
hashed, and the core application asks for the baseline (`no_exploration`) where the hash says BASELINE.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, Final

from kedge_bandit.domain.audit import AuditEvent, Fact
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import IllegalTransition, InvalidName, InvalidValue, KedgeError
from kedge_bandit.domain.identifiers import PolicyName, TenantId, tenant_id, text_id

LONGEST: Final = timedelta(days=180)
LEAST_SHARE: Final = 0.05
MOST_NAME: Final = 64


class ExperimentUnit(StrEnum):
    """What is assigned whole, and counted as one independent observation."""

    EPISODE = "EPISODE"
    SESSION = "SESSION"
    COHORT = "COHORT"


class ExperimentSide(StrEnum):
    """What a unit is served: what the policy has learned, or the baseline."""

    LEARNED = "LEARNED"
    BASELINE = "BASELINE"


class ExperimentMetric(StrEnum):
    """What an episode is measured by, as the worker settled it; a veto counts 0 of reward, quality and success."""

    REWARD = "reward"
    QUALITY = "quality"
    TASK_SUCCESS = "task_success"
    COST_USD = "cost_usd"
    LATENCY_MS = "latency_ms"
    VETO_RATE = "veto_rate"

    @property
    def is_better_lower(self) -> bool:
        """Whether less of it is better."""
        return self in (ExperimentMetric.COST_USD, ExperimentMetric.LATENCY_MS, ExperimentMetric.VETO_RATE)


class ExperimentNotFound(KedgeError):
    """Say that the tenant has no such experiment."""

    reason: ClassVar[str] = "EXPERIMENT_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"experiment {name!r} does not exist in this tenant: read the names from ListExperiments.")
        self.name = name


class ExperimentExists(KedgeError):
    """Say that an experiment of that name was fixed before; none is ever changed."""

    reason: ClassVar[str] = "EXPERIMENT_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(f"experiment {name!r} exists, and what was fixed is not changed: choose another name.")
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One comparison.

    Attributes:
        experiment_id: name within its tenant.
        start, end: episodes decided in [start, end) count.
        control_share: of units that get the baseline, in [.05, .95]; None for EPISODE, whose control is the floor.
        primary: all of them have to improve; guardrails: none may get clearly worse.
        because, create_time: of its creation.
        end_because: why it ended; empty while it runs.
        ended_time: when it ended, and its report was frozen; None while it runs.
    """

    experiment_id: str
    policy: PolicyName
    unit: ExperimentUnit
    start: datetime
    end: datetime
    control_share: float | None
    primary: tuple[ExperimentMetric, ...]
    guardrails: tuple[ExperimentMetric, ...]
    because: str
    create_time: datetime
    end_because: str = ""
    ended_time: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be judged. Raises InvalidName, InvalidValue."""
        text_id(self.experiment_id, field="experiment_id")
        if "/" in self.experiment_id or len(self.experiment_id) > MOST_NAME:
            raise InvalidName("experiment_id", self.experiment_id[:80], f"1 to {MOST_NAME} characters without a slash")
        if not timedelta() < self.end - self.start <= LONGEST:
            raise InvalidValue("end_time", self.end.isoformat(), f"after start_time, by {LONGEST.days} days at most")
        _check_share(self.unit, self.control_share)
        _check_metrics(self.primary, self.guardrails)


Move = tuple[Experiment, AuditEvent]


def _check_share(unit: ExperimentUnit, share: float | None) -> None:
    if unit is ExperimentUnit.EPISODE:
        if share is not None:
            raise InvalidValue("control_share", f"{share}", "unset: the control of episodes is the exploitation floor")
    elif share is None or not LEAST_SHARE <= share <= 1.0 - LEAST_SHARE:
        raise InvalidValue("control_share", f"{share}", f"in [{LEAST_SHARE:g}, {1 - LEAST_SHARE:g}] for {unit}")


def _check_metrics(primary: Collection[ExperimentMetric], guardrails: Collection[ExperimentMetric]) -> None:
    if not primary:
        raise InvalidValue("primary_metrics", "[]", "one metric at least, e.g. reward")
    if len({*primary, *guardrails}) < len(primary) + len(guardrails):
        raise InvalidValue(
            "guardrail_metrics", ", ".join(guardrails)[:200], "each metric once, as primary or as guardrail"
        )


def create(experiment: Experiment, change: Change) -> Move:
    """Fix an experiment before its first episode. Raises InvalidValue where its window has begun."""
    if experiment.start < change.at:
        raise InvalidValue(
            "start_time", experiment.start.isoformat(), "not in the past: what is known cannot be chosen"
        )
    made = replace(experiment, because=change.because, create_time=change.at)
    facts = {
        "policy": made.policy,
        "unit": made.unit.value,
        "start_time": made.start.isoformat(),
        "end_time": made.end.isoformat(),
        "primary_metrics": ",".join(made.primary),
        "guardrail_metrics": ",".join(made.guardrails),
    }
    return made, change.event("experiment.created", name_of(change.tenant, made.experiment_id), facts)


def end(experiment: Experiment, change: Change, decision: str) -> Move:
    """End it; whoever ends it before its time cuts the window at that moment. Raises IllegalTransition if it ended."""
    if experiment.ended_time is not None:
        raise IllegalTransition("the experiment has ended already: its report is frozen")
    ended = replace(experiment, end_because=change.because, ended_time=change.at)
    facts: dict[str, Fact] = {"policy": experiment.policy, "decision": decision, "is_early": change.at < experiment.end}
    return ended, change.event("experiment.ended", name_of(change.tenant, experiment.experiment_id), facts)


def unit_of(unit: ExperimentUnit, episode_id: str) -> str:
    """Name the unit that an episode belongs to: ids are written COHORT/SESSION/TURN, or less of it.

    >>> [unit_of(unit, "acme/s-1/3") for unit in ExperimentUnit]
    ['acme/s-1/3', 'acme/s-1', 'acme']
    >>> unit_of(ExperimentUnit.SESSION, "e-1")
    'e-1'
    """
    match unit:
        case ExperimentUnit.EPISODE:
            return episode_id
        case ExperimentUnit.SESSION:
            return episode_id.rpartition("/")[0] or episode_id
        case ExperimentUnit.COHORT:
            return episode_id.partition("/")[0]


def side_of(tenant: str, experiment_id: str, unit_id: str, control_share: float) -> ExperimentSide:
    """Assign a unit by its hash, the same in every process and language.

    u = (first 8 bytes, big-endian, of SHA-256("kedge.experiment.v1", tenant, experiment, unit, joined by one zero
    byte) >> 11)·2⁻⁵³; BASELINE where u < control_share.

    >>> [side_of("acme", "spring", f"s-{n}", 0.5).value for n in range(3)]
    ['BASELINE', 'BASELINE', 'LEARNED']
    """
    message = f"kedge.experiment.v1\0{tenant}\0{experiment_id}\0{unit_id}"
    u = (int.from_bytes(sha256(message.encode()).digest()[:8], "big") >> 11) * 2.0**-53
    return ExperimentSide.BASELINE if u < control_share else ExperimentSide.LEARNED


def name_of(tenant: TenantId, experiment_id: str) -> str:
    """Write an experiment's resource name.

    >>> name_of(TenantId("acme"), "spring")
    'tenants/acme/experiments/spring'
    """
    return f"tenants/{tenant}/experiments/{experiment_id}"


def parse_experiment(name: str) -> tuple[TenantId, str]:
    """Read `tenants/{tenant}/experiments/{experiment}`.

    >>> parse_experiment("tenants/acme/experiments/spring")
    ('acme', 'spring')

    Raises:
        InvalidName: it is of another form.
    """
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "tenants" or parts[2] != "experiments" or not parts[3]:
        raise InvalidName("name", name[:80], "tenants/{tenant}/experiments/{experiment}")
    return tenant_id(parts[1]), text_id(parts[3], field="experiment_id")

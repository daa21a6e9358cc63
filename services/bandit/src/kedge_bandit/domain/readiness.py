"""How far a tenant is: every criterion of the phases P0 to P4 with what was measured, none ticked on anybody's word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from math import sqrt

from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.experiment_report import ExperimentDecision
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.proposal import Proposal


class Phase(StrEnum):
    """A phase of the rollout; each is worth having by itself."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"
    P4 = "P4"


class CriterionKind(StrEnum):
    """Whether a criterion opens a phase or ends it."""

    ENTRY = "ENTRY"
    EXIT = "EXIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion of a phase; `measured` says what was found, and what it has to be."""

    phase: Phase
    kind: CriterionKind
    criterion: str
    measured: str
    met: bool


@dataclass(frozen=True, slots=True)
class Mitigation:
    """One of the ten things that keep a reward from being gamed, with what shows that it holds."""

    mitigation: str
    evidence: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Readiness:
    """Criteria in order of phases, entry first, and the mitigations."""

    criteria: Sequence[Criterion]
    mitigations: Sequence[Mitigation]

    @property
    def passed(self) -> Sequence[Phase]:
        """Phases all of whose criteria are met, as are those of the phases before.

        >>> from dataclasses import replace
        >>> entry = Criterion(phase=Phase.P0, kind=CriterionKind.ENTRY, criterion="c", measured="m", met=True)
        >>> Readiness([entry, replace(entry, phase=Phase.P1, met=False), replace(entry, phase=Phase.P2)], []).passed
        [<Phase.P0: 'P0'>]
        """
        unmet = {each.phase for each in self.criteria if not each.met}
        known = {each.phase for each in self.criteria}
        phases = [phase for phase in Phase if phase in known]
        first = next((place for place, phase in enumerate(phases) if phase in unmet), len(phases))
        return phases[:first]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the newest evidence of a policy holds, one row an episode, as it counts now.

    Attributes:
        signals: episodes that have a signal, by its name: human, judge, task_success; guarded: a safety verdict.
        newest_human: when a person's signal settled last.
        corrected: episodes scored more than once.
        least, most, most_vetoed: of all rewards, and of those that were vetoed; None without one.
    """

    episodes: int
    signals: Mapping[str, int]
    newest_human: datetime | None
    vetoed: int
    corrected: int
    least: float | None
    most: float | None
    most_vetoed: float | None

    def share(self, signal: str) -> float:
        """Share of episodes that have a signal, in [0, 1]."""
        return self.signals.get(signal, 0) / self.episodes if self.episodes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What the newest freeze did.

    Attributes:
        time: when it was committed; drawn: decisions drawn from then until it ended, and the latest of them.
        frozen: decisions that it answered with the baseline.
    """

    time: datetime
    drawn: int
    latest_drawn: timedelta
    frozen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """How the divergence alarm stands.

    Attributes:
        reward, holdout: lifts over the newest checks that compared; None without one.
        checks: how many of them.
        evidence, threshold: of the detector.
        success_time: when a check last fetched answers; interval: how often one is due.
        is_blind: no check succeeded for two intervals.
    """

    reward: Lift | None
    holdout: Lift | None
    checks: int
    evidence: float
    threshold: float
    success_time: datetime | None
    interval: timedelta
    is_blind: bool


@dataclass(frozen=True, slots=True)
class Experimented:
    """The experiment that came to a conclusion last, and which."""

    name: str
    decision: ExperimentDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFacts:
    """What was measured of one policy.

    Attributes:
        unaccounted: logged episodes that are in no state, or in two.
        counts: episodes by state.
        feedback: outcomes of people, over all time.
        preferences: pairs that people compared.
        configured: who stated the configuration in force last, when and why; empty where nobody is known to have.
        holdout_version: in force; empty: none.
        learning_held: why learning is held; empty: it is not.
        serving: proposals that are served.
        experiment: None where none has come to a conclusion.
    """

    name: PolicyName
    spec: PolicySpec
    mode: Mode
    unaccounted: int
    counts: Mapping[str, int]
    feedback: int
    preferences: int
    configured: str
    settled: Settled
    stopped: Stopped | None
    watched: Watched | None
    holdout_version: str
    learning_held: str
    p_value: float | None
    serving: Sequence[Proposal]
    open_incidents: int
    experiment: Experimented | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFacts:
    """What was measured of a tenant.

    Attributes:
        now: the time of the measurement.
        policies: those with traffic; all where none has any.
        attempts, faults: of the walls around this tenant, tried as its own role.
    """

    now: datetime
    policies: Sequence[PolicyFacts]
    attempts: int
    faults: Sequence[str]


def averaged(lifts: Sequence[Lift], *, is_shared: bool = False) -> Lift | None:
    """Average lifts, the surer ones counting more; None of none.

    Args:
        is_shared: they are of the same cases, so that more of them are no surer than one of mean precision.

    >>> averaged([Lift(0.1, 0.02), Lift(0.2, 0.02)])
    Lift(value=0.15, error=0.01414213562373095)
    >>> averaged([Lift(0.1, 0.02), Lift(0.2, 0.02)], is_shared=True)
    Lift(value=0.15, error=0.02)
    """
    if not lifts:
        return None
    weights = [1.0 / lift.error**2 for lift in lifts]
    value = sum(weight * lift.value for weight, lift in zip(weights, lifts, strict=True)) / sum(weights)
    precision = sum(weights) / (len(weights) if is_shared else 1)
    return Lift(value, 1.0 / sqrt(precision))

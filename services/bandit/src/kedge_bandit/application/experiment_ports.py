"""What experiments and key figures need from the outside."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from kedge_bandit.application.administration_ports import AdministeredPolicies
from kedge_bandit.application.ports import Decisions
from kedge_bandit.domain.audit import AuditEvent
from kedge_bandit.domain.divergence import Lift
from kedge_bandit.domain.experiment import Experiment
from kedge_bandit.domain.experiment_report import ExperimentReport
from kedge_bandit.domain.identifiers import PolicyName, TenantId


@dataclass(frozen=True, slots=True)
class PreferredPair:
    """Which of two episodes' answers a person preferred, by what served them: FIRST, SECOND or TIE."""

    first_episode: str
    second_episode: str
    first_action: str
    second_action: str
    preference: str


class Experiments(Protocol):
    """The experiments of the open tenant, and what they are judged by beside its episodes."""

    async def add(self, experiment: Experiment, event: AuditEvent) -> None:
        """Store a new one with its event. Raises ExperimentExists."""

    async def get(self, experiment_id: str) -> Experiment:
        """Read one. Raises ExperimentNotFound."""

    async def list(self, policy: PolicyName | None) -> Sequence[tuple[Experiment, ExperimentReport | None]]:
        """Read the newest 100, newest first, with the frozen reports of those that ended."""

    async def report(self, experiment_id: str) -> ExperimentReport | None:
        """Read the frozen report; None while it runs."""

    async def concluded(self, policy: PolicyName) -> tuple[Experiment, ExperimentReport] | None:
        """Read the experiment that came to a conclusion last, with its frozen report; None where none did."""

    async def end(self, experiment: Experiment, report: ExperimentReport, event: AuditEvent) -> None:
        """Store its end and its report with the event, once. Raises IllegalTransition where another call was first."""

    async def newest_from(self, policy: PolicyName, start: datetime, count: int) -> datetime:
        """Say from when on a policy has that many decisions; the start where it has fewer since."""

    async def checks(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[Lift]:
        """Read the holdout lifts of a policy's divergence checks in a window, oldest first."""

    async def judged(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[float]:
        """Read what the judge gave the learned answers in the newest check of a window that has judged any."""

    async def preferences(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[PreferredPair]:
        """Read the preferences that people recorded in a window, of episodes whose decisions are known."""


class ExperimentLedger(Protocol):
    """One tenant's record as experiments see it, open for one transaction."""

    @property
    def policies(self) -> AdministeredPolicies:
        """Policies, arms, modes."""

    @property
    def decisions(self) -> Decisions:
        """Decisions, allocations, episodes."""

    @property
    def experiments(self) -> Experiments:
        """The experiments."""


class ExperimentLedgers(Protocol):
    """Opens ledgers for experiments."""

    def open(self, tenant: TenantId) -> AbstractAsyncContextManager[ExperimentLedger]:
        """Open one tenant's record. Raises TenantDenied for an unknown tenant, StoreUnavailable without a database."""

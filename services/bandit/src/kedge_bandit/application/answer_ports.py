"""What fetching answers and judging them needs from the outside."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kedge_bandit.application.holdout_ports import Answer, AnswererSettings
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.holdout import HoldoutCase, RubricCheck
from kedge_bandit.domain.identifiers import PolicyName, TenantId


class AnswerFailed(Exception):
    """Say that a case could not be answered or judged, whatever was tried; its text names no case."""


class FetchAnswer(Protocol):
    """An answerer, connected."""

    async def __call__(self, tenant: TenantId, policy: PolicyName, case: HoldoutCase, arms: Sequence[Arm], /) -> Answer:
        """Answer one case with the arms of one action. Raises AnswerFailed."""


class Judge(Protocol):
    """A judge, connected and pinned to its model."""

    async def __call__(self, check: RubricCheck, question: str, candidate: str, incumbent: str) -> tuple[float, float]:
        """Score both answers, asked in both orders.

        Raises:
            AnswerFailed: one order got no verdict in time, or another model than the pinned one answered.
        """


class Connect(Protocol):
    """Connects answerers and judges, and closes what it opened."""

    def answerer(
        self, tenant: TenantId, settings: AnswererSettings, secret: bytes
    ) -> AbstractAsyncContextManager[FetchAnswer]:
        """Connect an answerer; the tenant's secret seeds episodes. Raises AnswerFailed where it cannot be asked."""

    def judge(self, tenant: TenantId, settings: AnswererSettings) -> AbstractAsyncContextManager[Judge]:
        """Connect a judge."""

    def score(self, case: HoldoutCase, output: str) -> float:
        """Score an answer by the case's own check. Raises AnswerFailed for RUBRIC and EPISODE."""

    def check(self, case: HoldoutCase) -> None:
        """Refuse a check that cannot work: a pattern or a schema that does not compile. Raises InvalidValue."""

    def check_settings(self, tenant: TenantId, settings: AnswererSettings) -> None:
        """Refuse an answerer that could never be asked from here. Raises InvalidValue."""

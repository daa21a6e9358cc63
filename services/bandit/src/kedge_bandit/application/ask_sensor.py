"""Ask the sensor part: fresh answers for an action of what was learned and for the baseline, case by case."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import numpy as np

from kedge_bandit.application.answer_cases import Run
from kedge_bandit.application.answer_ports import AnswerFailed, Connect, FetchAnswer, Judge
from kedge_bandit.application.holdout_ports import AnswererSettings
from kedge_bandit.domain.divergence import LEAST_CASES, lift_of
from kedge_bandit.domain.divergence_check import HoldoutSide
from kedge_bandit.domain.holdout import CheckKind, HoldoutCase
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from kedge_bandit.domain.sensor import Drawn, draw_cases
from kedge_bandit.domain.verdict import Pair, quality_of

LONGEST: Final = timedelta(minutes=15)
"""Of one check's answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """What a check needs of the holdout.

    Attributes:
        version: in force; empty: there is no holdout.
        cases: of the sensor part.
        answerer, judge: who is asked; None: nobody.
        secret: of the tenant, seeds episodes.
    """

    version: str
    cases: Sequence[HoldoutCase]
    answerer: AnswererSettings | None
    judge: AnswererSettings | None
    secret: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking.

    Attributes:
        why: nothing was measured; empty where it was.
        lifts: of each case that was asked, by its hash.
    """

    side: HoldoutSide
    why: str = ""
    lifts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskSensor:
    """Measure the holdout's lift once."""

    connect: Connect

    async def __call__(
        self, tenant: TenantId, policy: Policy, sensor: Sensor, allocations: Mapping[str, Allocation], seed: bytes
    ) -> Asked:
        """Draw, ask and score."""
        pool = len(sensor.cases)
        side = HoldoutSide(version=sensor.version, pool=pool, cases=0, answers=0, cost_usd=0.0)
        if sensor.answerer is None:
            return Asked(side, "nobody answers this policy's cases: name who does with `kedge holdout answerer`")
        count = policy.spec.divergence.cases(pool)
        if count < LEAST_CASES:
            return Asked(side, f"the sensor part has {pool} cases, and {2 * LEAST_CASES} are the fewest: import more")
        drawn = draw_cases(sensor.cases, policy.spec, allocations, count, seed)
        if len(drawn) < LEAST_CASES:
            return Asked(side)
        side = replace(side, cases=len(drawn))
        arms = {one.case.case_hash: one.arms for one in drawn}
        try:
            async with (
                asyncio.timeout(LONGEST.total_seconds()),
                self._connected(tenant, sensor, drawn) as (fetch, judge),
            ):
                run = Run(
                    tenant=tenant,
                    policy=policy.name,
                    incumbent=policy.spec.actions[policy.spec.baseline_index].arms,
                    candidate=lambda case: arms[case.case_hash],
                    fetch=fetch,
                    judge=judge,
                    score=self.connect.score,
                    parallel=sensor.answerer.parallel,
                )
                return _measured(side, drawn, await run([one.case for one in drawn]), run)
        except AnswerFailed as error:
            return Asked(side, str(error))
        except TimeoutError:
            told = f"the answers took over {LONGEST}: let more be answered at once (`parallel`), or ask for fewer cases"
            return Asked(side, told)

    @asynccontextmanager
    async def _connected(
        self, tenant: TenantId, sensor: Sensor, drawn: Sequence[Drawn]
    ) -> AsyncIterator[tuple[FetchAnswer, Judge | None]]:
        """Connect who answers, and who judges where a case asks for it. Raises AnswerFailed."""
        if sensor.answerer is None:
            raise AnswerFailed("nobody answers this policy's cases")
        async with AsyncExitStack() as exits:
            judge = None
            if sensor.judge is not None and any(one.case.kind is CheckKind.RUBRIC for one in drawn):
                judge = await exits.enter_async_context(self.connect.judge(tenant, sensor.judge))
            answerer = self.connect.answerer(tenant, sensor.answerer, sensor.secret)
            yield await exits.enter_async_context(answerer), judge


def _measured(side: HoldoutSide, drawn: Sequence[Drawn], pairs: Sequence[Pair], run: Run) -> Asked:
    """Compare both sides; one case that is not answered fails the check, for it may be the one that tells."""
    side = replace(side, answers=len(run.kept), cost_usd=sum(one.answer.cost_usd for one in run.kept))
    if run.failed:
        return Asked(side, run.failed)
    differences = quality_of(pairs)
    lift = lift_of(differences, np.array([one.weight for one in drawn]))
    lifts = {one.case.case_hash: float(seen) for one, seen in zip(drawn, differences, strict=True)}
    return Asked(replace(side, lift=lift, judged=_judged(drawn, pairs)), lifts=lifts)


def _judged(drawn: Sequence[Drawn], pairs: Sequence[Pair]) -> tuple[float, ...]:
    """Give what the judge preferred; sorted, so that no place tells which case it was."""
    both = zip(drawn, pairs, strict=True)
    asked = [pair.candidate for one, pair in both if one.case.kind is CheckKind.RUBRIC]
    return tuple(sorted(scored.score for scored in asked if scored is not None))

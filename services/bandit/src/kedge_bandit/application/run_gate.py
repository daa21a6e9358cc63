"""Run the gate for one proposal: the ledger first, then the answers of both sides, then the verdict with its event."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np

from kedge_bandit.application.answer_cases import INCUMBENT, Run, unanswered
from kedge_bandit.application.answer_ports import AnswerFailed, Connect
from kedge_bandit.application.claim_query import Claim, Claimed, conclude_with
from kedge_bandit.application.holdout_ports import AnswererPart, AnswererSettings, Holdouts, KeptAnswer
from kedge_bandit.application.ports import Clock
from kedge_bandit.application.proposal_ports import Reported
from kedge_bandit.domain.candidate import actions_compared
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.gate import GateResult, Verdict
from kedge_bandit.domain.holdout import CheckKind, Part
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.proposal_state import ProposalState
from kedge_bandit.domain.verdict import Pair, Scored, conclude, quality_of

BEAT_SECONDS: Final = 2.0
"""How often a running query says that it runs, and how far it is."""
LONGEST_SECONDS: Final = 3600.0
"""Of one run, so that no answerer keeps the gate from other tenants."""
SECRET_BYTES: Final = 32


@dataclass(slots=True)
class Asked:
    """What a query has seen so far.

    Attributes:
        run: who answers; None before it began, and where scores were reported.
        told: why a case could not be answered; empty: all could.
        arms: the incumbent's action.
    """

    pairs: Sequence[Pair] = ()
    run: Run | None = None
    told: str = ""
    arms: Sequence[Arm] = ()

    @property
    def done(self) -> int:
        """Cases that both sides have answered."""
        return len(self.pairs) if self.run is None else self.run.done

    @property
    def kept(self) -> Sequence[KeptAnswer]:
        """Answers to be kept."""
        return [] if self.run is None else self.run.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGate:
    """Take proposals in GATE_RUNNING to their verdict.

    Attributes:
        randomness: gives that many random bytes, fit for secrets.
        lease: how long a query may keep silent before its process is taken for crashed.
        longest: of one run; it ends as CASE_ERROR then.
    """

    holdouts: Holdouts
    connect: Connect
    clock: Clock
    randomness: Callable[[int], bytes]
    lease: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(seconds=LONGEST_SECONDS)

    async def __call__(self, tenant: TenantId, proposal_id: str) -> GateResult | None:
        """Run one. None where it is not its turn, or another process took it over."""
        claimed = await Claim(self.holdouts, self.clock, self.lease)(tenant, proposal_id)
        if not isinstance(claimed, Claimed):
            return claimed
        asked = Asked()
        asking = asyncio.create_task(self._ask(claimed, asked))
        try:
            is_ours = await self._beat(claimed, asked, asking)
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        return await self._conclude(claimed, asked) if is_ours else None

    async def _ask(self, claimed: Claimed, asked: Asked) -> None:
        """Take what was reported, or answer the gate part, which is opened only now."""
        if claimed.reported or claimed.answerer is None:
            asked.pairs = [_reported(one) for one in claimed.reported]
            return
        async with self.holdouts.open(claimed.tenant) as record:
            cases = await record.cases.read(claimed.policy, Part.GATE, claimed.through)
            secret = await record.cases.secret(self.randomness(SECRET_BYTES))
        asked.arms, candidate = actions_compared(claimed.proposal.candidate, claimed.proposal.base)
        try:
            async with asyncio.timeout(self.longest.total_seconds()), AsyncExitStack() as exits:
                judge = None
                if claimed.judge is not None and any(case.kind is CheckKind.RUBRIC for case in cases):
                    judge = await exits.enter_async_context(self.connect.judge(claimed.tenant, claimed.judge))
                asked.run = Run(
                    tenant=claimed.tenant,
                    policy=claimed.policy,
                    incumbent=asked.arms,
                    candidate=lambda _case: candidate,
                    fetch=await exits.enter_async_context(
                        self.connect.answerer(claimed.tenant, claimed.answerer, secret)
                    ),
                    judge=judge,
                    score=self.connect.score,
                    parallel=claimed.answerer.parallel,
                )
                asked.pairs = await asked.run(cases)
                asked.told = asked.run.failed
        except AnswerFailed as error:
            asked.pairs, asked.told = [unanswered(case) for case in cases], str(error)
        except TimeoutError:
            told = f"the run took over {self.longest}: let more be answered at once (`parallel`), or sooner"
            asked.pairs, asked.told = [unanswered(case) for case in cases], told

    async def _beat(self, claimed: Claimed, asked: Asked, asking: "asyncio.Task[None]") -> bool:
        """Say every two seconds that the query runs; False where it was ended meanwhile, or its proposal withdrawn."""
        while True:
            await asyncio.wait({asking}, timeout=BEAT_SECONDS)
            now = self.clock.now()
            claimed.row = replace(claimed.row, done=asked.done, lease_until=now + self.lease)
            async with self.holdouts.open(claimed.tenant) as record:
                if not await record.ledger.beat(claimed.policy, claimed.row):
                    return False
                async with record.tenant() as ledger:
                    proposal = await ledger.proposals.get(claimed.proposal.proposal_id)
                if proposal.state is not ProposalState.GATE_RUNNING:
                    ended = replace(claimed.row, close_time=now, verdict=Verdict.INCONCLUSIVE.value)
                    await record.ledger.close(claimed.policy, ended)
                    return False
            if asking.done():
                asking.result()
                return True

    async def _conclude(self, claimed: Claimed, asked: Asked) -> GateResult | None:
        """Write verdict, answers, the ledger's end and the audit event in one transaction."""
        now, policy = self.clock.now(), claimed.policy
        result = conclude(asked.pairs, replace(claimed.query, gate_time=now))
        result = replace(result, answerers=claimed.answerers)
        if asked.told:
            result = replace(result, reasons=(*result.reasons, asked.told))
        counted = quality_of([pair for pair in asked.pairs if not pair.adversarial])
        spread = float(np.var(counted, ddof=1)) if result.quality is not None else None
        async with self.holdouts.open(claimed.tenant) as record:
            await record.cases.lock(policy)
            if not await record.ledger.beat(policy, claimed.row):
                return None
            await record.ledger.keep(policy, claimed.row, asked.kept)
            ended = replace(claimed.row, close_time=now, verdict=result.verdict.value, discordance=spread)
            await record.ledger.close(policy, ended)
            if claimed.answerer is not None and asked.run is not None:
                seen, told = models_now(claimed.answerer, asked.arms, asked.kept, claimed.model_seen)
                await record.answerers.seen(policy, AnswererPart.ANSWERER, seen)
                if told:
                    await record.cases.mark_stale(policy, told)
            await conclude_with(record, claimed.tenant, claimed.proposal.proposal_id, result)
        return result


def models_now(
    settings: AnswererSettings, arms: Sequence[Arm], kept: Sequence[KeptAnswer], known: str
) -> tuple[str, str]:
    """Compare the models that answered for the incumbent with those that did before.

    Returns:
        What is known now, as JSON of asked model to answering one; and why the holdout is stale, empty where it is not.
    """
    models = json.loads(known or "{}")
    asked = next((arm.content for arm in arms if arm.dimension is Dimension.MODEL_ROUTE), settings.model)
    found = sorted({one.answer.model_id for one in kept if one.side == INCUMBENT and one.answer.model_id})
    if not found:
        return known, ""
    now, before = ", ".join(found), models.get(asked, "")
    told = f"{asked or 'the model'} is answered by {now} now, and was by {before}" if before and before != now else ""
    return json.dumps(models | {asked: now}, sort_keys=True), told


def _reported(one: Reported) -> Pair:
    candidate, incumbent = one.candidate_score, one.incumbent_score
    return Pair(
        candidate=None if candidate is None else Scored(score=candidate, vetoed=one.candidate_vetoed),
        incumbent=None if incumbent is None else Scored(score=incumbent),
        slice=one.slice,
        adversarial=one.adversarial,
    )

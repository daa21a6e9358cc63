"""The gate makes the checks that are due, keeps every figure, and who kills the answerer is noticed on time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import policy_service_pb2
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.learn import Learn
from kedge_bandit.application.watch_blind import WatchBlind
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.divergence_check import DivergenceCheck, Outcome, Watch
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import freeze
from kedge_bandit.domain.mode import Mode
from tests.fixtures.administered import Administered, refusal
from tests.fixtures.gating import Gating, enough_cases, gating
from tests.fixtures.proposing import FixedClock, cast

SUPPORT = PolicyName("support")
GONE = "#!{python}\n"
"""A program that ends at once."""


@dataclass
class Watched:
    """A policy that is checked, its gate, and a worker beside it; times are days since the watch began."""

    gating: Gating
    ledgers: PostgresLedgers
    since: datetime

    @property
    def tenant(self) -> TenantId:
        return self.gating.cast.tenant_id

    def at(self, days: float) -> datetime:
        return self.since + timedelta(days=days)

    async def look(self, days: float) -> DivergenceCheck | None:
        """Let the gate look."""
        watch = replace(self.gating.gate.watching.watch, clock=FixedClock(self.at(days)))
        return await watch(self.tenant, SUPPORT)

    async def worker(self, days: float) -> dict[PolicyName, int]:
        """Let the worker look."""
        return await WatchBlind(self.ledgers, FixedClock(self.at(days)))(self.tenant)

    async def watch(self) -> Watch | None:
        async with self.ledgers.open(self.tenant) as ledger:
            return await ledger.divergence.watch(SUPPORT)

    async def mode(self) -> Mode:
        async with self.ledgers.open(self.tenant) as ledger:
            return (await ledger.policies.get(SUPPORT)).mode

    async def listed(self) -> pb.ListDivergenceChecksResponse:
        request = pb.ListDivergenceChecksRequest(parent=self.gating.policy)
        cast = self.gating.cast
        found: pb.ListDivergenceChecksResponse = await cast.it.governance.ListDivergenceChecks(
            request, metadata=cast.viewer
        )
        return found


@pytest.fixture
async def it(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> AsyncIterator[Watched]:
    people = await cast(administered, ledgers)
    await people.put_by_hand(lambda spec: replace(spec, exploration=replace(spec.exploration, budget_off=True)))
    await Learn(ledgers=ledgers)(people.tenant_id)  # publishes the first allocation
    async with gating(people, migrated_url, tmp_path) as gate:
        await gate.put_cases(enough_cases(hard=0))
        assert not (await Watched(gate, ledgers, datetime.now(UTC)).listed()).watched
        await gate.put_program()
        async with ledgers.open(people.tenant_id) as ledger:
            watch = await ledger.divergence.watch(SUPPORT)
        assert watch is not None
        yield Watched(gate, ledgers, watch.since)


async def test_a_check_is_made_when_an_interval_is_over_and_not_before(it: Watched) -> None:
    assert await it.look(0.99) is None
    check = await it.look(1.0)
    assert check is not None
    assert (check.outcome, check.actor) == (Outcome.TOO_FEW, "kedge")
    assert check.holdout.answers == 2 * check.holdout.cases == 2 * ((check.holdout.pool + 1) // 2)
    assert check.holdout.cost_usd == pytest.approx(0.001 * check.holdout.answers)
    assert check.holdout.lift is not None
    assert check.holdout.lift.value == 0.0
    assert await it.look(1.5) is None
    [listed] = (await it.listed()).checks
    assert (listed.answers, listed.pool) == (check.holdout.answers, check.holdout.pool)
    assert not listed.HasField("reward_lift")


async def test_two_gates_do_not_make_one_check_twice(it: Watched) -> None:
    async with it.ledgers.open(it.tenant) as ledger:
        assert await ledger.divergence.claim(SUPPORT, it.at(1.0), timedelta(minutes=16))
    assert await it.look(1.0) is None
    assert await it.look(1.02) is not None  # the lease is over: the other gate has died


async def test_one_that_is_asked_for_is_made_at_once_and_names_who_asked(it: Watched) -> None:
    cast = it.gating.cast
    ask = pb.RunDivergenceCheckRequest(policy=it.gating.policy)
    assert (await refusal(cast.it.governance.RunDivergenceCheck(ask, metadata=cast.viewer)))[1] == "PERMISSION_DENIED"
    await cast.it.governance.RunDivergenceCheck(ask, metadata=cast.root)
    check = await it.look(0.5)
    assert check is not None
    assert "#root" in check.actor
    assert await it.look(0.6) is None


async def test_the_answerer_is_killed_and_what_nobody_can_see_is_taken_back_on_time(it: Watched) -> None:
    assert await it.look(1.0) is not None
    await it.gating.put_program(GONE)
    for days in (2.0, 2.5, 2.9):
        check = await it.look(days)
        assert check is not None
        assert (check.outcome, check.holdout.lift) == (Outcome.FAILED, None)
        assert check.because
    assert await it.worker(2.99) == {}
    assert await it.worker(3.0) == {SUPPORT: 1}
    assert (await it.listed()).blind
    assert await it.worker(4.9) == {}
    assert await it.worker(5.0) == {SUPPORT: 2}
    assert await it.mode() is Mode.OBSERVE
    assert (await it.listed()).observing

    await it.gating.put_program()
    seen = await it.look(5.1)
    assert seen is not None
    assert seen.outcome is Outcome.TOO_FEW
    watch = await it.watch()
    assert watch is not None
    assert watch.blind == 0
    assert await it.mode() is Mode.OBSERVE  # that is for a person
    assert await it.worker(6.9) == {}


async def test_a_day_that_has_cost_what_it_may_fails_the_next_check(it: Watched) -> None:
    cast = it.gating.cast
    policy = await cast.served()
    policy.divergence.max_cost_usd_per_day = 0.01
    put = policy_service_pb2.PutPolicyRequest(
        policy=policy, expected_version=policy.policy_version, because="it costs too much"
    )
    assert (await refusal(cast.it.policies.PutPolicy(put, metadata=cast.root)))[1] == "PROPOSAL_REQUIRED"
    await cast.put_by_hand(lambda spec: replace(spec, divergence=replace(spec.divergence, max_cost_usd_per_day=0.01)))
    assert await it.look(1.0) is not None
    await cast.it.governance.RunDivergenceCheck(
        pb.RunDivergenceCheckRequest(policy=it.gating.policy), metadata=cast.root
    )
    check = await it.look(1.1)
    assert check is not None
    assert (check.outcome, check.holdout.answers) == (Outcome.FAILED, 0)
    assert "max_cost_usd_per_day" in check.because


async def test_nothing_is_checked_while_nothing_is_learned_unless_somebody_asks(it: Watched) -> None:
    async with it.ledgers.open(it.tenant) as ledger:
        change = Change(tenant=it.tenant, actor=KEDGE, because="a test", at=it.at(0.1))
        await ledger.policies.put(*freeze(await ledger.policies.get(SUPPORT), change))
    assert await it.look(9.0) is None
    assert await it.worker(9.0) == {}
    async with it.ledgers.open(it.tenant) as ledger:
        await ledger.divergence.ask(SUPPORT, "person:x#ada", it.at(9.0))
    assert await it.look(9.0) is not None

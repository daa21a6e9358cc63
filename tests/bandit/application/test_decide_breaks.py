"""Whatever breaks inside a decision, the user's turn goes on with the baseline, and somebody hears of it."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Never

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.decide import Ask, Decide
from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent, Serving
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from tests.bandit.application.scene import SPEC

NOW = datetime(2026, 5, 1, tzinfo=UTC)


class Broken(dict[str, Allocation]):
    """Allocations that cannot be read."""

    def get(self, _key: object, _default: object = None) -> Never:
        raise ZeroDivisionError("the sampler is broken")


class View:
    """A tenant whose policy's allocations are broken."""

    stale = False

    def serving(self, _tenant: TenantId, policy: PolicyName) -> Serving:
        known = Policy(
            name=policy,
            version=1,
            configuration_version=1,
            mode=Mode.APPLY,
            seed_epoch=1,
            spec=SPEC,
            create_time=NOW,
            update_time=NOW,
        )
        return Serving(known, Mode.APPLY, Broken())


@dataclass
class Rows:
    """A writer that remembers what it was given."""

    kept: list[Decision] = field(default_factory=list)

    def decision(self, decision: Decision) -> None:
        self.kept.append(decision)

    async def first_decision(self, decision: Decision) -> bool:
        raise AssertionError(f"nobody waits for a commit here: {decision}")

    async def decisions(self, _tenant: TenantId, decisions: Sequence[Decision]) -> Sequence[str]:
        raise AssertionError(f"nothing else is written here: {decisions}")

    async def episode_event(self, _tenant: TenantId, event: EpisodeEvent) -> str:
        raise AssertionError(f"nothing else is written here: {event}")

    async def outcomes(self, _tenant: TenantId, events: Sequence[OutcomeEvent]) -> Sequence[str]:
        raise AssertionError(f"nothing else is written here: {events}")


class StoppedClock:
    def now(self) -> datetime:
        return NOW


@pytest.fixture
def broken() -> list[Exception]:
    return []


async def test_a_sampler_that_throws_serves_the_baseline_and_is_heard_of(
    ledgers: PostgresLedgers, broken: list[Exception]
) -> None:
    rows, bits = Rows(), itertools.count(1)
    decide = Decide(
        snapshot=View(),
        rows=rows,
        ledgers=ledgers,
        clock=StoppedClock(),
        randomness=lambda: next(bits),
        failed=broken.append,
    )

    answer = await decide(
        Ask(
            tenant=TenantId("acme"),
            policy=PolicyName("support"),
            request_id="r1",
            episode_id=EpisodeId("e1"),
            context=Context({"task": "math"}, {}),
        )
    )

    assert (answer.decision.action, answer.decision.reason) == (SPEC.baseline_key, Reason.ERROR)
    assert (answer.decision.is_randomised, answer.decision.propensity) == (False, 1.0)
    assert rows.kept == [answer.decision]
    assert [type(error) for error in broken] == [ZeroDivisionError]

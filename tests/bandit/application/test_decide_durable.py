"""A durable decision waits for its commit, but never longer than is bearable, and never breaks the caller's turn."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.decide import Ask, Decide
from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent, Serving
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.errors import InvalidValue, KedgeError, QueueFull, StoreUnavailable
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from tests.bandit.application.scene import SPEC

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ACME, SUPPORT = TenantId("acme"), PolicyName("support")


@dataclass
class Rows:
    """A writer whose commit a test holds in its hand."""

    commit: Callable[[], Awaitable[bool]]
    unawaited: list[Decision] = field(default_factory=list)
    awaited: list[Decision] = field(default_factory=list)

    def decision(self, decision: Decision) -> None:
        self.unawaited.append(decision)

    async def first_decision(self, decision: Decision) -> bool:
        self.awaited.append(decision)
        return await self.commit()

    async def decisions(self, _tenant: TenantId, decisions: Sequence[Decision]) -> Sequence[str]:
        raise AssertionError(f"nothing else is written here: {decisions}")

    async def episode_event(self, _tenant: TenantId, event: EpisodeEvent) -> str:
        raise AssertionError(f"nothing else is written here: {event}")

    async def outcomes(self, _tenant: TenantId, events: Sequence[OutcomeEvent]) -> Sequence[str]:
        raise AssertionError(f"nothing else is written here: {events}")


@dataclass
class View:
    """A durable tenant with one policy that has no allocation yet."""

    mode: Mode = Mode.APPLY
    stale: bool = False

    def serving(self, _tenant: TenantId, policy: PolicyName) -> Serving:
        known = Policy(
            name=policy,
            version=1,
            configuration_version=1,
            mode=self.mode,
            seed_epoch=1,
            spec=SPEC,
            create_time=NOW,
            update_time=NOW,
        )
        return Serving(known, self.mode, {}, durable=True)


class StoppedClock:
    def now(self) -> datetime:
        return NOW


Made = tuple[Decide, Rows, list[Exception]]


@pytest.fixture
def made(ledgers: PostgresLedgers) -> Callable[[View, Callable[[], Awaitable[bool]]], Made]:
    def make(view: View, commit: Callable[[], Awaitable[bool]]) -> Made:
        rows, broken, bits = Rows(commit), list[Exception](), itertools.count(1)
        decide = Decide(
            snapshot=view,
            rows=rows,
            ledgers=ledgers,
            clock=StoppedClock(),
            randomness=lambda: next(bits),
            failed=broken.append,
            commit_seconds=0.05,
        )
        return decide, rows, broken

    return make


def ask() -> Ask:
    return Ask(
        tenant=ACME,
        policy=SUPPORT,
        request_id="r1",
        episode_id=EpisodeId("e1"),
        context=Context({"task": "math"}, {}),
    )


async def committed() -> bool:
    return True


async def never() -> bool:
    await asyncio.Event().wait()
    raise AssertionError("it waits for ever")


def refused(error: KedgeError) -> Callable[[], Awaitable[bool]]:
    async def commit() -> bool:
        raise error

    return commit


async def test_the_answer_is_what_was_committed_and_the_same_when_asked_again(made: Callable[..., Made]) -> None:
    decide, rows, broken = made(View(mode=Mode.FROZEN), committed)
    pending = decide.at_once(ask())
    assert pending is not None
    assert pending.is_pending
    assert not rows.awaited

    first, again = await decide(ask()), await decide(ask())

    assert [decision.decision_id for decision in rows.awaited] == [first.decision.decision_id]
    assert (again.decision, again.reused) == (first.decision, True)
    assert not first.is_pending
    assert not rows.unawaited
    assert not broken


@pytest.mark.parametrize(
    "commit",
    [
        never,
        refused(StoreUnavailable("gone")),
        refused(QueueFull(retry_seconds=1.0)),
        refused(InvalidValue("a value", "not storable", "text")),
    ],
)
async def test_without_a_commit_the_baseline_is_served_and_kept_and_the_failure_is_counted(
    made: Callable[..., Made], commit: Callable[[], Awaitable[bool]]
) -> None:
    decide, rows, broken = made(View(), commit)

    answer, again = await decide(ask()), await decide(ask())

    assert (answer.decision.reason, answer.decision.action) == (Reason.ERROR, SPEC.baseline_key)
    assert (answer.decision.is_randomised, answer.decision.propensity) == (False, 1.0)
    assert again.decision == answer.decision
    assert rows.unawaited == [answer.decision]
    assert len(broken) == 1


@pytest.mark.parametrize(
    ("view", "reason"), [(View(mode=Mode.BYPASS), Reason.BYPASS), (View(stale=True), Reason.STALE)]
)
async def test_a_broken_glass_and_a_stale_view_wait_for_nothing(
    made: Callable[..., Made], view: View, reason: Reason
) -> None:
    decide, rows, _ = made(view, never)

    answer = decide.at_once(ask())

    assert answer is not None
    assert answer.decision.reason is reason
    assert (rows.awaited, rows.unawaited) == ([], [answer.decision])

"""What a client that decides by itself is told, and for how long it may go by it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from kedge_bandit.application.ports import Serving
from kedge_bandit.application.watch import AT_ONCE, News, WatchAllocations
from kedge_bandit.domain.errors import PolicyNotFound, StoreUnavailable
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.published import Allocation
from tests.bandit.application.scene import SPEC, SUPPORT
from tests.golden.choose import ALLOCATIONS

ACME = TenantId("acme")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = Policy(
    name=SUPPORT,
    version=1,
    configuration_version=1,
    mode=Mode.APPLY,
    seed_epoch=0,
    spec=SPEC,
    create_time=NOON,
    update_time=NOON,
)


def published(bucket: str, version: int) -> Allocation:
    return replace(ALLOCATIONS[1], bucket=bucket, version=version)


@dataclass
class View:
    """A replica's view that a test turns by hand."""

    serves: dict[PolicyName, Serving] = field(default_factory=dict)
    age_seconds: float = 0.0

    @property
    def stale(self) -> bool:
        return self.age_seconds > 5.0

    def serving(self, tenant: TenantId, policy: PolicyName) -> Serving:
        if policy not in self.serves:
            raise PolicyNotFound(policy)
        return self.serves[policy]

    def show(self, *allocations: Allocation, mode: Mode = Mode.APPLY, version: int = 1) -> None:
        kept = {} if SUPPORT not in self.serves else self.serves[SUPPORT].allocations
        fresh = {**kept, **{each.bucket: each for each in allocations}} if allocations else kept
        self.serves[SUPPORT] = Serving(replace(POLICY, version=version), mode, fresh)


@pytest.fixture
def view() -> View:
    made = View()
    made.show(published("", 1), published("task=math", 2))
    return made


@pytest.fixture
def watch(view: View) -> WatchAllocations:
    return WatchAllocations(view)


async def ahead(news: AsyncIterator[News]) -> News:
    async with asyncio.timeout(5):
        return await anext(news)


async def test_at_first_everything_comes_and_then_what_changed(view: View, watch: WatchAllocations) -> None:
    news = watch(ACME, SUPPORT)
    first = await ahead(news)
    assert [each.version for each in first.allocations] == [1, 2]
    assert (first.policy, first.mode, first.lease) == (POLICY, Mode.APPLY, 5.0)

    view.show(published("task=math", 3))
    watch.changed(ACME)
    second = await ahead(news)
    assert [(each.bucket, each.version) for each in second.allocations] == [("task=math", 3)]
    assert second.policy is None

    view.show(mode=Mode.FROZEN, version=2)
    watch.changed(ACME)
    third = await ahead(news)
    assert (third.allocations, third.mode) == ([], Mode.FROZEN)
    assert third.policy is not None
    assert third.policy.version == 2


async def test_what_changed_while_a_client_did_not_read_comes_as_one_message(
    view: View, watch: WatchAllocations
) -> None:
    news = watch(ACME, SUPPORT)
    await ahead(news)
    for version in range(3, 100):
        view.show(published("task=math", version))
        watch.changed(ACME)

    second = await ahead(news)

    assert [each.version for each in second.allocations] == [99]


async def test_without_news_there_is_a_sign_of_life_whose_lease_is_what_is_left_of_the_replicas_own(
    view: View, watch: WatchAllocations
) -> None:
    news = watch(ACME, SUPPORT)
    await ahead(news)
    view.age_seconds = 3.5

    heartbeat = await ahead(news)

    assert (heartbeat.allocations, heartbeat.policy, heartbeat.lease) == ([], None, 1.5)


async def test_a_replica_whose_view_is_stale_renews_nothing(view: View, watch: WatchAllocations) -> None:
    news = watch(ACME, SUPPORT)
    await ahead(news)
    view.age_seconds = 5.1

    with pytest.raises(StoreUnavailable):
        await ahead(news)
    assert watch.connected == 0


async def test_many_buckets_come_in_several_messages_and_the_last_one_has_the_lease(
    view: View, watch: WatchAllocations
) -> None:
    view.show(*(published(f"task={i}", i + 10) for i in range(2 * AT_ONCE)))
    news = watch(ACME, SUPPORT)

    messages = [await ahead(news) for _ in range(3)]

    assert [message.lease for message in messages] == [None, None, 5.0]
    assert [message.policy is None for message in messages] == [False, True, True]
    assert len({each.bucket for message in messages for each in message.allocations}) == 2 * AT_ONCE + 2


async def test_a_policy_that_goes_ends_the_stream_with_its_reason(view: View, watch: WatchAllocations) -> None:
    news = watch(ACME, SUPPORT)
    await ahead(news)
    view.serves.clear()
    watch.changed(ACME)

    with pytest.raises(PolicyNotFound):
        await ahead(news)


async def test_draining_ends_every_stream(watch: WatchAllocations) -> None:
    news = [watch(ACME, SUPPORT), watch(ACME, SUPPORT)]
    for each in news:
        await ahead(each)
    assert watch.connected == 2

    watch.close()

    for each in news:
        with pytest.raises(StopAsyncIteration):
            await ahead(each)
    assert watch.connected == 0

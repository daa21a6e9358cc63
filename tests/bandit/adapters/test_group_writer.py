"""The group writer over a real database with the real migrations."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from kedge_bandit.adapters.postgres.group_writer import GroupWriter
from kedge_bandit.application.ports import EpisodeEvent, OutcomeEvent
from kedge_bandit.domain.context import Context
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.errors import InvalidValue, QueueFull, StoreUnavailable, TenantDenied
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, decision_id
from kedge_bandit.domain.outcome import Outcome, SignalKind
from kedge_migrations import upgrade
from tests.fixtures.decisions import decision as plain
from tests.fixtures.stack import wait_for

TENANT = TenantId("writer")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
Connect = Callable[[], Awaitable[psycopg.AsyncConnection[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def database(fresh_database: str) -> str:
    upgrade(fresh_database.replace("postgresql://", "postgresql+psycopg://", 1))
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("SELECT control.create_tenant(%s)", (TENANT,))
    return fresh_database


def connector(url: str) -> Connect:
    async def connect() -> psycopg.AsyncConnection[tuple[Any, ...]]:
        return await psycopg.AsyncConnection.connect(url, autocommit=True)

    return connect


@asynccontextmanager
async def running(connect: Connect, **options: Any) -> AsyncIterator[GroupWriter]:
    writer = GroupWriter(connect, **options)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        await writer.close()
        await task


def decision(number: int, *, episode: str, context: Context | None = None) -> Decision:
    made = decision_id(int(NOON.timestamp() * 1000), number)
    named = EpisodeId(episode)
    return plain(decision_id=made, tenant=TENANT, time=NOON, episode_id=named, request_id=episode, context=context)


def event(key: str, *, episode: str = "e", source: str = "key:app", made: Decision | None = None) -> EpisodeEvent:
    return EpisodeEvent(
        key=key, kind="LOG", policy=PolicyName("p"), episode_id=EpisodeId(episode), source=source, decision=made
    )


def outcome(key: str, value: float = 0.5, *, episode: str = "e") -> OutcomeEvent:
    fact = Outcome(key=key, signal=SignalKind.JUDGE, source="key:app", observed_time=NOON, value=value)
    return OutcomeEvent(outcome=fact, policy=PolicyName("p"), episode_id=EpisodeId(episode))


def rows(database: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database, autocommit=True) as connection:
        return connection.execute(question).fetchall()


async def test_a_repeated_key_is_a_duplicate_and_another_payload_a_conflict(database: str) -> None:
    async with running(connector(database)) as writer:
        assert await writer.outcomes(TENANT, [outcome("twice", 0.5)]) == ["RECORDED"]
        assert await writer.outcomes(TENANT, [outcome("twice", 0.5)]) == ["DUPLICATE"]
        assert await writer.outcomes(TENANT, [outcome("twice", 0.6)]) == ["CONFLICT"]
    assert rows(database, "SELECT (payload ->> 'value')::float FROM t_writer.outcome WHERE key = 'twice'") == [(0.5,)]


async def test_a_key_repeated_inside_one_batch_is_answered_like_one_sent_later(database: str) -> None:
    async with running(connector(database)) as writer:
        batch = [outcome("batched", 0.5), outcome("batched", 0.5), outcome("batched", 0.7)]
        assert await writer.outcomes(TENANT, batch) == ["RECORDED", "DUPLICATE", "CONFLICT"]
    assert len(rows(database, "SELECT 1 FROM t_writer.outcome WHERE key = 'batched'")) == 1


async def test_two_identical_writes_that_race_have_exactly_one_winner(database: str) -> None:
    async with running(connector(database)) as one, running(connector(database)) as other:
        answers = await asyncio.gather(
            *(w.episode_event(TENANT, event("race")) for w in (one, other) for _ in range(8))
        )
    assert sorted(answers) == ["DUPLICATE"] * 15 + ["RECORDED"]


async def test_a_bad_row_is_refused_alone(database: str) -> None:
    async with running(connector(database), linger=0.0) as writer:
        good = [writer.episode_event(TENANT, event(f"good-{i}")) for i in range(20)]
        bad = writer.episode_event(TENANT, event("bad", source="a zero \0 byte"))
        answers = await asyncio.gather(*good[:10], bad, *good[10:], return_exceptions=True)
    assert isinstance(answers[10], InvalidValue)
    assert [a for i, a in enumerate(answers) if i != 10] == ["RECORDED"] * 20
    assert len(rows(database, "SELECT 1 FROM t_writer.episode_event WHERE key LIKE 'good-%'")) == 20


async def test_a_bad_outcome_of_a_batch_is_rejected_and_the_others_recorded(database: str) -> None:
    async with running(connector(database)) as writer:
        batch = [outcome("fine-1"), outcome("broken", episode="zero \0 byte"), outcome("fine-2")]
        assert await writer.outcomes(TENANT, batch) == ["RECORDED", "REJECTED", "RECORDED"]


async def test_a_lost_decision_is_rebuilt_from_its_token_and_completed_by_the_row_itself(database: str) -> None:
    made = decision(7, episode="rebuilt")
    async with running(connector(database)) as writer:
        await writer.episode_event(TENANT, event("rebuilt", episode="rebuilt", made=made))
        question = "SELECT context, superseded FROM t_writer.decision WHERE episode_id = 'rebuilt'"
        assert rows(database, question) == [(None, False)]
    async with running(connector(database)) as writer:
        writer.decision(decision(7, episode="rebuilt", context=Context({"task": "math"})))
    assert rows(database, question) == [({"categories": {"task": "math"}, "numbers": {}}, False)]


async def test_the_second_decision_of_an_episode_is_superseded(database: str) -> None:
    async with running(connector(database)) as writer:
        writer.decision(decision(1, episode="two", context=Context()))
        writer.decision(decision(2, episode="two", context=Context()))
    question = "SELECT superseded FROM t_writer.decision WHERE episode_id = 'two' ORDER BY decision_id"
    assert sorted(rows(database, question)) == [(False,), (True,)]


async def test_a_full_queue_pushes_back_and_drops_decisions_by_count(database: str) -> None:
    dropped: list[int] = []
    writer = GroupWriter(connector(database), capacity=4, dropped=dropped.append)
    waiting = [asyncio.ensure_future(writer.episode_event(TENANT, event(f"full-{i}"))) for i in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await writer.episode_event(TENANT, event("full-3"))
    for number in range(30, 33):
        writer.decision(decision(number, episode="dropped"))
    assert dropped == [1]  # one tenant may have half of the room
    for number in range(33, 36):
        writer.decision(replace(decision(number, episode="dropped"), tenant=TenantId("another")))
    assert dropped == [1, 1]
    task = asyncio.create_task(writer.run())
    assert await asyncio.gather(*waiting) == ["RECORDED", "RECORDED"]
    await writer.close()
    await task


async def test_an_unknown_tenant_is_denied_and_never_acknowledged(database: str) -> None:
    async with running(connector(database)) as writer:
        with pytest.raises(TenantDenied):
            await writer.episode_event(TenantId("nobody"), event("lost"))


async def test_a_database_that_is_gone_is_an_error_to_the_sender_and_is_tried_again(database: str) -> None:
    up = False

    async def connect() -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if not up:
            raise psycopg.OperationalError("gone")
        return await psycopg.AsyncConnection.connect(database, autocommit=True)

    async with running(connect) as writer:
        writer.decision(decision(4, episode="kept", context=Context()))
        with pytest.raises(StoreUnavailable):
            await writer.episode_event(TENANT, event("again"))
        up = True
        assert await writer.episode_event(TENANT, event("again")) == "RECORDED"
    assert len(rows(database, "SELECT 1 FROM t_writer.decision WHERE episode_id = 'kept'")) == 1


async def test_one_bad_row_among_200_tenants_is_refused_alone(database: str) -> None:
    tenants = [TenantId(f"many-{number}") for number in range(200)]
    with psycopg.connect(database, autocommit=True) as connection:
        for tenant in tenants:
            connection.execute("SELECT control.create_tenant(%s)", (tenant,))
    writer = GroupWriter(connector(database))
    bad = writer.outcomes(tenants[77], [outcome("bad", episode="zero \0 byte"), outcome("beside")])
    sent = [asyncio.ensure_future(writer.outcomes(tenant, [outcome("good")])) for tenant in tenants]
    beside = asyncio.ensure_future(bad)
    await asyncio.sleep(0)
    task = asyncio.create_task(writer.run())
    assert await asyncio.gather(*sent) == [["RECORDED"]] * 200
    assert await beside == ["REJECTED", "RECORDED"]
    assert writer.queued == 0
    await writer.close()
    await task
    stored = "SELECT key FROM t_many_77.outcome ORDER BY key"
    assert rows(database, stored) == [("beside",), ("good",)]


async def test_what_waits_when_the_writer_closes_is_written_and_acknowledged(database: str) -> None:
    writer = GroupWriter(connector(database), batch_rows=10)
    sent = [asyncio.ensure_future(writer.outcomes(TENANT, [outcome(f"drained-{i}")])) for i in range(95)]
    await asyncio.sleep(0)
    task = asyncio.create_task(writer.run())
    await writer.close()
    with pytest.raises(StoreUnavailable):
        await writer.outcomes(TENANT, [outcome("too-late")])
    assert await asyncio.gather(*sent) == [["RECORDED"]] * 95
    await task
    assert rows(database, "SELECT count(*) FROM t_writer.outcome WHERE key LIKE 'drained-%'") == [(95,)]


async def test_many_senders_share_commits(database: str) -> None:
    commits: list[int] = []
    async with running(connector(database), committed=lambda rows, _seconds: commits.append(rows)) as writer:

        async def caller(number: int) -> None:
            for turn in range(20):
                await writer.outcomes(TENANT, [outcome(f"shared-{number}-{turn}")])

        await asyncio.gather(*(caller(number) for number in range(32)))
    assert sum(commits) == 640
    assert len(commits) <= 640 / 4


async def test_a_commit_finds_keys_by_their_index_though_the_tables_were_empty_when_it_was_planned(
    database: str,
) -> None:
    tenant = TenantId("planned")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT control.create_tenant(%s)", (tenant,))
    async with running(connector(database)) as writer:
        for number in range(10):
            made = plain(decision_id=decision_id(number, number), tenant=tenant, episode_id=EpisodeId(f"e-{number}"))
            assert await writer.decisions(tenant, [made]) == ["RECORDED"]
    question = "SELECT idx_scan, seq_tup_read FROM pg_stat_user_tables WHERE relid = 't_planned.decision_key'::regclass"
    wait_for(lambda: rows(database, question)[0][0] >= 10, "the closed connection's counts")
    assert rows(database, question)[0][1] == 0

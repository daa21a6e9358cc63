"""What a worker remembers between passes is what the database holds, whoever writes in between and whatever fails."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.learned_memory import LearnedMemory, size_bytes
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers, lane_of
from kedge_bandit.application.learn import Learn
from kedge_bandit.application.learned import LearnedRecord
from kedge_bandit.domain.cells import Cells
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.posterior import Evidence
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import SUPPORT, Scene, Scenes, near


@pytest.fixture
async def others(engine: AsyncEngine) -> AsyncIterator[WorkerLedgers]:
    """Give the ledgers of a second worker, with a memory of its own."""
    made = WorkerLedgers(engine.execution_options(isolation_level="AUTOCOMMIT"))
    yield made
    await made.close()


async def agrees(scene: Scene, episodes: int) -> bool:
    rebuilt = await scene.rebuilt()
    (settled,) = scene.sql("SELECT coalesce(sum(count), 0) FROM episode_count WHERE name = 'SETTLED'")
    return rebuilt.agrees and rebuilt.evidence_rows == episodes == settled[0]


async def test_two_workers_take_turns_at_a_tenant_and_fold_every_episode_once(
    scene: Scene, others: WorkerLedgers
) -> None:
    workers = (scene.worker, Learn(ledgers=others))
    for number in range(12):
        scene.write(*scene.turn(f"e{number}", "large" if number % 3 else "small"))
        assert await workers[number // 2 % 2](scene.tenant) is not None

    assert await agrees(scene, 12)


async def test_of_two_workers_at_the_same_tenant_one_passes_and_the_other_leaves_it(
    scene: Scene, others: WorkerLedgers
) -> None:
    second = Learn(ledgers=others)
    for number in range(6):
        scene.write(*scene.turn(f"e{number}"))
        await asyncio.gather(scene.worker(scene.tenant), second(scene.tenant))
    await scene.learn()

    assert await agrees(scene, 6)


async def test_what_a_pass_changed_in_memory_is_forgotten_when_it_cannot_be_written(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))
    scene.write(*scene.turn("e2"))
    scene.sql("ALTER TABLE episode_count RENAME TO gone")
    with pytest.raises(psycopg.errors.UndefinedTable):
        await scene.worker(scene.tenant)
    scene.sql("ALTER TABLE gone RENAME TO episode_count")
    await scene.learn()

    assert await agrees(scene, 2)


async def test_a_remembered_policy_hears_of_a_freeze_and_of_its_end(scene: Scene) -> None:
    await scene.play(*scene.turn("e1"))
    await scene.freeze()
    await scene.play(*scene.turn("e2"))
    assert scene.sql("SELECT count(*) FROM episode WHERE quarantined") == [(1,)]
    await scene.unfreeze(QuarantineChoice.REPLAY)
    await scene.learn()
    await scene.play(*scene.turn("e3"))

    assert scene.sql("SELECT count(*) FROM episode WHERE quarantined") == [(0,)]
    assert (await scene.rebuilt()).agrees
    assert scene.sql("SELECT sum(n) > 2.9 FROM cell") == [(True,)]


async def test_a_pass_without_memory_writes_what_one_with_memory_writes(scenes: Scenes) -> None:
    remembering, reading = await scenes(), await scenes()
    reading.worker = Learn(ledgers=reading.ledgers)
    for scene in (remembering, reading):
        for number in range(8):
            await scene.play(*scene.turn(f"e{number}", "large" if number % 2 else "other"))

    for wanted in ("action, episodes, reward_sum FROM action_state", "name, count FROM episode_count"):
        assert sorted(remembering.sql(f"SELECT {wanted}")) == sorted(reading.sql(f"SELECT {wanted}"))
    ours, theirs = remembering.cells(), reading.cells()
    assert ours.keys() == theirs.keys()
    assert all(ours[key] == near(*theirs[key]) for key in ours)


def record(cells: int) -> dict[PolicyName, LearnedRecord]:
    kept = LearnedRecord()
    kept.cells = Cells(((f"b{number}", "a"), Evidence.none(0.0)) for number in range(cells))
    return {SUPPORT: kept}


def test_a_record_is_handed_out_once_and_only_under_its_own_stamp() -> None:
    memory = LearnedMemory()
    memory.keep(TenantId("one"), "7:0", record(1))

    assert memory.take(TenantId("one"), "8:0") == {}
    assert memory.take(TenantId("one"), "7:0") == {}


def test_the_tenant_seen_longest_ago_is_forgotten_first() -> None:
    memory = LearnedMemory(most_bytes=2 * size_bytes(record(9)[SUPPORT]))
    for name in ("one", "two", "three"):
        memory.keep(TenantId(name), "1:0", record(9))

    assert memory.take(TenantId("one"), "1:0") == {}
    assert memory.take(TenantId("two"), "1:0") != {}


def test_a_tenant_has_the_same_lane_in_every_process() -> None:
    assert [lane_of(TenantId(name)) for name in ("acme", "globex", "initech")] == [2, 1, 0]

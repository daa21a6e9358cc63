"""The fold does not depend on the order of arrival, on batch boundaries, on repetition or on crashes."""

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.learn import Learn
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.learners.learner import EvidenceTable, Posterior
from kedge_bandit.domain.outcome import SignalKind, VetoReason
from tests.bandit.application.scene import LEAKED, Row, Scene, Scenes, near


def day(scene: Scene) -> list[Row]:
    """A day of episodes with corrections, vetoes and cancellations, decided at different times."""
    rng = random.Random(7)
    rows: list[Row] = []
    for i in range(30):
        name, arm = f"e{i}", ("small", "large", "other")[i % 3]
        rows.append(scene.decide(name, arm, time=datetime.now(UTC) - timedelta(minutes=i)))
        rows.append(scene.log(name, LEAKED) if i % 11 == 0 else scene.log(name))
        rows.append(scene.outcome(name, float(rng.random() < 0.6), by_decision=i % 2 == 0))
        if i % 4 == 0:
            rows.append(scene.thumb(name, rng.choice([-1.0, 1.0])))
        if i % 13 == 0:
            rows.append(scene.log(name, kind="CANCEL"))
        if i % 7 == 0:
            rows.append(scene.outcome(name, 0.0, signal=SignalKind.SAFETY, veto_reason=VetoReason.TOOL_BLOCKED))
    return rows


def for_tenant(rows: list[Row], scene: Scene) -> list[Row]:
    """The same rows for another tenant."""
    return [replace(row, tenant=scene.tenant) if isinstance(row, Decision) else row for row in rows]


def at(cells: Mapping[tuple[str, str], tuple[float, float, float]], now: float) -> dict[tuple[str, str], list[float]]:
    half_life = timedelta(days=14).total_seconds()
    return {key: [part * 2 ** (-(now - as_of) / half_life) for part in (n, s)] for key, (n, s, as_of) in cells.items()}


def kept(scene: Scene) -> dict[tuple[str, str], tuple[float, float, float]]:
    rows = scene.sql("SELECT bucket, action, n, s, as_of FROM cell WHERE n > 0")
    return {(bucket, action): (n, s, as_of) for bucket, action, n, s, as_of in rows}


@pytest.mark.parametrize("seed", range(4))
async def test_any_order_and_any_batches_give_the_same_fold(scenes: Scenes, seed: int) -> None:
    plain, shuffled = await scenes(), await scenes()
    rows = day(plain)
    await plain.play(*rows)
    again = for_tenant(rows, shuffled)
    rng = random.Random(seed)
    rng.shuffle(again)
    shuffled.worker.batch = 7

    while again:
        size = rng.randint(1, 12)
        await shuffled.play(*again[:size])
        again = again[size:]

    now = datetime.now(UTC).timestamp()
    one, two = at(kept(plain), now), at(kept(shuffled), now)
    assert one.keys() == two.keys()
    for key, sums in one.items():
        assert two[key] == pytest.approx(sums, abs=1e-9)
    assert await plain.counts() == await shuffled.counts()
    assert (await shuffled.rebuilt()).agrees


class Exploding:
    """A learner that cannot believe."""

    name = "beta"

    def posterior(self, evidence: EvidenceTable, *, bucket: int | None, strength: float) -> Posterior:
        raise ArithmeticError("no belief today")


async def test_a_crash_in_the_middle_of_a_pass_leaves_nothing(scene: Scene, ledgers: PostgresLedgers) -> None:
    await scene.play(*scene.turn("e1"))
    before = [
        scene.sql(f"SELECT * FROM {t} ORDER BY 1, 2") for t in ("fold_state", "cell", "evidence", "episode_count")
    ]
    scene.sql("UPDATE bucket_state SET publish_time = publish_time - interval '1 minute'")
    scene.write(*scene.turn("e2"))

    with pytest.raises(ArithmeticError):
        await Learn(ledgers=ledgers, learners={"beta": Exploding()})(scene.tenant)

    after = [scene.sql(f"SELECT * FROM {t} ORDER BY 1, 2") for t in ("fold_state", "cell", "evidence", "episode_count")]
    assert after == before
    await scene.learn()
    assert await scene.counts() == {"SETTLED": 2}
    assert (await scene.rebuilt()).agrees


async def test_rows_of_a_transaction_that_commits_late_are_not_skipped(scene: Scene) -> None:
    early, late = scene.turn("early"), scene.turn("late")
    with scene.open_write(*early) as commit:
        await scene.play(*late)
        assert await scene.counts() == {}
        commit()

    await scene.learn()

    assert await scene.counts() == {"SETTLED": 2}


async def test_a_transaction_larger_than_a_batch_is_taken_whole(scene: Scene) -> None:
    scene.worker.batch = 5

    await scene.play(*(row for i in range(20) for row in scene.turn(f"e{i}")))

    assert await scene.counts() == {"SETTLED": 20}


async def test_two_workers_never_fold_one_tenant_at_once(scene: Scene, ledgers: PostgresLedgers) -> None:
    scene.write(*scene.turn("e1"))

    async with ledgers.open(scene.tenant) as ledger:
        assert await ledger.learning.lock() is not None
        assert await scene.worker(scene.tenant) is None

    await scene.learn()
    assert await scene.counts() == {"SETTLED": 1}


async def test_a_record_restored_into_another_cluster_is_folded_on_without_doubling(scene: Scene) -> None:
    await scene.play(*(row for i in range(5) for row in scene.turn(f"e{i}")))
    scene.write(*scene.turn("tail"))
    scene.sql("UPDATE outcome SET x = x + 1000000000")
    scene.sql("UPDATE episode_event SET x = x + 1000000000")
    scene.sql("UPDATE decision SET x = x + 1000000000")
    scene.sql("UPDATE fold_state SET x = x + 1000000000, system_identifier = 'another'")

    await scene.learn()
    await scene.play(*scene.turn("new"))

    assert await scene.counts() == {"SETTLED": 7}
    assert scene.cells()["task=math", scene.key("large")] == near(7.0, 6.3)
    assert (await scene.rebuilt()).agrees

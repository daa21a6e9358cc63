"""Readiness is measured from the tenant's own record, and what was not measured is not met."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from kedge_bandit.adapters.postgres.isolation import PostgresWalls
from kedge_bandit.adapters.postgres.ledger import role_of
from kedge_bandit.application.report_readiness import WALLS_STAND, ReportReadiness
from kedge_bandit.application.verify_isolation import Attempts
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.readiness import Phase, Readiness
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import CLEAN, LEAKED, Row, Scene


class Now:
    """The time of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


async def measured(scene: Scene, engine: AsyncEngine) -> tuple[Readiness, dict[str, tuple[bool, str]]]:
    found = await ReportReadiness(scene.ledgers, PostgresWalls(engine), role_of, Now())(scene.tenant)
    lines = {each.criterion: (each.met, each.measured) for each in found.criteria}
    return found, lines | {each.mitigation: (each.holds, each.evidence) for each in found.mitigations}


async def served(scene: Scene, count: int) -> None:
    """Serve episodes with thumbs, tests and a judge; every tenth breaks a rule."""
    rows: list[Row] = []
    for i in range(count):
        rows += [
            scene.decide(f"e{i}", judge_requested=True, judge_rate=1.0),
            scene.log(f"e{i}", LEAKED if i % 10 == 0 else CLEAN),
            scene.outcome(f"e{i}", float(i % 2)),
            scene.thumb(f"e{i}", 1.0),
        ]
    await scene.play(*rows)


async def test_nothing_is_ticked_for_a_tenant_without_traffic(scene: Scene, engine: AsyncEngine) -> None:
    found, lines = await measured(scene, engine)
    assert found.passed == []
    assert lines["feedback is kept for a meaningful sample of the traffic"] == (
        False,
        "0 outcomes of people, 100 or more",
    )
    assert not lines["every completed turn has a reward row"][0]
    assert not lines["the divergence alarm is live"][0]
    assert not lines["instant rollback is demonstrated"][0]
    assert lines["clip to [0, 1]"] == (False, "no reward yet")


async def test_feedback_and_rewards_are_counted_from_the_record(scene: Scene, engine: AsyncEngine) -> None:
    await served(scene, 120)
    found, lines = await measured(scene, engine)
    assert lines["feedback is kept for a meaningful sample of the traffic"] == (
        True,
        "120 outcomes of people, 100 or more",
    )
    assert lines["every completed turn has a reward row"] == (True, "120 episodes ended, 0 of them without their row")
    met, veto = lines["a safety veto zeroes the reward"]
    assert met
    assert veto.endswith("the most of 12 vetoed episodes 0.00")
    assert found.passed[:1] == [Phase.P0]


async def test_an_episode_without_its_row_and_a_rewarded_breach_are_found(scene: Scene, engine: AsyncEngine) -> None:
    await served(scene, 20)
    scene.sql("UPDATE episode_count SET count = count - 1 WHERE name = 'SETTLED'")
    scene.sql("UPDATE evidence SET reward = 0.9 WHERE vetoed")
    _, lines = await measured(scene, engine)
    assert lines["every completed turn has a reward row"] == (False, "19 episodes ended, 1 of them without their row")
    assert not lines["a safety veto zeroes the reward"][0]
    assert not lines["safety veto"][0]


async def test_a_rollback_is_demonstrated_by_traffic_that_met_the_freeze(scene: Scene, engine: AsyncEngine) -> None:
    await served(scene, 4)
    await scene.freeze()
    assert not (await measured(scene, engine))[1]["instant rollback is demonstrated"][0]
    frozen = scene.decide("during", "small", reason=Reason.FROZEN, mode=Mode.FROZEN)
    await scene.play(frozen)
    met, text = (await measured(scene, engine))[1]["instant rollback is demonstrated"]
    assert met, text
    assert text.endswith("none drawn, 1 served the baseline")
    late = scene.decide("late", time=datetime.now(UTC) + timedelta(seconds=9))
    await scene.play(late)
    met, text = (await measured(scene, engine))[1]["instant rollback is demonstrated"]
    assert not met, text
    await scene.unfreeze(QuarantineChoice.KEEP)


class Walls(PostgresWalls):
    """Walls that count how often somebody runs against them."""

    tries = 0

    async def attempt(self, role: str, schema: str) -> Attempts:
        self.tries += 1
        return await super().attempt(role, schema)


@dataclass
class Told:
    """A clock that is set by hand."""

    time: datetime

    def now(self) -> datetime:
        return self.time


async def test_walls_are_tried_once_a_minute_however_often_somebody_asks(scene: Scene, engine: AsyncEngine) -> None:
    walls, clock = Walls(engine), Told(datetime.now(UTC))
    report = ReportReadiness(scene.ledgers, walls, role_of, clock)
    first = await report(scene.tenant)
    tries = walls.tries
    clock.time += WALLS_STAND - timedelta(seconds=1)
    assert (await report(scene.tenant)).mitigations == first.mitigations
    assert walls.tries == tries > 0
    clock.time += timedelta(seconds=1)
    await report(scene.tenant)
    assert walls.tries > tries


async def test_walls_are_tried_and_not_taken_on_trust(scene: Scene, engine: AsyncEngine) -> None:
    assert (await measured(scene, engine))[1]["per-tenant isolation"][0]
    scene.sql(f"GRANT USAGE ON SCHEMA control TO {role_of(scene.tenant)}")
    scene.sql(f"GRANT DELETE ON control.tenant TO {role_of(scene.tenant)}")
    try:
        held, text = (await measured(scene, engine))[1]["per-tenant isolation"]
        assert not held, text
    finally:
        scene.sql(f"REVOKE DELETE ON control.tenant FROM {role_of(scene.tenant)}")

"""The demo's second fold weighs decisions by the known changes that the export streams."""

import pytest

from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge.bandit.v1 import policy_pb2
from kedge_demo.checks import rebuild_max_error
from kedge_demo.export_log import read_log
from kedge_demo.trajectory import trajectory
from kedge_demo.world import World, episode_id
from kedge_demo.worlds import build_worlds
from tests.demo.stand_in import TenantRecord


@pytest.fixture(scope="module")
def world() -> World:
    return build_worlds(scale=0.02)[0]


@pytest.fixture
def export(world: World) -> list[wire.ExportDecisionsResponse]:
    known = TenantRecord(world=world)
    for turn in range(world.turns):
        known.logged[episode_id(turn)] = trajectory(world, turn, known.decide(episode_id(turn)))
    return list(known.export())


def test_a_known_change_weighs_older_decisions_and_gives_them_to_a_successor(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    cells = [message.cell for message in export if message.HasField("cell")]
    cell = max(cells, key=lambda one: one.weight)
    heir = next(one for one in cells if one.bucket == cell.bucket and one.action_key != cell.action_key)
    decided = [message.decision for message in export if message.HasField("decision")]
    later = max(record.policy_time for record in decided) + 1.0
    halved = policy_pb2.KnownChange(
        bucket=cell.bucket,
        action_key=cell.action_key,
        source_action_key=cell.action_key,
        policy_time=later,
        factor=0.5,
        evidence_sequence=1,
    )
    given = policy_pb2.KnownChange()
    given.CopyFrom(halved)
    given.action_key, given.factor, given.evidence_sequence = heir.action_key, 0.25, 2
    assert rebuild_max_error(read_log(export, world), world) < 1e-12
    changed = [*export, *(wire.ExportDecisionsResponse(known_change=change) for change in (halved, given))]
    assert rebuild_max_error(read_log(changed, world), world) > 0.1

    for name in ("weight", "reward_sum", "reward_square_sum"):
        setattr(cell, name, 0.5 * getattr(cell, name))
        decayed = 0.5 ** ((heir.as_of - cell.as_of) / world.policy.half_life.seconds)
        setattr(heir, name, getattr(heir, name) + 0.25 * getattr(cell, name) * decayed)

    assert rebuild_max_error(read_log(changed, world), world) < 1e-9

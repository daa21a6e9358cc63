"""The log is the record: a rebuild finds every difference of the kept state, and mends it."""

import pytest

from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.rebuild import Rebuild
from tests.bandit.application.scene import LEAKED, SUPPORT, Scene


async def played(scene: Scene) -> Scene:
    rows = [row for i in range(20) for row in scene.turn(f"e{i}", ("small", "large")[i % 2], float(i % 3 == 0))]
    await scene.play(*rows, *scene.turn("veto", trajectory=LEAKED))
    await scene.play(scene.thumb("e1", 1.0))
    return scene


async def test_the_kept_state_is_the_fold_of_the_log(scene: Scene) -> None:
    found = await (await played(scene)).rebuilt()

    assert (found.evidence_rows, found.cells, found.unaccounted, found.agrees) == (22, 2, 0, True)
    assert found.max_error <= 1e-12


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE cell SET s = s + 0.001 WHERE action LIKE 'large%'",
        "UPDATE cell SET n = n * 1.01 WHERE action LIKE 'small%'",
        "DELETE FROM cell WHERE action LIKE 'small%'",
        "UPDATE action_state SET vetoes = vetoes + 1 WHERE action LIKE 'small%'",
        "UPDATE action_state SET episodes = episodes + 1 WHERE action LIKE 'large%'",
        "UPDATE action_state SET reward_sum = reward_sum + 0.01 WHERE action LIKE 'large%'",
    ],
)
async def test_a_damaged_state_is_found_and_mended(scene: Scene, damage: str) -> None:
    await played(scene)
    scene.sql(damage)
    assert not (await scene.rebuilt()).agrees

    await Rebuild(scene.ledgers, HmacSeals({}))(scene.tenant, SUPPORT, verify_only=False)

    assert (await scene.rebuilt()).agrees


async def test_an_episode_that_is_in_no_state_is_found(scene: Scene) -> None:
    await played(scene)
    scene.sql("UPDATE episode_count SET count = count - 1 WHERE name = 'SETTLED'")

    assert (await scene.rebuilt()).unaccounted == 1


async def test_a_policy_without_evidence_agrees(scene: Scene) -> None:
    assert (await scene.rebuilt()).agrees

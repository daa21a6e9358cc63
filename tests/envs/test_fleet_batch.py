"""A batch is its episodes: everything shown, counted, paid and graded is the same number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_oversight_env.batch import Batch
from fleet_oversight_env.fleet import World, grade, score
from fleet_oversight_env.laws import RESULTS, STATUSES, Status
from fleet_oversight_env.planning import Config, all_configs
from fleet_oversight_env.results import results
from fleet_oversight_env.scenarios import TASKS
from fleet_oversight_env.starts import starts
from fleet_oversight_env.view import NO_RESULT, NOBODY, View
from fleet_oversight_env.world import step
from tests.envs.fleet_play import drawn_moves, planned, scalar, seeds

CONFIGS = list(all_configs())


def same_view(view: View, episode: int, world: World) -> None:
    assert view.k == world.k
    assert view.governance[episode] == world.governance_budget
    for index, worker in enumerate(world.workers):
        assert view.budget[episode, index] == worker.budget
        assert view.flag[episode, index] == worker.flag
        assert STATUSES[view.status[episode, index]] == worker.status
        assert view.targetable[episode, index] == worker.targetable(world.k)
        paused = worker.status is Status.PAUSED
        shown = NO_RESULT if paused else RESULTS.index(worker.log[-1][1])
        assert view.result[episode, index] == shown
    if world.probe is None:
        assert view.probed[episode] == NOBODY
    else:
        read = (int(view.probed[episode]), float(view.quality[episode]), bool(view.zero[episode]))
        assert read == (world.probe.worker, world.probe.quality, world.probe.zero_reward)


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=6, deadline=None)
@given(first=st.integers(0, 99_000), chance=st.integers(0, 2**32))
def test_a_batch_equals_its_episodes_number_for_number(task: str, first: int, chance: int) -> None:
    rng = np.random.default_rng(chance)
    chosen = seeds(12, first)
    plans: list[list[Config | None]] = [
        [CONFIGS[place] if place < 288 else None for place in rng.integers(0, 300, 5)] for _ in chosen
    ]
    given_plans = iter(plans)
    batch = Batch(starts(task, chosen, lambda _: next(given_plans)))
    games = [planned(task, seed, plan) for seed, plan in zip(chosen, plans, strict=True)]
    for _ in range(17):
        view, moves = batch.view(), drawn_moves(rng, len(chosen))
        for episode, (world, luck) in enumerate(games):
            if not world.ended:
                same_view(view, episode, world)
                games[episode] = (step(world, scalar(moves, episode), luck), luck)
        batch.step(moves)
    got = results(batch)
    for episode, (world, _) in enumerate(games):
        paid = score(world)
        assert world.ended
        assert not batch.live[episode]
        assert tuple(batch.tally[:, episode]) == world.tally
        components = (got.plan[episode], got.oversight[episode], got.action[episode], got.terminal[episode])
        assert components == (paid.plan, paid.oversight, paid.action, paid.terminal)
        assert (got.total[episode], got.grade[episode]) == (paid.total, grade(world))


def test_an_episode_of_a_batch_does_not_depend_on_its_neighbours() -> None:
    chosen = seeds(20)
    alone, together = Batch(starts("nexacrm_hard", chosen[7:8])), Batch(starts("nexacrm_hard", chosen))
    assert np.array_equal(alone.view().budget[0], together.view().budget[7])
    assert np.array_equal(alone.view().flag[0], together.view().flag[7])
    assert np.array_equal(alone.fault[0], together.fault[7])

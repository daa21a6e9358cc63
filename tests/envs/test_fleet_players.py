"""The fleet's players: the filter's arithmetic, seats that play as the batch does, figures near their marks."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fleet_oversight_env import ground
from fleet_oversight_env.actions import read, spell
from fleet_oversight_env.baselines import clairvoyant
from fleet_oversight_env.batch import Batch
from fleet_oversight_env.belief import Filter, hypotheses
from fleet_oversight_env.calibrate import BEGIN, END, FOLDER, Row, marks, printed, table
from fleet_oversight_env.checkpoint import CONTROL, SHIPPED, shipped
from fleet_oversight_env.features import FEATURES, NAMES, Memory, possible
from fleet_oversight_env.flat import ACTIONS, numbered
from fleet_oversight_env.laws import BANKING, CRM, FAULTS, MoveKind
from fleet_oversight_env.learned import learned
from fleet_oversight_env.network import Network, backward, forward
from fleet_oversight_env.players import maker
from fleet_oversight_env.results import play
from fleet_oversight_env.starts import starts
from fleet_oversight_env.view import MONITOR, Moves, everywhere
from fleet_oversight_env.world import step
from tests.envs.fleet_play import drawn_moves, planned, scalar, seeds
from tests.trust.size import of

SEEDS = of(300, 4000)


@cache
def rows() -> tuple[Row, ...]:
    return tuple(table(SEEDS))


def test_every_mark_is_reached_within_what_the_sample_allows() -> None:
    missed = [mark for mark in marks(rows()) if not mark.reached_within(0.0 if SEEDS == 4000 else 4.0)]
    assert missed == []


def test_the_datasheet_holds_the_figures_of_the_full_calibration() -> None:
    sheet = (FOLDER / "README.md").read_text(encoding="utf-8")
    told = sheet.partition(BEGIN)[2].partition(END)[0]
    kept = json.loads((FOLDER / "data" / "calibration.json").read_text(encoding="utf-8"))
    assert {one["seeds"] for one in kept} == {4000}
    assert len(kept) == len(rows())
    for one in kept:
        assert f"| {one['player']} | {one['domain']} | {one['mean']['detection']:.1%} ±" in told
    assert "**no**" not in told


def test_the_datasheet_s_figures_are_within_the_sample_s_reach() -> None:
    """Each mean differs from the committed one by less than 4.5 of its own standard errors, plus a floor."""
    kept = json.loads((FOLDER / "data" / "calibration.json").read_text(encoding="utf-8"))
    means = {(one["player"], one["domain"]): one["mean"] for one in kept}
    for one in rows():
        for name, value in one.mean.items():
            reach = 4.5 * one.half[name] / 1.96 + 0.005
            assert abs(value - means[one.player, one.domain][name]) <= reach, (one.player, one.domain, name)


def test_the_control_learned_nothing() -> None:
    """Trained on shuffled rewards it stays where random play is, and far from what was learned."""
    at = {one.player: one.mean for one in rows() if one.domain == "crm"}
    useful = {player: mean["detection"] * (1 - mean["needless"]) for player, mean in at.items()}
    for control in ("control", "control, sampled"):
        assert at[control]["oversight"] == pytest.approx(at["random"]["oversight"], abs=0.35)
        assert useful[control] < useful["random"] + 0.05
        assert at[control]["oversight"] < at["learned, seed 1"]["oversight"] - 1.0


def test_the_printed_tables_say_both_sides_and_the_source_s_claims() -> None:
    told = printed(rows())
    assert "72.5 % at 15.9 %" in told
    assert "58 %" in told
    assert told.count("| learned, seed") >= 6


@pytest.mark.parametrize(
    ("task", "name"), [("nexacrm_hard", "learned"), ("nexacrm_easy", "belief_filter"), ("banking_faq", "learned")]
)
def test_a_seat_that_sees_json_plays_as_the_batch_does(task: str, name: str) -> None:
    chosen = seeds(of(10, 200))
    begun = starts(task, chosen)
    domain = BANKING if task == "banking_faq" else CRM
    together = play(Batch(begun), maker(name, domain)(begun.opening, np.random.default_rng(0)))
    for place, seed in enumerate(chosen):
        episode, policy = ground.start(task, seed), ground.policy(name, task, seed)
        while not episode.over:
            episode.step(json.loads(json.dumps(policy(json.loads(json.dumps(episode.observe()))))))
        assert episode.metrics()["grade"] == together.grade[place]
        assert episode.metrics()["return"] == together.total[place]


def test_the_clairvoyant_resolves_everything_and_hits_nobody_else() -> None:
    for task in ("nexacrm_easy", "banking_faq"):
        begun = starts(task, seeds(300))
        got = play(Batch(begun), clairvoyant(begun))
        assert got.detection.min() == 1.0
        assert got.needless.max() == 0.0
        assert got.oversight.mean() == pytest.approx(1.12, abs=0.03)


def test_stories_have_priors_that_sum_to_one() -> None:
    for domain in (CRM, BANKING):
        stories = hypotheses(domain)
        for kind in range(1, 5):
            assert stories.prior[stories.fault == kind].sum() == pytest.approx(1 / len(FAULTS))
        assert stories.prior[stories.glitches].sum() == pytest.approx(1.0)


def test_the_filter_is_calibrated() -> None:
    """Of the workers given a probability in a tenth, about that share is faulty: no band is off by more than chance."""
    begun = starts("nexacrm_hard", seeds(1500))
    batch = Batch(begun)
    followed = Filter(CRM, begun.opening)
    rng = np.random.default_rng(5)
    belief = followed.see(batch.view(), None)
    for _ in range(9):
        last = Moves(kind=np.full(1500, MONITOR), worker=rng.integers(0, 5, 1500), verdicts=everywhere(1500).verdicts)
        batch.step(last)
        belief = followed.see(batch.view(), last)
    for low in np.arange(0.0, 1.0, 0.1):
        band = (belief.faulty >= low) & (belief.faulty < low + 0.1)
        said, true = belief.faulty[band].mean(), (batch.fault[band] > 0).mean()
        assert abs(said - true) < 4.5 * (said * (1 - said) / band.sum()) ** 0.5 + 1e-3
    assert belief.faulty.sum(axis=1).mean() == pytest.approx(1.5, abs=0.05)


def test_a_mask_marks_exactly_what_the_world_accepts() -> None:
    chosen, rng = seeds(6), np.random.default_rng(3)
    batch = Batch(starts("nexacrm_easy", chosen))
    games = [planned("nexacrm_easy", seed) for seed in chosen]
    for _ in range(12):
        marked = possible(batch.view())
        moves = drawn_moves(rng, len(chosen))
        for place, (world, luck) in enumerate(games):
            if world.ended:
                continue
            assert [numbered(index, {})["action_type"] != MoveKind.SUBMIT for index in range(21)] == [True] * 21
            accepted = [step(world, read(numbered(index, {})), luck).error is None for index in range(21)]
            assert accepted == marked[place].tolist()
            games[place] = (step(world, scalar(moves, place), luck), luck)
        batch.step(moves)
    assert ACTIONS == 24


def test_a_spelled_action_reads_back_as_the_same_move() -> None:
    moves = drawn_moves(np.random.default_rng(9), 200)
    for place in range(200):
        move = scalar(moves, place)
        if move.worker is None and move.kind not in {MoveKind.HOLD, MoveKind.SUBMIT}:
            continue
        spelled = read(json.loads(json.dumps(spell(move))))
        assert spelled.kind is move.kind
        assert spelled.verdicts == move.verdicts if move.kind is MoveKind.SUBMIT else spelled.worker == move.worker


def test_features_do_not_depend_on_what_is_hidden() -> None:
    begun = starts("nexacrm_easy", seeds(50))
    batch, memory, last = Batch(begun), Memory(begun.opening), None
    twin = Memory(begun.opening)
    for _ in range(16):
        view = batch.view()
        first, second = memory.see(view, last), twin.see(view, last)
        assert first.shape == (50, 5, FEATURES)
        assert np.array_equal(first, second)
        last = everywhere(50, MONITOR, 2)
        batch.step(last)
    assert len(set(NAMES)) == FEATURES


def test_the_gradient_is_that_of_the_loss() -> None:
    """Central differences of a weighted log-probability, over a few weights of every layer."""
    network = shipped(SHIPPED.format(1))
    rng = np.random.default_rng(2)
    features = rng.standard_normal((7, 5, FEATURES)).astype(np.float32)
    open_to = np.ones((7, 21), dtype=np.bool_)
    weight = rng.standard_normal((7, 21)).astype(np.float32)

    def loss(candidate: Network) -> float:
        logs = forward(candidate, features, open_to).log_probabilities
        return float((weight * logs).sum())

    done = forward(network, features, open_to)
    slope = weight - np.exp(done.log_probabilities) * weight.sum(axis=1, keepdims=True)
    slopes = backward(network, done, slope.astype(np.float32))
    for name, values in network.trained.items():
        place = tuple(int(rng.integers(size)) for size in values.shape)
        high, low = values.copy(), values.copy()
        high[place] += 0.01
        low[place] -= 0.01
        numeric = (loss(replace(network, **{name: high})) - loss(replace(network, **{name: low}))) / 0.02
        assert slopes[name][place] == pytest.approx(numeric, rel=0.05, abs=0.02)


TRAIN = """
import json, sys
from dataclasses import asdict
from fleet_oversight_env.training import Recipe, train
runs = [list(train(Recipe(**recipe))) for recipe in json.load(sys.stdin)]
json.dump([[asdict(point) for point, _ in run] + [run[-1][1].w2.tolist()] for run in runs], sys.stdout)
"""


@cache
def curves() -> list[list[dict[str, float]]]:
    """Train twice alike and once on shuffled rewards, on one thread: small matrices are slow on many."""
    recipe = {"updates": 10, "episodes": 100, "pieces": 1, "passes": 4, "rate": [5e-3, 5e-3]}
    asked = json.dumps([recipe, recipe, recipe | {"shuffled": True}])
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], input=asked, env=alone, capture_output=True, text=True, check=True
    )
    found: list[list[dict[str, float]]] = json.loads(done.stdout)
    return found


def test_training_is_reproducible() -> None:
    first, second, shuffled = curves()
    assert first == second
    assert first != shuffled


def test_ten_updates_learn_what_shuffled_rewards_do_not() -> None:
    learnt, _, control = curves()
    assert learnt[-2]["oversight"] > control[-2]["oversight"] + 0.3


def test_the_control_differs_from_the_learned_in_the_shuffling_alone() -> None:
    texts = [(FOLDER / "policies" / name).read_text(encoding="utf-8") for name in (SHIPPED.format(1), CONTROL)]
    told = [json.loads(text)["lineage"] for text in texts]
    recipes = [one["recipe"] for one in told]
    assert recipes[1] == recipes[0] | {"shuffled": True}
    assert all(one["train_seeds"] == [0, 999_999] and one["dev_seeds"][0] == 1_000_000 for one in told)
    assert all(len(one["curve"]) == one["recipe"]["updates"] for one in told)


def test_temperature_zero_is_greedy() -> None:
    begun = starts("nexacrm_easy", seeds(40))
    cold = learned(shipped(), greedy=False, temperature=1e-4)
    one = play(Batch(begun), cold(begun.opening, np.random.default_rng(1)))
    other = play(Batch(begun), learned(shipped())(begun.opening, np.random.default_rng(2)))
    assert np.array_equal(one.grade, other.grade)

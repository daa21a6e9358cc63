import ast
import csv
from importlib.resources import files
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson, Parse

from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.arms import Part
from kedge_demo.truth import FLATTERED_JUDGE
from kedge_demo.world import World, episode_id, turn_of
from kedge_demo.worlds import WORD_CUTS, build_worlds

PACKAGE = Path(str(files("kedge_demo")))
HONEST_COLUMNS = {
    "a-routing": ("llmrouter9_scores.csv", None),
    "b-arithmetic": (
        "gsm8k_2x2.csv",
        {
            "6b + single": "correct_6b_finetuning",
            "6b + verified": "correct_6b_verification",
            "175b + single": "correct_175b_finetuning",
            "175b + verified": "correct_175b_verification",
        },
    ),
    "c-prompting": ("bbh_direct_cot.csv", {"direct": "correct_direct", "chain-of-thought": "correct_cot"}),
}


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    return {world.tenant: world for world in build_worlds()}


@pytest.fixture(scope="module", params=sorted(HONEST_COLUMNS))
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    found: World = worlds[request.param]
    return found


def test_the_same_seed_gives_the_same_truth_bit_for_bit(world: World) -> None:
    again = next(one for one in build_worlds() if one.tenant == world.tenant)
    assert again.policy == world.policy
    for table in ("items", "score", "cost_usd", "latency_ms", "judge", "thumb_up", "tripped", "has_thumb"):
        assert np.array_equal(getattr(again.truth, table), getattr(world.truth, table)), table


def test_another_seed_gives_another_stream(world: World) -> None:
    other = next(one for one in build_worlds(seed=1) if one.tenant == world.tenant)
    assert not np.array_equal(other.truth.items, world.truth.items)


def test_true_scores_of_honest_actions_are_the_tables_own(world: World) -> None:
    name, columns = HONEST_COLUMNS[world.tenant]
    with (PACKAGE / "data" / name).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    honest = world.actions(Part.HONEST)
    assert len(honest) == (9 if columns is None else len(columns))
    for turn in range(0, world.turns, 97):
        row = rows[world.truth.items[turn]]
        for action in honest:
            label = world.labels[action]
            assert world.truth.score[turn, action] == float(row[label if columns is None else columns[label]])


def test_the_streams_are_as_long_as_promised_and_end_in_whole_thirds(worlds: dict[str, World]) -> None:
    assert worlds["a-routing"].turns >= 45_000
    assert worlds["b-arithmetic"].turns >= 10_000
    assert worlds["c-prompting"].turns >= 20_000
    assert all(world.turns % 3 == 0 for world in worlds.values())


def test_every_pass_asks_every_item_once(world: World) -> None:
    items = int(world.truth.items.max()) + 1
    assert np.array_equal(np.sort(world.truth.items[:items]), np.arange(items))


def test_the_flatterer_never_succeeds_and_pleases_the_judge(world: World) -> None:
    for action in world.actions(Part.FLATTERER):
        assert world.truth.score[:, action].max() == 0.0
        assert world.truth.judge[:, action].mean() == pytest.approx(FLATTERED_JUDGE, abs=0.002)


def test_the_breaker_succeeds_in_eight_of_ten_and_trips_in_one_of_ten(world: World) -> None:
    tolerance = 4 * sqrt(0.25 / world.turns)
    for action in range(len(world.action_keys)):
        tripped = world.truth.tripped[:, action].mean()
        if world.parts[action] is Part.BREAKER:
            assert world.truth.score[:, action].mean() == pytest.approx(0.80, abs=tolerance)
            assert tripped == pytest.approx(0.10, abs=tolerance)
        else:
            assert tripped == 0.0


def test_the_judge_follows_the_truth_with_noise(world: World) -> None:
    honest = np.array(world.actions(Part.HONEST))
    residual = (world.truth.judge - 0.3 - 0.5 * world.truth.score)[:, honest]
    tolerance = 4 * 0.1 / sqrt(residual.size)
    assert residual.mean() == pytest.approx(0.0, abs=tolerance + 2e-3)
    assert residual.std() == pytest.approx(0.1, abs=2e-3)


@pytest.mark.parametrize(("tenant", "share"), [("a-routing", 1.0), ("b-arithmetic", 0.5), ("c-prompting", 1.0)])
def test_verifiers_and_thumbs_come_as_often_as_promised(worlds: dict[str, World], tenant: str, share: float) -> None:
    truth = worlds[tenant].truth
    assert truth.has_verifier.mean() == pytest.approx(share, abs=4 * sqrt(0.25 / len(truth.items)))
    assert truth.has_thumb.mean() == pytest.approx(0.05, abs=4 * sqrt(0.0475 / len(truth.items)))


def test_actions_are_in_canonical_order_and_the_policy_can_be_read_back(world: World) -> None:
    assert list(world.action_keys) == sorted(world.action_keys, key=str.encode)
    assert len(world.action_keys) <= 36
    assert Parse(MessageToJson(world.policy), policies.Policy()) == world.policy


def test_the_baselines_are_the_promised_ones(worlds: dict[str, World]) -> None:
    baselines = {tenant: world.labels[world.baseline] for tenant, world in worlds.items()}
    assert baselines == {"a-routing": "gemma-2-9b-it", "b-arithmetic": "6b + single", "c-prompting": "direct"}


def test_a_length_at_a_cut_point_belongs_to_the_bucket_above(worlds: dict[str, World]) -> None:
    world = worlds["b-arithmetic"]
    for turn in range(world.turns):
        words = world.context(turn).numbers["prompt_words"]
        assert world.bucket_of[turn] == sum(words >= cut for cut in WORD_CUTS)


def test_relative_costs_of_depth_and_size_are_the_papers(worlds: dict[str, World]) -> None:
    world = worlds["b-arithmetic"]
    cost = {world.labels[action]: world.truth.cost_usd[0, action] for action in world.actions(Part.HONEST)}
    relative = {label: round(value / cost["6b + single"]) for label, value in cost.items()}
    assert relative == {"6b + single": 1, "6b + verified": 100, "175b + single": 29, "175b + verified": 2_900}


def test_episodes_of_one_route_always_report_the_same_model(world: World) -> None:
    reported: dict[str, set[str]] = {}
    for key, model in zip(world.action_keys, world.model_ids, strict=True):
        route = key.split("|")[0] if world.policy.baseline.HasField("model_route") else ""
        reported.setdefault(route, set()).add(model)
    assert {route: len(models) for route, models in reported.items()} == dict.fromkeys(reported, 1)


def test_an_episodes_name_says_its_turn() -> None:
    assert turn_of(episode_id(45_809)) == 45_809


def test_the_demo_imports_nothing_of_the_bandit() -> None:
    imported = {
        name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert {name for name in imported if name.split(".")[0] in {"kedge_bandit", "kedge_migrations"}} == set()

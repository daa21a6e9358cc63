import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, policy_pb2
from kedge.bandit.v1 import episode_service_pb2 as wire
from kedge_demo.agreement import COMPARED, disagreements, disagreements_with
from kedge_demo.arms import Part
from kedge_demo.checks import draw, pick, rebuild_max_error, replay_mismatches, self_check
from kedge_demo.counts import TenantCounts
from kedge_demo.export_log import Log, read_export, read_log, write_export
from kedge_demo.figures import figures
from kedge_demo.page_data import formula_error, page_data
from kedge_demo.page_model import TenantPage
from kedge_demo.plain import read_plain
from kedge_demo.quality import clustered, oracle_actions
from kedge_demo.rewards import reward_max_error, reward_tables
from kedge_demo.timeline import explorations
from kedge_demo.trajectory import final_state, trajectory
from kedge_demo.world import World, episode_id
from kedge_demo.worlds import build_worlds
from tests.demo.stand_in import TenantRecord


@pytest.fixture(scope="module")
def world() -> World:
    return build_worlds(scale=0.02)[0]


@pytest.fixture(scope="module")
def record(world: World) -> TenantRecord:
    known = TenantRecord(world=world)
    for turn in range(world.turns):
        action = known.decide(episode_id(turn))
        known.logged[episode_id(turn)] = trajectory(world, turn, action)
    return known


@pytest.fixture
def export(record: TenantRecord) -> list[wire.ExportDecisionsResponse]:
    return list(record.export())


@pytest.fixture(scope="module")
def counts(world: World, record: TenantRecord) -> TenantCounts:
    counted = TenantCounts(episodes=world.turns)
    for turn in range(world.turns):
        action = record.actions[episode_id(turn)]
        state = final_state(world, turn, action, judged=bool(record.judged[turn]))
        counted.states[state] = counted.states.get(state, 0) + 1
    return counted


def decisions(export: list[wire.ExportDecisionsResponse]) -> list[wire.DecisionRecord]:
    return [message.decision for message in export if message.WhichOneof("record") == "decision"]


def test_a_sound_export_shows_no_difference(
    export: list[wire.ExportDecisionsResponse], world: World, counts: TenantCounts
) -> None:
    found = figures(read_log(export, world), world, counts)
    assert (found.replay_mismatches, found.episodes_unaccounted) == (0, 0)
    assert max(found.rebuild_max_error, found.reward_max_error) < 1e-12
    assert found.decisions == world.turns
    assert found.self_check_p > 1e-5


def test_figures_are_the_means_that_can_be_counted_by_hand(
    export: list[wire.ExportDecisionsResponse], record: TenantRecord, world: World, counts: TenantCounts
) -> None:
    found = figures(read_log(export, world), world, counts)
    late = range(world.turns - world.turns // 3, world.turns)
    served = [record.actions[episode_id(turn)] for turn in late]
    quality = [world.truth.score[turn, action] for turn, action in zip(late, served, strict=True)]
    named = world.labels.index("llama-3.1-nemotron-51b-instruct")
    flattered = [world.parts[action] is Part.FLATTERER for action in served]
    assert found.quality_last_third == pytest.approx(sum(quality) / len(quality), abs=1e-12)
    assert found.best_single_same_turns == pytest.approx(world.truth.score[late.start :, named].mean(), abs=1e-12)
    assert found.flatterer_share_late == pytest.approx(sum(flattered) / len(flattered), abs=1e-12)


def test_one_planted_replay_mismatch_is_found_and_named(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    planted = decisions(export)[123].decision
    other = (world.index_of[planted.action_key] + 1) % len(world.action_keys)
    planted.action_key = world.action_keys[other]
    planted.propensity = next(m.allocation for m in export if m.HasField("allocation")).propensities[other]
    assert replay_mismatches(read_log(export, world), world) == (episode_id(123),)


def test_a_wrong_propensity_is_a_mismatch(export: list[wire.ExportDecisionsResponse], world: World) -> None:
    decisions(export)[7].decision.propensity += 1e-9
    assert replay_mismatches(read_log(export, world), world) == (episode_id(7),)


def test_a_spent_budget_must_have_served_the_baseline_from_a_vector_that_says_so(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    one = decisions(export)[5].decision
    one.reason, one.is_randomised, one.propensity = decision_pb2.DECISION_REASON_BUDGET, False, 1.0
    one.action_key = world.action_keys[world.baseline]
    assert replay_mismatches(read_log(export, world), world) == (episode_id(5),)
    alone = [float(place == world.baseline) for place in range(len(world.action_keys))]
    vector = decision_service_pb2.Allocation(
        allocation_version=8,
        action_keys=world.action_keys,
        probability_best=alone,
        propensities=alone,
        eligible=[True] * len(alone),
        closed_reason=decision_pb2.DECISION_REASON_BUDGET,
    )
    one.allocation_version = 8
    assert replay_mismatches(read_log([*export, wire.ExportDecisionsResponse(allocation=vector)], world), world) == ()


def test_a_cell_that_is_off_by_a_quarter_shows_a_quarter_over_its_weight(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    cell = max((message.cell for message in export if message.HasField("cell")), key=lambda one: one.weight)
    cell.reward_sum += 0.25
    assert rebuild_max_error(read_log(export, world), world) == pytest.approx(0.25 / cell.weight, rel=1e-9)


def test_evidence_without_its_cell_is_an_error(export: list[wire.ExportDecisionsResponse], world: World) -> None:
    without = [message for message in export if not message.HasField("cell")]
    assert rebuild_max_error(read_log(without, world), world) >= 1.0


def test_the_second_fold_discounts_by_age_since_the_decision(world: World) -> None:
    half_life = world.policy.half_life.seconds
    key = world.action_keys[0]
    messages = [wire.ExportDecisionsResponse(policy=world.policy)]
    for turn, (age, reward) in enumerate([(half_life, 0.8), (2 * half_life, 0.4)]):
        decision = decision_pb2.Decision(episode_id=episode_id(turn), bucket="b", action_key=key, propensity=1.0)
        episode = episode_pb2.Episode(state=episode_pb2.EPISODE_STATE_SETTLED, reward=reward, weight=1.0)
        known = wire.DecisionRecord(decision=decision, episode=episode, policy_time=5e8 - age)
        messages.append(wire.ExportDecisionsResponse(decision=known))
    cell = policy_pb2.Cell(bucket="b", action_key=key, weight=0.75, reward_sum=0.5, reward_square_sum=0.36, as_of=5e8)
    messages.append(wire.ExportDecisionsResponse(cell=cell))
    assert rebuild_max_error(read_log(messages, world), world) < 1e-12


def test_a_lost_and_a_wrongly_judged_episode_are_unaccounted(
    export: list[wire.ExportDecisionsResponse], world: World, counts: TenantCounts
) -> None:
    known = decisions(export)
    known[3].episode.Clear()
    known[4].episode.state = episode_pb2.EPISODE_STATE_PENDING
    assert figures(read_log(export, world), world, counts).episodes_unaccounted == 3


def test_a_changed_reward_is_found(export: list[wire.ExportDecisionsResponse], world: World) -> None:
    decisions(export)[11].episode.reward += 1e-6
    assert reward_max_error(read_log(export, world), world) == pytest.approx(1e-6, rel=1e-3)


def test_a_superseded_decision_and_a_foreign_episode_do_not_count(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    again, foreign = wire.ExportDecisionsResponse(), wire.ExportDecisionsResponse()
    again.decision.CopyFrom(decisions(export)[0])
    again.decision.decision.superseded = True
    foreign.decision.decision.episode_id = "frozen-000001"
    log = read_log([*export, again, foreign], world)
    assert (len(log.turn), log.superseded, log.others) == (world.turns, 1, 1)


def test_rewards_of_the_formula_worked_by_hand() -> None:
    world = build_worlds(scale=0.02)[1]
    spec, truth = world.policy.reward, world.truth
    plain = truth.has_verifier & ~truth.has_thumb
    turn = int(np.flatnonzero(plain)[0])
    action = world.labels.index("175b + verified")
    judged = np.ones(world.turns, dtype=np.bool_)
    judge = min(max(float(truth.judge[turn, action]), 0.05), 0.95)
    g = min(judge, 0.7) + max(judge - 0.7, 0.0) / 3
    score = float(truth.score[turn, action])
    quality = score + (0.25 / 0.9) * (g - score)
    latency = min(float(truth.latency_ms[turn, action]) / spec.latency_reference_ms, 1.0)
    expected = min(max(0.9 * quality - 0.05 * 1.0 - 0.05 * latency, 0.0), 1.0)
    assert reward_tables(world, judged).reward[turn, action] == pytest.approx(expected, abs=1e-12)


def test_a_judge_alone_is_scored_and_not_learned_from_and_nothing_is_no_reward() -> None:
    world = build_worlds(scale=0.02)[1]
    silent = ~world.truth.has_verifier & ~world.truth.has_thumb
    turn = int(np.flatnonzero(silent & ~world.truth.tripped.any(axis=1))[0])
    judged = np.zeros(world.turns, dtype=np.bool_)
    unheard = reward_tables(world, judged)
    judged[turn] = True
    heard = reward_tables(world, judged)
    assert np.isnan(unheard.reward[turn]).all()
    assert not np.isnan(heard.reward[turn]).any()
    assert (heard.weight[turn] == 0).all()


def test_floor_and_slice_follow_from_the_vectors_alone(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    size = len(world.action_keys)
    q = np.arange(1.0, size + 1) / np.arange(1.0, size + 1).sum()
    eligible = np.ones(size, dtype=np.bool_)
    eligible[-1] = False
    inside = np.where(eligible, q, 0.0) / q[eligible].sum()
    p = 0.95 * (0.98 * inside + 0.02 * eligible / eligible.sum())
    p[world.baseline] += 0.05
    vector = decision_service_pb2.Allocation(
        bucket="b",
        allocation_version=8,
        policy_version=2,
        action_keys=world.action_keys,
        probability_best=inside.tolist(),
        propensities=p.tolist(),
        eligible=eligible.tolist(),
    )
    log = read_log([*export, wire.ExportDecisionsResponse(allocation=vector)], world)
    found = explorations(log, world)
    assert found[2].floor == pytest.approx(0.05)
    assert found[2].uniform_slice == pytest.approx(0.02)
    assert formula_error(log, world, found) < 1e-12


def test_swapped_propensities_are_found_by_the_self_check(
    export: list[wire.ExportDecisionsResponse], world: World
) -> None:
    log = read_log(export, world)
    swapped = {
        version: replace(vector, p=np.roll(vector.p, 1 - 2 * (world.baseline > 0)))
        for version, vector in log.vectors.items()
    }
    assert self_check(log, world).p_value > 1e-5
    assert self_check(replace(log, vectors=swapped), world).p_value < 1e-5


def test_the_draw_is_a_multiple_of_two_to_the_minus_53_below_one() -> None:
    draws = [draw("acme", "support", f"e-{number}", 0, 1) for number in range(2_000)]
    assert all(0.0 <= u < 1.0 and (u * 2.0**53).is_integer() for u in draws)
    assert np.mean(draws) == pytest.approx(0.5, abs=4 * np.sqrt(1 / 12 / 2_000))
    assert pick(np.array([0.2, 0.0, 0.8]), 0.2) == 2


def test_the_second_draw_obeys_the_golden_law() -> None:
    golden = json.loads((Path(__file__).parents[1] / "golden" / "draw.json").read_text(encoding="utf-8"))
    for case in golden["draws"]:
        names = case["tenant"], case["policy"], case["episode_id"]
        u = draw(*names, int(case["seed_epoch"]), int(case["allocation_version"]))
        assert u * 2.0**53 == case["u_times_2_53"]
        assert pick(np.array(case["p"]), u) == case["picked"]


def test_the_oracle_chooses_on_other_items_than_it_is_valued_on(world: World) -> None:
    turns = np.arange(world.turns)
    chosen = oracle_actions(world, turns)
    assert set(chosen.tolist()) <= set(world.actions(Part.HONEST))
    changed = world.truth.score.copy()
    even = world.truth.items % 2 == 0
    changed[even] = 1.0 - changed[even]
    other = replace(world, truth=replace(world.truth, score=changed))
    assert np.array_equal(oracle_actions(other, turns)[even], chosen[even])


def test_repeating_every_turn_does_not_narrow_the_interval() -> None:
    values, items = np.array([0.0, 1.0, 1.0, 0.0, 1.0]), np.arange(5)
    once, twice = clustered(values, items), clustered(np.tile(values, 2), np.tile(items, 2))
    assert once.mean == pytest.approx(twice.mean)
    assert once.low == pytest.approx(twice.low)


def test_another_computation_must_have_every_key_and_agree_to_1e_9(tmp_path: Path) -> None:
    ours: dict[str, object] = dict.fromkeys(COMPARED, 0.25) | {"name": "a-routing"}
    path = tmp_path / "inside.json"
    path.write_text(json.dumps({"tenants": [ours | {"decisions": 0.25 + 2e-9}]}), encoding="utf-8")
    assert disagreements_with([ours], path) == ["a-routing: decisions is 0.25 here and 0.250000002 there"]
    assert disagreements(ours, {"name": "a-routing"})[0] == "a-routing: decisions is 0.25 here and None there"
    assert disagreements(ours, ours | {"decisions": 0.25 + 1e-10}) == []


def test_a_written_export_and_page_read_back_the_same(
    export: list[wire.ExportDecisionsResponse], world: World, counts: TenantCounts, tmp_path: Path
) -> None:
    assert write_export(tmp_path / "log.bin", export) == len(export)
    log: Log = read_log(read_export(tmp_path / "log.bin"), world)
    page = page_data(log, world, counts, figures(log, world, counts))
    assert read_plain(TenantPage, json.loads(json.dumps(asdict(page)))) == page

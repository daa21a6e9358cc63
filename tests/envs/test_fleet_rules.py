"""The fleet's published numbers: planning, faults and telemetry by the laws, prices, window, grade."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_oversight_env import ground
from fleet_oversight_env.batch import Batch
from fleet_oversight_env.fleet import Move, affordable, grade, plan_quality, score
from fleet_oversight_env.laws import BANKING, CRM, FAULTS, FLAG_FALSE, RESULTS, Fault, MoveKind, Result, Status
from fleet_oversight_env.luck import luck_of
from fleet_oversight_env.planning import DEFAULT, Config, Profile, alignment, all_configs, best_plan
from fleet_oversight_env.rubric import (
    ACTION_PRICES,
    ACTION_WEIGHT,
    GRADE_RANGE,
    OVERSIGHT_PRICES,
    OVERSIGHT_WEIGHT,
    Event,
    judge_audit,
)
from fleet_oversight_env.scenarios import BANKING_FAQ, EASY, HARD, TASKS, SeedRefused, UnknownTask, begin, task_of
from fleet_oversight_env.starts import starts
from fleet_oversight_env.view import everywhere
from fleet_oversight_env.world import step
from tests.envs.fleet_play import WAIT, faulty, planned, seeds, sound, waited

EPISODES = 1000


@pytest.mark.parametrize(
    ("profile", "best", "uniform", "default"),
    [(EASY, 1.000, 0.33, 1.00), (HARD, 0.917, 0.17, 0.02), (BANKING_FAQ, 0.915, 0.16, 0.02)],
)
def test_plans_score_as_published(profile: Profile, best: float, uniform: float, default: float) -> None:
    needs = profile.needs
    suits = [alignment(config, worker, needs) for worker, config in enumerate(best_plan(needs))]
    assert np.mean(suits) == pytest.approx(best, abs=5e-4)
    every = [
        alignment(config, worker, needs) if affordable(config, worker) else 0.0
        for config in all_configs()
        for worker in range(5)
    ]
    assert np.mean(every) == pytest.approx(uniform, abs=5e-3)
    assert np.mean([alignment(DEFAULT, worker, needs) for worker in range(5)]) == pytest.approx(default, abs=8e-3)


NEEDS = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))


@given(st.sampled_from(list(all_configs())), st.integers(0, 4), NEEDS)
def test_no_affordable_plan_beats_the_best(config: Config, worker: int, needs: tuple[int, int, int]) -> None:
    plan = best_plan(needs)[worker]
    assert affordable(plan, worker)
    reached = alignment(config, worker, needs)
    assert 0.0 <= reached <= 1.0
    if affordable(config, worker):
        assert reached <= alignment(plan, worker, needs)


def test_the_default_runs_on_an_unset_worker_and_earns_nothing() -> None:
    world, _ = planned("nexacrm_hard", seeds(1)[0], [None] * 5)
    assert plan_quality(world) == 0.0
    assert [worker.alignment for worker in world.workers] == [alignment(DEFAULT, w, HARD.needs) for w in range(5)]


def test_a_configuration_beyond_capacity_leaves_the_worker_as_it_was() -> None:
    luck = luck_of(seeds(1)[0])
    world = begin(TASKS["nexacrm_easy"], luck)
    dear = dataclasses.replace(DEFAULT, chunk_strategy="semantic", embedding_model="multilingual", top_k=12)
    after = step(world, Move(kind=MoveKind.ALLOCATE, allocation=((0, dear), (1, None), (2, DEFAULT))), luck)
    assert [worker.config for worker in after.workers] == [None, None, DEFAULT, None, None]
    assert after.invalid_moves == 2


def everything(task: str) -> tuple[Batch, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Wait through many episodes; give the batch and per step result, fall of the budget and flag."""
    batch = Batch(starts(task, seeds(EPISODES)))
    batch_starts = batch.starts.opening.budget
    shown = []
    for _ in range(17):
        view = batch.view()
        shown.append((view.result, batch_starts - view.budget, view.flag))
        batch_starts = view.budget
        batch.step(everywhere(EPISODES))
    return batch, shown


def share_holds(happened: np.ndarray, chance: float) -> None:
    """Four standard deviations either way."""
    assert abs(happened.mean() - chance) < 4 * (chance * (1 - chance) / happened.size) ** 0.5


def test_rates_are_those_of_the_law() -> None:
    batch, shown = everything("nexacrm_easy")
    calm = (batch.fault == 0) & (batch.glitch_from == 0)
    results = np.stack([result[calm] for result, _, _ in shown])
    falls = np.stack([fall[calm] for _, fall, _ in shown])
    for result, chance in ((Result.INVALID, CRM.invalid), (Result.RETRY, CRM.retry), (Result.STALL, CRM.stall)):
        share_holds(results == RESULTS.index(result), chance)
    share_holds((falls == 2) | (falls == 5), CRM.burn)
    share_holds(falls >= 4, CRM.jump)
    share_holds(np.stack([flag[calm] for _, _, flag in shown]), FLAG_FALSE)
    share_holds(batch.glitch_from[batch.fault == 0] > 0, CRM.glitch)
    for fault, result, chance in (
        (Fault.INVALID_BURST, Result.INVALID, CRM.burst_invalid),
        (Fault.SILENT_DRIFT, Result.STALL, CRM.drift_stall),
        (Fault.CONSTRAINT_VIOLATION, Result.RETRY, CRM.constraint_retry),
    ):
        theirs = batch.fault == FAULTS.index(fault) + 1
        share_holds(np.stack([result_k[theirs] == RESULTS.index(result) for result_k, _, _ in shown[6:]]), chance)


def test_faults_are_right_about_as_often_as_published_by_kind() -> None:
    batch, shown = everything("nexacrm_easy")
    flags = np.stack([flag for _, _, flag in shown])
    measured = [flags[:, batch.fault == kind].mean() for kind in range(5)]
    assert measured == pytest.approx([0.21, 0.70, 0.37, 0.20, 0.59], abs=0.025)


def test_a_window_is_twelve_steps_and_its_end_books_the_miss() -> None:
    for domain in (CRM, BANKING):
        assert domain.window == 12
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    target = Move(kind=MoveKind.ESCALATE, worker=faulty(world)[0])
    last = waited(world, luck, 12)
    assert step(last, target, luck).tally[Event.ESCALATED] == 1
    late = waited(world, luck, 13)
    assert late.tally[Event.MISSED] == len(faulty(world))
    assert step(late, target, luck).tally[Event.NEEDLESS_ESCALATION] == 1


def test_an_alarm_before_a_fault_is_active_is_needless() -> None:
    for seed in seeds(20):
        world, luck = planned("banking_faq", seed)
        first = faulty(world)[0]
        assert world.workers[first].active_from >= 2
        after = step(world, Move(kind=MoveKind.INTERVENE, worker=first), luck)
        assert after.tally[Event.FALSE_ALARM] == 1


def test_a_needless_intervention_pauses_and_locks_for_two_steps() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    target = Move(kind=MoveKind.INTERVENE, worker=sound(world)[0])
    before = world.workers[sound(world)[0]]
    for expected in (Status.PAUSED, Status.PAUSED):
        world = step(world, target if world.k == 1 else WAIT, luck)
        worker = world.workers[sound(world)[0]]
        assert (worker.status, worker.budget, worker.log, worker.flag) == (expected, before.budget, before.log, False)
        assert step(world, target, luck).invalid_moves == 1
    world = step(world, WAIT, luck)
    worker = world.workers[sound(world)[0]]
    assert worker.status is Status.RUNNING
    assert worker.budget < before.budget


def test_a_miss_by_hold_may_still_be_resolved_and_both_are_booked() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    first = faulty(world)[0]
    world = step(world, Move(kind=MoveKind.HOLD, worker=first), luck)
    world = step(world, Move(kind=MoveKind.INTERVENE, worker=first), luck)
    assert score(world).oversight == pytest.approx(0.40 - 0.65)


def test_monitoring_again_within_two_steps_costs() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    look = Move(kind=MoveKind.MONITOR, worker=0)
    world = step(step(world, look, luck), look, luck)
    assert world.tally[Event.REDUNDANT_MONITOR] == 1
    world = step(waited(world, luck, world.k + 2), look, luck)
    assert world.tally[Event.REDUNDANT_MONITOR] == 1
    assert world.probe is not None
    assert step(world, WAIT, luck).probe is None


def test_what_cannot_be_paid_is_refused() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    for worker in sound(world)[:2]:
        world = step(world, Move(kind=MoveKind.INTERVENE, worker=worker), luck)
    assert world.governance_budget == 4
    after = step(world, Move(kind=MoveKind.INTERVENE, worker=sound(world)[2]), luck)
    assert (after.governance_budget, after.invalid_moves) == (4, 1)
    assert after.error == "intervene costs 6, and 4 is left"


def test_prices_put_the_thresholds_where_the_datasheet_says() -> None:
    """Waiting is best below about .18, escalation to about .65, then intervention: a hard fault, once probed."""

    def value(chance: float, right: Event, wrong: Event, extra: float) -> float:
        oversight = chance * OVERSIGHT_PRICES[right] + (1 - chance) * OVERSIGHT_PRICES[wrong]
        return OVERSIGHT_WEIGHT * oversight + ACTION_WEIGHT * chance * extra

    def best(chance: float) -> int:
        hard = ACTION_PRICES[Event.ESCALATED_HARD]
        values = [
            OVERSIGHT_WEIGHT * chance * OVERSIGHT_PRICES[Event.MISSED],
            value(chance, Event.ESCALATED, Event.NEEDLESS_ESCALATION, hard),
            value(chance, Event.INTERVENED, Event.FALSE_ALARM, 0.0),
        ]
        return int(np.argmax(values))

    chosen = [best(chance / 100) for chance in range(101)]
    assert chosen == sorted(chosen)
    assert (chosen.index(1), chosen.index(2)) == (18, 66)


def test_the_grade_stays_off_both_ends() -> None:
    low, high = GRADE_RANGE
    world, luck = planned("nexacrm_hard", seeds(1)[0], [None] * 5)
    assert grade(step(world, Move(kind=MoveKind.SUBMIT), luck)) == low
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    for worker in faulty(world):
        world = step(world, Move(kind=MoveKind.INTERVENE, worker=worker), luck)
    truth = tuple(worker.fault or "healthy" for worker in world.workers)
    assert grade(step(world, Move(kind=MoveKind.SUBMIT, verdicts=truth), luck)) == high


VERDICT = st.sampled_from([None, "healthy", *FAULTS])


@given(st.tuples(*[VERDICT] * 5), st.integers(0, 4), st.sampled_from(FAULTS))
def test_no_audit_is_better_than_the_truth(said: tuple[str | None, ...], place: int, fault: Fault) -> None:
    truth = tuple(fault if worker == place else None for worker in range(5))
    told = tuple(fault if worker == place else "healthy" for worker in range(5))
    assert 0.0 <= judge_audit(said, truth) <= judge_audit(told, truth) == pytest.approx(1.0)


def test_banking_is_for_test_seeds_alone_and_unknown_tasks_are_named() -> None:
    with pytest.raises(SeedRefused):
        task_of("banking_faq", 0)
    with pytest.raises(SeedRefused):
        task_of("banking_faq", 1_000_000)
    with pytest.raises(UnknownTask, match="nexacrm_easy"):
        task_of("nexacrm", 0)


def test_an_ended_world_stays_as_it_is() -> None:
    world, luck = planned("nexacrm_easy", seeds(1)[0])
    ended = step(world, Move(kind=MoveKind.SUBMIT), luck)
    assert step(ended, Move(kind=MoveKind.INTERVENE, worker=0), luck) == ended
    assert waited(world, luck, 17).step == 20
    assert step(waited(world, luck, 17), WAIT, luck).ended


@pytest.mark.parametrize("task", ["nexacrm_easy", "banking_faq"])
def test_what_is_hidden_shows_nowhere_before_it_manifests(task: str) -> None:
    """Waits and monitors alone: an alarm's outcome would tell. Goes to the step before the first manifestation."""
    compared = 0
    for seed in seeds(40):
        for twin in ground.twins(task, seed):
            plain, other = ground.start(task, seed), twin.episode
            for _ in range(3):
                for one in (plain, other):
                    one.step({"action_type": "allocate"})
            shows = [w.shows_from or w.glitch_from or 18 for one in (plain, other) for w in one.hidden.workers]
            for k in range(1, min(shows)):
                assert plain.observe() == other.observe(), (twin.changed, seed, k)
                compared += k > 1
                for one in (plain, other):
                    one.step({"action_type": "monitor", "worker": f"worker_{k % 5 + 1}"})
    assert compared > 40

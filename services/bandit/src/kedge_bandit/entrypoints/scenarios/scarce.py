"""Worlds in which what comes of an episode is rarely known, or late, or latest for the best arm."""

from dataclasses import replace
from datetime import timedelta
from math import log

import numpy as np

from kedge_bandit.domain.advice import FEWEST_EFFECTIVE, effective_episodes
from kedge_bandit.domain.outcome import SignalKind
from kedge_bandit.domain.policy import Settlement
from kedge_bandit.domain.settlement import Windows
from kedge_bandit.entrypoints.scenarios.marks import REGRET, WHOLE_REGRET, Figures, Mark, Scenario
from kedge_bandit.entrypoints.scenarios.play import ServicePlayer, play
from kedge_bandit.entrypoints.scenarios.served import DEFAULT_HALF_LIFE, spec_of
from kedge_bandit.entrypoints.scenarios.stream import TURN, Stream, drawn, steady

SPARSE_TURNS = 20_000
SCORED = 0.05
ARMS = 5
DELAYED_TURNS = 10_000
DELAY = (60, 600)
"""Turns until a person reacts: one to ten hours."""
CENSORED_TURNS = 10_000
QUICK, SLOW = (1, 10), (720, 2880)
"""Turns until a verifier answers: minutes, and for the best arm half a day to two days."""
WINDOW = timedelta(days=3)
PATIENCE_TURNS = 60
"""After which a zero would stand in, where one does: an hour."""


def sparse_world(seed: int) -> Stream:
    """Draw five arms, one better by .3; in one of twenty episodes anything is known."""
    stream, rng = drawn(seed, "sparse", steady(SPARSE_TURNS, (0.4, 0.4, 0.4, 0.4, 0.7)))
    is_scored = rng.random((SPARSE_TURNS, 1)) < SCORED
    return replace(stream, delay=np.where(is_scored, stream.delay, -1))


def delayed_world(seed: int) -> Stream:
    """Draw five arms, one better by .2; people react after hours."""
    stream, rng = drawn(seed, "delayed", steady(DELAYED_TURNS, (0.5, 0.5, 0.5, 0.5, 0.7)))
    delay = stream.delay + rng.integers(DELAY[0], DELAY[1] + 1, (DELAYED_TURNS, 1))
    return replace(stream, kind=SignalKind.HUMAN, delay=delay)


def censored_world(seed: int) -> Stream:
    """Draw three arms; the verifier takes minutes for two, and a day for the one that is better by .15."""
    stream, rng = drawn(seed, "censored", steady(CENSORED_TURNS, (0.6, 0.6, 0.75)))
    quick = rng.integers(QUICK[0], QUICK[1] + 1, (CENSORED_TURNS, 2))
    return replace(stream, delay=np.hstack([quick, rng.integers(SLOW[0], SLOW[1] + 1, (CENSORED_TURNS, 1))]))


def half_life_by_evidence() -> timedelta:
    """Give the shortest half-life, in whole turns, at which `kedge status` does not warn of too few episodes a cell."""
    return round(FEWEST_EFFECTIVE * ARMS * log(2.0) / SCORED + 0.5) * TURN


def effective(half_life: timedelta) -> float:
    """Give the effective episodes of a cell in the sparse world, as `kedge status` states them."""
    return effective_episodes(
        per_second=1.0 / TURN.total_seconds(),
        half_life_seconds=half_life.total_seconds(),
        coverage=SCORED,
        live_cells=ARMS,
    )


def _sparse(seed: int) -> Figures:
    stream, name = sparse_world(seed), f"sparse-{seed}"
    chosen = half_life_by_evidence()
    played = play(stream, ServicePlayer(name, {ARMS: spec_of(ARMS, half_life=chosen)}))
    short = play(stream, ServicePlayer(name, {ARMS: spec_of(ARMS)}))
    return {
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "late share": played.late_share,
        "late share at the default": short.late_share,
        "warns at the default": float(effective(DEFAULT_HALF_LIFE) < FEWEST_EFFECTIVE),
        "warns": float(effective(chosen) < FEWEST_EFFECTIVE),
    }


def _delayed(seed: int) -> Figures:
    stream, specs = delayed_world(seed), {ARMS: spec_of(ARMS)}
    at_once = replace(stream, delay=np.zeros_like(stream.delay))
    played, sooner = (play(each, ServicePlayer(f"delayed-{seed}", specs)) for each in (stream, at_once))
    return {
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "immediate regret": sooner.regret,
        "late share": played.late_share,
    }


def _censored(seed: int) -> Figures:
    stream, name = censored_world(seed), f"censored-{seed}"
    waiting = Settlement(expects_task_success=True, windows=Windows(task_success=WINDOW, safety=WINDOW, judge=WINDOW))
    played = play(stream, ServicePlayer(name, {3: spec_of(3, settlement=waiting)}))
    is_late = stream.delay > PATIENCE_TURNS
    zeroed = replace(stream, success=stream.success & ~is_late, delay=np.where(is_late, PATIENCE_TURNS, stream.delay))
    filled = play(zeroed, ServicePlayer(name, {3: spec_of(3, settlement=waiting)}))
    return {
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "late share": played.late_share,
        "late share, zero-filled": filled.late_share,
    }


SCARCE = (
    Scenario(
        name="sparse",
        about="5 % of the episodes are scored; five arms, one better by .3",
        world=sparse_world,
        measure=_sparse,
        marks=(
            Mark(name="late share of the best, H by evidence", of="late share", at_least=0.9),
            Mark(name="kedge status warns at the default H", of="warns at the default", at_least=1.0),
            Mark(name="kedge status warns at H by evidence", of="warns", at_most=0.0),
            Mark(name="late share of the best at the default H", of="late share at the default"),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
    Scenario(
        name="delayed",
        about="people react one to ten hours after their episode; five arms, one better by .2",
        world=delayed_world,
        measure=_delayed,
        marks=(
            Mark(name="regret / immediate", of="regret", over="immediate regret", at_most=2.2),
            Mark(name="late share of the best", of="late share"),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
    Scenario(
        name="censored",
        about="the verifier takes half a day to two days for the best of three arms, minutes for the others",
        world=censored_world,
        measure=_censored,
        marks=(
            Mark(name="late share of the best", of="late share", at_least=0.9),
            Mark(name="late share, had a zero stood in after an hour", of="late share, zero-filled"),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
)

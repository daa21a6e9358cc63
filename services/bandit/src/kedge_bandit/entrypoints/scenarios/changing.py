"""Worlds that stay, break, drift, or get a new arm; what comes of an episode is known with its log."""

from dataclasses import replace

import numpy as np

from kedge_bandit.entrypoints.scenarios.marks import REGRET, WHOLE_REGRET, Figures, Mark, Scenario
from kedge_bandit.entrypoints.scenarios.play import Played, ServicePlayer, play
from kedge_bandit.entrypoints.scenarios.served import FOREVER, spec_of
from kedge_bandit.entrypoints.scenarios.stream import Stream, drawn, steady

TURNS = 10_000
DRIFT_TURNS = 15_000
ARMS = 5
NEW_TURN = 5_000
SOON = 1_000
"""Turns within which a better new arm must have taken over."""
AVERAGED = 100
"""Turns over which a share is averaged to be one."""


def stationary_world(seed: int) -> Stream:
    """Draw five arms of which one is better by .2."""
    return drawn(seed, "stationary", steady(TURNS, (0.5, 0.5, 0.5, 0.5, 0.7)))[0]


def abrupt_world(seed: int) -> Stream:
    """Draw five arms, the best of which falls by .4 half-way, while another rises by .2."""
    means = steady(TURNS, (0.5, 0.5, 0.5, 0.5, 0.7))
    means[TURNS // 2 :, 4], means[TURNS // 2 :, 1] = 0.3, 0.7
    return drawn(seed, "abrupt drift", means)[0]


def slow_world(seed: int) -> Stream:
    """Draw five arms, two of which change places little by little from the first turn to the last."""
    means = steady(DRIFT_TURNS, (0.45, 0.7, 0.3, 0.45, 0.45))
    moved = 0.4 * np.arange(DRIFT_TURNS) / DRIFT_TURNS
    means[:, 1] -= moved
    means[:, 2] += moved
    return drawn(seed, "slow drift", means)[0]


def cold_world(seed: int) -> Stream:
    """Draw five arms, and a sixth, better by .15, that exists from half-way on."""
    stream = drawn(seed, "cold arm", steady(TURNS, (0.5, 0.5, 0.5, 0.5, 0.6, 0.75)))[0]
    return replace(stream, begin=np.array([0, 0, 0, 0, 0, NEW_TURN]))


def _stationary(seed: int) -> Figures:
    played = play(stationary_world(seed), ServicePlayer(f"stationary-{seed}", {ARMS: spec_of(ARMS)}))
    return {"regret": played.regret, "whole regret": played.whole_regret, "late share": played.late_share}


def _drifting(stream: Stream, name: str) -> Figures:
    """Play a world with the default half-life and without one."""
    played = play(stream, ServicePlayer(name, {ARMS: spec_of(ARMS)}))
    without = play(stream, ServicePlayer(name, {ARMS: spec_of(ARMS, half_life=FOREVER)}))
    return {
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "late share": played.late_share,
        "undiscounted regret": without.regret,
        "undiscounted whole regret": without.whole_regret,
        "undiscounted late share": without.late_share,
    }


def _abrupt(seed: int) -> Figures:
    return _drifting(abrupt_world(seed), f"abrupt-{seed}")


def _slow(seed: int) -> Figures:
    return _drifting(slow_world(seed), f"slow-{seed}")


def _cold(seed: int) -> Figures:
    specs = {arms: spec_of(arms) for arms in (ARMS, ARMS + 1)}
    played = play(cold_world(seed), ServicePlayer(f"cold-{seed}", specs))
    return {
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "turns until it leads": float(turns_until_it_leads(played)),
    }


def turns_until_it_leads(played: Played) -> int:
    """Count the turns from a new arm's first until it has over half of the free traffic, on average over 100 turns."""
    share = played.free[NEW_TURN:, ARMS]
    leads = np.convolve(share, np.ones(AVERAGED) / AVERAGED, mode="valid") > 0.5
    return int(leads.argmax()) + AVERAGED if leads.any() else share.size


CHANGING = (
    Scenario(
        name="stationary",
        about="nothing changes; five arms, one better by .2",
        world=stationary_world,
        measure=_stationary,
        marks=(
            Mark(name="late share of the best", of="late share", at_least=0.9),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
    Scenario(
        name="abrupt-drift",
        about="the best arm falls by .4 half-way, another becomes the best",
        world=abrupt_world,
        measure=_abrupt,
        marks=(
            Mark(name="regret / undiscounted", of="regret", over="undiscounted regret", at_most=0.6),
            Mark(
                name="the same, floor and slice included",
                of="whole regret",
                over="undiscounted whole regret",
                at_most=0.6,
            ),
            REGRET,
            WHOLE_REGRET,
            Mark(name="late share of the best", of="late share"),
        ),
    ),
    Scenario(
        name="slow-drift",
        about="two arms change places little by little",
        world=slow_world,
        measure=_slow,
        marks=(
            Mark(name="regret / undiscounted", of="regret", over="undiscounted regret", at_most=0.9),
            Mark(
                name="the same, floor and slice included",
                of="whole regret",
                over="undiscounted whole regret",
                at_most=0.9,
            ),
            Mark(name="late share of the best", of="late share", at_least=0.75),
            Mark(name="late share of the best, undiscounted", of="undiscounted late share"),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
    Scenario(
        name="cold-arm",
        about="a sixth arm, better by .15, is added half-way, from the prior and without a cap",
        world=cold_world,
        measure=_cold,
        marks=(
            Mark(name="turns until it has over half, worst seed", of="turns until it leads", at_most=SOON, worst=True),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
)

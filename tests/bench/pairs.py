"""Compare what one decision and its outcome cost a learner in CPU: the service's, Vowpal Wabbit's, and others'.

The same turns for all, from the context as a caller gives it and a random number to the learned outcome, no network
and no database: five arms and either no context (one bucket) or three categorical features (24 buckets). Vowpal Wabbit
learns at every turn. The service's learners are read when a bucket is published, in the service at most once a second,
here after every 100 of its outcomes: then evidence becomes a belief and the belief an exact P(best). What that costs at
every outcome stands beside it.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from statistics import median

import numpy as np
import vowpalwabbit
from mabwiser.mab import MAB, LearningPolicy

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.context import CategoricalFeature, Context, bucket
from kedge_bandit.domain.draw import pick
from kedge_bandit.domain.learners.beta import BetaLearner
from kedge_bandit.domain.learners.learner import Learner
from kedge_bandit.domain.learners.linear import LinearLearner
from tests.bench.figures import SHOWN, Bar, Control, Report, Row, Setting
from tests.bench.peer_players import VW_OPTIONS
from tests.bench.served import ServedPolicy

SEED = 20260313
ARMS = 5
FEATURES = (
    CategoricalFeature("task", ("code", "law", "math", "prose")),
    CategoricalFeature("length", ("short", "medium", "long")),
    CategoricalFeature("tier", ("free", "paid")),
)
ROUNDS = 7
LOTS = 24  # of a round, in turns, so that a passing disturbance meets all
LOT = 500
SLOW_LOT = 20  # where a pair takes over 0.1 ms
BATCH = 10
USUAL = 100  # outcomes of a bucket per publication
LINEAR_SHARE = 0.8
BARS = {"beta, no context": Bar(at_most=0.25), "linear, 24 buckets": Bar(at_most=LINEAR_SHARE)}
COMPILED = "contextualbandits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What is asked.

    Attributes:
        vectors: the contexts in one-hot coding [T, F].
        draws: one number in [0, 1) per turn.
        rewards: what each arm would earn [T, ARMS].
    """

    features: tuple[CategoricalFeature, ...]
    contexts: list[Context]
    vectors: FloatArray
    draws: list[float]
    rewards: FloatArray


Play = Callable[[range], None]
"""Decide the given turns and learn from them."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One learner that plays on from lot to lot, and the name of the one to divide its cost by; none for yardsticks."""

    name: str
    play: Play
    yardstick: str = ""
    is_slow: bool = False

    def lot(self, number: int) -> range:
        """Give the turns of one lot of a round."""
        size = SLOW_LOT if self.is_slow else LOT
        return range(number * size, (number + 1) * size)


def pairs(setting: Setting) -> Report:
    """Time all in turns, in this process; what was imported is kept from the collector, as the service does."""
    contests = _contests()
    for contest in contests:
        contest.play(contest.lot(0))
    gc.collect()
    gc.freeze()
    spent: dict[str, list[float]] = {contest.name: [] for contest in contests}
    for turn in range(ROUNDS):
        setting.say(f"round {turn + 1} of {ROUNDS}")
        for name, seconds in _round(contests).items():
            spent[name].append(seconds * 1e6)
    gc.unfreeze()
    rows = [
        Row.of_rounds(
            f"{contest.name} / {contest.yardstick}",
            [one / other for one, other in zip(spent[contest.name], spent[contest.yardstick], strict=True)],
            BARS.get(contest.name, SHOWN),
        )
        for contest in contests
        if contest.yardstick
    ]
    rows += [_break_even(spent), *(Row.of_rounds(name, rounds, unit="us") for name, rounds in spent.items())]
    controls = [Control(contest.name, spent[contest.name]) for contest in contests if not contest.yardstick]
    return Report(rows=rows, controls=controls, notes=_notes(), seeds=[SEED])


def _round(contests: list[Contest]) -> dict[str, float]:
    """Play all lots of a round; give seconds of CPU per pair."""
    spent = {contest.name: 0.0 for contest in contests}
    for number in range(LOTS):
        for contest in contests:
            lot = contest.lot(number)
            began = time.process_time()
            contest.play(lot)
            spent[contest.name] += (time.process_time() - began) / (LOTS * len(lot))
    return spent


def draw_turns(features: tuple[CategoricalFeature, ...]) -> Turns:
    """Draw the contexts, numbers and rewards of a round."""
    count = LOTS * LOT
    rng = np.random.default_rng([SEED, len(features)])
    places = [rng.integers(len(feature.values), size=count) for feature in features]
    values = [[feature.values[i] for i in place] for feature, place in zip(features, places, strict=True)]
    names = [feature.name for feature in features]
    vectors = [np.identity(len(feature.values))[place] for feature, place in zip(features, places, strict=True)]
    level = np.hstack([np.ones((count, 1)), *vectors])
    means = rng.uniform(0.3, 0.7, (level.shape[1], ARMS)) / (1 + len(features))
    return Turns(
        features=features,
        contexts=[Context(dict(zip(names, (value[turn] for value in values), strict=True))) for turn in range(count)],
        vectors=level[:, 1:],
        draws=rng.random(count).tolist(),
        rewards=(rng.random((count, ARMS)) < level @ means).astype(np.float64),
    )


def _contests() -> list[Contest]:
    bare, rich = draw_turns(()), draw_turns(FEATURES)
    vw_bare, vw_rich = "VW bag 5, no context", "VW bag 5, 3 features"
    beta, linear = BetaLearner(), LinearLearner()
    contests = [
        Contest(vw_bare, vw(bare)),
        Contest("beta, no context", served(beta, USUAL, bare), vw_bare),
        Contest("beta, no context, published per outcome", served(beta, 1, bare), vw_bare, is_slow=True),
        Contest(vw_rich, vw(rich)),
        Contest("beta, 24 buckets", served(beta, USUAL, rich), vw_rich),
        Contest("linear, 24 buckets", served(linear, USUAL, rich), vw_rich),
        Contest("linear, 24 buckets, published per outcome", served(linear, 1, rich), vw_rich, is_slow=True),
        Contest(f"MABWiser LinTS, batch {BATCH}", mabwiser(rich), vw_rich, is_slow=True),
    ]
    if find_spec(COMPILED) is not None:
        contests.append(Contest(f"{COMPILED} LinTS, batch {BATCH}", contextualbandits(rich), vw_rich, is_slow=True))
    return contests


def served(learner: Learner, interval: int, turns: Turns) -> Play:
    """Decide and learn as the service does; a bucket is published after every `interval` of its outcomes."""
    parts = ([f"{feature.name}={value}" for value in feature.values] for feature in turns.features)
    policy = ServedPolicy(
        learner,
        tuple(map(str, range(ARMS))),
        due=lambda fresh, _known: fresh >= interval,
        buckets=tuple(sorted("|".join(part) for part in product(*parts))),
    )
    rewards = turns.rewards.tolist()

    def play(lot: range) -> None:
        for turn in lot:
            name = bucket(turns.contexts[turn], turns.features)
            action = policy.decide(name, turns.draws[turn])
            policy.learn(name, action, rewards[turn][action], float(turn))
            policy.publish(name, float(turn))

    return play


def vw(turns: Turns) -> Play:
    """Let Vowpal Wabbit decide and learn at every turn."""
    model = vowpalwabbit.Workspace(VW_OPTIONS.format(arms=ARMS, seed=1))
    costs = (1.0 - turns.rewards).tolist()

    def play(lot: range) -> None:
        for turn in lot:
            text = f"|f {' '.join([f'{name}={value}' for name, value in turns.contexts[turn].categories.items()])}"
            shares = model.predict(text)
            action = pick(shares, turns.draws[turn])
            model.learn(f"{action + 1}:{costs[turn][action]:g}:{shares[action]:g} {text}")

    return play


def mabwiser(turns: Turns) -> Play:
    """Let MABWiser decide turn by turn and learn after every batch."""
    model = MAB(list(range(ARMS)), LearningPolicy.LinTS(alpha=0.5), seed=1)
    first = np.arange(BATCH) % ARMS
    model.fit(first, turns.rewards[np.arange(BATCH), first], turns.vectors[:BATCH])

    def play(lot: range) -> None:
        for steps in np.array(lot).reshape(-1, BATCH):
            chosen = np.array([model.predict(turns.vectors[step : step + 1]) for step in steps])
            model.partial_fit(chosen, turns.rewards[steps, chosen], turns.vectors[steps])

    return play


def contextualbandits(turns: Turns) -> Play:
    """Let contextualbandits decide turn by turn and learn after every batch."""
    model = import_module(f"{COMPILED}.online").LinTS(ARMS, v_sq=0.25, random_state=1)
    first = np.arange(BATCH) % ARMS
    model.fit(turns.vectors[:BATCH], first, turns.rewards[np.arange(BATCH), first])

    def play(lot: range) -> None:
        for steps in np.array(lot).reshape(-1, BATCH):
            chosen = np.array([int(model.predict(turns.vectors[step : step + 1])[0]) for step in steps])
            model.partial_fit(turns.vectors[steps], chosen, turns.rewards[steps, chosen])

    return play


def _break_even(spent: dict[str, list[float]]) -> Row:
    """Say how many outcomes a publication must serve for the linear pair to cost LINEAR_SHARE of VW's."""
    usual, at_once = (median(spent[f"linear, 24 buckets{how}"]) for how in ("", ", published per outcome"))
    publication = (at_once - usual) / (1.0 - 1.0 / USUAL)
    spare = LINEAR_SHARE * median(spent["VW bag 5, 3 features"]) - (usual - publication / USUAL)
    name = f"linear, 24 buckets: outcomes per publication at {LINEAR_SHARE:g} of VW"
    return Row(name=name, value=publication / spare, timed=True)


def _notes() -> list[str]:
    left_out = "" if find_spec(COMPILED) else f"; {COMPILED} is not installed (it needs a C compiler)"
    return [
        f"CPU of a pair: decision and learned outcome; ours published per {USUAL} outcomes of a bucket unless said;"
        f" {LOTS * LOT:,} pairs ({LOTS * SLOW_LOT} of the slow ones) a round, in lots in turns{left_out}"
    ]

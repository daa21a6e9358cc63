"""Draw, once and from a seed, everything that would be observed for every turn and action.

The tables are whole: what a turn yields for an action does not depend on when, or whether, the action is served. So two
runs of the demo differ only in what the bandit chooses, and `measure` knows the truth without asking anyone.

Made up here, because the public sets do not hold it: the judge (clip(.3 + .5·truth + N(0, .1)), .95 for the flatterer),
the thumbs (5 % of turns; up with the probability of the true score), the breaker's trips and success, and the spread of
latencies.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kedge_demo.arms import Part
from kedge_demo.datasets import Floats, Integers

Flags: TypeAlias = NDArray[np.bool_]

THUMB_SHARE = 0.05
JUDGE_NOISE = 0.1
FLATTERED_JUDGE = 0.95
FLATTERED_NOISE = 0.02
BREAKER_SUCCESS = 0.80
BREAKER_TRIPS = 0.10
LATENCY_SPREAD = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Give what the public set says for every item and action, planted actions included as placeholders.

    Attributes:
        score: true success in [0, 1], shape (items, actions).
        cost_usd: US dollars per episode, shape (items, actions).
        latency_ms: median milliseconds per episode, shape (items, actions).
        completion_tokens: shape (items, actions).
        prompt_tokens: shape (items,).
    """

    score: Floats
    cost_usd: Floats
    latency_ms: Floats
    completion_tokens: Integers
    prompt_tokens: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Hold what each turn yields for each action; shapes are (turns, actions) unless said otherwise.

    Attributes:
        items: which item of the public set each turn asks, shape (turns,).
        score: true success in [0, 1]; what a verifier, where there is one, reports.
        cost_usd, latency_ms: raw units per episode.
        judge: the score a judge would give, in [0, 1].
        thumb_up: the direction of a thumb, if one is given.
        tripped: a guardrail trips.
        has_thumb, has_verifier: shape (turns,); whatever the action.
        completion_tokens: of the answer; prompt_tokens: of the question, shape (turns,).
    """

    items: Integers
    score: Floats
    cost_usd: Floats
    latency_ms: Floats
    judge: Floats
    thumb_up: Flags
    tripped: Flags
    has_thumb: Flags
    has_verifier: Flags
    completion_tokens: Integers
    prompt_tokens: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Say how to draw the truth of one tenant.

    Attributes:
        turns: how many.
        seed: numbers that name the tenant and the run.
        parts: honest or planted, per action.
        verifier_share: share of turns that have a verifier, in [0, 1].
    """

    turns: int
    seed: tuple[int, ...]
    parts: tuple[Part, ...]
    verifier_share: float = 1.0
    generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        object.__setattr__(self, "generator", generator)


def draw_truth(source: Source, draws: Draws) -> Truth:
    """Draw every table in a fixed order from the seed: the same arguments give the same truth, bit for bit."""
    random = draws.generator
    items = _passes(len(source.score), draws.turns, random)
    shape = (draws.turns, len(draws.parts))
    flatters = np.array([part is Part.FLATTERER for part in draws.parts])
    breaks = np.array([part is Part.BREAKER for part in draws.parts])
    score = np.where(breaks, random.random(shape) < BREAKER_SUCCESS, source.score[items])
    score = np.where(flatters, 0.0, score)
    noise = random.standard_normal(shape)
    honest_judge = 0.3 + 0.5 * score + JUDGE_NOISE * noise
    judge = np.clip(np.where(flatters, FLATTERED_JUDGE + FLATTERED_NOISE * noise, honest_judge), 0.0, 1.0)
    return Truth(
        items=items,
        score=score,
        cost_usd=source.cost_usd[items],
        latency_ms=source.latency_ms[items] * np.exp(LATENCY_SPREAD * random.standard_normal(shape)),
        judge=judge,
        thumb_up=random.random(shape) < score,
        tripped=(random.random(shape) < BREAKER_TRIPS) & breaks,
        has_thumb=random.random(draws.turns) < THUMB_SHARE,
        has_verifier=random.random(draws.turns) < draws.verifier_share,
        completion_tokens=source.completion_tokens[items],
        prompt_tokens=source.prompt_tokens[items],
    )


def _passes(items: int, turns: int, random: np.random.Generator) -> Integers:
    """Ask every item once per pass, each pass in a new order."""
    passes = -(-turns // items)
    return np.concatenate([random.permutation(items) for _ in range(passes)])[:turns].astype(np.int64)

"""Play many turns of a policy at a floor of .8, drawn as the published vector says, for scenes about ramps."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from kedge_bandit.domain.outcome import SignalKind
from kedge_bandit.domain.policy import Exploration, PolicySpec
from tests.bandit.application.scene import CLEAN, LEAKED, SPEC, SUPPORT, Row, Scene

FLOORED: PolicySpec = replace(SPEC, exploration=Exploration(floor=0.8, uniform_slice=0.2, budget_off=True))
BASELINE = "small"
CHUNK = 500


async def play_turns(
    scene: Scene,
    turns: int,
    *,
    name: str,
    vetoed_every: int = 0,
    success: Mapping[str, float] | None = None,
    cost_usd: Mapping[str, float] | None = None,
    drawn_by: Mapping[str, float] | None = None,
) -> None:
    """Play turns by the newest vector; a success is as likely as .6 unless it is said otherwise.

    Args:
        vetoed_every: of the learned side's turns; 0: none.
        success, cost_usd: chance of a success and what a turn costs, by arm; no costs: none is told.
        drawn_by: what the arms are really drawn by, where it is not what is published.
    """
    await watch(scene)
    generator = np.random.default_rng(turns)
    version, vector = newest_allocation(scene)
    names = list(vector)
    drawn = generator.choice(len(names), size=turns, p=list((drawn_by or vector).values()))
    luck, beside = generator.random(turns), 0
    for begin in range(0, turns, CHUNK):
        rows: list[Row] = []
        for place in range(begin, min(begin + CHUNK, turns)):
            arm, episode = names[drawn[place]], f"{name}-{place}"
            beside += arm != BASELINE
            leaks = bool(vetoed_every) and arm != BASELINE and beside % vetoed_every == 0
            won = float(luck[place] < (success or {}).get(arm, 0.6))
            rows += [
                scene.decide(episode, arm, propensity=vector[arm], allocation_version=version, is_randomised=True),
                scene.outcome(episode, won),
                scene.log(episode, LEAKED if leaks else CLEAN),
            ]
            if cost_usd is not None:
                cost = cost_usd[arm] * (0.9 if place % 2 else 1.1)
                rows.append(scene.outcome(episode, cost, signal=SignalKind.COST))
        scene.write(*rows)
        await scene.learn()


async def watch(scene: Scene) -> None:
    """Have the policy's divergence checked, as from the moment on that somebody answers its holdout."""
    async with scene.ledgers.open(scene.tenant) as ledger:
        await ledger.divergence.begin(SUPPORT, datetime.now(UTC))


def newest_allocation(scene: Scene) -> tuple[int, dict[str, float]]:
    """Version and probabilities of the newest allocation, by the arms' names in canonical order."""
    [(version, actions, p)] = scene.sql(
        "SELECT allocation_version, actions, p FROM allocation ORDER BY allocation_version DESC LIMIT 1"
    )
    return version, {action.partition("@")[0]: share for action, share in zip(actions, p, strict=True)}

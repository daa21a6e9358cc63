"""Compute the figures of one tenant: the keys of report.json, from the export, the truth and the client's counts.

Definitions, exact enough for a second computation to agree to 1e-9. *Late* turns are the last third of the stream,
`world.late_from` on; decisions of superseded calls do not count.

| key | definition |
|---|---|
| decisions | exported decisions of the stream's turns |
| quality_last_third | mean true score of the served actions over late turns, floor and slice included |
| best_single_same_turns | mean true score on the same turns of the one action that the world names as reference, else of the honest action for which this is largest |
| bucket_oracle_quality | mean true score on the same turns of the honest action that is best in the turn's bucket, chosen on the late turns of items of the other parity |
| flatterer_share_late, breaker_share_late | share of late turns whose served action has the planted arm |
| replay_mismatches | decisions that do not follow from the published vector and the seeded draw |
| rebuild_max_error | largest difference of a second fold from the exported cells, over max(1, N) |
| self_check_p | χ² of drawn actions against logged propensities over the whole run |
| episodes_unaccounted | Σ over the five states of abs(what the client expects − what is exported) |
| reward_max_error | largest difference of an exported reward or weight from the one that the truth demands |
"""  # noqa: E501 - a table's row is one line

from dataclasses import dataclass

import numpy as np

from kedge_demo.arms import Part
from kedge_demo.checks import rebuild_max_error, replay_mismatches, self_check
from kedge_demo.counts import TenantCounts
from kedge_demo.datasets import Integers
from kedge_demo.export_log import STATES, Log
from kedge_demo.quality import Estimate, best_single, clustered, oracle_actions, take
from kedge_demo.rewards import reward_max_error
from kedge_demo.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Hold the figures of one tenant; the module says what each is."""

    name: str
    decisions: int
    quality_last_third: float
    best_single_same_turns: float
    bucket_oracle_quality: float
    flatterer_share_late: float
    breaker_share_late: float
    replay_mismatches: int
    rebuild_max_error: float
    self_check_p: float
    episodes_unaccounted: int
    reward_max_error: float
    best_single_name: str
    baseline_quality: float
    quality_interval: Estimate
    lift_interval: Estimate
    oracle_gap_interval: Estimate
    states: dict[str, int]


def exported_states(log: Log) -> dict[str, int]:
    """Count the exported episodes by state; one that was never logged has none."""
    return {name: int((log.state == number).sum()) for name, number in STATES.items()}


def figures(log: Log, world: World, counts: TenantCounts) -> Figures:
    """Compute everything for one tenant."""
    late = log.turn >= world.late_from
    turns, served = log.turn[late], log.served[late]
    items = world.truth.items[turns]
    score = world.truth.score
    single, oracle = best_single(world, turns), oracle_actions(world, turns)
    quality = take(score, turns, served)
    single_quality, oracle_quality = score[turns, single], take(score, turns, oracle)
    states = exported_states(log)
    return Figures(
        name=world.tenant,
        decisions=len(log.turn),
        quality_last_third=float(quality.mean()),
        best_single_same_turns=float(single_quality.mean()),
        bucket_oracle_quality=float(oracle_quality.mean()),
        flatterer_share_late=_share(served, world.actions(Part.FLATTERER)),
        breaker_share_late=_share(served, world.actions(Part.BREAKER)),
        replay_mismatches=len(replay_mismatches(log, world)),
        rebuild_max_error=rebuild_max_error(log, world),
        self_check_p=self_check(log, world).p_value,
        episodes_unaccounted=sum(abs(counts.states.get(name, 0) - found) for name, found in states.items()),
        reward_max_error=reward_max_error(log, world),
        best_single_name=world.labels[single],
        baseline_quality=float(score[turns, world.baseline].mean()),
        quality_interval=clustered(quality, items),
        lift_interval=clustered(quality - single_quality, items),
        oracle_gap_interval=clustered(oracle_quality - quality, items),
        states=states,
    )


def _share(served: Integers, actions: tuple[int, ...]) -> float:
    return float(np.isin(served, actions).mean())

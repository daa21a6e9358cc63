"""Gather what the page and the terminal show of one tenant."""

from collections import Counter
from dataclasses import asdict

import numpy as np

from kedge.bandit.v1.outcome_pb2 import VetoReason
from kedge_demo.belief import believed_rewards, veto_beliefs, veto_cap
from kedge_demo.calibration import calibrate
from kedge_demo.checks import self_check
from kedge_demo.counts import TenantCounts
from kedge_demo.datasets import Floats, Integers
from kedge_demo.export_log import BUDGET, Log
from kedge_demo.figures import Figures
from kedge_demo.page_model import ActionRow, Compared, Recovered, TenantPage, Windows
from kedge_demo.plain import read_plain
from kedge_demo.quality import Estimate, best_single, clustered, take
from kedge_demo.rewards import expected_rewards
from kedge_demo.timeline import Exploration, Timeline, explorations, timeline
from kedge_demo.truth import Flags
from kedge_demo.world import World


def page_data(log: Log, world: World, counts: TenantCounts, figures: Figures) -> TenantPage:
    """Gather one tenant's part of the page."""
    known = explorations(log, world)
    return TenantPage(
        name=world.tenant,
        title=world.title,
        about=world.about,
        turns=world.turns,
        late_from=world.late_from,
        baseline=world.labels[world.baseline],
        figures=figures,
        actions=_rows(log, world),
        windows=_windows(timeline(log, world)),
        calibration=calibrate(log, world),
        self_check=self_check(log, world),
        veto_reasons=_veto_reasons(log),
        veto_cap=veto_cap(log, world),
        budget_share=float((log.reason == BUDGET).mean()) if len(log.turn) else 0.0,
        cost_usd=_compared(log, world, world.truth.cost_usd),
        latency_ms=_compared(log, world, world.truth.latency_ms),
        true_reward=_compared(log, world, world.true_reward),
        value_lift=_value_lift(log, world),
        recovered=[
            Recovered(policy_version=version, floor=found.floor, uniform_slice=found.uniform_slice)
            for version, found in sorted(known.items())
        ],
        client=counts,
        formula_error=formula_error(log, world, known),
        cells=len(log.cells),
        evidence_rows=int((log.weight > 0).sum()),
        vectors=len(log.vectors),
    )


def _windows(series: Timeline) -> Windows:
    return read_plain(Windows, {name: np.asarray(values).tolist() for name, values in asdict(series).items()})


def _rows(log: Log, world: World) -> list[ActionRow]:
    late = log.turn >= world.late_from
    believed, vetoes = believed_rewards(log, world), veto_beliefs(log, world)
    earned, eligible = expected_rewards(world), _eligibility(log, world)
    rows = []
    for place, label in enumerate(world.labels):
        out = np.flatnonzero(~eligible[:, place])
        first = int(log.turn[out[0]]) if len(out) else None
        before = (log.action == place) & (log.turn < (world.turns if first is None else first))
        rows.append(
            ActionRow(
                label=label,
                part=world.parts[place].value,
                is_baseline=place == world.baseline,
                share=float((log.served == place).mean()),
                share_late=float((log.served[late] == place).mean()),
                believed=believed[place],
                true_reward=float(np.nanmean(earned[:, place])),
                true_score=float(world.truth.score[:, place].mean()),
                veto=vetoes[place],
                eligible_at_end=bool(eligible[-1, place]) if len(eligible) else True,
                excluded_turn=first,
                excluded_after_episodes=int(before.sum()),
                excluded_after_vetoes=sum(bool(log.vetoes[one]) for one in np.flatnonzero(before).tolist()),
            )
        )
    return rows


def _eligibility(log: Log, world: World) -> Flags:
    """Say for each decision which actions its vector held eligible: (decisions, actions)."""
    everything = np.ones(len(world.action_keys), dtype=np.bool_)
    rows = [log.vectors[version].eligible if version in log.vectors else everything for version in log.vector.tolist()]
    return np.array(rows, dtype=np.bool_).reshape(len(rows), len(world.action_keys))


def _veto_reasons(log: Log) -> dict[str, int]:
    named = VetoReason.DESCRIPTOR.values_by_number
    names = (named[reason].name.removeprefix("VETO_REASON_") for reasons in log.vetoes for reason in reasons)
    return dict(Counter(names).most_common())


def _compared(log: Log, world: World, table: Floats) -> Compared:
    """Average a quantity over late turns: as served, always the baseline, always the best single action."""
    turns, served = _late(log, world)
    return Compared(
        served=float(take(table, turns, served).mean()),
        baseline=float(table[turns, world.baseline].mean()),
        single=float(table[turns, best_single(world, turns)].mean()),
    )


def _value_lift(log: Log, world: World) -> Estimate:
    """Compare the true reward, cost included, of what was served with that of the best single action, late turns."""
    turns, served = _late(log, world)
    value, single = take(world.true_reward, turns, served), world.true_reward[turns, best_single(world, turns)]
    return clustered(value - single, world.truth.items[turns])


def _late(log: Log, world: World) -> tuple[Integers, Integers]:
    late = log.turn >= world.late_from
    return log.turn[late], log.served[late]


def formula_error(log: Log, world: World, known: dict[int, Exploration]) -> float:
    """Recompute every published vector from its q and the recovered φ and e (03 §4): the largest difference."""
    worst = 0.0
    for vector in log.vectors.values():
        stage = known.get(vector.policy_version)
        if vector.closed or stage is None:
            expected = np.zeros(len(vector.p))
            expected[world.baseline] = 1.0
        else:
            inside = vector.eligible
            learned = np.where(inside, vector.q, 0.0) / vector.q[inside].sum()
            spread = np.where(inside, 1.0 / inside.sum(), 0.0)
            expected = (1.0 - stage.floor) * ((1.0 - stage.uniform_slice) * learned + stage.uniform_slice * spread)
            expected[world.baseline] += stage.floor
        worst = max(worst, float(np.abs(expected - vector.p).max()))
    return worst

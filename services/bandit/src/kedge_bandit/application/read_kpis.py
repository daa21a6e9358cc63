"""Read how a policy does, in the figures that people steer by."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from kedge_bandit.application.experiment_ports import ExperimentLedger, ExperimentLedgers, PreferredPair
from kedge_bandit.application.measure_experiment import MOST_EPISODES, Draws, Rows, is_scored
from kedge_bandit.application.ports import Clock, EpisodeRecord, LoggedDecision
from kedge_bandit.application.report_status import effective_per_cell
from kedge_bandit.application.take_turns import TakeTurns, giving_way
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.experiment import ExperimentMetric, ExperimentUnit, unit_of
from kedge_bandit.domain.experiment_report import ALPHA, Measured, MetricFinding, Range, finding_of
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.kpis import ParetoPoint, Turns, advice_of, coverage, halves, pareto, regret
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.win_rate import Compared, WinRate, win_rate

USUAL_DAYS: Final = 14
MOST_DAYS: Final = 90
SIGNALS: Final = ("human", "judge", "task_success", "cost_usd", "latency_ms")
_FINDINGS: Final = (ExperimentMetric.REWARD, ExperimentMetric.LATENCY_MS, ExperimentMetric.VETO_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kpis:
    """How a policy does.

    Attributes:
        reward, latency, veto_rate: learned side against the baseline.
        people: how often people prefer what was learned; judge: how often the judge of the holdout's rubrics does.
        regret: None where too little is known.
        non_baseline_share: of the decisions.
        effective_episodes: that a live cell holds in the long run; None while there is no rate.
    """

    episodes: int
    reward: MetricFinding
    latency: MetricFinding
    veto_rate: MetricFinding
    people: WinRate
    judge: WinRate
    pareto: tuple[ParetoPoint, ...]
    regret: Range | None
    coverage: dict[str, float]
    non_baseline_share: float
    effective_episodes: float | None
    half_life_seconds: float
    advice: tuple[str, ...]


@dataclass(slots=True)
class _Window:
    """What was read of a window."""

    rows: Rows = field(default_factory=Rows)
    drawn: list[tuple[Decision, EpisodeRecord]] = field(default_factory=list)
    signals: list[dict[str, float]] = field(default_factory=list)
    decisions: int = 0
    beside: int = 0


@dataclass(frozen=True, slots=True)
class ReadKpis:
    """Read the figures of one policy."""

    ledgers: ExperimentLedgers
    clock: Clock
    turns: TakeTurns = field(default_factory=TakeTurns)

    async def __call__(self, tenant: TenantId, name: PolicyName, *, days: int = 0) -> Kpis:
        """Look so many days back, 14 by default, at the newest decisions. Raises PolicyNotFound, InvalidValue."""
        if not 0 <= days <= MOST_DAYS:
            raise InvalidValue("days", str(days), f"1 to {MOST_DAYS}; 0: {USUAL_DAYS}")
        now = self.clock.now()
        start = now - timedelta(days=days or USUAL_DAYS)
        async with self.turns.turn(tenant):
            async with self.ledgers.open(tenant) as ledger:
                policy = await ledger.policies.get(name)
                newest = await ledger.experiments.newest_from(name, start, MOST_EPISODES)
                window = await _read(ledger, policy, newest, now)
                judged = await ledger.experiments.judged(name, start, now)
                pairs = await ledger.experiments.preferences(name, start, now)
                per_cell = effective_per_cell(policy, await ledger.policies.learned(name, with_cells=False))
            return await asyncio.to_thread(_kpis, policy, window, pairs, judged, per_cell)  # decisions go on


def _kpis(
    policy: Policy,
    window: _Window,
    pairs: Sequence[PreferredPair],
    judged: Sequence[float],
    per_cell: float | None,
) -> Kpis:
    reward, latency, veto_rate = _findings(window.rows)
    turns = _turns(window.drawn)
    return Kpis(
        episodes=len(window.signals),
        reward=reward,
        latency=latency,
        veto_rate=veto_rate,
        people=win_rate(compared(pairs, policy.spec.baseline_key)),
        judge=win_rate([Compared(str(case), score) for case, score in enumerate(judged)]),
        pareto=pareto(turns),
        regret=regret(turns),
        coverage=coverage(window.signals, SIGNALS),
        non_baseline_share=window.beside / window.decisions if window.decisions else 0.0,
        effective_episodes=per_cell,
        half_life_seconds=policy.spec.half_life.total_seconds(),
        advice=advice_of(reward),
    )


def compared(pairs: Sequence[PreferredPair], baseline: str) -> list[Compared]:
    """Read preferences between the baseline and something else; a pair's unit is the session of its first answer."""
    scores = {"FIRST": 1.0, "SECOND": 0.0, "TIE": 0.5}
    found = []
    for pair in pairs:
        if (pair.first_action == baseline) is (pair.second_action == baseline):
            continue
        score = scores[pair.preference]
        learned = score if pair.second_action == baseline else 1.0 - score
        found.append(Compared(unit_of(ExperimentUnit.SESSION, pair.first_episode), learned))
    return found


async def _read(ledger: ExperimentLedger, policy: Policy, start: datetime, end: datetime) -> _Window:
    window, draws = _Window(), Draws(ledger, policy.name)
    async for logged in giving_way(ledger.decisions.export(policy.name, start=start, end=end)):
        await _take(window, draws, logged, policy)
    return window


async def _take(window: _Window, draws: Draws, logged: LoggedDecision, policy: Policy) -> None:
    decision, episode = logged.decision, logged.episode
    if decision.superseded:
        return
    window.decisions += 1
    window.beside += decision.action != policy.spec.baseline_key
    if episode is None or episode.settle_time is None:
        return
    window.signals.append(episode.signals)
    is_drawn = decision.reason is Reason.DRAWN and decision.is_randomised and decision.set_aside is None
    placed = await draws.place(decision) if is_drawn and is_scored(episode) else None
    if placed is not None:
        window.rows.add(placed, decision.episode_id, 0.0, episode)
        window.drawn.append((decision, episode))


def _findings(rows: Rows) -> tuple[MetricFinding, ...]:
    measured = Measured(
        assigned=rows.assigned(by_floor=True),
        values={metric: np.array(rows.values[metric], dtype=np.float64) for metric in _FINDINGS},
        crossed=0,
        served_share=1.0 - float(np.mean(rows.floor)) if rows.floor else 1.0,
        with_floor=False,
        checks=(),
    )
    return tuple(finding_of(measured, metric, ALPHA, is_primary=False) for metric in _FINDINGS)


def _turns(drawn: list[tuple[Decision, EpisodeRecord]]) -> Turns:
    keys, action = np.unique(np.array([one.action for one, _ in drawn], dtype=np.str_), return_inverse=True)
    bucket = np.unique(np.array([one.bucket for one, _ in drawn], dtype=np.str_), return_inverse=True)[1]
    nan = float("nan")

    def column(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array(values, dtype=np.float64)

    return Turns(
        actions=tuple(str(key) for key in keys),
        action=action.astype(np.int64),
        bucket=bucket.astype(np.int64),
        weight=1.0 / column([one.propensity for one, _ in drawn]),
        reward=column([0.0 if of.veto_reasons else nan if of.reward is None else of.reward for _, of in drawn]),
        quality=column([0.0 if of.veto_reasons else of.components.get("quality", nan) for _, of in drawn]),
        cost_usd=column([of.signals.get("cost_usd", nan) for _, of in drawn]),
        is_even=halves([one.time for one, _ in drawn]),
    )

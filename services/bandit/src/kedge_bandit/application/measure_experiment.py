"""Measure an experiment: every episode of its window, on which side its hash put it, and what it was worth."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from kedge_bandit.application.experiment_ports import ExperimentLedger
from kedge_bandit.application.ports import EpisodeRecord, LoggedDecision
from kedge_bandit.application.take_turns import MOST_READ, giving_way
from kedge_bandit.domain.cluster_lift import Assigned
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.draw import pick, uniform
from kedge_bandit.domain.eligibility import Wish, choose
from kedge_bandit.domain.experiment import (
    Experiment,
    ExperimentMetric,
    ExperimentSide,
    ExperimentUnit,
    side_of,
    unit_of,
)
from kedge_bandit.domain.experiment_report import Measured
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.published import Allocation

MOST_EPISODES: Final = 100_000
"""Of a window that are read; the first ones, so that the interval still holds at every look."""
MOST_KNOWN: Final = 20_000
KNOWN_FOR: Final = timedelta(days=14)
"""How long before the start rewards are read to take noise off."""
_AHEAD: Final = 500
_UNSCORED: Final = {"NO_SAFETY_VERDICT", "QUARANTINED", "DROPPED", "CANCELLED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where an episode's decision stands: its side, the chance it had of that, and whether it was served its side."""

    is_learned: bool
    learned_share: float
    floor: float
    is_crossed: bool = False


class Draws:
    """Tell the floor's draws from those of what was learned, with the allocations that they were drawn from."""

    def __init__(self, ledger: ExperimentLedger, policy: PolicyName) -> None:
        self._ledger, self._policy = ledger, policy
        self._allocations: dict[int, Allocation] = {}
        self._vectors: dict[tuple[int, tuple[str, ...] | None], tuple[float, ...]] = {}

    async def place(self, decision: Decision) -> Placed | None:
        """Place a randomised decision; None where it cannot be drawn again, e.g. of an arm that was retired meanwhile.

        The first φ of the baseline's interval is the floor's: so is every hash's place fixed before the turn.
        """
        allocation = await self._allocation(decision.allocation_version)
        vector = self._vector(allocation, decision)
        u = uniform(
            decision.tenant, decision.policy, decision.episode_id, decision.seed_epoch, decision.allocation_version
        )
        if decision.action not in allocation.index or pick(vector, u) != allocation.index[decision.action]:
            return None
        before = sum(vector[: allocation.baseline])
        floor = allocation.floor
        return Placed(is_learned=not before <= u < before + floor, learned_share=1.0 - floor, floor=floor)

    async def floor(self, decision: Decision) -> float:
        """Read the floor that a decision was drawn under."""
        return (await self._allocation(decision.allocation_version)).floor

    async def _allocation(self, version: int) -> Allocation:
        if version not in self._allocations:  # later decisions are mostly drawn from later ones: read some ahead
            found = await self._ledger.decisions.published(self._policy, range(version, version + _AHEAD))
            self._allocations.update((one.version, one) for one in found)
        return self._allocations[version]

    def _vector(self, allocation: Allocation, decision: Decision) -> tuple[float, ...]:
        key = allocation.version, decision.available
        if key not in self._vectors:
            wish = Wish(available=decision.available or ())
            self._vectors[key] = choose(allocation, wish, Mode.APPLY, 0.0).vector
        return self._vectors[key]


@dataclass(slots=True)
class Rows:
    """Episodes as they are read, column by column."""

    learned: list[bool] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    unit: list[str] = field(default_factory=list)
    known: list[float] = field(default_factory=list)
    values: dict[ExperimentMetric, list[float]] = field(default_factory=lambda: {m: [] for m in ExperimentMetric})
    crossed: int = 0

    def add(self, placed: Placed, unit: str, known: float, episode: EpisodeRecord) -> None:
        """Take one in."""
        self.learned.append(placed.is_learned)
        self.share.append(placed.learned_share)
        self.floor.append(placed.floor)
        self.unit.append(unit)
        self.known.append(known)
        self.crossed += placed.is_crossed
        for metric, value in values_of(episode).items():
            self.values[metric].append(value)

    def assigned(self, *, by_floor: bool) -> Assigned:
        """Give the arrays; of a floor's control w = (1 − φ)/φ."""
        learned, floor = np.array(self.learned, dtype=np.bool_), np.array(self.floor, dtype=np.float64)
        control = (1.0 - floor) / floor if by_floor else np.ones(len(floor))
        return Assigned(
            learned=learned,
            learned_share=np.array(self.share, dtype=np.float64),
            weight=np.where(learned, 1.0, control),
            unit=np.unique(np.array(self.unit, dtype=np.str_), return_inverse=True)[1].astype(np.int64),
            known=np.array(self.known, dtype=np.float64),
        )


@dataclass(frozen=True, slots=True)
class Known:
    """Mean rewards before the start, by bucket or cohort; of one that had none, of all."""

    means: Mapping[str, float]
    overall: float

    def of(self, key: str) -> float:
        """Look one up."""
        return self.means.get(key, self.overall)


def values_of(episode: EpisodeRecord) -> dict[ExperimentMetric, float]:
    """Read every metric of an episode; NaN where it has none. A veto counts 0 of what is good."""
    vetoed = bool(episode.veto_reasons)
    nan = float("nan")
    reward = episode.reward
    return {
        ExperimentMetric.REWARD: 0.0 if vetoed else nan if reward is None else reward,
        ExperimentMetric.QUALITY: 0.0 if vetoed else episode.components.get("quality", nan),
        ExperimentMetric.TASK_SUCCESS: 0.0 if vetoed else episode.signals.get("task_success", nan),
        ExperimentMetric.COST_USD: episode.signals.get("cost_usd", nan),
        ExperimentMetric.LATENCY_MS: episode.signals.get("latency_ms", nan),
        ExperimentMetric.VETO_RATE: float(vetoed),
    }


def is_scored(episode: EpisodeRecord | None) -> bool:
    """Say whether an episode counts: one that is learned from, or would be had the baseline not been asked for."""
    if episode is None or episode.weight_reason in _UNSCORED:
        return False
    if episode.weight > 0.0:
        return True
    is_verified = bool(episode.veto_reasons) or "verifiable_quality" in episode.components
    return episode.weight_reason == Reason.NO_EXPLORATION and is_verified


async def measure(
    ledger: ExperimentLedger, experiment: Experiment, end: datetime, *, most_read: int = MOST_READ
) -> Measured:
    """Read everything that an experiment is judged by.

    Args:
        end: of what is looked at, at most the experiment's.
        most_read: decisions that are read, the first ones, also where few of them count.
    """
    known = await _known(ledger, experiment)
    rows, draws, is_truncated, read = Rows(), Draws(ledger, experiment.policy), False, 0
    by_floor = experiment.unit is ExperimentUnit.EPISODE
    async for logged in giving_way(ledger.decisions.export(experiment.policy, start=experiment.start, end=end)):
        is_truncated = len(rows.unit) == MOST_EPISODES or read == most_read
        if is_truncated:
            break
        read += 1
        if logged.episode is None or not is_scored(logged.episode):
            continue
        placed = await _placed(experiment, draws, logged.decision)
        if placed is None:
            continue
        unit = unit_of(experiment.unit, logged.decision.episode_id)
        rows.add(placed, unit, known.of(_key(experiment, logged)), logged.episode)
    floors = [floor for floor, learned in zip(rows.floor, rows.learned, strict=True) if learned or by_floor]
    return Measured(
        assigned=rows.assigned(by_floor=by_floor),
        values={metric: np.array(values, dtype=np.float64) for metric, values in rows.values.items()},
        crossed=rows.crossed,
        served_share=1.0 - sum(floors) / len(floors) if floors else 1.0,
        with_floor=not by_floor,
        checks=tuple(await ledger.experiments.checks(experiment.policy, experiment.start, end)),
        is_truncated=is_truncated,
    )


async def _placed(experiment: Experiment, draws: Draws, decision: Decision) -> Placed | None:
    """Place a decision; None where it is no part of the comparison."""
    if decision.superseded or decision.set_aside is not None or decision.mode is not Mode.APPLY:
        return None
    is_drawn = decision.reason is Reason.DRAWN and decision.is_randomised
    if experiment.control_share is None:
        return await draws.place(decision) if is_drawn else None
    is_policys = is_drawn or decision.reason in (Reason.BUDGET, Reason.CAP)
    if not is_policys and decision.reason is not Reason.NO_EXPLORATION:
        return None
    unit = unit_of(experiment.unit, decision.episode_id)
    side = side_of(decision.tenant, experiment.experiment_id, unit, experiment.control_share)
    is_learned = side is ExperimentSide.LEARNED
    return Placed(
        is_learned=is_learned,
        learned_share=1.0 - experiment.control_share,
        floor=await draws.floor(decision) if is_drawn else 1.0,
        is_crossed=is_learned is not is_policys,
    )


async def _known(ledger: ExperimentLedger, experiment: Experiment) -> Known:
    """Read what rewards were before the start; that nothing of the experiment could change."""
    sums: defaultdict[str, list[float]] = defaultdict(list)
    async for logged in _before(ledger, experiment):
        if logged.episode is not None and is_scored(logged.episode):
            sums[_key(experiment, logged)].append(logged.episode.reward or 0.0)
    rewards = [reward for of_one in sums.values() for reward in of_one]
    overall = float(np.mean(rewards)) if rewards else 0.0
    return Known({key: float(np.mean(of_one)) for key, of_one in sums.items()}, overall)


async def _before(ledger: ExperimentLedger, experiment: Experiment) -> AsyncIterator[LoggedDecision]:
    read = 0
    start = experiment.start - KNOWN_FOR
    async for logged in giving_way(ledger.decisions.export(experiment.policy, start=start, end=experiment.start)):
        yield logged
        read += 1
        if read == MOST_KNOWN:
            return


def _key(experiment: Experiment, logged: LoggedDecision) -> str:
    """Name what an episode has in common with earlier ones: its cohort, else its bucket."""
    if experiment.unit is ExperimentUnit.COHORT:
        return unit_of(ExperimentUnit.COHORT, logged.decision.episode_id)
    return logged.decision.bucket

"""Note known changes: another model behind a route, another judge, or an arm that takes over from another."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.learned import Changes
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.dimension import Dimension
from kedge_bandit.domain.dossier import Chosen
from kedge_bandit.domain.known_change import CellChange, factor_of
from kedge_bandit.domain.policy import Policy
from kedge_bandit.domain.reduction import is_wanted

JUDGE = "judge"
"""Stands among the arm ids of routes, which have an @, for whoever judges."""


@dataclass(frozen=True, slots=True)
class _Heritage:
    """Rows of `source` that are worth less to `action`, or are given to it."""

    bucket: str
    action: str
    source: str


def note_changes(
    fold: PolicyFold, earlier: Policy | None, tasks: Sequence[Task], changes: Changes, *, now: datetime
) -> list[str]:
    """Write down what this pass shows for the first time. Nothing is noted while the policy stands still.

    Args:
        fold: its record takes the changes; its sums must be folded anew afterwards if there are any.
        earlier: the policy that the newest allocations were made for, where it is another version.
        tasks: episodes with their new events.
        changes: takes what has to be stored.

    Returns:
        The cause of each change.
    """
    if fold.mode.stops_time:
        return []
    causes: list[str] = []
    for bearer, version, policy_time in _new_versions(fold, tasks, changes):
        is_judge = bearer == JUDGE
        concerned = [_Heritage(b, a, a) for b, a in fold.record.cells if is_judge or bearer in a.split("|")]
        causes.append(f"the judge is {version}" if is_judge else f"route {bearer} answers as model {version}")
        _store(fold, concerned, policy_time, causes[-1], changes)
    if earlier is not None:
        for heir, source in _successions(fold.policy, earlier):
            concerned = [_Heritage(bucket, heir, source) for bucket, a in fold.record.cells if a == source]
            causes.append(f"{heir} succeeds {source}")
            _store(fold, concerned, fold.clock.at(now), causes[-1], changes)
    return causes


def _store(fold: PolicyFold, concerned: Iterable[_Heritage], policy_time: float, cause: str, changes: Changes) -> None:
    changes.evidence_sequence += 1
    made = []
    for place in sorted(concerned, key=lambda place: (place.bucket, place.action)):
        cell = fold.record.cells[place.bucket, place.source]
        factor = factor_of(cell.at(policy_time, fold.policy.spec.half_life).n)
        if factor < 1.0 or place.source != place.action:
            made.append(
                CellChange(
                    sequence=changes.evidence_sequence,
                    bucket=place.bucket,
                    action=place.action,
                    source=place.source,
                    policy_time=policy_time,
                    factor=factor,
                    cause=cause,
                )
            )
    fold.record.changes += tuple(made)
    changes.cell_changes += [(fold.policy.name, change) for change in made]


def _new_versions(fold: PolicyFold, tasks: Sequence[Task], changes: Changes) -> list[tuple[str, str, float]]:
    """Find versions seen for the first time where another was seen before: route's arm id or judge, version, time."""
    routes = {
        action.key: arm.arm_id
        for action in fold.policy.spec.actions
        for arm in action.arms
        if arm.dimension is Dimension.MODEL_ROUTE
    }
    first: dict[tuple[str, str], float] = {}
    for task in tasks:
        chosen = task.file.dossier.chosen
        if task.file.key.policy != fold.policy.name or chosen is None:
            continue
        route = routes.get(chosen.action)
        seen = [version for version in _versions(task, chosen, route) if version not in fold.record.versions]
        if seen and task.file.dossier.objection(fold.live) is None:
            at = fold.clock.at(chosen.time)
            first |= {version: min(at, first.get(version, at)) for version in seen}
    known = {bearer for bearer, _ in fold.record.versions}
    fold.record.versions |= first.keys()
    changes.versions += [(fold.policy.name, bearer, version) for bearer, version in sorted(first)]
    return [(bearer, version, at) for (bearer, version), at in sorted(first.items()) if bearer in known]


def _versions(task: Task, chosen: Chosen, route: str | None) -> Iterator[tuple[str, str]]:
    """Name the models and judges that an episode's new facts speak of; `route` is what served it."""
    if route is not None:
        for event in task.events:
            for call in event.trajectory.llm_calls if event.trajectory else ():
                yield route, call.model_id
    for arrival in task.arrivals:
        version = arrival.outcome.judge_version
        if version and is_wanted(arrival.outcome, judge_requested=chosen.judge_requested):
            yield JUDGE, version


def _successions(policy: Policy, earlier: Policy) -> list[tuple[str, str]]:
    """Pair each action of an arm that is new and succeeds another with the action that it takes over from."""
    known = {arm.arm_id for arm in earlier.spec.arms}
    heirs = {arm.arm_id: arm.succeeds for arm in policy.spec.arms if arm.succeeds and arm.arm_id not in known}
    pairs = []
    for action in policy.spec.actions:
        ids = [arm.arm_id for arm in action.arms]
        if any(arm_id in heirs for arm_id in ids):
            pairs.append((action.key, "|".join(heirs.get(arm_id, arm_id) for arm_id in ids)))
    return pairs

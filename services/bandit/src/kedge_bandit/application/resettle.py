"""Resettle: under a new reward spec, or new buckets, the last four half-lives are judged anew from raw facts.

Some episodes a pass, oldest first; until all are done the old allocations serve. Older evidence keeps its reward and
its bucket: it counts for a sixteenth at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kedge_bandit.application.fold import PolicyFold, stopped_until
from kedge_bandit.application.gather import attach_evidence
from kedge_bandit.application.hold import note
from kedge_bandit.application.learned import EpisodeFile
from kedge_bandit.application.ports import Ledger
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.context import bucket
from kedge_bandit.domain.identifiers import PolicyName

HALF_LIVES = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BECAUSE = "a new reward spec or new buckets: the last four half-lives are settled again from raw facts"


async def resettle(
    ledger: Ledger, folds: Mapping[PolicyName, PolicyFold], tasks: list[Task], *, now: datetime, limit: int
) -> bool:
    """Add the episodes to judge anew to the tasks, and give every task's episode its present bucket.

    Args:
        folds: their records keep how far it got; one that has more to do publishes nothing.
        tasks: takes the episodes.
        limit: episodes of a policy, at most.

    Returns:
        Whether more of them wait.
    """
    goes_on = False
    for fold in folds.values():
        await _begin(ledger, fold, now)
        if fold.is_resettling and not (fold.mode.stops_time or fold.is_put_off):
            goes_on |= await _go_on(ledger, fold, tasks, now=now, limit=limit)
    await _rebucket(ledger, folds, tasks)
    return goes_on


async def _begin(ledger: Ledger, fold: PolicyFold, now: datetime) -> None:
    """Find out whether the configuration has changed in a way that concerns settled episodes."""
    record, policy = fold.record.policy, fold.policy
    if record.resettle_after is not None or record.settled_version == policy.version:
        return
    fold.is_touched = True
    if record.settled_version == 0:
        record.settled_version = policy.version
        return
    old = (await ledger.policies.at_version(policy.name, record.settled_version)).spec
    if old.features != policy.spec.features:
        record.features_version = policy.version
    elif old.reward == policy.spec.reward:
        record.settled_version = policy.version
        return
    record.settled_version = policy.version
    span = HALF_LIVES * policy.spec.half_life + stopped_until(fold.clock, now)
    record.resettle_after = now - min(span, now - _EPOCH), ""


async def _go_on(ledger: Ledger, fold: PolicyFold, tasks: list[Task], *, now: datetime, limit: int) -> bool:
    record, learning = fold.record.policy, ledger.learning
    assert record.resettle_after is not None  # noqa: S101 - the caller asked whether it is resettling
    files = await learning.settled_files(fold.policy.name, after=record.resettle_after, limit=limit)
    fold.is_touched = True
    if len(files) < limit:
        record.resettle_after = None
        await note(ledger, fold, "evidence.resettled", because=_BECAUSE, reason=str(record.settled_version), now=now)
    else:
        record.resettle_after = files[-1].open_time, files[-1].key.episode_id
    taken = {task.file.key for task in tasks}
    fresh = [
        Task(file=file, trigger_time=now) for file in files if file.key not in taken and _is_recent(file, fold, now)
    ]
    await attach_evidence(learning, fresh)
    tasks += fresh
    return record.resettle_after is not None


def _is_recent(file: EpisodeFile, fold: PolicyFold, now: datetime) -> bool:
    chosen = file.dossier.chosen
    oldest = fold.clock.at(now) - HALF_LIVES * fold.policy.spec.half_life.total_seconds()
    return chosen is not None and fold.clock.at(chosen.time) > oldest


async def _rebucket(ledger: Ledger, folds: Mapping[PolicyName, PolicyFold], tasks: Sequence[Task]) -> None:
    """Give decisions made before the present features the bucket that they would fall into now."""
    concerned = []
    for task in tasks:
        fold, chosen = folds.get(task.file.key.policy), task.file.dossier.chosen
        if fold is not None and chosen is not None and chosen.policy_version < fold.record.policy.features_version:
            concerned.append((task, fold, chosen))
    if not concerned:
        return
    contexts = await ledger.learning.contexts([chosen.decision_id for _, _, chosen in concerned])
    for task, fold, chosen in concerned:
        context = contexts.get(chosen.decision_id)
        if context is not None:
            name = bucket(context, fold.policy.spec.features)
            task.file.dossier = replace(task.file.dossier, chosen=replace(chosen, bucket=name))

"""Count what was served beside the baseline, where a policy has a cap on it, while its rows pass by.

Every decision whose action is not the baseline counts, whoever chose it: a pin, `BestAction` and a missing baseline as
well as a draw. A decision that another of its episode came before does not. Of the cost, what the logged calls of such
episodes say they cost counts, when it is received.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.learning_port import DecisionRow, FoldPoint, Learning
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.identifiers import PolicyName

_MAY_LEAVE = frozenset({Reason.DRAWN, Reason.PINNED, Reason.BEST_ACTION, Reason.BASELINE_UNAVAILABLE})


def may_leave_the_baseline(rows: Iterable[DecisionRow], point: FoldPoint) -> dict[PolicyName, list[DecisionRow]]:
    """Pick the decisions that can have another action than the baseline; after a restore none a second time."""
    by_policy: defaultdict[PolicyName, list[DecisionRow]] = defaultdict(list)
    for row in rows:
        if row.chosen.reason in _MAY_LEAVE and not row.superseded and point.is_new(row.chosen.time):
            by_policy[row.key.policy].append(row)
    return by_policy


async def count_usage(
    learning: Learning,
    folds: Mapping[PolicyName, PolicyFold],
    decisions: Mapping[PolicyName, Sequence[DecisionRow]],
    tasks: Sequence[Task],
    point: FoldPoint,
) -> None:
    """Bring what counts against the caps up to date.

    A cap that is new, or a new baseline, starts from what the raw rows of the windows say.

    Args:
        decisions: as `may_leave_the_baseline` picks them.
        tasks: episodes with their new events.
    """
    for name, fold in folds.items():
        record, spec = fold.record.policy, fold.policy.spec
        before = (record.usage, record.capped_until)
        if not spec.exploration.has_caps:
            record.usage, record.capped_until = None, None
        else:
            usage, baseline = record.usage, spec.baseline_key
            if usage is None or usage.baseline != baseline:
                usage = await learning.usage(name, baseline, before=point.low, now=point.now)
            times = [row.chosen.time.timestamp() for row in decisions.get(name, ()) if row.chosen.action != baseline]
            usage = usage.plus(times, _costs(fold, tasks, point)).at(point.now.timestamp())
            until = usage.capped_until(spec.exploration)
            record.usage = usage
            record.capped_until = None if until is None else datetime.fromtimestamp(until, UTC)
        fold.is_touched |= before != (record.usage, record.capped_until)


def _costs(fold: PolicyFold, tasks: Sequence[Task], point: FoldPoint) -> Iterator[tuple[float, float]]:
    """Give when calls beside the baseline were heard of, and what they cost."""
    for task in tasks:
        chosen = task.file.dossier.chosen
        if task.file.key.policy != fold.policy.name or chosen is None:
            continue
        for event in task.events:
            served = event.served_action or chosen.action
            if event.trajectory is None or served == fold.policy.spec.baseline_key:
                continue
            usd = sum(call.cost_usd for call in event.trajectory.llm_calls if call.cost_usd is not None)
            if usd and point.is_new(event.received_time):
                yield event.received_time.timestamp(), usd

"""Release: what a person decided about quarantined evidence is carried out."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from kedge_bandit.application.fold import PolicyFold
from kedge_bandit.application.gather import attach_evidence
from kedge_bandit.application.learned import Changes
from kedge_bandit.application.learning_port import Learning
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.identifiers import PolicyName


async def release(
    learning: Learning,
    folds: Mapping[PolicyName, PolicyFold],
    tasks: list[Task],
    changes: Changes,
    *,
    now: datetime,
    limit: int,
) -> bool:
    """Add the quarantined episodes that a choice lets go to the tasks; a policy that stands still again waits.

    Args:
        tasks: takes them; one that is among them already is marked.
        changes: takes the choices that are carried out.
        limit: episodes of a policy, at most.

    Returns:
        Whether more of them wait.
    """
    goes_on = False
    by_key = {task.file.key: task for task in tasks}
    for name, fold in folds.items():
        waiting = [choice for choice in fold.record.releases if not choice.done]
        if not waiting or fold.mode.stops_time or fold.is_put_off:
            continue
        first = waiting[0]
        files = [] if first.choice == "KEEP" else list(await learning.quarantined_files(name, limit=limit))
        fresh = [Task(file=file, trigger_time=now) for file in files if file.key not in by_key]
        await attach_evidence(learning, fresh)
        tasks += fresh
        for task in [*fresh, *(by_key[file.key] for file in files if file.key in by_key)]:
            task.is_released, task.file.quarantined = True, False
            if first.choice == "DROP":
                task.file.dossier = replace(task.file.dossier, dropped=True)
        if len(files) < limit:
            changes.released.append(first.release_id)
        goes_on = goes_on or len(files) == limit or len(waiting) > 1
    return goes_on

"""Gather: new raw rows find their episodes, wherever and in whatever order they arrived."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from kedge_bandit.application.learned import Changes, EpisodeFile, EpisodeKey, OutcomeRow
from kedge_bandit.application.learning_port import FoldPoint, FreshRows, Learning
from kedge_bandit.application.settle import Task
from kedge_bandit.domain.dossier import Chosen, Dossier, Event, Rival
from kedge_bandit.domain.settlement import Arrival


@dataclass(slots=True)
class _News:
    """What is new about one episode."""

    chosen: Chosen | None = None
    rivals: list[Rival] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    served: list[str] = field(default_factory=list)

    @property
    def opens(self) -> bool:
        """Whether an episode must be kept though there was none: a lone decision waits in its own table."""
        return bool(self.rivals or self.events or self.arrivals)

    def forget_known(self, dossier: Dossier) -> None:
        """Leave out what the dossier has seen: after a restore rows are read again."""
        events = {event.key for event in dossier.events}
        outcomes = {arrival.outcome.key for arrival in dossier.arrivals}
        rivals = {rival.decision_id for rival in dossier.rivals}
        self.events = [event for event in self.events if event.key not in events]
        self.arrivals = [arrival for arrival in self.arrivals if arrival.outcome.key not in outcomes]
        self.rivals = [rival for rival in self.rivals if rival.decision_id not in rivals]
        if dossier.chosen is not None:
            self.chosen = None

    def times(self) -> Iterable[datetime]:
        """Give the times at which the news were received."""
        yield from (event.received_time for event in self.events)
        yield from (arrival.received_time for arrival in self.arrivals)
        if self.chosen is not None:
            yield self.chosen.time


async def gather(learning: Learning, point: FoldPoint, rows: FreshRows, changes: Changes, *, limit: int) -> list[Task]:
    """Bring the dossiers of all episodes with news up to date, and find those that fall due.

    Args:
        changes: takes the outcomes whose decision is still unknown, and their counts.
        limit: episodes that fall due, at most.

    Returns:
        The episodes to look at, each once.
    """
    news: defaultdict[EpisodeKey, _News] = defaultdict(_News)
    for decision in rows.decisions:
        entry = news[decision.key]
        if decision.superseded:
            entry.rivals.append(Rival(decision.chosen.decision_id, decision.chosen.action, decision.chosen.reason))
        else:
            entry.chosen = decision.chosen
    for row in rows.events:
        news[row.key].events.append(row.event)
    for key, outcome in await _matched(learning, point, rows, changes):
        news[key].arrivals.append(outcome.arrival)
        if outcome.served_action is not None:
            news[key].served.append(outcome.served_action)
    files = await learning.files(news.keys()) if news else {}
    unknown = [
        key
        for key, entry in news.items()
        if entry.opens and entry.chosen is None and (key not in files or files[key].dossier.chosen is None)
    ]
    chosen = await learning.chosen(unknown) if unknown else {}
    tasks = []
    for key, entry in news.items():
        if key in files:
            entry.forget_known(files[key].dossier)
        if entry.opens or (key in files and entry.chosen is not None):
            tasks.append(_task(key, entry, files.get(key), entry.chosen or chosen.get(key), point.now))
    due = await learning.due_files(point.now, limit=limit)
    tasks += [Task(file=file, trigger_time=file.due_time or point.now) for file in due if file.key not in news]
    await attach_evidence(learning, tasks)
    return tasks


async def attach_evidence(learning: Learning, tasks: Iterable[Task]) -> None:
    """Read the newest evidence of those that have some."""
    wanted = {task.file.evidence_sequence: task for task in tasks if task.file.evidence_sequence}
    if wanted:
        for sequence, entry in (await learning.entries(wanted.keys())).items():
            wanted[sequence].previous = entry


def _task(key: EpisodeKey, entry: _News, found: EpisodeFile | None, chosen: Chosen | None, now: datetime) -> Task:
    times = list(entry.times())
    file = found or EpisodeFile(key=key, open_time=chosen.time if chosen else min(times, default=now))
    is_matched_now = file.dossier.chosen is None and chosen is not None
    file.dossier = file.dossier.extended(
        chosen=chosen, rivals=entry.rivals, events=entry.events, arrivals=entry.arrivals, served=entry.served
    )
    events = list(file.dossier.events) if is_matched_now else entry.events
    return Task(file=file, trigger_time=max(times, default=now), events=events, arrivals=entry.arrivals)


async def _matched(
    learning: Learning, point: FoldPoint, rows: FreshRows, changes: Changes
) -> list[tuple[EpisodeKey, OutcomeRow]]:
    """Pair outcomes with their episodes; those that name a decision nobody has seen yet wait for it."""
    arrived = {decision.chosen.decision_id: decision.key for decision in rows.decisions}
    matched = [(row.key, row) for row in rows.outcomes if row.key is not None]
    loose = [row for row in rows.outcomes if row.key is None and row.decision_id is not None]
    missing = {row.decision_id for row in loose if row.decision_id is not None and row.decision_id not in arrived}
    known = {**(await learning.episodes_of(missing) if missing else {}), **arrived}
    for row in loose:
        key = None if row.decision_id is None else known.get(row.decision_id)
        if key is None:
            changes.unmatched.append(row)
        else:
            matched.append((key, row))
    if point.has_unmatched and arrived:
        for row in await learning.take_unmatched(arrived.keys()):
            if row.decision_id is not None:
                matched.append((arrived[row.decision_id], row))
                changes.unmatched_taken += 1
    return matched

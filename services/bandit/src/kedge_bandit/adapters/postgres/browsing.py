"""Look through one tenant's record: pages of decisions and episodes, one episode in full, counts over time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Double, and_, cast, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from kedge_bandit.adapters.postgres import learning_tables, tables
from kedge_bandit.adapters.postgres.decisions import EPISODE, PostgresDecisions, episode_of
from kedge_bandit.adapters.postgres.learning_rows import entry_of, file_of
from kedge_bandit.application.browse_ports import LOOKED_AT, DecisionSearch, EpisodeSearch, Page, Tally
from kedge_bandit.application.learned import EpisodeFile
from kedge_bandit.application.ports import EpisodeRecord
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.errors import EpisodeNotFound, InvalidName
from kedge_bandit.domain.evidence_log import EvidenceEntry
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName

_BETWEEN: Final = " "
"""Between time and name in the token of a page of episodes; no time has it."""


class PostgresBrowsing:
    """Reads of the open ledger."""

    def __init__(self, decisions: PostgresDecisions, connection: AsyncConnection) -> None:
        self._decisions = decisions
        self._connection = connection

    async def decisions(self, search: DecisionSearch) -> Page[Decision]:
        """Read a page of decisions, newest first. Raises InvalidName for a token that is none."""
        if search.episode_id:
            first = await self._decisions.first_of_episode(search.policy, EpisodeId(search.episode_id))
            return Page([] if first is None or not _fits(first, search) else [first])
        row = tables.decision.c
        # Decision ids are UUIDv7, so their order is that of time, and it is the primary key's.
        before = [row.decision_id < _token(search.token)] if search.token else []
        before += [row.decision_id < first_at(search.end)] if search.end is not None else []
        newest = select(tables.decision).where(*before).order_by(row.decision_id.desc()).limit(LOOKED_AT)
        seen = newest.subquery()
        wished = {"action": search.action, "bucket": search.bucket, "reason": search.reason}
        kept = [seen.c[name] == wish for name, wish in wished.items() if wish]
        wanted = select(seen.c.decision_id).where(seen.c.policy == search.policy, *kept)
        wanted = wanted.order_by(seen.c.decision_id.desc()).limit(search.size + 1)
        ids = [DecisionId(str(found)) for found in (await self._connection.execute(wanted)).scalars()]
        last = select(seen.c.decision_id).order_by(seen.c.decision_id.desc()).offset(LOOKED_AT - 1)
        token = ids[search.size - 1] if len(ids) > search.size else await self._one(last)
        found = await self._decisions.find(ids[: search.size])
        return Page([found[one] for one in ids[: search.size]], str(token or ""))

    async def episodes(self, search: EpisodeSearch) -> Page[EpisodeRecord]:
        """Read a page of episodes, newest first. Raises InvalidName for a token that is none."""
        row = learning_tables.episode.c
        place = tuple_(row.open_time, row.episode_id)
        before = [place < tuple_(*map(literal, _place(search.token)))] if search.token else []
        before += [row.open_time < search.end] if search.end is not None else []
        order = (row.open_time.desc(), row.episode_id.desc())
        seen = (
            select(row.open_time, row.episode_id, row.state)
            .where(row.policy == search.policy, *before)
            .order_by(*order)
            .limit(LOOKED_AT)
            .subquery()
        )
        newest = (seen.c.open_time.desc(), seen.c.episode_id.desc())
        wanted = select(seen.c.open_time, seen.c.episode_id).order_by(*newest)
        kept = wanted.where(seen.c.state == search.state) if search.state else wanted
        found = (await self._connection.execute(kept.limit(search.size + 1))).all()
        more = found[search.size - 1] if len(found) > search.size else None
        if more is None:
            more = (await self._connection.execute(wanted.offset(LOOKED_AT - 1))).one_or_none()
        keys = [(one.open_time, one.episode_id) for one in found[: search.size]]
        records = EPISODE.where(row.policy == search.policy, place.in_(keys)).order_by(*order) if keys else None
        page = [] if records is None else [episode_of(one) for one in await self._connection.execute(records)]
        return Page(page, "" if more is None else f"{more.open_time.isoformat()}{_BETWEEN}{more.episode_id}")

    async def file(self, policy: PolicyName, episode_id: EpisodeId) -> EpisodeFile:
        """Read everything that was said about an episode. Raises EpisodeNotFound."""
        row = learning_tables.episode.c
        wanted = select(learning_tables.episode).where(row.policy == policy, row.episode_id == episode_id)
        found = (await self._connection.execute(wanted)).one_or_none()
        if found is None:
            raise EpisodeNotFound(f"episode {episode_id[:80]!r} was not logged for this policy, or is not folded yet")
        return file_of(found)

    async def verdicts(self, policy: PolicyName, episode_id: EpisodeId) -> Sequence[EvidenceEntry]:
        """Read every verdict of an episode, the first one first."""
        row = learning_tables.evidence.c
        wanted = (
            select(learning_tables.evidence)
            .where(row.policy == policy, row.episode_id == episode_id)
            .order_by(row.evidence_sequence)
        )
        return [entry_of(found) for found in await self._connection.execute(wanted)]

    async def tallies(self, policy: PolicyName, start: datetime, end: datetime, width: timedelta) -> Sequence[Tally]:
        """Count what was decided from `start` until `end`, in intervals, the oldest first."""
        decided = await self._decided(policy, start, end, width)
        judged = await self._judged(policy, start, end, width)
        nothing = (0, 0.0, 0.0, 0, 0, 0.0, 0, 0.0)
        names = ("episodes", "reward_sum", "reward_square_sum", "vetoes", "costed", "cost_usd", "timed", "latency_ms")
        return [
            Tally(
                start=start + width * place,
                action=action,
                decisions=decided.get((place, action), 0),
                **dict(zip(names, judged.get((place, action), nothing), strict=True)),
            )
            for place, action in sorted({*decided, *judged})
        ]

    async def changes(self, policy: PolicyName, start: datetime, end: datetime) -> Sequence[tuple[datetime, str]]:
        """Read when older evidence came to be worth less, and why, the oldest first."""
        row = learning_tables.known_change.c
        time = func.min(row.change_time)
        wanted = (
            select(time.label("time"), row.cause)
            .where(row.policy == policy, row.change_time >= start, row.change_time < end)
            .group_by(row.evidence_sequence, row.cause)
            .order_by(time)
        )
        return [(one.time, one.cause) for one in await self._connection.execute(wanted)]

    async def _decided(
        self, policy: PolicyName, start: datetime, end: datetime, width: timedelta
    ) -> dict[tuple[int, str], int]:
        row = tables.decision.c
        place = _interval(row.decision_time, start, width)
        wanted = (
            select(place.label("place"), row.action, func.count().label("size"))
            .where(row.policy == policy, row.decision_time >= start, row.decision_time < end, ~row.superseded)
            .group_by("place", row.action)
        )
        return {(int(one.place), one.action): one.size for one in await self._connection.execute(wanted)}

    async def _judged(
        self, policy: PolicyName, start: datetime, end: datetime, width: timedelta
    ) -> dict[tuple[int, str], tuple[Any, ...]]:
        """Add up the newest evidence of each episode."""
        row, episode = learning_tables.evidence.c, learning_tables.episode.c
        newest = and_(
            episode.policy == row.policy,
            episode.episode_id == row.episode_id,
            episode.evidence_sequence == row.evidence_sequence,
        )
        cost, latency = (cast(row.verdict["signals"][name].astext, Double) for name in ("cost_usd", "latency_ms"))
        place = _interval(row.decision_time, start, width)
        wanted = (
            select(
                place.label("place"),
                row.action,
                func.count(),
                func.coalesce(func.sum(row.reward), 0.0),
                func.coalesce(func.sum(row.reward * row.reward), 0.0),
                func.count().filter(row.vetoed),
                func.count(cost),
                func.coalesce(func.sum(cost), 0.0),
                func.count(latency),
                func.coalesce(func.sum(latency), 0.0),
            )
            .select_from(learning_tables.evidence.join(learning_tables.episode, newest))
            .where(row.policy == policy, row.decision_time >= start, row.decision_time < end, row.weight > 0)
            .group_by("place", row.action)
        )
        return {(int(one[0]), one[1]): tuple(one[2:]) for one in await self._connection.execute(wanted)}

    async def _one(self, wanted: Any) -> Any:
        return (await self._connection.execute(wanted.limit(1))).scalar_one_or_none()


def _interval(time: Any, start: datetime, width: timedelta) -> Any:
    """Number the interval that a time lies in, from 0."""
    return func.floor(func.extract("epoch", time - cast(literal(start), time.type)) / width.total_seconds())


def first_at(moment: datetime) -> DecisionId:
    """Give the id that no decision at a moment or later comes before: a UUIDv7 begins with its milliseconds."""
    milliseconds = max(0, int(moment.timestamp() * 1000))  # before 1970 nothing was decided
    return DecisionId(str(UUID(int=(milliseconds << 80) | (7 << 76) | (1 << 63))))


def _fits(decision: Decision, search: DecisionSearch) -> bool:
    return (
        search.action in ("", decision.action)
        and search.bucket in ("", decision.bucket)
        and search.reason in (None, decision.reason)
        and (search.end is None or decision.time < search.end)
    )


def _token(text: str) -> DecisionId:
    try:
        return DecisionId(str(UUID(text)))
    except ValueError as error:
        raise InvalidName("page_token", text[:80], "the next_page_token of an earlier page") from error


def _place(token: str) -> tuple[datetime, str]:
    time, _, episode_id = token.partition(_BETWEEN)
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as error:
        raise InvalidName("page_token", token[:80], "the next_page_token of an earlier page") from error
    if moment.tzinfo is None:
        raise InvalidName("page_token", token[:80], "the next_page_token of an earlier page")
    return moment, episode_id

"""Record: raw facts are checked, written once in a group commit, acknowledged after it. Nothing is computed here."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kedge_bandit.application.ports import Clock, EpisodeEvent, OutcomeEvent, RowWriter, Snapshot, TokenSigner
from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.episode import Trajectory
from kedge_bandit.domain.errors import (
    BatchTooLarge,
    IdempotencyConflict,
    InvalidName,
    InvalidToken,
    InvalidValue,
    KedgeError,
)
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId, made_at, text_id
from kedge_bandit.domain.outcome import Outcome, check_observed_time
from kedge_bandit.domain.settlement import EXPIRY

MAX_OUTCOMES = 500
MAX_ACTION_KEY_CHARACTERS = 256
RECORDED, DUPLICATE, CONFLICT, LATE, REJECTED = "RECORDED", "DUPLICATE", "CONFLICT", "LATE", "REJECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeReport:
    """Something a caller says about an episode as a whole.

    Attributes:
        kind: LOG, ACTIVATE, CANCEL or SETTLE.
        token: the episode's decision token; empty where the caller has none.
        policy, episode_id: may be left out where the token says them.
        end_user: hash of whom the episode served.
    """

    tenant: TenantId
    kind: str
    request_id: str
    source: str
    policy: PolicyName | None = None
    episode_id: EpisodeId | None = None
    decision_id: DecisionId | None = None
    token: bytes = b""
    served_action: str = ""
    trajectory: Trajectory | None = None
    end_user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """One outcome and what the caller says it is about: a token, a decision or an episode."""

    outcome: Outcome
    token: bytes = b""
    decision_id: DecisionId | None = None
    policy: PolicyName | None = None
    episode_id: EpisodeId | None = None
    served_action: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of one outcome; `error` says why it was rejected or conflicts."""

    status: str
    error: KedgeError | None = None


_WRITTEN = {status: Recorded(status) for status in (RECORDED, DUPLICATE)}


@dataclass(frozen=True, slots=True)
class RecordEpisode:
    """Write what was said about an episode."""

    snapshot: Snapshot
    rows: RowWriter
    tokens: TokenSigner

    async def __call__(self, report: EpisodeReport) -> str:
        """Record once.

        Returns:
            RECORDED, DUPLICATE or CONFLICT, after the commit.

        Raises:
            KedgeError: the report is wrong (bad id, forged token, unknown policy), or the write was pushed back.
        """
        text_id(report.request_id, field="request_id")
        decision = self.tokens.read(report.token, tenant=report.tenant) if report.token else None
        policy, episode_id = report.policy, report.episode_id
        if decision is not None:
            _check_same(decision, policy, episode_id, report.decision_id)
            policy, episode_id = decision.policy, decision.episode_id
        if policy is None or episode_id is None:
            raise InvalidToken("say which episode: send the decision_token that Decide answered")
        text_id(episode_id, field="episode_id")
        self.snapshot.serving(report.tenant, policy)
        return await self.rows.episode_event(
            report.tenant,
            EpisodeEvent(
                key=report.request_id,
                kind=report.kind,
                policy=policy,
                episode_id=episode_id,
                source=report.source,
                decision_id=decision.decision_id if decision is not None else report.decision_id,
                served_action=_served(report.served_action),
                trajectory=report.trajectory,
                end_user=report.end_user,
                decision=decision,
            ),
        )


@dataclass(frozen=True, slots=True)
class RecordOutcomes:
    """Write a batch of outcomes; a bad one is answered by itself and holds nothing up."""

    snapshot: Snapshot
    rows: RowWriter
    tokens: TokenSigner
    clock: Clock

    async def __call__(self, tenant: TenantId, reports: Sequence[OutcomeReport | KedgeError]) -> list[Recorded]:
        """Record each once.

        Args:
            tenant: whose outcomes.
            reports: outcomes in order; one that could not even be read comes as its error.

        Raises:
            BatchTooLarge: none or more than 500.
            QueueFull, StoreUnavailable: nothing of the batch was recorded; send it again.
        """
        if not 1 <= len(reports) <= MAX_OUTCOMES:
            raise BatchTooLarge(f"{len(reports)} outcomes: send 1 to {MAX_OUTCOMES} in a batch")
        now = self.clock.now()
        answers: list[Recorded | None] = []
        events: list[OutcomeEvent] = []
        for report in reports:
            try:
                event = self._event(tenant, report, now)
            except KedgeError as error:
                answers.append(Recorded(REJECTED, error))
            else:
                answers.append(None)
                events.append(event)
        statuses = await self.rows.outcomes(tenant, events) if events else ()
        written = iter([_recorded(event, status, now) for event, status in zip(events, statuses, strict=True)])
        return [next(written) if answer is None else answer for answer in answers]

    def _event(self, tenant: TenantId, report: OutcomeReport | KedgeError, now: datetime) -> OutcomeEvent:
        if isinstance(report, KedgeError):
            raise report
        decision = self.tokens.read(report.token, tenant=tenant) if report.token else None
        policy, episode_id = report.policy, report.episode_id
        if decision is not None:
            policy, episode_id = decision.policy, decision.episode_id
            check_observed_time(report.outcome, decision_time=decision.time, now=now)
        elif report.decision_id is not None:
            check_observed_time(report.outcome, decision_time=made_at(report.decision_id), now=now)
        else:
            if policy is None or episode_id is None:
                raise InvalidToken("say what the outcome is about: a decision_token, a decision or an episode")
            text_id(episode_id, field="episode_id")
            check_observed_time(report.outcome, decision_time=report.outcome.observed_time, now=now)
        if policy is not None:
            self.snapshot.serving(tenant, policy)
        return OutcomeEvent(
            outcome=report.outcome,
            policy=policy,
            episode_id=episode_id,
            decision_id=decision.decision_id if decision is not None else report.decision_id,
            served_action=_served(report.served_action),
            decision=decision,
        )


def _served(action_key: str) -> str | None:
    """Bound an action key that is stored as it comes; the worker finds out whether the policy has it."""
    if len(action_key) > MAX_ACTION_KEY_CHARACTERS or "\0" in action_key:
        raise InvalidName(
            "served_action_key", action_key[:40], f"at most {MAX_ACTION_KEY_CHARACTERS} characters, none of them zero"
        )
    return action_key or None


def _recorded(event: OutcomeEvent, status: str, now: datetime) -> Recorded:
    if status == RECORDED and event.decision is not None and now - event.decision.time > EXPIRY:
        return Recorded(LATE)
    if status == CONFLICT:
        return Recorded(CONFLICT, IdempotencyConflict(event.outcome.key))
    if status == REJECTED:
        return Recorded(REJECTED, InvalidValue("the outcome", "not storable", "text without zero characters"))
    return _WRITTEN[status]


def rater_hash(tenant: TenantId, rater_id: str) -> str:
    """Hash a rater or an end user, salted with the tenant: one counts once, and nobody can be looked up elsewhere."""
    return hashlib.sha256(b"kedge.rater.v1\0" + tenant.encode() + b"\0" + rater_id.encode()).hexdigest()[:32]


def _check_same(
    decision: Decision, policy: PolicyName | None, episode_id: EpisodeId | None, decision_id: DecisionId | None
) -> None:
    for name, said, signed in (
        ("policy", policy, decision.policy),
        ("episode_id", episode_id, decision.episode_id),
        ("decision", decision_id, decision.decision_id),
    ):
        if said is not None and said != signed:
            raise InvalidToken(f"the decision token is of another {name}: send the token of this episode's decision")

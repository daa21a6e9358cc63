"""Worlds in which somebody lies or repeats, and a process that dies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from math import inf, nan

import numpy as np

from kedge_bandit.adapters.tokens import HmacTokens
from kedge_bandit.application.learned import LearnedRecord
from kedge_bandit.application.rebuild import largest_error
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.errors import InvalidToken, KedgeError, OutcomeInvalid, OutcomeTimeOutOfRange
from kedge_bandit.domain.evidence_log import EvidenceEntry, EvidenceLog
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.outcome import Outcome, SignalKind, check_observed_time
from kedge_bandit.domain.policy import Settlement
from kedge_bandit.entrypoints.scenarios.marks import REGRET, WHOLE_REGRET, Figures, Mark, Scenario
from kedge_bandit.entrypoints.scenarios.play import Played, ServicePlayer, play
from kedge_bandit.entrypoints.scenarios.served import TENANT, Served, spec_of
from kedge_bandit.entrypoints.scenarios.stream import Stream, drawn, late_turns, steady, time_of

TURNS = 10_000
FLATTERER = 2
FLATTERED = 0.95
RETRIED_TURNS = 2_000
TIMES = 3
ALTERED = 64
"""Bytes of a token that are changed, each by itself."""
RESTART_TURN = 5_000
AFTER = 1_000


def poisoned_world(seed: int) -> Stream:
    """Draw three arms; the judge scores every turn, the verifier half; one arm is bad and always pleases the judge."""
    stream, rng = drawn(seed, "poisoned", steady(TURNS, (0.5, 0.8, 0.6)))
    judge = np.where(stream.success, 0.8, 0.6) + rng.uniform(-0.05, 0.05, stream.means.shape)
    judge[:, FLATTERER] = FLATTERED
    is_verified = rng.random((TURNS, 1)) < 0.5
    return replace(stream, judge=judge, delay=np.where(is_verified, stream.delay, -1))


def restart_world(seed: int) -> Stream:
    """Draw five arms; people react after up to a day, so that much is under way when the process dies."""
    stream, rng = drawn(seed, "restart", steady(RESTART_TURN + AFTER, (0.5, 0.55, 0.6, 0.65, 0.7)))
    return replace(stream, kind=SignalKind.HUMAN, delay=stream.delay + rng.integers(0, 1441, (stream.turns, 1)))


def _poisoned(seed: int) -> Figures:
    stream, name = poisoned_world(seed), f"poisoned-{seed}"
    specs = {3: spec_of(3, settlement=Settlement(judge_rate=1.0))}
    assert stream.judge is not None  # noqa: S101 - it was drawn above
    honest = stream.judge.copy()
    honest[:, FLATTERER] = np.where(stream.success[:, FLATTERER], 0.8, 0.6)
    played = play(stream, ServicePlayer(name, specs))
    unflattered = play(replace(stream, judge=honest), ServicePlayer(name, specs))
    tried, refused = forgeries(seed)
    return {
        "flatterer": _late(played, FLATTERER),
        "flatterer, judged honestly": _late(unflattered, FLATTERER),
        "late share": played.late_share,
        "regret": played.regret,
        "whole regret": played.whole_regret,
        "refused": refused / tried,
        **_retried(_first(stream, RETRIED_TURNS), name),
    }


def _retried(stream: Stream, name: str) -> Figures:
    """Send every message once, and three times; compare what is believed and what was chosen."""
    specs = {3: spec_of(3, settlement=Settlement(judge_rate=1.0))}
    once, thrice = (ServicePlayer(name, specs, times=times) for times in (1, TIMES))
    played, again = play(stream, once), play(stream, thrice)
    cells, others = once.served.fold.record.cells, thrice.served.fold.record.cells
    apart = [abs(a - b) for key in cells for a, b in zip(cells[key], others[key], strict=True)]
    return {"retries": max(apart), "retries, other actions": float((played.chosen != again.chosen).sum())}


def forgeries(seed: int) -> tuple[int, int]:
    """Try to be believed by forged tokens and impossible outcomes; gives how many were tried, and how many refused."""
    tries = [*_forged_tokens(np.random.default_rng([seed, *b"forged"])), *_impossible_outcomes()]
    return len(tries), sum(_is_refused(each) for each in tries)


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (InvalidToken, OutcomeInvalid, OutcomeTimeOutOfRange):
        return True
    return False


def _forged_tokens(rng: np.random.Generator) -> Iterator[Callable[[], object]]:
    """Alter, cut, and sign anew a token of a real decision, and show it to another tenant."""
    tokens, foreign = HmacTokens({1: rng.bytes(32)}), HmacTokens({1: rng.bytes(32)})
    decision = Decision(
        decision_id=DecisionId("d"), tenant=TENANT, policy=PolicyName("p"), episode_id=EpisodeId("e"), request_id="r",
        time=time_of(0), context=None, bucket="", available=None, action="a0", propensity=0.5, policy_version=1,
        allocation_version=1, seed_epoch=0, mode=Mode.APPLY, reason=Reason.DRAWN, is_randomised=True,
        judge_requested=False, judge_rate=0.0,
    )  # fmt: skip
    token = tokens.sign(decision)
    if tokens.read(token, tenant=TENANT).propensity != decision.propensity:
        raise KedgeError("a good token must be read, or refusing all others would say nothing")
    wrong = [foreign.sign(decision), foreign.sign(replace(decision, propensity=1.0)), b"", rng.bytes(len(token))]
    wrong += [token[:size] for size in rng.integers(1, len(token), 8).tolist()]
    for place in rng.permutation(len(token))[:ALTERED].tolist():
        wrong.append(token[:place] + bytes([token[place] ^ 1]) + token[place + 1 :])
    yield from (partial(tokens.read, each, tenant=TENANT) for each in wrong)
    yield partial(tokens.read, token, tenant=TenantId("somebody-else"))


def _impossible_outcomes() -> Iterator[Callable[[], object]]:
    """Send values that nothing can have, and times at which nothing can have been seen."""
    for value in (nan, inf, -inf, 1.5, -0.5, 1e308):
        yield partial(_seen, value, timedelta())
    for when in (timedelta(minutes=-1), timedelta(minutes=10), timedelta(days=400)):
        yield partial(_seen, 1.0, when)


def _seen(value: float, when: timedelta) -> None:
    """Take an outcome of a decision of turn 0, at turn 1, as the service does."""
    outcome = Outcome(key="k", signal=SignalKind.TASK_SUCCESS, source="x", observed_time=time_of(0) + when, value=value)
    check_observed_time(outcome, decision_time=time_of(0), now=time_of(1))


def _late(played: Played, arm: int) -> float:
    turns = list(late_turns(played.stream.turns))
    return played.share_of(arm, range(turns[0], turns[-1] + 1))


def _first(stream: Stream, turns: int) -> Stream:
    judge = None if stream.judge is None else stream.judge[:turns]
    return replace(
        stream, means=stream.means[:turns], success=stream.success[:turns], delay=stream.delay[:turns], judge=judge
    )


class _Dying(ServicePlayer):
    """Dies at a turn, and goes on with what was stored: the log, the vectors, the dossiers, never the sums."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"restart-{seed}", {5: spec_of(5)})
        self.error = nan

    def decide(self, turn: int, arms: int) -> tuple[int, Sequence[float]]:
        if turn == RESTART_TURN:
            log = log_of(self.served.log)
            self.error = largest_error(self.served.policy, self.served.fold.record, log)
            self.served = _restarted(self.served, log, as_of=time_of(turn).timestamp())
        return super().decide(turn, arms)


def _restart(seed: int) -> Figures:
    stream, dying = restart_world(seed), _Dying(seed)
    steady_on = play(stream, ServicePlayer(f"restart-{seed}", {5: spec_of(5)}))
    died = play(stream, dying)
    other = died.chosen[RESTART_TURN:] != steady_on.chosen[RESTART_TURN:]
    return {"error": dying.error, "other actions": float(other.sum())}


def _restarted(before: Served, log: EvidenceLog, *, as_of: float) -> Served:
    kept = before.fold.record
    record = LearnedRecord(
        buckets={name: replace(bucket) for name, bucket in kept.buckets.items()}, policy=replace(kept.policy)
    )
    after = replace(
        before,
        fold=replace(before.fold, record=record),
        files={episode: replace(file) for episode, file in before.files.items()},
        newest=dict(before.newest),
        log=list(before.log),
    )
    after.fold.refold(log, as_of=as_of)
    return after


def log_of(entries: Sequence[EvidenceEntry]) -> EvidenceLog:
    """Put evidence into columns, as a process does that starts."""
    cells = tuple(dict.fromkeys((entry.bucket, entry.action) for entry in entries))
    episodes = {episode: i for i, episode in enumerate(dict.fromkeys(entry.episode_id for entry in entries))}
    return EvidenceLog(
        cells=cells,
        sequence=np.array([entry.sequence for entry in entries]),
        cell=np.array([cells.index((entry.bucket, entry.action)) for entry in entries]),
        episode=np.array([episodes[entry.episode_id] for entry in entries]),
        policy_version=np.array([entry.policy_version for entry in entries]),
        policy_time=np.array([entry.policy_time for entry in entries]),
        weight=np.array([entry.weight for entry in entries]),
        reward=np.array([entry.reward or 0.0 for entry in entries]),
        vetoed=np.array([entry.vetoed for entry in entries]),
        veto_weight=np.array([entry.veto_weight for entry in entries]),
    )


HOSTILE = (
    Scenario(
        name="poisoned",
        about="an arm worse by .2 always pleases the judge, messages come three times, tokens are forged",
        world=poisoned_world,
        measure=_poisoned,
        marks=(
            Mark(name="late share of the flatterer", of="flatterer", at_most=0.05),
            Mark(name="the same arm, judged honestly", of="flatterer, judged honestly"),
            Mark(name="difference that retries make", of="retries", at_most=1e-12, worst=True),
            Mark(name="other actions because of retries", of="retries, other actions", at_most=0.0, worst=True),
            Mark(name="forged and impossible: refused", of="refused", at_least=1.0, worst=True),
            Mark(name="late share of the best", of="late share"),
            REGRET,
            WHOLE_REGRET,
        ),
    ),
    Scenario(
        name="restart",
        about="a process dies with much under way; another folds the log and goes on",
        world=restart_world,
        measure=_restart,
        marks=(
            Mark(name="largest difference of a sum, over max(1, N)", of="error", at_most=1e-9, worst=True),
            Mark(name=f"other actions in the next {AFTER:,} turns", of="other actions", at_most=0.0, worst=True),
        ),
        peers=False,
    ),
)

"""Answer cases for candidate and incumbent in the same run, judge what a rubric asks for, and score all of it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kedge_bandit.application.answer_ports import AnswerFailed, FetchAnswer, Judge
from kedge_bandit.application.holdout_ports import Answer, KeptAnswer
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.holdout import HoldoutCase, RubricCheck
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.verdict import Pair, Scored

CANDIDATE: Final = "CANDIDATE"
INCUMBENT: Final = "INCUMBENT"
MAX_RUN_BYTES: Final = 64 * 1024 * 1024
"""Of all answers of one run, which are held until its end."""
MAX_MODEL_CHARACTERS: Final = 200


@dataclass(slots=True, kw_only=True)
class Run:
    """One run over a part's cases.

    Attributes:
        incumbent, candidate: arms that answer; a candidate's may be others for every case.
        fetch, judge: who answers and who judges; None: there is no judge.
        score: scores an answer by its case's own check.
        parallel: cases that are answered at once; each asks both sides.
        failed: that a case could not be answered or judged; the others are then left alone, since nothing can be
            concluded any more.
    """

    tenant: TenantId
    policy: PolicyName
    incumbent: Sequence[Arm]
    candidate: Callable[[HoldoutCase], Sequence[Arm]]
    fetch: FetchAnswer
    judge: Judge | None
    score: Callable[[HoldoutCase, str], float]
    parallel: int
    done: int = 0
    failed: str = ""
    kept_bytes: int = 0
    kept: list[KeptAnswer] = field(default_factory=list)

    async def __call__(self, cases: Sequence[HoldoutCase]) -> list[Pair]:
        """Answer all of them; pairs are in the order of the cases."""
        room = asyncio.Semaphore(self.parallel)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._pair(case, room)) for case in cases]
        return [task.result() for task in asked]

    async def _pair(self, case: HoldoutCase, room: asyncio.Semaphore) -> Pair:
        async with room:
            if self.failed:
                return unanswered(case)
            try:
                candidate, incumbent = await self._both(case)
                scores = await self._scores(case, candidate, incumbent)
                self._take(candidate, incumbent)
            except AnswerFailed as error:
                self._fail(error)
                return unanswered(case)
            except Exception as error:  # noqa: BLE001 - an answer is from outside: whatever it breaks, the query ends now
                self._fail(AnswerFailed(f"an answer could not be used ({type(error).__name__})"))
                return unanswered(case)
        self.done += 1
        for side, answer, score in ((CANDIDATE, candidate, scores[0]), (INCUMBENT, incumbent, scores[1])):
            self.kept.append(KeptAnswer(case_hash=case.case_hash, side=side, answer=answer, score=score))
        return Pair(
            candidate=_scored(candidate, scores[0]),
            incumbent=_scored(incumbent, scores[1]),
            slice=case.slice,
            adversarial=case.adversarial,
        )

    def _take(self, *answers: Answer) -> None:
        """Count what is kept of a run. Raises AnswerFailed for what is too much of it."""
        self.kept_bytes += sum(len(answer.output.encode()) for answer in answers)
        if self.kept_bytes > MAX_RUN_BYTES:
            raise AnswerFailed(f"the answers of one run are over {MAX_RUN_BYTES} bytes")

    def _fail(self, error: AnswerFailed) -> None:
        """Keep what failed first."""
        if not self.failed:
            self.failed = str(error)

    async def _both(self, case: HoldoutCase) -> tuple[Answer, Answer]:
        candidate, incumbent = await asyncio.gather(
            self.fetch(self.tenant, self.policy, case, self.candidate(case)),
            self.fetch(self.tenant, self.policy, case, self.incumbent),
            return_exceptions=True,
        )
        if isinstance(candidate, BaseException):
            raise candidate
        if isinstance(incumbent, BaseException):
            raise incumbent
        for answer in (candidate, incumbent):
            _check(answer)
        return candidate, incumbent

    async def _scores(self, case: HoldoutCase, candidate: Answer, incumbent: Answer) -> tuple[float, float]:
        if candidate.score is not None and incumbent.score is not None:
            return candidate.score, incumbent.score
        if not isinstance(case.check, RubricCheck):
            return self.score(case, candidate.output), self.score(case, incumbent.output)
        if self.judge is None:
            raise AnswerFailed("a rubric needs a judge: put one with `kedge holdout answerer`")
        return await self.judge(case.check, case.text, candidate.output, incumbent.output)


def unanswered(case: HoldoutCase) -> Pair:
    """Say that a case was not answered, or not judged."""
    return Pair(candidate=None, incumbent=None, slice=case.slice, adversarial=case.adversarial, failed=True)


def _check(answer: Answer) -> None:
    """Refuse what cannot be kept. Raises AnswerFailed."""
    try:
        (answer.output + answer.model_id).encode()
    except UnicodeEncodeError as error:
        raise AnswerFailed("an answer has half a character (a lone surrogate)") from error
    if "\0" in answer.output + answer.model_id or len(answer.model_id) > MAX_MODEL_CHARACTERS:
        raise AnswerFailed(f"an answer has a NUL, or a model's name of over {MAX_MODEL_CHARACTERS} characters")


def _scored(answer: Answer, score: float) -> Scored:
    return Scored(score=score, vetoed=answer.vetoed, cost_usd=answer.cost_usd, latency_ms=answer.latency_ms)

"""Ask a program beside the gate: a case as a line of JSON in, an answer as a line of JSON out, in any order."""

import asyncio
import hashlib
import hmac
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kedge_bandit.application.answer_ports import AnswerFailed
from kedge_bandit.application.holdout_ports import Answer, AnswererSettings
from kedge_bandit.domain.dimension import Arm
from kedge_bandit.domain.holdout import EpisodeCheck, HoldoutCase
from kedge_bandit.domain.identifiers import PolicyName, TenantId

_MAX_LINE: Final = 2 * 1024 * 1024
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
"""All that the program is told of where it runs: no address and no secret of this process."""
_STOP_SECONDS: Final = 5.0


@dataclass(slots=True)
class ScriptAnswers:
    """A running program. `secret` seeds the episodes of environments."""

    process: asyncio.subprocess.Process
    settings: AnswererSettings
    secret: bytes
    _waiting: dict[int, "asyncio.Future[dict[str, Any]]"] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def __call__(self, tenant: TenantId, policy: PolicyName, case: HoldoutCase, arms: Sequence[Arm]) -> Answer:
        """Answer one case. Raises AnswerFailed."""
        number = next(self._numbers)
        asked: dict[str, object] = {
            "id": number,
            "policy": f"tenants/{tenant}/policies/{policy}",
            "case_id": case.name,
            "messages": [{"role": message.role, "text": message.text} for message in case.messages],
            "context": {"categories": dict(case.categories), "numbers": dict(case.numbers)},
            "arms": [{"dimension": arm.dimension, "name": arm.name, "content": arm.content} for arm in arms],
            "evaluation": True,
        }
        if isinstance(case.check, EpisodeCheck):
            seed = episode_seed(self.secret, case.check)
            asked |= {"environment": case.check.environment, "seed": seed}
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                await self._say(asked)
                found = await future
        except TimeoutError as error:
            raise AnswerFailed(f"the program {self.settings.address} gave no answer in time") from error
        finally:
            self._waiting.pop(number, None)
        return self._answer(found, (time.monotonic() - began) * 1000)

    async def listen(self) -> None:
        """Hand answers to who waits for them, until the program ends."""
        if self.process.stdout is None:
            return
        try:
            while line := await self.process.stdout.readline():
                found = json.loads(line)
                future = self._waiting.get(found.get("id"))
                if future is not None and not future.done():
                    future.set_result(found)
        except (ValueError, AttributeError, TypeError, RecursionError):
            self._give_up("wrote a line that is no JSON object")
        else:
            self._give_up("ended")

    def _give_up(self, why: str) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(AnswerFailed(f"the program {self.settings.address} {why}"))

    async def _say(self, asked: dict[str, object]) -> None:
        if self.process.stdin is None or self.process.returncode is not None:
            raise AnswerFailed(f"the program {self.settings.address} has ended")
        try:
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            await self.process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise AnswerFailed(f"the program {self.settings.address} has ended") from error

    def _answer(self, found: dict[str, Any], latency_ms: float) -> Answer:
        try:
            answer = Answer(
                output=str(found.get("output", "")),
                cost_usd=float(found.get("cost_usd", 0.0)),
                latency_ms=float(found.get("latency_ms", latency_ms)),
                vetoed=bool(found.get("vetoed", False)),
                model_id=str(found.get("model_id", "")),
                score=None if found.get("score") is None else float(found["score"]),
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise AnswerFailed(f"the program {self.settings.address} answered what is no answer") from error
        measured = 0 <= answer.cost_usd < math.inf and 0 <= answer.latency_ms < math.inf
        if found.get("error") or not (measured and 0 <= (answer.score or 0) <= 1):
            raise AnswerFailed(f"the program {self.settings.address} could not answer a case")
        return answer


def episode_seed(secret: bytes, check: EpisodeCheck) -> int:
    """Seed an episode so that who has no secret cannot play it beforehand: 63 bits of HMAC-SHA256.

    >>> check = EpisodeCheck("relocation_env", 7)
    >>> episode_seed(b"s" * 32, check) == episode_seed(b"t" * 32, check)
    False
    """
    text = f"{check.environment}/{check.number}".encode()
    return int.from_bytes(hmac.new(secret, text, hashlib.sha256).digest()[:8]) >> 1


@asynccontextmanager
async def running(settings: AnswererSettings, folder: Path, secret: bytes) -> AsyncIterator[ScriptAnswers]:
    """Start a program of the gate's folder of scripts, and end it.

    Raises:
        AnswerFailed: there is no such program in the folder.
    """
    path = folder / settings.address
    if path.parent != folder or path.name != settings.address or not path.is_file():
        raise AnswerFailed(f"there is no program {settings.address[:80]!r} in the gate's folder of scripts")
    try:
        process = await asyncio.create_subprocess_exec(
            str(path.resolve()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_ENVIRONMENT,
            limit=_MAX_LINE,
        )
    except OSError as error:
        raise AnswerFailed(f"the program {settings.address} cannot be started: {error.strerror}") from error
    answers = ScriptAnswers(process, settings, secret)
    listening = asyncio.create_task(answers.listen())
    try:
        yield answers
    finally:
        await _end(process)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the program's input, which asks it to end; one that stays is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()

"""Ask and tell the service without a pause, as core applications do, and note what each caller saw and when."""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TextIO

import grpc

from kedge.bandit.v1 import decision_pb2, outcome_pb2, policy_service_pb2, policy_service_pb2_grpc
from kedge_bandit.adapters.grpc.status import reason_of
from tests.trust.turns import RECORDED, STUBS, decide_request, log_request, outcome_request

RPCS = ("Decide", "RecordOutcomes", "LogEpisode", "GetPolicy")
EVERY_SECONDS = 0.1
TURNS = {"GetPolicy": 5}
"""An RPC that is called at one in so many turns; the others at each."""
DEADLINE_SECONDS = 2.0
DECIDE_SECONDS = 10.0
"""Deadline of a Decide. It waits for nothing, so only a machine that stands still makes it late."""
REPEAT_SECONDS = 60.0
SETTLED_SECONDS = 1.0
"""Without one other answer for so long, all is as ever."""
MAY_BE_REPEATED = frozenset({"STORE_UNAVAILABLE", "QUEUE_FULL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})
AS_EVER = frozenset({"DRAWN", "OK"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call saw: from when to when, and the reason in one word."""

    rpc: str
    began: float
    ended: float
    said: str


@dataclass(slots=True, kw_only=True)
class Probes:
    """Call the RPCs without a pause, however long the others take; writes that fail are sent again in the end.

    Attributes:
        acknowledged: gets a line for each acknowledgement, before anything else is done with it.
        names: prefix of the ids of this tenant's episodes.
    """

    channel: grpc.aio.Channel
    key: str
    tenant: str
    acknowledged: TextIO
    names: str = "e"
    answers: list[Answer] = field(default_factory=list)
    failed: list[tuple[str, str, Any]] = field(default_factory=list)
    _decided: deque[tuple[str, Any]] = field(default_factory=deque)
    _methods: dict[str, Any] = field(init=False)
    _calls: set[asyncio.Task[None]] = field(default_factory=set)
    _count: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        """Make the stubs once."""
        stubs = STUBS | {"GetPolicy": policy_service_pb2_grpc.PolicyServiceStub}
        self._methods = {rpc: getattr(stub(self.channel), rpc) for rpc, stub in stubs.items()}

    @property
    def policy(self) -> str:
        return f"tenants/{self.tenant}/policies/support"

    async def run(self) -> None:
        """Call for ever; cancelled, it leaves what is under way to `finish`."""
        for turn in itertools.count():
            for rpc in (one for one in RPCS if turn % TURNS.get(one, 1) == 0):
                task = asyncio.create_task(self._probe(rpc))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
            await asyncio.sleep(EVERY_SECONDS)

    async def finish(self) -> None:
        """Wait for what is under way, then repeat every write that failed, under its own ids, until it is taken."""
        while self._calls:
            await asyncio.wait(set(self._calls))
        async with asyncio.timeout(REPEAT_SECONDS):
            while self.failed:
                failed, self.failed = self.failed, []
                for rpc, key, request in failed:
                    if not await self._tell(rpc, key, request):
                        await asyncio.sleep(EVERY_SECONDS)

    def since(self, moment: float, rpc: str) -> list[Answer]:
        """Give what an RPC answered to calls that ended after a moment."""
        return [answer for answer in self.answers if answer.rpc == rpc and answer.ended >= moment]

    def is_as_ever(self) -> bool:
        """Whether every RPC was answered as ever throughout the last second, and nothing older is still waited for."""
        now = monotonic()
        for rpc in RPCS:
            recent = self.since(now - SETTLED_SECONDS, rpc)
            expected = SETTLED_SECONDS / EVERY_SECONDS / TURNS.get(rpc, 1)
            if len(recent) < expected / 2 or any(a.said not in AS_EVER for a in recent):
                return False
        return True

    async def _probe(self, rpc: str) -> None:
        name = f"{self.names}-{next(self._count)}"
        if rpc == "GetPolicy":
            await self._ask(rpc, policy_service_pb2.GetPolicyRequest(name=self.policy), lambda _: "OK")
        elif rpc == "Decide":
            answer, _ = await self._ask(rpc, decide_request(self.policy, name, "math"), _reason_of_decision)
            if answer is not None:
                self._decided.append((name, answer))
        elif rpc == "RecordOutcomes" and self._decided:
            _, decided = self._decided[-1]
            await self._tell(rpc, name, outcome_request(f"tenants/{self.tenant}", name, decided, 0.5))
        elif rpc == "LogEpisode" and self._decided:
            episode, decided = self._decided.popleft()
            await self._tell(rpc, episode, log_request(self.policy, episode, decided))

    async def _tell(self, rpc: str, key: str, request: Any) -> bool:
        """Write; where that fails and may be repeated, keep it for later."""
        _, said = await self._ask(rpc, request, _recorded)
        if said == "OK":
            self.acknowledged.write(json.dumps([rpc, key]) + "\n")
            self.acknowledged.flush()
            return True
        if said in MAY_BE_REPEATED:
            self.failed.append((rpc, key, request))
        return False

    async def _ask(self, rpc: str, request: Any, word: Callable[[Any], str]) -> tuple[Any, str]:
        """Call, and note what was said; the answer is None where the call failed."""
        began, answer = monotonic(), None
        try:
            answer = await self._call(rpc, request)
            said = word(answer)
        except grpc.aio.AioRpcError as error:
            said = reason_of(error)
        self.answers.append(Answer(rpc, began, monotonic(), said))
        return answer, said

    async def _call(self, rpc: str, request: Any) -> Any:
        metadata = (("authorization", f"Bearer {self.key}"),)
        deadline = DECIDE_SECONDS if rpc == "Decide" else DEADLINE_SECONDS
        return await self._methods[rpc](request, timeout=deadline, metadata=metadata)


def _reason_of_decision(answer: Any) -> str:
    return str(decision_pb2.DecisionReason.Name(answer.reason)).removeprefix("DECISION_REASON_")


def _recorded(answer: Any) -> str:
    results = getattr(answer, "results", None)
    if not results or results[0].status in RECORDED:
        return "OK"
    return str(outcome_pb2.OutcomeStatus.Name(results[0].status)).removeprefix("OUTCOME_STATUS_")

"""Call the use case from inside the server's process: what is left of a write once the transport is taken off.

The figures that the bars of single outcomes were taken from had such callers; over gRPC the transport's own cost, which
is the same with and without group commits, is most of a call.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import orjson

from kedge_bandit.application.record import RECORDED, OutcomeReport, RecordOutcomes
from kedge_bandit.domain.identifiers import EpisodeId, PolicyName, TenantId, decision_id
from kedge_bandit.domain.outcome import Outcome, SignalKind
from tests.bench.tenants_place import tenant_of

SERVICE = "kedge.bench.Inside"


def key_of(seed: int, number: int) -> str:
    """Name an outcome; 36 characters, like a UUID."""
    return f"inside-{seed:08d}-{number * 2654435761 % 2**32:08x}-{number:010d}"


@dataclass(frozen=True, slots=True)
class Inside:
    """Run callers, each with one outcome at a time, over the group writer or over its control."""

    ways: dict[str, RecordOutcomes]

    async def run(self, request: bytes, _context: object) -> bytes:
        """Record `outcomes` of them from `callers` callers, over all tenants in turn; answer the seconds."""
        asked = orjson.loads(request)
        record, seed, tenants = self.ways[asked["way"]], asked["seed"], asked["tenants"]
        numbers = iter(range(asked["outcomes"]))
        began = time.perf_counter()
        await asyncio.gather(*(_caller(record, seed, tenants, numbers) for _ in range(asked["callers"])))
        return orjson.dumps(time.perf_counter() - began)

    def handler(self) -> grpc.GenericRpcHandler:
        """Register without a serialiser: bytes in, bytes out."""
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self.run)
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(SERVICE, {"Run": method})
        return handler


async def _caller(record: RecordOutcomes, seed: int, tenants: int, numbers: Iterator[int]) -> None:
    for number in numbers:
        now = datetime.now(UTC)
        outcome = Outcome(
            key=key_of(seed, number),
            signal=SignalKind.TASK_SUCCESS,
            source="key:core-app",
            observed_time=now,
            value=number % 1000 / 1000,
        )
        report = OutcomeReport(
            outcome=outcome,
            policy=PolicyName("support"),
            episode_id=EpisodeId(str(number)),
            decision_id=decision_id(int(now.timestamp() * 1000), number),
        )
        (recorded,) = await record(TenantId(tenant_of(number % tenants)), [report])
        if recorded.status != RECORDED:
            raise RuntimeError(f"{outcome.key}: {recorded}")

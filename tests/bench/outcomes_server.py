"""Serve the real gRPC server with the control of the outcomes bench beside it, in a process of its own.

The control is the same servicer on the same server object and port, with the same checks of the same requests; only
what stands in the group writer's place differs: one INSERT in a transaction of its own for each RPC, on a pooled
connection, into the same tables under the same role.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import grpc
import orjson
import psycopg
from google.protobuf.message import Message
from psycopg_pool import AsyncConnectionPool

from kedge.bandit.v1 import feedback_service_pb2 as pb
from kedge_bandit.adapters.grpc.feedback import FeedbackServicer
from kedge_bandit.adapters.postgres.rows import DUPLICATE, RECORDED, outcome_row
from kedge_bandit.application.ports import OutcomeEvent, RowWriter
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.entrypoints.server import make_server
from kedge_bandit.entrypoints.settings import read_settings
from kedge_bandit.entrypoints.wiring import Replica, build_replica
from tests.bench.decide_server import Echo, alone, run
from tests.bench.outcomes_inside import Inside

SERVICE = "kedge.bench.InsertPerCall"
CONNECTIONS = 16
_TAKE_ROLE = "SELECT set_config('role', %s, true), set_config('search_path', %s, true)"
_INSERT = """
WITH added AS (
    INSERT INTO idempotency_key (scope, key, payload_hash) VALUES ('outcome', %(key)s, %(payload_hash)s)
    ON CONFLICT DO NOTHING RETURNING key)
INSERT INTO outcome (key, policy, episode_id, decision_id, signal, payload, served_action)
SELECT key, %(policy)s, %(episode_id)s, %(decision_id)s::uuid, %(signal)s, %(payload)s::jsonb, %(served_action)s
FROM added
"""


@dataclass(frozen=True, slots=True)
class InsertPerCall:
    """Stand in the group writer's place: every call is a transaction of its own."""

    pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]]

    async def outcomes(self, tenant: TenantId, events: Sequence[OutcomeEvent]) -> Sequence[str]:
        """Insert in one transaction under the tenant's role."""
        name = tenant.replace("-", "_")
        async with self.pool.connection() as connection, connection.transaction():
            await connection.execute(_TAKE_ROLE, (f"kedge_t_{name}", f"t_{name}"))
            cursors = [await connection.execute(_INSERT, _values(event)) for event in events]
        return [RECORDED if cursor.rowcount else DUPLICATE for cursor in cursors]


def _values(event: OutcomeEvent) -> dict[str, object]:
    return {
        "key": event.outcome.key,
        "payload_hash": outcome_row(event).digest,
        "policy": event.policy,
        "episode_id": event.episode_id,
        "decision_id": event.decision_id,
        "signal": event.outcome.signal,
        "payload": orjson.dumps(event.outcome).decode(),
        "served_action": event.served_action,
    }


def handlers(
    replica: Replica, pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]]
) -> tuple[grpc.GenericRpcHandler, ...]:
    """Register the replica's own feedback servicer once more, over the control; callers inside; and an echo."""
    (real,) = (servicer for _, servicer in replica.servicers if isinstance(servicer, FeedbackServicer))
    servicer = replace(real, record=replace(real.record, rows=cast("RowWriter", InsertPerCall(pool))))

    def serialise(message: Message) -> bytes:
        return message.SerializeToString()

    method: Any = grpc.unary_unary_rpc_method_handler(
        servicer.RecordOutcomes,
        request_deserializer=pb.RecordOutcomesRequest.FromString,
        response_serializer=serialise,
    )
    control: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler(SERVICE, {"RecordOutcomes": method})
    inside = Inside({"group": real.record, "insert": servicer.record})
    return control, inside.handler(), Echo().handler()


async def serve() -> None:
    """Serve the replica, the control, callers inside and Echo."""
    settings = read_settings()
    replica = await build_replica(settings, settings.database_url)
    server, _ = make_server(replica)
    pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]] = AsyncConnectionPool(
        settings.database_url, min_size=CONNECTIONS, max_size=CONNECTIONS, open=False, kwargs={"autocommit": True}
    )
    async with pool:
        await pool.wait()
        server.add_generic_rpc_handlers(handlers(replica, pool))
        await run(replica, server, settings)


if __name__ == "__main__":
    alone(serve, __doc__)

"""Two tenants of one service, of which the second has one of everything."""

import hashlib
import uuid
from dataclasses import dataclass

import grpc
from psycopg import sql

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    outcome_pb2,
)
from tests.fixtures.core_app import now
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for
from tests.trust.named_requests import Names


@dataclass(frozen=True, slots=True)
class Walls:
    """Two tenants of one service; B has one of everything."""

    stack: Stack
    channel: grpc.Channel
    a_key: str
    b_key: str
    a: Names
    b: Names

    @property
    def nobody(self) -> Names:
        """Names of the same forms as B's that nobody has."""
        token = self.b.token[:-1] + bytes([self.b.token[-1] ^ 1])
        return Names(
            tenant="nobody",
            policy="nowhere",
            decision=str(uuid.UUID(int=uuid.UUID(self.b.decision).int ^ 0xFFFFFF)),
            episode="nowhere-1",
            token=token,
            key="nowhere-key",
            content=hashlib.sha256(b"nobody's").hexdigest(),
            action="nowhere@000000000000",
            page=self.b.page,
        )


def state(stack: Stack, tenant: str) -> dict[str, str]:
    """Hash every table of a tenant, partitions as one, and what the control schema holds of it."""
    schema = f"t_{tenant}"
    hashed = "SELECT count(*) || ' ' || coalesce(md5(string_agg(r::text, '|' ORDER BY r::text)), '') FROM {} r"
    found: dict[str, str] = {}
    with stack.connect() as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1",
            (schema,),
        ).fetchall()
        for (table,) in tables:
            row = connection.execute(sql.SQL(hashed).format(sql.Identifier(schema, table))).fetchone()
            found[table] = str(row)
        for table, column in (("tenant", "name"), ("api_key", "tenant"), ("serving", "tenant")):
            asked = sql.SQL(hashed + " WHERE r.{} = {}").format(
                sql.Identifier("control", table), sql.Identifier(column), sql.Literal(tenant)
            )
            found[f"control.{table}"] = str(connection.execute(asked).fetchone())
    return found


def lived_in(stack: Stack, tenant: str, policy: str, content: str) -> tuple[str, Names]:
    """Onboard a tenant and give it one of everything; gives its admin's key and its names."""
    key = stack.tenant(tenant)
    spec = two_models(tenant, name=policy)
    spec.arms[1].content = content
    put = stack.put_policy(spec)
    with stack.services(key) as services:
        decided = services.decisions.Decide(
            decision_service_pb2.DecideRequest(
                policy=put.name,
                request_id=f"{tenant}-key",
                episode_id=f"{tenant}-1",
                context=decision_pb2.Context(categories={"task": "math"}),
            )
        )
        trajectory = episode_pb2.Trajectory(terminated=True)
        trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=False)
        services.episodes.LogEpisode(
            episode_service_pb2.LogEpisodeRequest(
                policy=put.name,
                request_id=f"{tenant}-key",
                episode_id=f"{tenant}-1",
                decision_token=decided.decision_token,
                trajectory=trajectory,
            )
        )
        outcome = outcome_pb2.Outcome(
            idempotency_key=f"{tenant}-key",
            decision_token=decided.decision_token,
            signal=outcome_pb2.SIGNAL_TASK_SUCCESS,
            value=1.0,
            observed_time=now(),
        )
        services.feedback.RecordOutcomes(
            feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{tenant}", outcomes=[outcome])
        )
        episode = episode_service_pb2.GetEpisodeRequest(policy=put.name, episode_id=f"{tenant}-1")
        settled = episode_pb2.EPISODE_STATE_SETTLED
        wait_for(lambda: _state(services, episode) == settled, "the episode to settle")
        wait_for(lambda: _is_quiet(stack, tenant), "the belief to be published")
        audit = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{tenant}", page_size=1)
        page = services.governance.ListAuditEvents(audit).next_page_token
    names = Names(
        tenant=tenant,
        policy=policy,
        decision=decided.decision.rpartition("/")[2],
        episode=f"{tenant}-1",
        token=decided.decision_token,
        key=f"{tenant}-key",
        content=hashlib.sha256(content.encode()).hexdigest(),
        action=put.action_keys[0],
        page=page or "1",
    )
    return key, names


def _state(services: Services, request: episode_service_pb2.GetEpisodeRequest) -> int:
    try:
        found: int = services.episodes.GetEpisode(request).episode.state
    except grpc.RpcError:
        return 0
    return found


def _is_quiet(stack: Stack, tenant: str) -> bool:
    """Say whether the worker has nothing left to do for a tenant."""
    table = sql.Identifier(f"t_{tenant}", "bucket_state")
    asked = sql.SQL("SELECT count(*) > 0 AND bool_and(fresh = 0 AND allocation_version > 0) FROM {}").format(table)
    with stack.connect() as connection:
        row = connection.execute(asked).fetchone()
    return bool(row and row[0])

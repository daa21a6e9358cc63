"""Somebody who asks for exports and does not read them holds up nobody's governance."""

from contextlib import ExitStack
from pathlib import Path

import grpc

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_service_pb2, governance_service_pb2
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, running_stack, wait_for

READER, VICTIM = "reader", "victim"
POLICY = f"tenants/{READER}/policies/support"
DECISIONS, STREAMS, AT_ONCE = 2_500, 9, 250
SMALL_WINDOW = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024),
]


def fill(stack: Stack, key: str) -> None:
    """Make a log that is longer than what a connection takes unread."""
    with stack.services(key) as services:
        for first in range(0, DECISIONS, AT_ONCE):
            calls = [
                services.decisions.stub.Decide.future(
                    decision_service_pb2.DecideRequest(
                        policy=POLICY,
                        request_id=f"r{number}",
                        episode_id=f"e{number}-{'x' * 60}",
                        context=decision_pb2.Context(categories={"task": "math"}),
                    ),
                    metadata=(("authorization", f"Bearer {key}"),),
                )
                for number in range(first, first + AT_ONCE)
            ]
            for call in calls:
                call.result(timeout=60)
    with stack.connect() as owner:
        counted = f"SELECT count(*) FROM t_{READER}.decision"
        wait_for(lambda: owner.execute(counted).fetchone() == (DECISIONS,), "the decisions to be stored")


def test_exports_that_nobody_reads_hold_up_no_freeze(fresh_database: str, tmp_path: Path) -> None:
    with ExitStack() as exits:
        stack = exits.enter_context(running_stack(fresh_database, tmp_path))
        key, _ = stack.tenant(READER), stack.tenant(VICTIM)
        stack.put_policy(two_models(READER))
        stack.put_policy(two_models(VICTIM))
        fill(stack, key)
        for _ in range(STREAMS):
            channel = exits.enter_context(grpc.insecure_channel(stack.address, options=SMALL_WINDOW))
            reader = Services(channel, stack.operator_key)
            stream = reader.episodes.ExportDecisions(episode_service_pb2.ExportDecisionsRequest(policy=POLICY))
            exits.callback(stream.cancel)
        operator = exits.enter_context(stack.services())
        with stack.connect() as owner:
            idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
            wait_for(lambda: (owner.execute(idle).fetchone() or (0,))[0] >= 4, "exports to stand still")

        frozen = operator.governance.stub.Freeze(
            governance_service_pb2.FreezeRequest(name=f"tenants/{VICTIM}", because="stop"),
            metadata=(("authorization", f"Bearer {stack.operator_key}"),),
            timeout=20,
        )

        assert frozen is not None

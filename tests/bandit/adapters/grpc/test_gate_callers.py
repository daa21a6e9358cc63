"""The gate process knows a credential from the moment it was answered by a server."""

from pathlib import Path

from kedge.bandit.v1 import holdout_service_pb2 as pb
from kedge.bandit.v1 import tenant_service_pb2
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from tests.fixtures.administered import Administered
from tests.fixtures.gating import gating
from tests.fixtures.proposing import cast


async def test_a_key_that_was_made_a_moment_ago_opens_the_gate(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> None:
    people = await cast(administered, ledgers)
    async with gating(people, migrated_url, tmp_path) as gate:
        made = await administered.tenants.CreateKey(
            tenant_service_pb2.CreateKeyRequest(
                parent=people.tenant, principal="late", role=tenant_service_pb2.ROLE_VIEWER, because="a test needs it"
            ),
            metadata=people.root,
        )
        request = pb.GetHoldoutRequest(policy=people.policy)
        answer = await gate.holdout.GetHoldout(request, metadata=(("authorization", f"Bearer {made.key}"),))
    assert answer.HasField("holdout")

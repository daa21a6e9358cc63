"""A snapshot that a test states, and a provider in memory behind the real OpenFeature client."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from openfeature import api

from kedge_bandit.application.ports import Serving
from kedge_bandit.domain.errors import PolicyNotFound, TenantDenied
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.policy import Policy
from tests.bandit.application.scene import SPEC

ACME, SUPPORT = TenantId("acme"), PolicyName("support")


@dataclass
class StatedSnapshot:
    """What a replica knows, as a test states it."""

    stale: bool = False
    modes: dict[tuple[TenantId, PolicyName], Mode] = field(default_factory=dict)

    def serving(self, tenant: TenantId, policy: PolicyName) -> Serving:
        if tenant not in {known for known, _ in self.modes}:
            raise TenantDenied
        if (tenant, policy) not in self.modes:
            raise PolicyNotFound(policy)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        known = Policy(
            name=policy,
            version=3,
            configuration_version=1,
            mode=Mode.APPLY,
            seed_epoch=1,
            spec=SPEC,
            create_time=at,
            update_time=at,
        )
        return Serving(known, self.modes[tenant, policy], {})


@pytest.fixture
def snapshot() -> StatedSnapshot:
    return StatedSnapshot(modes={(ACME, SUPPORT): Mode.APPLY})


@pytest.fixture(autouse=True)
def no_provider_left() -> Iterator[None]:
    yield
    api.shutdown()

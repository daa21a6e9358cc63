"""Which of the divergence checks that are due the gate makes first, and at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.entrypoints.divergence_metrics import DivergenceMetrics
from kedge_bandit.entrypoints.gate_watching import MOST_CHECKING, Watching
from tests.fixtures.ledgers import TickingClock

Due = tuple[TenantId, PolicyName]


@dataclass
class Hanging:
    """Policies that are due, and checks of which none ends."""

    all_due: Sequence[Due]
    clock: TickingClock = field(default_factory=TickingClock)
    begun: list[Due] = field(default_factory=list)

    async def due(self, _at: object) -> Sequence[Due]:
        return self.all_due

    async def __call__(self, tenant: TenantId, policy: PolicyName) -> None:
        self.begun.append((tenant, policy))
        await asyncio.Event().wait()


async def test_a_tenant_whose_answerer_hangs_holds_up_its_own_checks_alone() -> None:
    hung = [(TenantId("acme"), PolicyName(f"p{number}")) for number in range(3 * MOST_CHECKING)]
    late = (TenantId("globex"), PolicyName("support"))
    place = Hanging([*hung, late])
    anything: Any = place
    watching = Watching(
        holdouts=anything, watch=anything, read=anything, metrics=DivergenceMetrics(CollectorRegistry())
    )
    for _ in range(3):
        await watching.look()
        await asyncio.sleep(0)
    await watching.close()
    assert place.begun == [hung[0], late]

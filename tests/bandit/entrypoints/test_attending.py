"""The worker looks after proposals of all tenants, and says how many there are."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from kedge.bandit.v1 import proposal_pb2
from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.application.attend_proposals import AttendProposals
from kedge_bandit.entrypoints.attending import Attending
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics
from tests.fixtures.administered import Administered
from tests.fixtures.ledgers import START
from tests.fixtures.proposing import Cast, FixedClock, cast, prompt

State = proposal_pb2.Proposal.State


@pytest.fixture
async def play(administered: Administered, ledgers: PostgresLedgers) -> Cast:
    return await cast(administered, ledgers)


async def test_what_waits_is_served_when_its_time_comes_and_every_open_state_is_counted(play: Cast) -> None:
    waiting = await play.waiting_for_a_window(prompt("warm", "Answer warmly."))
    await play.submit(prompt("cool", "Answer coolly."), hold=True)
    registry = CollectorRegistry()
    clock = FixedClock(START + timedelta(days=3))
    attending = Attending(
        engine=play.it.engine, attend=AttendProposals(play.ledgers, clock), metrics=WorkerMetrics(registry)
    )

    def counted(state: str) -> float | None:
        return registry.get_sample_value("kedge_proposals", {"tenant": play.tenant_id, "state": state})

    await attending.look(at_all=False)
    assert (counted("APPROVED"), counted("SUBMITTED"), counted("SERVING")) == (1, 1, None)
    assert (await play.read(waiting.name)).state == State.STATE_SERVING
    await attending.look(at_all=True)
    assert (counted("APPROVED"), counted("SUBMITTED"), counted("SERVING")) == (None, 1, 1)


async def test_a_tenant_that_is_erased_takes_its_open_proposals_along(play: Cast) -> None:
    await play.submit(prompt("warm", "Answer warmly."), hold=True)
    async with play.it.engine.begin() as owner:
        await owner.exec_driver_sql(f"SELECT control.erase_tenant('{play.tenant_id}', 'a test', 'it is over')")
        left = await owner.exec_driver_sql(
            f"SELECT count(*) FROM control.proposal_open WHERE tenant = '{play.tenant_id}'"
        )
        assert left.scalar_one() == 0

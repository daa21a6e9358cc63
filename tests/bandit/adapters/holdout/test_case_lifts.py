"""What checks saw of each case is kept beside the case, and nowhere else."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.domain.holdout import Part
from kedge_bandit.domain.identifiers import PolicyName
from tests.fixtures.administered import Administered
from tests.fixtures.gating import Gating, enough_cases, gating
from tests.fixtures.proposing import cast

SUPPORT = PolicyName("support")


@pytest.fixture
async def it(
    administered: Administered, ledgers: PostgresLedgers, migrated_url: str, tmp_path: Path
) -> AsyncIterator[Gating]:
    people = await cast(administered, ledgers)
    async with gating(people, migrated_url, tmp_path) as gate:
        await gate.put_cases(enough_cases(hard=0))
        yield gate


async def test_lifts_add_up_by_case_and_tell_what_differs_between_cases(it: Gating) -> None:
    holdouts = it.gate.watching.watch.holdouts
    async with holdouts.open(it.cast.tenant_id) as record:
        newest = await record.cases.newest(SUPPORT)
        assert newest is not None
        cases = await record.cases.read(SUPPORT, Part.SENSOR, newest.number)
    assert len(cases) > 100
    own = {case.case_hash: 0.3 if place % 2 else -0.3 for place, case in enumerate(cases)}

    async with holdouts.open(it.cast.tenant_id) as record:
        first = await record.cases.add_lifts(SUPPORT, own)
    async with holdouts.open(it.cast.tenant_id) as record:
        second = await record.cases.add_lifts(SUPPORT, own)

    assert first.count.sum() == len(cases)
    assert second.count.tolist() == [2.0] * len(cases)
    assert np.allclose(np.sort(second.total), np.sort([2 * lift for lift in own.values()]))
    assert second.sd_between == pytest.approx(0.3, rel=0.01)


async def test_nothing_is_added_of_cases_that_are_not_this_policys(it: Gating) -> None:
    async with it.gate.watching.watch.holdouts.open(it.cast.tenant_id) as record:
        found = await record.cases.add_lifts(SUPPORT, {"no such case": 0.5})

    assert found.count.sum() == 0
    assert found.sd_between == 0

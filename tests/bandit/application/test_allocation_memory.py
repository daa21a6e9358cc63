"""What a worker remembers of allocations: the vectors that are still drawn from, and no more bytes than it may."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from kedge_bandit.application.allocation_memory import SUPERSEDED, AllocationMemory
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.published import Allocation

ACME, SUPPORT = TenantId("acme"), PolicyName("support")


def allocation(version: int, bucket: str = "", *, actions: Sequence[str] = ("a", "b", "c")) -> Allocation:
    p = np.random.default_rng(version).dirichlet(np.ones(len(actions)))
    return Allocation(
        policy=SUPPORT,
        bucket=bucket,
        version=version,
        policy_version=1,
        configuration_version=1,
        seed_epoch=0,
        as_of=0.0,
        evidence_sequence=0,
        evidence_hash="",
        actions=tuple(actions),
        baseline=0,
        floor=0.2,
        uniform_slice=0.2,
        caps=None,
        q=tuple(p.tolist()),
        p=tuple(p.tolist()),
        mean=tuple(p.tolist()),
        eligible=(True,) * (len(actions) - 1) + (False,),
        closed=None,
        publish_time=datetime(2026, 3, 1, tzinfo=UTC),
    )


def found(memory: AllocationMemory, version: int, available: Sequence[str] | None = None) -> object:
    drawn = memory.find(ACME, SUPPORT, version, available)
    return None if drawn is None else (drawn[0], tuple(drawn[1].tolist()))


def test_a_draw_finds_the_vector_of_its_version_exactly() -> None:
    memory = AllocationMemory()
    made = [allocation(version, f"bucket-{version}") for version in range(1, 9)]
    memory.keep(ACME, reversed(made))

    assert [found(memory, each.version) for each in made] == [(each.actions, each.p) for each in made]
    assert found(memory, 9) is None
    assert memory.find(TenantId("globex"), SUPPORT, 1, None) is None


@pytest.mark.parametrize(("available", "is_known"), [(("a", "b"), True), (("a", "b", "c"), True), (("a", "c"), False)])
def test_a_draw_that_availability_narrowed_is_not_answered_from_memory(
    available: Sequence[str], is_known: bool
) -> None:
    memory = AllocationMemory()
    memory.keep(ACME, [allocation(1)])
    assert (found(memory, 1, available) is not None) is is_known


def test_a_bucket_that_stands_is_kept_however_often_another_is_published() -> None:
    memory = AllocationMemory()
    memory.keep(ACME, [allocation(1, "quiet")])
    for version in range(2, 200):
        memory.keep(ACME, [allocation(version, "busy")])

    assert [version for version in range(200) if found(memory, version)] == [1, *range(199 - SUPERSEDED, 200)]


def test_an_old_allocation_over_other_actions_does_not_push_out_what_is_in_force() -> None:
    memory = AllocationMemory()
    memory.keep(ACME, [allocation(1), allocation(2, "b")])
    memory.keep(ACME, [allocation(3, actions=("a", "d"))])
    memory.keep(ACME, [allocation(1), allocation(2, "b")])

    assert (found(memory, 1), found(memory, 3) is None) == (None, False)


def test_the_policy_published_longest_ago_is_forgotten_when_the_bytes_are_used_up() -> None:
    memory = AllocationMemory(most_bytes=2_000)
    tenants = [TenantId(f"t{number}") for number in range(10)]
    for tenant in tenants:
        memory.keep(tenant, [allocation(1)])

    assert [tenant for tenant in tenants if memory.find(tenant, SUPPORT, 1, None)] == tenants[-3:]

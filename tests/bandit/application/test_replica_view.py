"""A replica's view follows the database: by its poll alone where no NOTIFY comes, and reading only what changed."""

import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from kedge_bandit.adapters.postgres.callers import CallersView
from kedge_bandit.adapters.postgres.serving_reads import ServingReads, TenantAllocations, TenantPolicies
from kedge_bandit.adapters.postgres.snapshot import DatabaseClock, ReplicaSnapshot
from kedge_bandit.adapters.postgres.tenants import PostgresTenants
from kedge_bandit.domain.api_key import StoredKey
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.errors import PolicyNotFound, TenantDenied
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.switch import QuarantineChoice
from tests.bandit.application.scene import SUPPORT as POLICY
from tests.bandit.application.scene import Scene, Scenes
from tests.fixtures.ledgers import START


async def deaf() -> psycopg.AsyncConnection[tuple[Any, ...]]:
    raise psycopg.OperationalError("no NOTIFY ever comes")


class CountedReads(ServingReads):
    """Count what is asked of the database, beside what it answers."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.asked: list[tuple[str, TenantId]] = []
        self.above: dict[TenantId, Mapping[PolicyName, int]] = {}

    async def policies(self, tenants: Collection[TenantId]) -> dict[TenantId, TenantPolicies]:
        self.asked += [("policies", tenant) for tenant in tenants]
        return await super().policies(tenants)

    async def allocations(
        self, above: Mapping[TenantId, Mapping[PolicyName, int]]
    ) -> dict[TenantId, TenantAllocations]:
        self.asked += [("allocations", tenant) for tenant in above]
        self.above.update(above)
        return await super().allocations(above)


@dataclass
class Watched:
    """A view that hears no NOTIFY, and what it told."""

    reads: CountedReads
    keys: list[list[StoredKey]] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)
    override: Mode = Mode.APPLY
    view: ReplicaSnapshot = field(init=False)

    def __post_init__(self) -> None:
        self.view = ReplicaSnapshot(
            reads=self.reads,
            listen=deaf,
            clock=DatabaseClock(),
            override=lambda _tenant, _policy: self.override,
            callers=CallersView(self.reads, lambda keys, _bindings: self.keys.append(keys)),
            mode_reached=self.reached.append,
        )

    async def news(self) -> list[tuple[str, TenantId]]:
        """Poll once; gives what was read."""
        self.reads.asked.clear()
        await self.view.refresh()
        return sorted(self.reads.asked)

    def mode(self, scene: Scene) -> Mode:
        return self.view.serving(scene.tenant, POLICY).mode

    def newest(self, scene: Scene) -> int:
        return max(each.version for each in self.view.serving(scene.tenant, POLICY).allocations.values())


@pytest.fixture
async def watched(migrated_url: str) -> AsyncIterator[Watched]:
    engine = create_async_engine(migrated_url)
    yield Watched(CountedReads(engine))
    await engine.dispose()


async def test_a_change_whose_notify_is_lost_is_found_and_nothing_else_is_read(
    scenes: Scenes, watched: Watched
) -> None:
    one, other = await scenes(), await scenes()
    await watched.news()
    assert (watched.mode(one), watched.view.stale) == (Mode.APPLY, False)
    assert await watched.news() == []

    await one.freeze()
    assert await watched.news() == [("policies", one.tenant)]
    assert (watched.mode(one), watched.mode(other)) == (Mode.FROZEN, Mode.APPLY)

    await one.unfreeze(QuarantineChoice.KEEP)
    await watched.news()
    assert watched.mode(one) is Mode.APPLY
    assert len(watched.reached) == 2
    assert await watched.news() == []


async def test_a_mode_is_obeyed_from_the_notify_alone_and_an_older_read_does_not_undo_it(
    scene: Scene, watched: Watched
) -> None:
    await watched.news()
    with psycopg.connect(scene.url, autocommit=True) as listener:
        listener.execute("LISTEN kedge_modes")
        await scene.freeze()
        await scene.unfreeze(QuarantineChoice.KEEP)
        freeze, unfreeze = (notice.payload for notice in listener.notifies(timeout=10, stop_after=2))
    await watched.view.hear("kedge_modes", freeze)
    assert watched.mode(scene) is Mode.FROZEN
    assert len(watched.reached) == 1
    await watched.view.hear("kedge_modes", unfreeze)
    assert watched.mode(scene) is Mode.APPLY

    # A read that began before the announcement says otherwise, and is left.
    version = json.loads(unfreeze)["version"]
    later = json.dumps({**json.loads(freeze), "version": version + 1})
    await watched.view.hear("kedge_modes", later)
    await watched.news()
    assert watched.mode(scene) is Mode.FROZEN
    # What the database goes on saying is true.
    await watched.news()
    assert watched.mode(scene) is Mode.APPLY


async def test_of_allocations_only_the_newer_ones_are_read(scene: Scene, watched: Watched) -> None:
    await watched.news()
    before = watched.newest(scene)
    await scene.play(*scene.turn("e1"))
    assert await watched.news() == [("allocations", scene.tenant)]
    assert watched.reads.above[scene.tenant] == {POLICY: before}
    assert watched.newest(scene) > before
    [(stored,)] = scene.sql("SELECT max(allocation_version) FROM allocation")
    assert watched.newest(scene) == stored


async def test_what_is_served_is_what_was_published(scene: Scene, watched: Watched) -> None:
    await scene.play(*scene.turn("e1"))
    await watched.news()
    served = watched.view.serving(scene.tenant, POLICY).allocations
    async with scene.ledgers.open(scene.tenant) as ledger:
        published = {each.bucket: each async for each in ledger.decisions.allocations(POLICY)}
    assert served == published


async def test_a_change_by_hand_is_found_too(scene: Scene, watched: Watched) -> None:
    await watched.news()
    scene.sql("UPDATE policy SET mode = 'OBSERVE'")
    await watched.news()
    assert watched.mode(scene) is Mode.OBSERVE


async def test_a_restored_record_is_read_from_the_start(scene: Scene, watched: Watched) -> None:
    for number in range(3):
        await scene.play(*scene.turn(f"e{number}"))
    await watched.news()
    before = watched.newest(scene)
    scene.sql("UPDATE bucket_state SET allocation_version = 1 WHERE bucket = ''")
    scene.sql("DELETE FROM bucket_state WHERE bucket <> ''")
    scene.sql("UPDATE control.serving SET version = 1 WHERE tenant = %s AND kind = 'allocations'", scene.tenant)
    await watched.news()
    assert watched.newest(scene) < before


async def test_the_mode_of_everything_and_an_override_reach_every_tenant(
    scenes: Scenes, watched: Watched, registry: PostgresTenants
) -> None:
    one, other = await scenes(), await scenes()
    await watched.news()
    watched.override = Mode.OBSERVE
    await watched.news()
    assert {watched.mode(one), watched.mode(other)} == {Mode.OBSERVE}
    event = Change(tenant=one.tenant, actor=KEDGE, because="a test", at=START).event("global.frozen", "global", {})
    await registry.put_global_mode(Mode.FROZEN, event)
    assert await watched.news() == []
    assert {watched.mode(one), watched.mode(other)} == {Mode.FROZEN}
    await registry.put_global_mode(Mode.APPLY, event)
    watched.override = Mode.APPLY
    await watched.news()
    assert watched.mode(one) is Mode.APPLY


async def test_keys_are_read_when_one_was_made_or_revoked(scene: Scene, watched: Watched) -> None:
    await watched.news()
    await watched.news()
    assert len(watched.keys) == 1
    scene.sql(
        "INSERT INTO control.api_key (key_id, key_hash, principal, role) VALUES ('k1', '\\x00', 'me', 'OPERATOR')"
    )
    await watched.news()
    assert "k1" in {key.key_id for key in watched.keys[-1]}
    scene.sql("UPDATE control.api_key SET revoke_time = now() WHERE key_id = 'k1'")
    await watched.news()
    assert "k1" not in {key.key_id for key in watched.keys[-1]}


async def test_a_tenant_that_is_new_is_there_and_one_that_is_none_is_denied(scenes: Scenes, watched: Watched) -> None:
    await watched.news()
    scene = await scenes()
    with pytest.raises(TenantDenied):
        watched.mode(scene)
    await watched.news()
    assert watched.mode(scene) is Mode.APPLY
    with pytest.raises(PolicyNotFound):
        watched.view.serving(scene.tenant, PolicyName("another"))


async def test_a_policy_that_cannot_be_read_stops_no_other(scenes: Scenes, watched: Watched) -> None:
    one, other = await scenes(), await scenes()
    one.sql("""UPDATE policy SET spec = '{"arms": []}'""")
    await watched.news()
    with pytest.raises(PolicyNotFound):
        watched.mode(one)
    assert (watched.mode(other), watched.view.stale) == (Mode.APPLY, False)

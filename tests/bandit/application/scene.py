"""Play a core application against one tenant: rows go in as the server writes them, passes run as in the worker."""

import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from kedge_bandit.adapters.postgres.ledger import PostgresLedger, PostgresLedgers, schema_of
from kedge_bandit.adapters.postgres.rows import Batch, decision_row, event_row, outcome_row
from kedge_bandit.adapters.postgres.worker_ledger import WorkerLedgers
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.learn import Learn, Passed
from kedge_bandit.application.ports import EpisodeEvent, EpisodeRecord, OutcomeEvent
from kedge_bandit.application.rebuild import Rebuild, Rebuilt
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.context import CategoricalFeature
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.episode import GuardrailEvent, GuardrailKind, Trajectory
from kedge_bandit.domain.identifiers import DecisionId, EpisodeId, PolicyName, TenantId
from kedge_bandit.domain.lifecycle import Move, create, freeze, unfreeze
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.outcome import Outcome, Provenance, SignalKind
from kedge_bandit.domain.policy import Exploration, Policy, PolicySpec, Settlement
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.settlement import Windows
from kedge_bandit.domain.switch import QuarantineChoice
from tests.fixtures.approved import approve_what_is_new

SUPPORT = PolicyName("support")
AT_ONCE = Windows(task_success=timedelta(0), safety=timedelta(0), judge=timedelta(0))
CLEAN = Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=False),), terminated=True)
LEAKED = Trajectory(guardrail_events=(GuardrailEvent(kind=GuardrailKind.PII, tripped=True),), terminated=True)
UNGUARDED = Trajectory(terminated=True)

Row = Decision | EpisodeEvent | OutcomeEvent
Scenes = Callable[..., Awaitable["Scene"]]


def route(name: str) -> Arm:
    return Arm(dimension=Dimension.MODEL_ROUTE, name=name, content=name)


SPEC = PolicySpec(
    features=(CategoricalFeature("task", ("math", "code")),),
    arms=(route("small"), route("large"), route("other")),
    baseline={Dimension.MODEL_ROUTE: "small"},
    reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0, weight_cost=0.0, weight_latency=0.0),
    settlement=Settlement(windows=AT_ONCE),
    exploration=Exploration(floor=0.2, uniform_slice=0.2, budget_off=True),
)


@dataclass(slots=True)
class Scene:
    """One tenant with one policy."""

    url: str
    ledgers: PostgresLedgers
    tenant: TenantId
    worker: Learn
    serial: int = 0
    decisions: dict[str, Decision] = field(default_factory=dict)
    open_connections: list[psycopg.Connection[Any]] = field(default_factory=list)

    def key(self, arm: str) -> str:
        """The action key of a route."""
        return route(arm).arm_id

    def decide(self, episode: str, arm: str = "large", **facts: Any) -> Decision:
        """A decision that drew an arm; other facts replace the usual ones."""
        decision = Decision(
            decision_id=DecisionId(str(uuid.uuid4())),
            tenant=self.tenant,
            policy=SUPPORT,
            episode_id=EpisodeId(episode),
            request_id=f"decide-{episode}",
            time=datetime.now(UTC),
            context=None,
            bucket="task=math",
            available=None,
            action=self.key(arm),
            propensity=0.25,
            policy_version=1,
            allocation_version=1,
            seed_epoch=0,
            mode=Mode.APPLY,
            reason=Reason.DRAWN,
            is_randomised=False,
            judge_requested=False,
            judge_rate=0.0,
        )
        self.decisions[episode] = replace(decision, **facts)
        return self.decisions[episode]

    def log(self, episode: str, trajectory: Trajectory = CLEAN, *, kind: str = "LOG", served: str = "") -> EpisodeEvent:
        """Something said about an episode; each call under a key of its own."""
        self.serial += 1
        return EpisodeEvent(
            key=f"event-{self.serial}",
            kind=kind,
            policy=SUPPORT,
            episode_id=EpisodeId(episode),
            source="app",
            served_action=self.key(served) if served else None,
            trajectory=trajectory if kind == "LOG" else None,
        )

    def outcome(
        self,
        episode: str,
        value: float | None = 1.0,
        *,
        signal: SignalKind = SignalKind.TASK_SUCCESS,
        by_decision: bool = False,
        **facts: Any,
    ) -> OutcomeEvent:
        """An outcome of an episode, or of its decision alone."""
        self.serial += 1
        outcome = Outcome(
            key=f"outcome-{self.serial}",
            signal=signal,
            source="app",
            observed_time=datetime.now(UTC),
            value=value,
            **facts,
        )
        if by_decision:
            return OutcomeEvent(outcome=outcome, decision_id=self.decisions[episode].decision_id)
        return OutcomeEvent(outcome=outcome, policy=SUPPORT, episode_id=EpisodeId(episode))

    def thumb(self, episode: str, value: float) -> OutcomeEvent:
        """A person's thumb."""
        return self.outcome(episode, value, signal=SignalKind.HUMAN, provenance=Provenance.THUMB)

    def turn(self, episode: str, arm: str = "large", value: float = 1.0, trajectory: Trajectory = CLEAN) -> list[Row]:
        """Decision, log and task success of one episode."""
        return [self.decide(episode, arm), self.log(episode, trajectory), self.outcome(episode, value)]

    def write(self, *rows: Row) -> None:
        """Commit rows, as one group commit of the server does."""
        with self.open_write(*rows) as commit:
            commit()

    @contextmanager
    def open_write(self, *rows: Row) -> Iterator[Callable[[], None]]:
        """Write rows in a transaction that commits when told to."""
        batch = Batch()
        for row in rows:
            if isinstance(row, Decision):
                batch.add_decision(self.tenant, decision_row(row))
            else:
                batch.add(self.tenant, event_row(row) if isinstance(row, EpisodeEvent) else outcome_row(row))
        with psycopg.connect(self.url) as connection:
            connection.execute("SELECT control.write_batch(%s::jsonb)", (batch.json(),))
            yield connection.commit

    async def learn(self) -> Passed:
        """Run passes until nothing waits; answers the last."""
        while True:
            done = await self.worker(self.tenant)
            assert done is not None
            if not done.is_truncated:
                return done

    async def play(self, *rows: Row) -> Passed:
        """Write rows and learn from them."""
        self.write(*rows)
        return await self.learn()

    def sql(self, statement: str, *parameters: object) -> list[Any]:
        """Run SQL as the owner, in the tenant's schema."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"SET search_path TO {schema_of(self.tenant)}")
            cursor = connection.execute(statement, parameters or None)
            if statement.startswith("UPDATE"):  # whoever writes to a tenant's record moves its stamp
                connection.execute("UPDATE fold_state SET x = x")
            return cursor.fetchall() if cursor.description else []

    def listen(self, channel: str) -> Callable[[], list[str]]:
        """Listen to a channel from now on; the answer gives what was heard since it was asked last."""
        connection = psycopg.connect(self.url, autocommit=True)
        self.open_connections.append(connection)
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        return lambda: [notice.payload for notice in connection.notifies(timeout=0.2) if notice.payload == self.tenant]

    def close(self) -> None:
        """Close what listens."""
        for connection in self.open_connections:
            connection.close()

    async def episode(self, episode: str) -> EpisodeRecord:
        async with self.ledgers.open(self.tenant) as ledger:
            return await ledger.decisions.episode(SUPPORT, EpisodeId(episode))

    async def counts(self) -> dict[str, int]:
        return dict(self.sql("SELECT name, count FROM episode_count WHERE count <> 0"))

    def cells(self) -> dict[tuple[str, str], tuple[float, float]]:
        """N and S of each cell, as of the time at which they are kept."""
        return {(b, a): (n, s) for b, a, n, s in self.sql("SELECT bucket, action, n, s FROM cell")}

    def vetoes(self, arm: str) -> tuple[float, float]:
        """Discounted episodes and vetoes of an action."""
        found = self.sql("SELECT veto_episodes, vetoes FROM action_state WHERE action = %s", self.key(arm))
        return (found[0][0], found[0][1]) if found else (0.0, 0.0)

    async def change(self, move: Callable[[Policy, Change], Move]) -> Policy:
        """Move the policy, audited."""
        async with self.ledgers.open(self.tenant) as ledger:
            found = await ledger.policies.get(SUPPORT)
            moved, event = move(found, self.because())
            await approve_what_is_new(ledger, found, moved)
            return await self._put(ledger, (moved, event))

    async def _put(self, ledger: PostgresLedger, move: Move) -> Policy:
        policy, event = move
        await ledger.policies.put(policy, event)
        return policy

    def because(self) -> Change:
        return Change(tenant=self.tenant, actor=KEDGE, because="to test it", at=datetime.now(UTC))

    async def freeze(self) -> None:
        await self.change(freeze)

    async def unfreeze(self, choice: QuarantineChoice) -> None:
        async with self.ledgers.open(self.tenant) as ledger:
            because = self.because()
            found = await ledger.policies.get(SUPPORT)
            await self._put(ledger, unfreeze(found, because, resume=Mode.APPLY, quarantine=choice))
            await ledger.policies.release_quarantine(SUPPORT, choice, because.at)

    async def rebuilt(self) -> Rebuilt:
        """Compare the kept state with a fold of the log."""
        return await Rebuild(self.ledgers, HmacSeals({}))(self.tenant, SUPPORT, verify_only=True)


def near(*sums: float) -> Any:
    """Compare sums to 1e-6 of themselves."""
    return pytest.approx(sums)


async def open_scene(
    url: str,
    ledgers: PostgresLedgers,
    tenant: TenantId,
    spec: PolicySpec = SPEC,
    *,
    passes: WorkerLedgers | None = None,
) -> Scene:
    """Start a policy and publish its first allocation; over `passes` the worker remembers what it learned."""
    scene = Scene(url, ledgers, tenant, Learn(ledgers=passes or ledgers))
    async with ledgers.open(tenant) as ledger:
        policy, event = create(SUPPORT, spec, scene.because())
        await ledger.policies.put(policy, event)
    await scene.learn()
    return scene

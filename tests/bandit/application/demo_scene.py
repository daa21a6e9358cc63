"""Play a world of the demo against the worker: its contexts, its draws as the server makes them, its true outcomes."""

from dataclasses import replace

from kedge_bandit.adapters.grpc.wire import context_of
from kedge_bandit.adapters.grpc.wire_policy import spec_of
from kedge_bandit.domain.context import bucket
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import PLAIN, Choice, Wish, choose
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.outcome import SignalKind
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import COLD, Allocation
from kedge_demo.world import World
from tests.bandit.application.scene import CLEAN, LEAKED, SUPPORT, Row, Scene

CHUNK = 250


def demo_spec(world: World, *, floor: float) -> PolicySpec:
    """The world's own policy at a floor; settled as it is logged, since a test cannot wait."""
    spec = spec_of(world.policy)
    return replace(spec, exploration=replace(spec.exploration, floor=floor, uniform_slice=0.1, budget_off=True))


async def published(scene: Scene) -> dict[str, Allocation]:
    """The newest allocation of every bucket."""
    [(_, _, newest)] = scene.sql("SELECT policy, count(*), max(allocation_version) FROM allocation GROUP BY policy")
    found: dict[str, Allocation] = {}
    async with scene.ledgers.open(scene.tenant) as ledger:
        for allocation in await ledger.decisions.published(SUPPORT, range(newest + 1)):
            known = found.get(allocation.bucket)
            if known is None or known.version < allocation.version:
                found[allocation.bucket] = allocation
    return found


def draw(scene: Scene, allocation: Allocation, episode: str, wish: Wish = PLAIN) -> Choice:
    """Draw as the server does."""
    u = uniform(scene.tenant, SUPPORT, episode, allocation.seed_epoch, allocation.version)
    return choose(allocation, wish, Mode.APPLY, u)


class DemoTraffic:
    """Turns of one world, one after the other."""

    def __init__(self, scene: Scene, world: World) -> None:
        self.scene, self.world, self.turn = scene, world, 0
        self.features = spec_of(world.policy).features

    async def play(
        self,
        turns: int,
        *,
        blind_to: str = "",
        lost_every: int = 0,
        baseline_for: frozenset[str] = frozenset(),
        closed_by: Reason | None = None,
    ) -> None:
        """Play so many more turns.

        Args:
            blind_to: the verifier takes whatever this arm answers for a success, and the judge is flattered.
            lost_every: of the turns that were not served the baseline, this one's outcomes are lost; 0: none.
            baseline_for: sessions for which the core application asks for the baseline; a session has five turns.
            closed_by: why the baseline alone is published, BUDGET or CAP.
        """
        end = self.turn + turns
        while self.turn < end:
            allocations = await published(self.scene)
            if closed_by is not None:
                allocations = {name: replace(one, closed=closed_by) for name, one in allocations.items()}
            rows: list[Row] = []
            for _ in range(min(CHUNK, end - self.turn)):
                rows += self._one(allocations, blind_to, lost_every, baseline_for)
                self.turn += 1
            self.scene.write(*rows)
            await self.scene.learn()

    def _one(
        self, allocations: dict[str, Allocation], blind_to: str, lost_every: int, baseline_for: frozenset[str]
    ) -> list[Row]:
        world, scene, number = self.world, self.scene, self.turn
        place, session = number % world.turns, f"s-{number // 5}"
        episode = f"{session}/{number}"
        name = bucket(context_of(world.context(place)), self.features)
        allocation = allocations.get(name) or allocations[COLD]
        choice = draw(scene, allocation, episode, Wish(no_exploration=True) if session in baseline_for else PLAIN)
        key = allocation.actions[choice.index]
        action = world.index_of[key]
        decision = replace(
            scene.decide(episode),
            action=key,
            bucket=name,
            propensity=choice.propensity,
            reason=choice.reason,
            is_randomised=choice.is_randomised,
            policy_version=allocation.policy_version,
            allocation_version=allocation.version,
            seed_epoch=allocation.seed_epoch,
            judge_requested=True,
            judge_rate=1.0,
        )
        scene.decisions[episode] = decision
        if lost_every and choice.index != allocation.baseline and number % lost_every == 0:
            return [decision]
        fooled = bool(blind_to) and blind_to in key
        success = 1.0 if fooled else float(world.truth.score[place, action])
        rows: list[Row] = [decision, scene.log(episode, LEAKED if world.truth.tripped[place, action] else CLEAN)]
        if world.truth.has_verifier[place]:
            rows.append(scene.outcome(episode, success))
        judged = float(world.truth.judge[place, action])
        rows.append(scene.outcome(episode, judged, signal=SignalKind.JUDGE))
        rows.append(scene.outcome(episode, float(world.truth.cost_usd[place, action]), signal=SignalKind.COST))
        rows.append(scene.outcome(episode, float(world.truth.latency_ms[place, action]), signal=SignalKind.LATENCY))
        return rows

    async def true_lift(self, cases: int) -> tuple[float, float]:
        """Lift of what is published now over the baseline on the world's own true scores, case by case, with error."""
        world, allocations, total, squares = self.world, await published(self.scene), 0.0, 0.0
        for place in range(cases):
            name = bucket(context_of(world.context(place)), self.features)
            allocation = allocations.get(name) or allocations[COLD]
            floor, base = allocation.floor, allocation.baseline
            learned = sum(
                (p - floor * (i == base)) / (1 - floor) * float(world.truth.score[place, world.index_of[key]])
                for i, (key, p) in enumerate(zip(allocation.actions, allocation.p, strict=True))
            )
            difference = learned - float(world.truth.score[place, world.baseline])
            total, squares = total + difference, squares + difference**2
        mean = total / cases
        return mean, ((squares / cases - mean**2) / cases) ** 0.5

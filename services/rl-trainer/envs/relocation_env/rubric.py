"""What a step is worth, how far a case has come, and the grade it ends with."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from relocation_env.rules import Department, Item, Result, Status
from relocation_env.world import State, World

LEAST, MOST = 0.0001, 0.9999
"""Grades stay strictly inside (0, 1)."""

STEP: Mapping[Result, float] = MappingProxyType(
    {
        Result.SUCCESS: 0.30,
        Result.WRONG: -0.10,
        Result.REPEATED: -0.10,
        Result.PREREQUISITE: -0.20,
        Result.RULE_VIOLATION: -0.30,
        Result.INVALID: -0.30,
    }
)
BONUS: Mapping[str, float] = MappingProxyType(
    {"documents": 0.20, "departments": 0.20, "compliance": 0.15, "conflict": 0.25, "finalized": 0.50}
)
"""Paid once per episode, when the part is complete for the first time."""

PROGRESS_SHARE, PROGRESS_CAP = 0.5, 0.20
PARTS: Mapping[str, float] = MappingProxyType(
    {"documents": 0.38, "departments": 0.32, "compliance": 0.15, "conflict": 0.08, "event": 0.07}
)
JUNK, JUNK_CAP, TAX_BREACH, STRUCK_USE = 0.03, 0.15, 0.25, 0.20


def completed(world: World) -> dict[str, float]:
    """Give each part's completed share; a part that the case does not have is complete.

    A submitted document counts half, an invalidated one is no longer needed.
    """
    case = world.case
    worth = {Status.MISSING: 0.0, Status.SUBMITTED: 0.5, Status.VERIFIED: 1.0}
    papers = [worth[status] for status in world.papers if status is not Status.INVALIDATED]
    return {
        "documents": sum(papers) / len(papers),
        "departments": len(case.departments & world.approved) / len(case.departments),
        "compliance": len(case.items & world.done_items) / len(case.items),
        "conflict": 0.0 if world.open_conflict else 1.0,
        "event": 0.0 if world.unacknowledged else 1.0,
    }


def progress(world: World) -> float:
    """Weigh the parts, to four decimals."""
    return round(sum(PARTS[part] * share for part, share in completed(world).items()), 4)


@dataclass(frozen=True, slots=True)
class Tally:
    """What an episode has been paid for: bonuses once, progress only beyond its highest so far."""

    highest: float
    paid: frozenset[str]

    def pay(self, before: World, after: World, result: Result) -> tuple["Tally", dict[str, float]]:
        """Give the reward of one step by component, and the tally after it.

        An action that succeeded beside the point earns nothing, and what was earned on a document is taken back when
        it is struck: what brings no grade must not pay.
        """
        beside = result is Result.SUCCESS and after.charges.junk > before.charges.junk
        signals = {"step": 0.0 if beside else STEP[result]}
        shares = completed(after)
        reached = progress(after)
        if reached > self.highest:
            signals["progress"] = min(PROGRESS_CAP, PROGRESS_SHARE * (reached - self.highest))
        due = {part for part in BONUS if part not in self.paid and _is_complete(part, after, shares)}
        if after.fired and not before.fired:
            signals["struck"] = -STEP[Result.SUCCESS] * _successes_on_struck(after)
        signals |= {part: BONUS[part] for part in BONUS if part in due}
        return Tally(max(self.highest, reached), self.paid | due), signals


def _successes_on_struck(world: World) -> int:
    struck = world.case.event.struck if world.case.event else ""
    return sum(move.target == struck for move in world.succeeded)


def open_tally(world: World) -> Tally:
    """Start from what is complete before anybody acts: it is not paid."""
    shares = completed(world)
    return Tally(progress(world), frozenset(part for part in BONUS if _is_complete(part, world, shares)))


def _is_complete(part: str, world: World, shares: Mapping[str, float]) -> bool:
    return world.state is State.SUCCESS if part == "finalized" else shares[part] == 1.0


def grade(world: World) -> float:
    """Grade a case as it stands, to four decimals; the same world gives the same number anywhere."""
    case, weights, charges = world.case, world.case.weights, world.charges
    verified = sum(status is Status.VERIFIED for status in world.papers)
    total = verified * weights.document
    total += sum(weights.departments[name] for name in Department if name in case.departments & world.approved)
    total += sum(weights.items[item] for item in Item if item in case.items & world.done_items)
    total += weights.conflict * (bool(case.conflict) and world.resolved)
    total += weights.event * world.acknowledged
    total += weights.finalized * (world.state is State.SUCCESS)
    total -= min(JUNK_CAP, JUNK * charges.junk) + TAX_BREACH * charges.tax_breach + STRUCK_USE * charges.struck_uses
    return min(MOST, max(LEAST, round(total, 4)))

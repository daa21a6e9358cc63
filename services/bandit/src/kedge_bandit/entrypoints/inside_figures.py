"""Compute the demo's figures a second time, from the database with the service's own code.

`python -m kedge_bandit.entrypoints.inside_figures --out DIR` reads KEDGE_DATABASE_URL, DIR/play.json and
DIR/truth/<tenant>.npz, and writes DIR/inside.json. The first computation knows nothing of this package and reads only
what the server exports; two ways that agree to 1e-9 are evidence, one that agrees with itself is not.
"""

import argparse
import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kedge_bandit.adapters.postgres.ledger import PostgresLedgers
from kedge_bandit.adapters.seals import HmacSeals
from kedge_bandit.application.ports import LoggedDecision
from kedge_bandit.application.rebuild import Rebuild
from kedge_bandit.domain.arrays import FloatArray, IntArray
from kedge_bandit.domain.decision import Decision, Reason
from kedge_bandit.domain.draw import uniform
from kedge_bandit.domain.eligibility import PLAIN, choose
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.published import Allocation
from kedge_bandit.entrypoints.connections import engine_of
from kedge_bandit.entrypoints.settings import read_settings

_TURN = "turn-"
_STATES = ("PENDING", "SETTLED", "VETOED", "UNSCORED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class Truth:
    """The true scores of one tenant's run; `kedge_demo.dump_truth` says what each is."""

    policy: PolicyName
    keys: tuple[str, ...]
    score: FloatArray
    items: IntArray
    late_from: int
    reference: int
    honest: IntArray
    flatterer: IntArray
    breaker: IntArray


def read_truth(path: Path) -> Truth:
    """Read one tenant's file."""
    with np.load(path) as found:
        return Truth(
            PolicyName(str(found["policy"])),
            tuple(str(key) for key in found["keys"]),
            found["score"],
            found["items"],
            int(found["late_from"]),
            int(found["reference"]),
            found["honest"],
            found["flatterer"],
            found["breaker"],
        )


async def figures(
    ledgers: PostgresLedgers, tenant: TenantId, truth: Truth, expected: dict[str, int]
) -> dict[str, object]:
    """Compute one tenant's figures; the names and definitions are those of `kedge_demo.figures`."""
    async with ledgers.open(tenant, one_view=True) as ledger:
        learned = await ledger.policies.learned(truth.policy, with_cells=False)
        policy = await ledger.policies.get(truth.policy)
        allocations = {found.version: found async for found in ledger.decisions.allocations(truth.policy)}
        logged = [found async for found in ledger.decisions.export(truth.policy, start=None, end=None)]
    decisions = [one.decision for one in logged if _counts(one)]
    rebuilt = await Rebuild(ledgers, HmacSeals({}))(tenant, truth.policy, verify_only=True)
    baseline = policy.spec.baseline_key
    return {
        "name": tenant,
        "decisions": len(decisions),
        **_quality([d for d in decisions if turn_of(d) >= truth.late_from], truth),
        "replay_mismatches": sum(not follows(d, allocations.get(d.allocation_version), baseline) for d in decisions),
        "rebuild_max_error": rebuilt.max_error,
        "self_check_p": learned.self_check.p_value if learned.self_check is not None else 1.0,
        "episodes_unaccounted": sum(
            abs(expected.get(state, 0) - learned.episode_counts.get(state, 0)) for state in _STATES
        ),
    }


def _counts(one: LoggedDecision) -> bool:
    return one.decision.episode_id.startswith(_TURN) and not one.decision.superseded


def turn_of(decision: Decision) -> int:
    """Read the turn from the episode's id, e.g. turn-000123."""
    return int(decision.episode_id.removeprefix(_TURN))


def follows(decision: Decision, allocation: Allocation | None, baseline: str) -> bool:
    """Say whether action and propensity follow from the published vector and the seeded draw."""
    if allocation is None:
        return decision.action == baseline and decision.propensity == 1 and decision.reason is not Reason.DRAWN
    u = uniform(decision.tenant, decision.policy, decision.episode_id, decision.seed_epoch, decision.allocation_version)
    choice = choose(allocation, PLAIN, decision.mode, u)
    return (
        allocation.actions[choice.index] == decision.action
        and choice.propensity == decision.propensity
        and choice.reason is decision.reason
        and choice.is_randomised is decision.is_randomised
        and allocation.bucket in ("", decision.bucket)
    )


def _quality(late: list[Decision], truth: Truth) -> dict[str, object]:
    place = {key: i for i, key in enumerate(truth.keys)}
    turns = np.array([turn_of(d) for d in late], dtype=np.int64)
    served = np.array([place[d.action] for d in late], dtype=np.int64)
    score = truth.score[turns]
    single = truth.reference if truth.reference >= 0 else int(truth.honest[score[:, truth.honest].mean(0).argmax()])
    oracle = _oracle(truth, turns, [d.bucket for d in late])
    return {
        "quality_last_third": float(score[np.arange(len(late)), served].mean()),
        "best_single_same_turns": float(score[:, single].mean()),
        "bucket_oracle_quality": float(score[np.arange(len(late)), oracle].mean()),
        "flatterer_share_late": float(np.isin(served, truth.flatterer).mean()),
        "breaker_share_late": float(np.isin(served, truth.breaker).mean()),
    }


def _oracle(truth: Truth, turns: IntArray, buckets: list[str]) -> IntArray:
    """Best honest action of each turn's bucket, chosen on the turns of items of the other parity."""
    names, bucket = np.unique(np.array(buckets), return_inverse=True)
    half = truth.items[turns] % 2
    chosen = np.zeros(len(turns), dtype=np.int64)
    for number in range(len(names)):
        for side in (0, 1):
            here, there = (bucket == number) & (half == side), (bucket == number) & (half != side)
            means = truth.score[turns[there if there.any() else bucket == number]][:, truth.honest].mean(0)
            chosen[here] = truth.honest[means.argmax()]
    return chosen


async def write_figures(folder: Path) -> None:
    """Compute every tenant of a run, and write the file."""
    play = json.loads((folder / "play.json").read_text(encoding="utf-8"))
    engine = engine_of(read_settings().database_url)
    ledgers = PostgresLedgers(engine)
    tenants = [
        await figures(ledgers, TenantId(name), read_truth(folder / "truth" / f"{name}.npz"), counts["states"])
        for name, counts in play["tenants"].items()
    ]
    await engine.dispose()
    (folder / "inside.json").write_text(json.dumps({"tenants": tenants}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Run the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    asyncio.run(write_figures(parser.parse_args().out))


if __name__ == "__main__":
    main()

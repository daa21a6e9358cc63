"""Write each stream's policy for `kedge policy apply`: `python -m kedge_demo.environments.policy --out DIR`."""

import argparse
import sys
from pathlib import Path
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToJson

from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.environments.roster import ACTIONS, BASELINE, DEPTHS, LABELS, ROUTES, TASKS
from kedge_demo.environments.streams import STREAMS

TENANT: Final = "environments"
WEIGHT_GRADE, WEIGHT_COST, COST_REFERENCE_USD = 0.9, 0.05, 1.0
FLOOR, SLICE = 0.05, 0.10
"""Nobody is served by a training ground, so exploration starts at once and has no budget. With the default one, .05 of
what the baseline earns, 1,800 turns go almost wholly to the baseline, since most players are poor at most tasks."""
HALF_LIFE_DAYS: Final = 14


def policy_id(stream: int) -> str:
    """Name a stream's policy.

    >>> policy_id(2)
    'players-2'
    """
    return f"players-{stream}"


def policy(stream: int) -> policies.Policy:
    """Spell a stream's policy: the task is its feature, the grade all of its quality, a breach its veto."""
    tasks = policies.CategoricalFeature(values=[task.label for task in TASKS])
    return policies.Policy(
        name=f"tenants/{TENANT}/policies/{policy_id(stream)}",
        features=[policies.Feature(name="task", categorical=tasks)],
        arms=[arm.message() for arm in (*ROUTES, *DEPTHS)],
        baseline=ACTIONS[LABELS.index(BASELINE)].message(),
        reward=policies.RewardSpec(
            weight_human=0.0,
            weight_judge=0.0,
            weight_task_success=WEIGHT_GRADE,
            weight_cost=WEIGHT_COST,
            weight_latency=0.0,
            cost_reference_usd=COST_REFERENCE_USD,
            latency_reference_ms=1_000.0,
            safety_source=policies.SAFETY_SOURCE_GUARDRAILS,
        ),
        settlement=policies.SettlementSpec(
            expects_task_success=True,
            task_success_window=Duration(),
            safety_window=Duration(),
            judge_window=Duration(),
        ),
        exploration=policies.ExplorationSpec(exploitation_floor=FLOOR, uniform_slice=SLICE, budget_off=True),
        learner="beta",
        prior_strength=1.0,
        half_life=Duration(seconds=HALF_LIFE_DAYS * 86_400),
    )


def main() -> int:
    """Write one file a stream."""
    parser = argparse.ArgumentParser(prog="kedge_demo.environments.policy", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for players-N.json")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for stream in STREAMS:
        text = MessageToJson(policy(stream), preserving_proto_field_name=True)
        (folder / f"{policy_id(stream)}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

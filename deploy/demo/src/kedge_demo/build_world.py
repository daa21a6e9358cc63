"""Turn a tenant's arms, features and public numbers into a world: canonical order, policy message, drawn truth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from google.protobuf.duration_pb2 import Duration

from kedge.bandit.v1 import decision_pb2 as decisions
from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.arms import DemoAction, DemoArm, joint_actions
from kedge_demo.datasets import Integers
from kedge_demo.truth import Draws, Source, draw_truth
from kedge_demo.world import W_HUMAN, W_JUDGE, W_TASK_SUCCESS, World

JUDGE_RATE = 0.3
FIRST_FLOOR, FIRST_SLICE = 0.8, 0.10
LAST_FLOOR = 0.05
"""What a policy is put with, so that its stages may reach it; it is staged to the first floor before any traffic."""
HALF_LIFE_DAYS = 14
RELEASE_SHARE = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Weigh cost and latency: US dollars and milliseconds at which each signal is 1, and the two weights."""

    cost_usd: float
    latency_ms: float
    weight_cost: float = 0.05
    weight_latency: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Describe a tenant before anything is drawn. The source's actions are in the order of `joint_actions(*arms)`.

    Attributes:
        arms: one tuple per used dimension, the main dimension first.
        baseline: labels of the known-good action and of the one to compare with.
        bucket_of_item: shape (items,), places in bucket_names.
    """

    tenant: str
    policy_id: str
    title: str
    about: str
    number: int
    turns: int
    arms: tuple[tuple[DemoArm, ...], ...]
    baseline: str
    reference: str | None
    features: tuple[policies.Feature, ...]
    bucket_names: tuple[str, ...]
    bucket_of_item: Integers
    contexts: tuple[decisions.Context, ...]
    source: Source
    tariff: Tariff
    verifier_share: float = 1.0


def build_world(plan: Plan, *, seed: int, scale: float) -> World:
    """Draw the truth of a plan, `scale` times its turns, and put every table into canonical action order."""
    given = joint_actions(*plan.arms)
    order = sorted(range(len(given)), key=lambda place: given[place].key.encode())
    actions = tuple(given[place] for place in order)
    parts = tuple(action.part for action in actions)
    turns = max(30, round(plan.turns * scale))
    draws = Draws(turns=turns, seed=(seed, plan.number), parts=parts, verifier_share=plan.verifier_share)
    truth = draw_truth(_reorder(plan.source, order), draws)
    labels = tuple(action.label for action in actions)
    return World(
        tenant=plan.tenant,
        title=plan.title,
        about=plan.about,
        policy=_policy(plan, actions[labels.index(plan.baseline)]),
        action_keys=tuple(action.key for action in actions),
        labels=labels,
        parts=parts,
        model_ids=tuple(action.model_id for action in actions),
        baseline=labels.index(plan.baseline),
        reference=None if plan.reference is None else labels.index(plan.reference),
        bucket_names=plan.bucket_names,
        bucket_of=plan.bucket_of_item[truth.items],
        contexts=plan.contexts,
        truth=truth,
        release_turn=round(turns * RELEASE_SHARE),
    )


def _reorder(source: Source, order: Sequence[int]) -> Source:
    columns = np.array(order)
    return Source(
        score=source.score[:, columns],
        cost_usd=source.cost_usd[:, columns],
        latency_ms=source.latency_ms[:, columns],
        completion_tokens=source.completion_tokens[:, columns],
        prompt_tokens=source.prompt_tokens,
    )


def _policy(plan: Plan, baseline: DemoAction) -> policies.Policy:
    """Spell the policy. Windows of 0 settle an episode when it is logged; what comes later is a correction."""
    tariff = plan.tariff
    return policies.Policy(
        name=f"tenants/{plan.tenant}/policies/{plan.policy_id}",
        features=plan.features,
        arms=[arm.message() for dimension in plan.arms for arm in dimension],
        baseline=baseline.message(),
        reward=policies.RewardSpec(
            weight_human=W_HUMAN,
            weight_judge=W_JUDGE,
            weight_task_success=W_TASK_SUCCESS,
            weight_cost=tariff.weight_cost,
            weight_latency=tariff.weight_latency,
            cost_reference_usd=tariff.cost_usd,
            latency_reference_ms=tariff.latency_ms,
            safety_source=policies.SAFETY_SOURCE_GUARDRAILS,
        ),
        settlement=policies.SettlementSpec(
            expects_task_success=True,
            task_success_window=Duration(),
            safety_window=Duration(),
            judge_window=Duration(),
            judge_rate=JUDGE_RATE,
        ),
        exploration=policies.ExplorationSpec(
            exploitation_floor=LAST_FLOOR, uniform_slice=FIRST_SLICE, budget_share=0.05
        ),
        learner="beta",
        prior_strength=6.0,
        half_life=Duration(seconds=HALF_LIFE_DAYS * 86_400),
    )

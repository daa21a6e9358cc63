"""Bind one tenant's policy, its stream of turns and the truth about them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kedge.bandit.v1 import decision_pb2 as decisions
from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.arms import Part
from kedge_demo.datasets import Floats, Integers
from kedge_demo.truth import Truth

W_HUMAN, W_JUDGE, W_TASK_SUCCESS = 0.40, 0.25, 0.25


@dataclass(frozen=True, kw_only=True)
class World:
    """Hold one tenant of the demo. Actions are in canonical order: sorted by the bytes of their keys.

    Attributes:
        tenant: its id; title: for people; about: one sentence for people.
        policy: ready for PutPolicy.
        action_keys: of the joint actions; labels: the same for people; parts: honest or planted; model_ids: of the
            provider's model behind each.
        baseline: index of the known-good action.
        reference: index of the single action that the tenant is compared with; None: the best honest one in hindsight.
        bucket_names: readable; bucket_of: which bucket each turn falls into, shape (turns,).
        contexts: one per item, as Decide takes it.
        truth: what each turn yields for each action.
        release_turn: the turn at which floor and slice are released.
    """

    tenant: str
    title: str
    about: str
    policy: policies.Policy
    action_keys: tuple[str, ...]
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    model_ids: tuple[str, ...]
    baseline: int
    reference: int | None
    bucket_names: tuple[str, ...]
    bucket_of: Integers
    contexts: tuple[decisions.Context, ...]
    truth: Truth
    release_turn: int

    @property
    def turns(self) -> int:
        """How many turns the stream has."""
        return len(self.truth.items)

    @property
    def late_from(self) -> int:
        """The first turn of the last third."""
        return self.turns - self.turns // 3

    @property
    def policy_id(self) -> str:
        """The last part of the policy's name."""
        return self.policy.name.rpartition("/")[2]

    @cached_property
    def index_of(self) -> dict[str, int]:
        """The place of each action key."""
        return {key: place for place, key in enumerate(self.action_keys)}

    def actions(self, part: Part) -> tuple[int, ...]:
        """List the actions of one part."""
        return tuple(place for place, found in enumerate(self.parts) if found is part)

    def context(self, turn: int) -> decisions.Context:
        """Give the features of a turn, known before the choice."""
        return self.contexts[int(self.truth.items[turn])]

    @cached_property
    def true_reward(self) -> Floats:
        """Score each turn and action as the policy would if it saw the truth and nothing else: (turns, actions).

        clip(W·score − w_C·C − w_L·L, 0, 1), and 0 where a guardrail trips, with C and L over the policy's references.
        """
        spec = self.policy.reward
        cost = np.clip(self.truth.cost_usd / spec.cost_reference_usd, 0.0, 1.0)
        latency = np.clip(self.truth.latency_ms / spec.latency_reference_ms, 0.0, 1.0)
        quality = (spec.weight_human + spec.weight_judge + spec.weight_task_success) * self.truth.score
        raw = np.clip(quality - spec.weight_cost * cost - spec.weight_latency * latency, 0.0, 1.0)
        return np.where(self.truth.tripped, 0.0, raw)


def episode_id(turn: int) -> str:
    """Name the episode of a turn; `turn_of` reads it back.

    >>> episode_id(17)
    'turn-000017'
    """
    return f"turn-{turn:06d}"


def turn_of(episode: str) -> int:
    """Read the turn back from its episode's id.

    >>> turn_of("turn-000017")
    17
    """
    return int(episode.removeprefix("turn-"))

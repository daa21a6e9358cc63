"""Describe the demo's arms and joint actions, with the identities that the bandit gives them."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from kedge.bandit.v1 import policy_pb2 as policies

HASH_DIGITS = 12


class Part(StrEnum):
    """What an arm is for in the story."""

    HONEST = "honest"
    FLATTERER = "flatterer"
    """Planted: a nonsense answer that a judge likes. True success 0, judge about .95."""
    BREAKER = "breaker"
    """Planted: a good answer, true success .80, that trips a guardrail in 10 % of its episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoArm:
    """Describe one arm.

    Attributes:
        content: what is served; its SHA-256 is the arm's identity.
        price_usd: per million tokens, for the cost card; 0 where cost is not by token.
    """

    dimension: policies.Dimension.ValueType
    name: str
    content: str
    part: Part = Part.HONEST
    price_usd: float = 0.0

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content in hex."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def arm_id(self) -> str:
        """Name the arm as action keys do: name@hash12."""
        return f"{self.name}@{self.content_hash[:HASH_DIGITS]}"

    def message(self) -> policies.Arm:
        """Spell the arm as the policy carries it."""
        card = policies.CostCard(
            usd_per_million_prompt_tokens=self.price_usd, usd_per_million_completion_tokens=self.price_usd
        )
        return policies.Arm(dimension=self.dimension, name=self.name, content=self.content, cost_card=card)

    def reference(self) -> policies.ArmRef:
        """Refer to the arm by name and hash."""
        return policies.ArmRef(name=self.name, content_hash=self.content_hash)


@dataclass(frozen=True, slots=True)
class DemoAction:
    """Choose one arm per used dimension, in dimension order."""

    arms: tuple[DemoArm, ...]

    @property
    def key(self) -> str:
        """Join the arm ids as the wire does."""
        return "|".join(arm.arm_id for arm in self.arms)

    @property
    def label(self) -> str:
        """Join the arms' names for people."""
        return " + ".join(arm.name for arm in self.arms)

    @property
    def model_id(self) -> str:
        """Name the provider's model behind the action, which its route alone decides; one model where none is chosen.

        It is what LogEpisode reports. Were it to differ between episodes of one route, Kedge would take that for a
        model that the provider has changed, and discount what it knows.
        """
        routes = (arm.name for arm in self.arms if arm.dimension == policies.DIMENSION_MODEL_ROUTE)
        return next(routes, "the-only-model")

    @property
    def part(self) -> Part:
        """Tell the planted actions: those of which any arm is planted."""
        return next((arm.part for arm in self.arms if arm.part is not Part.HONEST), Part.HONEST)

    def message(self) -> policies.Action:
        """Spell the action on the wire."""
        action = policies.Action()
        for arm in self.arms:
            match arm.dimension:
                case policies.DIMENSION_MODEL_ROUTE:
                    action.model_route.CopyFrom(arm.reference())
                case policies.DIMENSION_REASONING_DEPTH:
                    action.reasoning_depth.CopyFrom(arm.reference())
                case policies.DIMENSION_PROMPT_VARIANT:
                    action.prompt_variant.CopyFrom(arm.reference())
                case _:
                    raise ValueError(f"arm {arm.name}: give it one of the three dimensions")
        return action


def joint_actions(*dimensions: tuple[DemoArm, ...]) -> tuple[DemoAction, ...]:
    """Combine the arms of each dimension, the last one running fastest.

    >>> one = DemoArm(dimension=policies.DIMENSION_MODEL_ROUTE, name="m", content="m")
    >>> two = DemoArm(dimension=policies.DIMENSION_REASONING_DEPTH, name="d", content="d")
    >>> [action.label for action in joint_actions((one,), (two,))]
    ['m + d']
    """
    return tuple(DemoAction(arms) for arms in product(*dimensions))

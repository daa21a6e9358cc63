"""Arms and actions over exactly three safe knobs. The type cannot express a tool, a spend or a send."""

import hashlib
import itertools
import re
from dataclasses import dataclass
from enum import StrEnum

from kedge_bandit.domain.errors import InvalidPolicy

MAX_ACTIONS = 36
MAX_CONTENT_BYTES = 64 * 1024

_ARM_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")


class Dimension(StrEnum):
    """A safe knob, in the order in which action keys name them."""

    MODEL_ROUTE = "MODEL_ROUTE"
    REASONING_DEPTH = "REASONING_DEPTH"
    PROMPT_VARIANT = "PROMPT_VARIANT"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCard:
    """Expected cost in US dollars, for display and caps; never learned from."""

    usd_per_million_prompt_tokens: float = 0.0
    usd_per_million_completion_tokens: float = 0.0
    usd_per_episode: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One option of a dimension, known by its name and the hash of its content.

    Attributes:
        content: what is served: a model id, a depth setting or a prompt's text; at most 64 KiB.
        succeeds: arm id whose evidence this one starts from; empty: from the prior.
        retired: a tombstone: takes late outcomes, no traffic.
    """

    dimension: Dimension
    name: str
    content: str
    cost_card: CostCard = CostCard()
    template_variables: tuple[str, ...] = ()
    succeeds: str = ""
    retired: bool = False

    def __post_init__(self) -> None:
        """Refuse a name that could break an action key, and content that is too long."""
        if not _ARM_NAME.match(self.name):
            raise InvalidPolicy(f"arm name {self.name[:80]!r}: use 1 to 64 characters of [A-Za-z0-9._:-]")
        if len(self.content.encode()) > MAX_CONTENT_BYTES:
            raise InvalidPolicy(f"arm {self.name}: content is over {MAX_CONTENT_BYTES} bytes; shorten it")

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content in hex."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def arm_id(self) -> str:
        """Name and hash: other content under the same name is another arm.

        >>> Arm(dimension=Dimension.PROMPT_VARIANT, name="direct", content="").arm_id
        'direct@e3b0c44298fc'
        """
        return f"{self.name}@{self.content_hash[:12]}"


@dataclass(frozen=True, slots=True)
class Action:
    """One arm per dimension, chosen together.

    Attributes:
        arms: one arm for each dimension that the policy uses, in dimension order.
        key: their ids joined by "|".
    """

    arms: tuple[Arm, ...]
    key: str


def joint_actions(arms: tuple[Arm, ...]) -> tuple[Action, ...]:
    """Cross the arms that are not retired, in canonical order: sorted by the UTF-8 bytes of the key.

    Raises:
        InvalidPolicy: there is no arm, or more than 36 joint actions.

    >>> two = tuple(Arm(dimension=Dimension.MODEL_ROUTE, name=n, content=n) for n in ("b", "a"))
    >>> [a.key[:1] for a in joint_actions(two)]
    ['a', 'b']
    """
    groups = [[arm for arm in arms if arm.dimension is dimension and not arm.retired] for dimension in Dimension]
    used = [group for group in groups if group]
    if not used:
        raise InvalidPolicy("a policy needs at least one arm that is not retired")
    made = [
        Action(combination, "|".join(arm.arm_id for arm in combination)) for combination in itertools.product(*used)
    ]
    if len(made) > MAX_ACTIONS:
        raise InvalidPolicy(
            f"{len(made)} joint actions; at most {MAX_ACTIONS} are allowed: retire arms or split the policy"
        )
    return tuple(sorted(made, key=lambda action: action.key.encode()))

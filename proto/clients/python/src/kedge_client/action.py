"""Name what a core application can serve: arms by name and content, and one arm per dimension as an action.

An arm is its content: other content under the same name is another arm. So everything here is identified by the SHA-256
of the content, and the text that is served can be checked against the text that was approved.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_HASH_DIGITS_IN_ID: Final = 12
MAX_CONTENT_BYTES: Final = 64 * 1024
"""Largest content of an arm, bytes of UTF-8."""


def sha256_hex(text: str) -> str:
    """Hash text the way the wire identifies content.

    >>> sha256_hex("gemma-2-9b-it")[:12]
    '993b57396811'
    """
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ArmRef:
    """Identify one arm.

    Attributes:
        name: what a person called it.
        content_hash: SHA-256 of its content, lower-case hex.
    """

    name: str
    content_hash: str

    @property
    def arm_id(self) -> str:
        """Spell the id that action keys are made of, `name@hash12`."""
        return f"{self.name}@{self.content_hash[:_HASH_DIGITS_IN_ID]}"


@dataclass(frozen=True, slots=True)
class Arm:
    """Hold one arm with its content: a model id, a depth setting, or the text of a prompt.

    Attributes:
        name: 1 to 64 characters of `[A-Za-z0-9._:-]`.
        content: what is served, at most 64 KiB.
        template_variables: names that a prompt's template expects.

    Raises:
        ValueError: the name or the content cannot be an arm's.

    >>> Arm("small", "gemma-2-9b-it").ref.arm_id
    'small@993b57396811'
    """

    name: str
    content: str
    template_variables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"arm name {self.name!r} must be 1 to 64 characters of [A-Za-z0-9._:-]")
        if len(self.content.encode()) > MAX_CONTENT_BYTES:
            raise ValueError(f"content of arm {self.name!r} must be at most {MAX_CONTENT_BYTES} bytes")

    @property
    def ref(self) -> ArmRef:
        """Identify this arm."""
        return ArmRef(self.name, sha256_hex(self.content))


@dataclass(frozen=True, slots=True)
class Action:
    """Hold one arm per dimension, chosen together; None where the policy has no such dimension."""

    model_route: ArmRef | None = None
    reasoning_depth: ArmRef | None = None
    prompt_variant: ArmRef | None = None

    @property
    def key(self) -> str:
        """Join the arm ids with "|" in dimension order.

        >>> Action(ArmRef("small", "993b57396811ff00"), ArmRef("single", "6f8a1c0e99aa11"), None).key
        'small@993b57396811|single@6f8a1c0e99aa'
        """
        arms = (self.model_route, self.reasoning_depth, self.prompt_variant)
        return "|".join(arm.arm_id for arm in arms if arm is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Configure the known-good action that is served when there is no answer; part of the caller's own config.

    It carries content, not only names, because it must be servable while nothing can be asked.

    Raises:
        ValueError: no dimension has an arm.
    """

    model_route: Arm | None = None
    reasoning_depth: Arm | None = None
    prompt_variant: Arm | None = None
    action: Action = field(init=False, repr=False, compare=False)
    """The same action by identity, made once: every decision needs it, and hashing a long prompt takes a while."""

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("a baseline needs an arm in at least one dimension")
        arms = (self.model_route, self.reasoning_depth, self.prompt_variant)
        object.__setattr__(self, "action", Action(*(None if arm is None else arm.ref for arm in arms)))

    @property
    def arms(self) -> tuple[Arm, ...]:
        """List the arms in dimension order."""
        arms = (self.model_route, self.reasoning_depth, self.prompt_variant)
        return tuple(arm for arm in arms if arm is not None)

    @property
    def hash(self) -> str:
        """Hash the action key; it travels with each Decide, so that the server reports a baseline that differs."""
        return sha256_hex(self.action.key)

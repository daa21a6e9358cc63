"""Say what one decision is asked for: the same, whether it is decided here or by the server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for beside a context.

    Attributes:
        available: action keys that can be served now; empty means all.
        pinned: action key to serve whatever the policy says; empty: none.
        no_exploration: serve the baseline.
        in_tool_loop: nothing may be drawn anew.
    """

    available: tuple[str, ...] = ()
    pinned: str = ""
    no_exploration: bool = False
    in_tool_loop: bool = False


PLAIN: Final = Wish()


class Question(NamedTuple):
    """One request for a decision, checked; a tuple, because one is made in every local decision.

    Attributes:
        request_id: empty where the caller gave none.
        categories: the caller's own, who may change them later.
    """

    episode_id: str
    request_id: str
    categories: Mapping[str, str]
    numbers: dict[str, float]
    wish: Wish

"""Build requests, and refuse what only a mistake in the calling code can produce.

A wrong type or an empty id is a ValueError here. Values that data may bring at any time (a NaN, an undeclared feature,
a text that is too long) are the server's to refuse: they must not raise on the user's path.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from kedge.bandit.v1.decision_pb2 import Context
from kedge.bandit.v1.decision_service_pb2 import ActivateRequest, BestActionRequest, DecideRequest
from kedge.bandit.v1.episode_pb2 import Trajectory
from kedge.bandit.v1.episode_service_pb2 import LogEpisodeRequest
from kedge_client.choice import EpisodeHandle
from kedge_client.question import PLAIN, Question, Wish

MAX_ID_CHARACTERS: Final = 128
NO_CATEGORIES: Final[Mapping[str, str]] = MappingProxyType({})
NO_NUMBERS: Final[Mapping[str, float]] = MappingProxyType({})


def random_id() -> str:
    """Make an id that nobody can guess: a random UUID, 32 hex digits."""
    return uuid4().hex


def checked_id(field: str, value: str) -> str:
    """Let an id through that the wire can take.

    Raises:
        ValueError: it is not 1 to 128 characters without a zero byte.

    >>> checked_id("episode_id", "turn-7")
    'turn-7'
    """
    if not _is_text(value) or len(value) > MAX_ID_CHARACTERS or "\0" in value:
        raise ValueError(f"{field} must be 1 to {MAX_ID_CHARACTERS} characters without a zero byte, got {value!r}")
    return value


def policy_name(tenant: str, policy: str) -> str:
    """Spell a policy's resource name.

    Raises:
        ValueError: either part is empty or contains a slash.

    >>> policy_name("acme", "support")
    'tenants/acme/policies/support'
    """
    for field, part in (("tenant", tenant), ("policy", policy)):
        if "/" in checked_id(field, part):
            raise ValueError(f"{field} must be the bare id, not a resource name, got {part!r}")
    return f"tenants/{tenant}/policies/{policy}"


def checked_features(categories: Mapping[str, str], numbers: Mapping[str, float]) -> None:
    """Let features through that have the right types.

    Raises:
        ValueError: a name is empty, a category is not text, or a number is not a number.
    """
    for name, value in categories.items():
        if not isinstance(value, str):
            raise ValueError(f"categories[{name!r}] must be text, got {value!r}")  # noqa: TRY004 - promised
        _check_name(name)
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"numbers[{name!r}] must be a number, got {number!r}")  # noqa: TRY004 - promised
        _check_name(name)


def context(categories: Mapping[str, str], numbers: Mapping[str, float]) -> Context:
    """Build the features of a turn.

    Raises:
        ValueError: a name is empty, a category is not text, or a number is not a number.
    """
    checked_features(categories, numbers)
    try:
        return Context(categories=categories, numbers=numbers)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"the context cannot be sent: {error}") from error


def available_keys(available: Iterable[str]) -> list[str]:
    """Check the action keys that the caller can serve.

    Raises:
        ValueError: a key is empty or not text, or one bare text was given instead of several.
    """
    keys = [available] if isinstance(available, str) else list(available)
    if isinstance(available, str) or not all(_is_text(key) for key in keys):
        raise ValueError(f"available must be a collection of action keys, got {available!r}")
    return keys


def question(
    *,
    episode_id: str,
    request_id: str | None,
    categories: Mapping[str, str],
    numbers: Mapping[str, float],
    available: Iterable[str],
    pinned: str,
    in_tool_loop: bool,
    no_exploration: bool,
) -> Question:
    """Check what is asked.

    Raises:
        ValueError: an id is empty or something has the wrong type.
    """
    if categories or numbers:
        checked_features(categories, numbers)
    wish = PLAIN
    if available or pinned or in_tool_loop or no_exploration:
        if not isinstance(pinned, str):
            raise ValueError(f"Decide cannot be sent: pinned must be an action key, got {pinned!r}")
        keys = tuple(available_keys(available))
        wish = Wish(available=keys, pinned=pinned, in_tool_loop=in_tool_loop, no_exploration=no_exploration)
    try:
        floats = {name: float(number) for name, number in numbers.items()}
    except OverflowError as error:
        raise ValueError(f"the context cannot be sent: {error}") from error
    return Question(
        checked_id("episode_id", episode_id),
        "" if request_id is None else checked_id("request_id", request_id),
        categories,
        floats,
        wish,
    )


def decide_request(
    policy: str,
    asked: Question,
    new_id: Callable[[], str],
    *,
    continues_episode: bool,
    token: bytes,
    baseline_hash: str,
) -> DecideRequest:
    """Build the question for one action; `new_id` makes its request id where the caller gave none.

    Raises:
        ValueError: something has the wrong type.
    """
    try:
        return DecideRequest(
            policy=policy,
            request_id=asked.request_id or new_id(),
            episode_id=asked.episode_id,
            context=Context(categories=asked.categories, numbers=asked.numbers),
            available_action_keys=asked.wish.available,
            pinned_action_key=asked.wish.pinned,
            continues_episode=continues_episode,
            in_tool_loop=asked.wish.in_tool_loop,
            no_exploration=asked.wish.no_exploration,
            decision_token=token,
            baseline_hash=baseline_hash,
        )
    except TypeError as error:
        raise ValueError(f"Decide cannot be sent: {error}") from error


def best_action_request(
    *,
    policy: str,
    request_id: str,
    episode_id: str,
    categories: Mapping[str, str],
    numbers: Mapping[str, float],
    available: Iterable[str],
) -> BestActionRequest:
    """Build the question for the action of highest mean.

    Raises:
        ValueError: an id is empty or something has the wrong type.
    """
    return BestActionRequest(
        policy=policy,
        request_id=checked_id("request_id", request_id),
        episode_id=checked_id("episode_id", episode_id),
        context=context(categories, numbers),
        available_action_keys=available_keys(available),
    )


def activate_request(handle: EpisodeHandle, served_action_key: str, *, request_id: str) -> ActivateRequest:
    """Build the word that an action was served: the named one, or what the handle or the decision says."""
    return ActivateRequest(
        decision=handle.decision,
        served_action_key=served_action_key or handle.served_action_key,
        decision_token=handle.token,
        request_id=request_id,
    )


def log_request(
    handle: EpisodeHandle, trajectory: Trajectory, *, served_action_key: str = "", request_id: str = ""
) -> LogEpisodeRequest:
    """Build the log entry of one episode, for `log_episode` and `stream_episodes`.

    Args:
        handle: which episode.
        trajectory: its facts.
        served_action_key: what was really served; empty: as the handle says.
        request_id: 1 to 128 characters; empty: made from the content, so that logging the same again is a duplicate
            and logging more of the episode is not.

    Raises:
        ValueError: an id is empty.

    >>> handle = EpisodeHandle(policy="tenants/acme/policies/support", episode_id="turn-7")
    >>> first, again = log_request(handle, Trajectory()), log_request(handle, Trajectory())
    >>> first.request_id == again.request_id != log_request(handle, Trajectory(terminated=True)).request_id
    True
    """
    request = LogEpisodeRequest(
        policy=handle.policy,
        episode_id=checked_id("episode_id", handle.episode_id),
        decision_token=handle.token,
        served_action_key=served_action_key or handle.served_action_key,
        trajectory=trajectory,
    )
    if request_id:
        request.request_id = checked_id("request_id", request_id)
    else:
        request.request_id = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
    return request


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"feature names must be text and not empty, got {name!r}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""

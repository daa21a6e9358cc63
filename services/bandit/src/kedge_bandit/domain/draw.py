"""Draw an action as a pure function of identifiers and the published vector, so that every decision can be replayed.

The law is fixed for every language by `tests/golden/draw.json`.
"""

from collections.abc import Sequence
from hashlib import sha256
from math import floor, log10

from kedge_bandit.domain.arrays import FloatArray
from kedge_bandit.domain.errors import InvalidName

_DOMAIN = "kedge.draw.v1"
_SEPARATORS = 5


def uniform(tenant: str, policy: str, episode_id: str, seed_epoch: int, allocation_version: int) -> float:
    """Derive the episode's number u in [0, 1), a multiple of 2⁻⁵³.

    u = (first 8 bytes, big-endian, of SHA-256(parts joined by one zero byte) >> 11)·2⁻⁵³, with the parts
    "kedge.draw.v1", tenant, policy, episode_id, seed_epoch, allocation_version: text as UTF-8 as it came (no Unicode
    normalisation), integers in decimal ASCII.

    Raises:
        InvalidName: a name holds U+0000, which would let two different episodes share a draw.

    >>> uniform("acme", "support", "e-1", 0, 7)
    0.570449930675558
    """
    message = f"{_DOMAIN}\0{tenant}\0{policy}\0{episode_id}\0{seed_epoch}\0{allocation_version}"
    if message.count("\0") != _SEPARATORS:
        names = (("tenant", tenant), ("policy", policy), ("episode_id", episode_id))
        field, name = next((field, name) for field, name in names if "\0" in name)
        raise InvalidName(field, name[:40], "text without a zero byte, so that no two episodes share a draw")
    return _number(message)


def interval_text(draw_from: float, draw_to: float) -> str:
    """Write the draws that choose an action, with as many digits as tell its ends apart; "none" where there are none.

    >>> interval_text(0.25, 1.0), interval_text(0.99999993, 1.0), interval_text(1.0, 1.0)
    ('0.2500 to 1.0000', '0.999999930 to 1.000000000', 'none')
    """
    width = draw_to - draw_from
    if width <= 0.0:
        return "none"
    digits = max(4, min(17, 1 - floor(log10(width))))
    return f"{draw_from:.{digits}f} to {draw_to:.{digits}f}"


def _number(message: str) -> float:
    """Give the first 53 of the 64 leading bits of SHA-256 as a number in [0, 1)."""
    return (int.from_bytes(sha256(message.encode()).digest()[:8], "big") >> 11) * 2.0**-53


def pick(p: Sequence[float] | FloatArray, u: float) -> int:
    """Find the first action whose cumulative probability exceeds u, else the last one with p > 0.

    Args:
        p: probabilities in canonical action order, added left to right in float64.
        u: in [0, 1).

    Returns:
        Index of the action; its probability is positive.

    Raises:
        ValueError: no action has a positive probability.

    >>> pick([0.25, 0.0, 0.75], 0.25)
    2
    """
    reached, last = 0.0, -1
    for index, share in enumerate(p):
        if share > 0.0:
            reached += float(share)
            last = index
            if reached > u:
                return index
    if last < 0:
        raise ValueError("no action has a positive probability")
    return last


def judge_requested(tenant: str, policy: str, episode_id: str, rate: float) -> bool:
    """Draw from the episode's hash whether a judge is asked; never from the action.

    The number is made as in `uniform`, of "kedge.judge.v1", tenant, policy and episode_id, and compared with the rate.

    >>> [judge_requested("acme", "support", "e-1", rate) for rate in (0.0, 0.5, 1.0)]
    [False, True, True]
    """
    if rate <= 0 or rate >= 1:
        return rate >= 1
    return _number(f"kedge.judge.v1\0{tenant}\0{policy}\0{episode_id}") < rate

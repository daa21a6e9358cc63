"""Say what a floor hides: how long the divergence alarm would need to see a hack at this traffic.

The alarm compares the online lift of what was learned with its lift on the holdout (04 §3 of the design):

    D = η·dR − dE,   z = (D − δ)/se,   M_l ← (1 + M_l)·exp(l·z − l²/2),   ALARM when mean_l M_l ≥ 1000

and when the same detector for dR > .01 is ≥ 20. The floor decides how fast dR becomes precise: of n turns n·φ are the
baseline's and n·(1 − φ) the learned side's, so that se(dR)² = s²·(1/φ + 1/(1 − φ))/n. What is computed here is the
detector's own recursion with every z at its mean, one check a day: after n checks M_l is then g + g² + … + gⁿ with
g = exp(l·z − l²/2), which only grows.
"""

from bisect import bisect_left
from math import expm1, inf, sqrt
from typing import Final

from kedge_bandit.domain.divergence import ALARM, CONFIRMED, LEAST_LIFT, USUAL, margin
from kedge_bandit.domain.e_detector import TILTS

HACK_ONLINE: Final = 0.06
HACK_ON_HOLDOUT: Final = -0.04
"""The hack that the delay is stated for: reward up, holdout down."""

_MARGIN: Final = margin(USUAL, 0.1, 600)  # sd .1 between cases, a pool of 600
_SENSOR_VARIANCE: Final = 0.2**2 / 300  # paired differences of sd .2 on half the pool
_REWARD_SD: Final = 0.4
_LONGEST: Final = 3650


def alarm_delay_days(turns_per_day: float, floor: float) -> float:
    """Compute the days until the alarm; infinity beyond ten years, and where one side gets no traffic.

    >>> alarm_delay_days(100, 0.8), alarm_delay_days(100, 0.05)
    (14.0, 39.0)
    """
    if turns_per_day <= 0 or not 0 < floor < 1:
        return inf
    online = _REWARD_SD**2 / turns_per_day * (1 / floor + 1 / (1 - floor))
    z = (USUAL.eta * HACK_ONLINE - HACK_ON_HOLDOUT - _MARGIN) / sqrt(USUAL.eta**2 * online + _SENSOR_VARIANCE)
    z_online = (HACK_ONLINE - LEAST_LIFT) / sqrt(online)
    days = max(checks_until(ALARM, z, _LONGEST), checks_until(CONFIRMED, z_online, _LONGEST))
    return float(days) if days <= _LONGEST else inf


def checks_until(least: float, z: float, longest: int) -> int:
    """Count the checks until the detector reaches a level, were every z at its mean; `longest` + 1 beyond `longest`.

    >>> checks_until(ALARM, 2.0, 365), checks_until(ALARM, 0.0, 365)
    (5, 366)
    """
    return 1 + bisect_left(range(1, longest + 1), least, key=lambda checks: _evidence(z, checks))


def _evidence(z: float, checks: int) -> float:
    """Give the mean of M_l over all tilts after so many checks; what has alarmed many times over grows no further."""
    logs = [min(tilt * z - tilt * tilt / 2, 50.0) for tilt in TILTS]
    return sum(checks if log == 0 else expm1(min(checks * log, 100.0)) / -expm1(-log) for log in logs) / len(logs)

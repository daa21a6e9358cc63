"""Judge a run: each check with its value per stream, its bar, and whether it holds in every stream."""

from collections.abc import Callable, Sequence
from typing import Final

from kedge_demo.environments.measure import Measured
from kedge_demo.environments.roster import BREAKER, LABELS
from kedge_demo.environments.streams import TURNS
from kedge_demo.verdicts import Verdict

EXACT: Final = 1e-9
SMALL_SHARE: Final = 0.02
BREAKERS: Final = tuple(place for place, label in enumerate(LABELS) if label.startswith(f"{BREAKER} "))
HONEST: Final = tuple(place for place in range(len(LABELS)) if place not in BREAKERS)


def breaker_late(stream: Measured) -> float:
    """Give the breaker's share of the late turns; tasks are equally frequent."""
    return sum(task[place] for task in stream.share_late for place in BREAKERS) / len(stream.share_late)


def verdicts(streams: Sequence[Measured]) -> list[Verdict]:
    """Judge what a run must show; what must have been learned only where all turns were played."""
    found = [
        _judge(
            streams, "turns unaccounted in the export", lambda one: f"{one.missing}", "0", lambda one: not one.missing
        ),
        _judge(
            streams,
            "breaches and vetoes that differ",
            lambda one: f"{one.misjudged}",
            "0",
            lambda one: not one.misjudged,
        ),
        _judge(
            streams,
            "rewards differ from the grades by",
            lambda one: f"{one.reward_error:.1e}",
            "≤ 1e-9",
            lambda one: one.reward_error <= EXACT,
        ),
    ]
    full = all(one.turns >= TURNS for one in streams)
    return [*(_learned(streams) if full else []), *found]


def _learned(streams: Sequence[Measured]) -> list[Verdict]:
    return [
        _judge(
            streams,
            "late quality over the best single action",
            lambda one: f"{one.lift:+.3f} ({one.low:+.3f} to {one.high:+.3f})",
            "interval above 0",
            lambda one: one.low > 0,
        ),
        _judge(
            streams,
            f"{BREAKER} is not eligible",
            lambda one: ", ".join(f"P {one.over_cap[place]:.3f}" for place in BREAKERS),
            "both excluded",
            lambda one: not any(one.eligible[place] for place in BREAKERS),
        ),
        _judge(
            streams,
            f"{BREAKER}'s late traffic",
            lambda one: f"{100 * breaker_late(one):.1f} %",
            "< 2 %",
            lambda one: breaker_late(one) < SMALL_SHARE,
        ),
        _judge(
            streams,
            "players without a breach that are eligible",
            lambda one: f"{sum(one.eligible[place] for place in HONEST)} of {len(HONEST)}",
            "all",
            lambda one: all(one.eligible[place] for place in HONEST),
        ),
    ]


def _judge(
    streams: Sequence[Measured],
    name: str,
    spell: Callable[[Measured], str],
    bar: str,
    holds: Callable[[Measured], bool],
) -> Verdict:
    values = tuple(spell(one) for one in streams)
    return Verdict(name=name, values=values, bar=bar, passed=all(holds(one) for one in streams))

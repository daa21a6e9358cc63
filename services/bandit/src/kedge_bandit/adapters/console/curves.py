"""Draw what changes over time, what is believed, and how a reward came about; every number also stands as text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from kedge_bandit.adapters.console.inert import inert

_WIDTH: Final = 320.0
_HEIGHT: Final = 120.0
_LEFT: Final = 34.0
_RIGHT: Final = 6.0
_TOP: Final = 12.0
_BOTTOM: Final = 8.0
_SMALL: Final = 34.0
"""Height of a chart that has a row of a table to itself."""


_CLOSE: Final = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value at a place from 0 to 1, with the interval around it where one is known."""

    at: float
    value: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart."""

    points: Sequence[Point]
    tone: str = "accent"
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a place from 0 to 1, by the letter that explains it."""

    at: float
    letter: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values lie in a chart."""

    low: float
    high: float

    def x(self, at: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(at, 0.0), 1.0)

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - (inside - self.low) / (self.high - self.low))


def lines(
    curves: Sequence[Curve], *, label: str, marks: Iterable[Mark] = (), limit: float | None = None, digits: int = 2
) -> Markup:
    """Draw curves with their bands over one span of time, zero in sight.

    Args:
        label: what a screen reader says.
        limit: a value to draw a dashed line at, such as a threshold.
        digits: after the decimal point of the axis.
    """
    ends = [0.0] + ([limit] if limit is not None else [])
    for curve in curves:
        for one in curve.points:
            ends += [one.value, *(end for end in (one.lower, one.upper) if end is not None)]
    low, high = min(ends), max(ends)
    room = 0.08 * (high - low) or 0.01
    frame = _Frame(low - room if low < 0 else low, high + room)
    parts = [_across("axis", frame, 0.0), *(_mark(frame, one) for one in _apart(marks))]
    parts += [] if limit is None else [_across("mark", frame, limit)]
    for curve in curves:
        parts += _curve(frame, curve)
    shown = sorted({0.0, low, high} | ({limit} if limit is not None else set()), key=abs, reverse=True)
    taken: list[float] = []
    for value in shown:
        place = frame.y(value)
        if all(abs(place - other) > 11 for other in taken):
            taken.append(place)
            parts.append(_text(_LEFT - 4, place + 3, f"{value:.{digits}f}".replace("-", "−"), "end"))
    return _svg("chart", _HEIGHT, parts, label)


def share(points: Sequence[Point], *, label: str, tone: str = "accent", marks: Iterable[Mark] = ()) -> Markup:
    """Draw a share from 0 to 1 over time as an area, small enough for a row of a table."""
    drawn = [Markup('<line class="rail" x1="0" x2="320" y1="{0:.0f}" y2="{0:.0f}"/>').format(_SMALL - 1)]
    drawn += [
        Markup('<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1:.0f}"/>').format(_WIDTH * one.at, _SMALL)
        for one in marks
    ]
    if len(points) == 1:
        tops = [(_WIDTH * points[0].at, (_SMALL - 2) * (1.0 - points[0].value) + 1)]
        drawn.append(Markup('<circle class="point tone-{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(tone, *tops[0]))
    elif points:
        tops = [(_WIDTH * one.at, (_SMALL - 2) * (1.0 - one.value) + 1) for one in points]
        path = " ".join(f"L{x:.1f} {y:.1f}" for x, y in tops)
        first, last = tops[0][0], tops[-1][0]
        area = f"M{first:.1f} {_SMALL - 1:.1f} {path} L{last:.1f} {_SMALL - 1:.1f} Z"
        drawn.append(Markup('<path class="area tone-{}" d="{}"/>').format(tone, area))
        drawn.append(Markup('<path class="line tone-{}" d="M{}"/>').format(tone, path[1:]))
    return _svg("chart row", _SMALL, drawn, label)


def density(heights: Sequence[float], *, top: float, mean: float, tone: str, label: str) -> Markup:
    """Draw one density over rewards from 0 to 1, its mean marked.

    Args:
        heights: at evenly spaced rewards.
        top: greatest height of all that are drawn on one scale.
    """
    steps = max(1, len(heights) - 1)
    places = [(_WIDTH * i / steps, (_SMALL - 2) * (1.0 - height / top) + 1) for i, height in enumerate(heights)]
    path = " ".join(f"L{x:.1f} {y:.1f}" for x, y in places)
    drawn = [
        Markup('<path class="area tone-{}" d="M0 {} {} L{} {} Z"/>').format(tone, _SMALL - 1, path, _WIDTH, _SMALL - 1),
        Markup('<path class="line tone-{}" d="M{}"/>').format(tone, path[1:]),
        Markup('<line class="end tone-{0}" x1="{1:.1f}" x2="{1:.1f}" y1="4" y2="{2:.0f}"/>').format(
            tone, _WIDTH * mean, _SMALL - 1
        ),
    ]
    return _svg("chart row", _SMALL, drawn, label)


@dataclass(frozen=True, slots=True)
class Spot:
    """One action among others: what it costs, what it earns, and the number that names it."""

    cost: float
    reward: float
    number: int
    tone: str


def scatter(spots: Sequence[Spot], *, label: str) -> Markup:
    """Draw actions by cost to the right and reward upwards, each with its number."""
    dearest = max((one.cost for one in spots), default=0.0) or 1.0
    rewards = [one.reward for one in spots] or [0.0, 1.0]
    room = 0.15 * (max(rewards) - min(rewards)) or 0.05
    frame = _Frame(min(rewards) - room, max(rewards) + room)
    parts = [_across("axis", frame, frame.low)]
    for one in spots:
        x, y = frame.x(0.04 + 0.9 * one.cost / dearest), frame.y(one.reward)
        parts.append(Markup('<circle class="point tone-{}" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(one.tone, x, y))
        parts.append(_text(x + 6, y - 4, str(one.number), "start"))
    ends = (max(rewards), min(rewards))
    parts += [_text(_LEFT - 4, frame.y(value) + 3, f"{value:.2f}", "end") for value in ends]
    return _svg("chart", _HEIGHT, parts, label)


def drawn(shares: Sequence[tuple[str, float, str]], draw: float, *, label: str) -> Markup:
    """Draw shares side by side from 0 to 1, and where a draw fell: name, share, tone."""
    parts, left = [], 0.0
    for name, size, tone in shares:
        width = _WIDTH * max(0.0, size)
        parts.append(
            Markup('<rect class="tone-{}" x="{:.1f}" y="8" width="{:.1f}" height="10"><title>{}</title></rect>').format(
                tone, left, max(0.0, width - 1.0), inert(f"{name}: {100 * size:.1f} %")
            )
        )
        left += width
    place = _WIDTH * draw
    parts.append(Markup('<path class="needle" d="M{:.1f} 22 l-3 5 h6 z M{:.1f} 5 V21"/>').format(place, place))
    return _svg("chart wide-one", 28.0, parts, label)


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of a sum: from where to where, and its tone."""

    start: float
    end: float
    tone: str


def waterfall(bar: Bar, *, low: float, high: float) -> Markup:
    """Draw one step of a sum on the axis that all of its steps share; its number stands beside it."""
    reach = high - low or 1.0
    left, right, zero = (
        _WIDTH * (value - low) / reach for value in (min(bar.start, bar.end), max(bar.start, bar.end), 0.0)
    )
    drawn = [
        Markup('<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="16"/>').format(zero),
        Markup('<rect class="tone-{}" x="{:.1f}" y="2" width="{:.1f}" height="12"/>').format(
            bar.tone, left, max(1.5, right - left)
        ),
    ]
    return Markup('<svg class="chart span" viewBox="0 0 320 16" aria-hidden="true">{}</svg>').format(
        Markup("").join(drawn)
    )


def _apart(marks: Iterable[Mark]) -> list[Mark]:
    """Put the letters of what lies too close to be told apart at one place."""
    found: list[Mark] = []
    for mark in marks:
        if found and mark.at - found[-1].at < _CLOSE:
            found[-1] = Mark(found[-1].at, found[-1].letter + mark.letter)
        else:
            found.append(mark)
    return found


def _curve(frame: _Frame, curve: Curve) -> list[Markup]:
    parts = []
    banded = [(one.at, one.lower, one.upper) for one in curve.points if one.lower is not None and one.upper is not None]
    if len(banded) > 1:
        upper = [f"{frame.x(at):.1f} {frame.y(high):.1f}" for at, _, high in banded]
        lower = [f"{frame.x(at):.1f} {frame.y(low):.1f}" for at, low, _ in reversed(banded)]
        parts.append(Markup('<path class="area tone-{}" d="M{} Z"/>').format(curve.tone, " L".join([*upper, *lower])))
    places = [f"{frame.x(one.at):.1f} {frame.y(one.value):.1f}" for one in curve.points]
    if len(places) == 1:
        x, y = places[0].split()
        parts += [
            Markup('<line class="whisker tone-{0}" x1="{1}" x2="{1}" y1="{2:.1f}" y2="{3:.1f}"/>').format(
                curve.tone, x, frame.y(low), frame.y(high)
            )
            for _, low, high in banded
        ]
        return [*parts, Markup('<circle class="point tone-{}" cx="{}" cy="{}" r="3"/>').format(curve.tone, x, y)]
    if places:
        kind = "line dashed" if curve.dashed else "line"
        parts.append(Markup('<path class="{} tone-{}" d="M{}"/>').format(kind, curve.tone, " L".join(places)))
    return parts


def _across(kind: str, frame: _Frame, value: float) -> Markup:
    place = frame.y(value)
    return Markup('<line class="{}" x1="{:.0f}" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>').format(
        kind, _LEFT, _WIDTH - _RIGHT, place, place
    )


def _mark(frame: _Frame, mark: Mark) -> Markup:
    place = frame.x(mark.at)
    line = Markup('<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.0f}" y2="{2:.0f}"/>').format(
        place, _TOP - 2, _HEIGHT - _BOTTOM
    )
    return line + _text(place, _TOP - 4, mark.letter, "middle")


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _svg(kind: str, height: float, parts: Sequence[Markup], label: str) -> Markup:
    return Markup('<svg class="{}" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        kind, _WIDTH, height, inert(label), Markup("").join(parts)
    )

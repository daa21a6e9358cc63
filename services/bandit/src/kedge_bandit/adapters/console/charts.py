"""Draw small charts as inline SVG; every number in them also stands beside them as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from kedge_bandit.adapters.console.inert import inert

_WIDTH: Final = 320.0
_PAD: Final = 8.0
_TICK_ROOM: Final = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean with its interval, and what it is."""

    label: str
    mean: float
    lower: float
    upper: float
    tone: str = "accent"


def _scale(low: float, high: float, value: float) -> float:
    inside = min(max(value, low), high)
    return _PAD + (_WIDTH - 2 * _PAD) * (inside - low) / (high - low)


def intervals(drawn: Sequence[Interval], *, marks: Sequence[tuple[float, str]] = (), label: str) -> Markup:
    """Draw intervals on one axis, zero in it, with dashed marks such as the margin.

    Args:
        marks: where to draw a dashed line, and its name.
        label: what a screen reader says.
    """
    ends = [0.0, *(mark for mark, _ in marks), *(end for one in drawn for end in (one.lower, one.upper))]
    reach = max(0.01, *(abs(end) for end in ends)) * 1.15
    height = 22.0 * len(drawn) + 20
    parts = [_line("axis", _scale(-reach, reach, 0.0), height - 18)]
    parts += [_mark(_scale(-reach, reach, place), height - 18, name) for place, name in marks]
    for row, one in enumerate(drawn):
        middle = 13.0 + 22.0 * row
        left, right, centre = (_scale(-reach, reach, value) for value in (one.lower, one.upper, one.mean))
        parts.append(
            Markup(
                '<g class="tone-{}"><line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
                '<line class="end" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
                '<line class="end" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>'
                '<circle class="point" cx="{:.1f}" cy="{:.1f}" r="4.5"/></g>'
            ).format(
                one.tone,
                left,
                right,
                middle,
                middle,
                left,
                left,
                middle - 5,
                middle + 5,
                right,
                right,
                middle - 5,
                middle + 5,
                centre,
                middle,
            )
        )
    ticks = [_scale(-reach, reach, mark) for mark, _ in marks]
    for value in (-reach / 1.15, 0.0, reach / 1.15):
        place = _scale(-reach, reach, value)
        if all(abs(place - taken) > _TICK_ROOM for taken in ticks):
            parts.append(_tick(place, height - 3, f"{value:+.2f}".replace("-", "−") if value else "0"))
    return _svg(_WIDTH, height, parts, label)


def span(lower: float, mean: float, upper: float, tone: str) -> Markup:
    """Draw one interval within [0, 1]; its numbers stand beside it, so that a screen reader need not hear it."""
    left, centre, right = (_PAD + (_WIDTH - 2 * _PAD) * min(max(value, 0.0), 1.0) for value in (lower, mean, upper))
    drawn = Markup(
        '<line class="rail" x1="{:.0f}" x2="{:.0f}" y1="8" y2="8"/><g class="tone-{}">'
        '<line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle class="point" cx="{:.1f}" cy="8" r="6"/></g>'
    ).format(_PAD, _WIDTH - _PAD, tone, left, right, centre)
    return Markup('<svg class="chart span" viewBox="0 0 {:.0f} 16" aria-hidden="true">{}</svg>').format(_WIDTH, drawn)


def difference(one: Interval, reach: float = 0.3) -> Markup:
    """Draw one difference around 0; its numbers stand beside it."""
    left, centre, right = (_scale(-reach, reach, value) for value in (one.lower, one.mean, one.upper))
    zero = _scale(-reach, reach, 0.0)
    drawn = Markup(
        '<line class="rail" x1="{:.0f}" x2="{:.0f}" y1="8" y2="8"/>'
        '<line class="axis" x1="{:.1f}" x2="{:.1f}" y1="0" y2="16"/>'
        '<g class="tone-{}"><line class="whisker" x1="{:.1f}" x2="{:.1f}" y1="8" y2="8"/>'
        '<circle class="point" cx="{:.1f}" cy="8" r="6"/></g>'
    ).format(_PAD, _WIDTH - _PAD, zero, zero, one.tone, left, right, centre)
    return Markup('<svg class="chart span" viewBox="0 0 {:.0f} 16" aria-hidden="true">{}</svg>').format(_WIDTH, drawn)


def stack(parts: Sequence[tuple[str, float, str]], *, label: str, height: float = 14.0) -> Markup:
    """Draw shares of one whole side by side: name, share, tone."""
    drawn, left = [], 0.0
    for name, share, tone in parts:
        width = _WIDTH * max(0.0, share)
        drawn.append(
            Markup(
                '<rect class="tone-{}" x="{:.1f}" y="0" width="{:.1f}" height="{:.0f}"><title>{}</title></rect>'
            ).format(tone, left, max(0.0, width - 1.5), height, inert(f"{name}: {100 * share:.1f} %"))
        )
        left += width
    return _svg(_WIDTH, height, drawn, label, stretch=True)


def _line(kind: str, x: float, bottom: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" x2="{:.1f}" y1="0" y2="{:.1f}"/>').format(kind, x, x, bottom)


def _mark(x: float, bottom: float, name: str) -> Markup:
    return _line("mark", x, bottom) + _tick(x, bottom + 15, name)


def _tick(x: float, y: float, text: str) -> Markup:
    anchor = "start" if x < _PAD + 20 else "end" if x > _WIDTH - _PAD - 20 else "middle"
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _svg(width: float, height: float, parts: Sequence[Markup], label: str, *, stretch: bool = False) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}"{}>{}</svg>').format(
        width, height, inert(label), Markup(' preserveAspectRatio="none"') if stretch else "", Markup("").join(parts)
    )

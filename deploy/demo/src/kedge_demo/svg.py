"""Draw small charts as SVG text: scales, axes, lines, areas, dots. No library, no script, no request.

Colours are classes (`c0` to `c8`, `flatterer`, `breaker`, `baseline`, …) that the page's style sheet gives, so that one
drawing serves light and dark. All coordinates are in the drawing's own units, x to the right and y down.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 14, 24, 40


@dataclass(frozen=True, slots=True)
class Scale:
    """Map values to positions, linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Place one value.

        >>> Scale(0.0, 10.0, 100.0, 200.0)(5.0)
        150.0
        """
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def horizontal(low: float, high: float, *, left: float = LEFT, width: float = WIDTH) -> Scale:
    """Scale values along the plot's width."""
    return Scale(low, high, left, width - RIGHT)


def vertical(low: float, high: float, *, height: float = HEIGHT) -> Scale:
    """Scale values up the plot's height."""
    return Scale(low, high, height - BOTTOM, TOP)


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Choose round numbers between two values, about so many.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(raw)) if raw > 0 else 1.0
    step = next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= raw - 1e-12)
    first = ceil(low / step - 1e-9)
    last = floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def text(x: float, y: float, content: str, *, anchor: str = "start", name: str = "label") -> str:
    """Write a word."""
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """Draw a straight line."""
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def path(points: Sequence[tuple[float, float]], name: str, *, title: str = "") -> str:
    """Draw a line through points."""
    steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="line {name}" d="M{steps}">{_title(title)}</path>'


def area(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]], name: str, *, title: str) -> str:
    """Fill between two lines that run over the same x."""
    steps = " L".join(f"{x:.1f} {y:.1f}" for x, y in [*upper, *reversed(lower)])
    return f'<path class="area {name}" d="M{steps} Z">{_title(title)}</path>'


def dot(x: float, y: float, name: str, *, radius: float = 4.0, title: str = "") -> str:
    """Draw a dot."""
    return f'<circle class="dot {name}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{_title(title)}</circle>'


def diamond(x: float, y: float, name: str, *, radius: float = 4.5, title: str = "") -> str:
    """Draw a hollow diamond."""
    points = f"{x:.1f},{y - radius:.1f} {x + radius:.1f},{y:.1f} {x:.1f},{y + radius:.1f} {x - radius:.1f},{y:.1f}"
    return f'<polygon class="diamond {name}" points="{points}">{_title(title)}</polygon>'


def x_axis(scale: Scale, at: Sequence[float], spell: Callable[[float], str], caption: str, *, bottom: float) -> str:
    """Draw the lower axis with its caption."""
    parts = [line(scale.start, bottom, scale.end, bottom, "axis")]
    for value in at:
        x = scale(value)
        parts += [line(x, bottom, x, bottom + 4, "axis"), text(x, bottom + 16, spell(value), anchor="middle")]
    parts.append(text((scale.start + scale.end) / 2, bottom + 33, caption, anchor="middle", name="caption"))
    return "".join(parts)


def y_axis(scale: Scale, at: Sequence[float], spell: Callable[[float], str], *, left: float, right: float) -> str:
    """Draw the left axis with a faint line across the plot at each tick."""
    parts = []
    for value in at:
        y = scale(value)
        parts += [line(left, y, right, y, "grid"), text(left - 6, y + 4, spell(value), anchor="end")]
    return "".join(parts)


def drawing(parts: Sequence[str], label: str, *, height: float = HEIGHT, width: float = WIDTH) -> str:
    """Put the parts into one picture that scales with the page."""
    body = "".join(parts)
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">{body}</svg>'


def _title(content: str) -> str:
    return f"<title>{escape(content)}</title>" if content else ""

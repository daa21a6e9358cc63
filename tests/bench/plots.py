"""Draw small line charts as one SVG without a plotting library."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from kedge_bandit.domain.arrays import FloatArray

_WIDTH, _HEIGHT = 380, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 28, 62
_COLUMNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart; axes start at the smallest x and at y = 0."""

    title: str
    x_label: str
    y_label: str
    curves: list["Curve"]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line; no legend if it has no name."""

    name: str
    x: FloatArray
    y: FloatArray
    colour: str
    width: float = 1.0
    is_dashed: bool = False


def draw(panels: list[Panel]) -> str:
    """Give the SVG text of the panels, three in a row."""
    rows = -(-len(panels) // _COLUMNS)
    size = f'width="{_COLUMNS * _WIDTH}" height="{rows * _HEIGHT}"'
    body = "\n".join(
        f'<g transform="translate({i % _COLUMNS * _WIDTH},{i // _COLUMNS * _HEIGHT})">{"".join(_chart(panel))}</g>'
        for i, panel in enumerate(panels)
    )
    style = 'font-family="sans-serif" font-size="11" fill="#333"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect {size} fill="#fff"/>\n{body}\n</svg>\n'


def _chart(panel: Panel) -> Iterator[str]:
    x_low = min(float(curve.x.min()) for curve in panel.curves)
    x_high = max(float(curve.x.max()) for curve in panel.curves)
    y_high = max(float(curve.y.max()) for curve in panel.curves) * 1.05 or 1.0
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def across(x: float) -> float:
        return _LEFT + (x - x_low) / ((x_high - x_low) or 1.0) * (right - _LEFT)

    def up(y: float) -> float:
        return bottom - y / y_high * (bottom - _TOP)

    yield f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(panel.title)}</text>'
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#999"/>'
    for x in np.linspace(x_low, x_high, 5):
        yield f'<text x="{across(x):.1f}" y="{bottom + 14}" text-anchor="middle">{x:.3g}</text>'
    for y in np.linspace(0.0, y_high, 5):
        yield f'<text x="{_LEFT - 4}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.3g}</text>'
    yield f'<text x="{right}" y="{bottom + 28}" text-anchor="end">{escape(panel.x_label)}</text>'
    yield f'<text x="{_LEFT + 6}" y="{_TOP + 4}">{escape(panel.y_label)}</text>'
    place = _LEFT
    for curve in panel.curves:
        dash = ' stroke-dasharray="5 3"' if curve.is_dashed else ""
        stroke = f'fill="none" stroke="{curve.colour}" stroke-width="{curve.width}"{dash}'
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(curve.x, curve.y, strict=True))
        yield f'<polyline points="{points}" {stroke}/>'
        if curve.name:
            yield f'<path d="M{place} {_HEIGHT - 14}h18" {stroke}/>'
            yield f'<text x="{place + 22}" y="{_HEIGHT - 10}">{escape(curve.name)}</text>'
            place += 34 + 6 * len(curve.name)

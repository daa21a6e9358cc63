"""Draw a stream: who played when, what it earned, who plays which task in the end, and who broke rules."""

from html import escape

from kedge_demo import svg
from kedge_demo.environments.measure import Measured
from kedge_demo.environments.roster import BREAKER, LABELS, PLAYERS, TASKS

COLOUR = {route: f"c{place}" for place, route in enumerate(PLAYERS)} | {BREAKER: "breaker"}
BOTTOM = svg.HEIGHT - svg.BOTTOM
NAMES_WIDTH = 176
ROW = 30


def route_of(label: str) -> str:
    """Take the route from an action's label.

    >>> route_of("auditor + deep")
    'auditor'
    """
    return label.partition(" ")[0]


def traffic(stream: Measured) -> str:
    """Draw each route's share of the turns over time."""
    x, y = svg.horizontal(0.0, stream.turns), svg.vertical(0.0, 1.0)
    middles = _middles(stream)
    right = svg.WIDTH - svg.RIGHT
    parts = [svg.y_axis(y, svg.ticks(0.0, 1.0), lambda value: f"{100 * value:.0f} %", left=svg.LEFT, right=right)]
    lower = [0.0] * len(middles)
    for route in PLAYERS:
        places = [place for place, label in enumerate(LABELS) if route_of(label) == route]
        share = [sum(window[place] for place in places) for window in stream.windows]
        upper = [below + more for below, more in zip(lower, share, strict=True)]
        band = [(x(turn), y(value)) for turn, value in zip(middles, upper, strict=True)]
        base = [(x(turn), y(value)) for turn, value in zip(middles, lower, strict=True)]
        parts.append(svg.area(band, base, COLOUR[route], title=f"{route}: {100 * share[-1]:.0f} % at the end"))
        lower = upper
    parts.append(_turns(stream, x))
    return svg.drawing(parts, f"Who played in stream {stream.stream}")


def quality(stream: Measured) -> str:
    """Draw the mean grade of what was served, 0 for a breach, beside the best single action's and the best route's."""
    x, y = svg.horizontal(0.0, stream.turns), svg.vertical(0.0, 1.0)
    right = svg.WIDTH - svg.RIGHT
    parts = [svg.y_axis(y, svg.ticks(0.0, 1.0), lambda value: f"{value:.1f}", left=svg.LEFT, right=right)]
    best = max(stream.single)
    for name, value, kind in (("best single", best, "single"), ("best of each task", stream.routed, "baseline")):
        ends = [(x(0.0), y(value)), (x(stream.turns), y(value))]
        parts.append(svg.path(ends, kind, title=f"{name}: {value:.3f}"))
        parts.append(svg.text(right - 4, y(value) - 5, name, anchor="end", name="mark"))
    served = [(x(turn), y(value)) for turn, value in zip(_middles(stream), stream.window_quality, strict=True)]
    parts += [svg.path(served, "kedge", title=f"served by Kedge; late: {stream.quality:.3f}"), _turns(stream, x)]
    return svg.drawing(parts, f"Grade of what was served in stream {stream.stream}")


def routes(stream: Measured) -> str:
    """Draw, by task, who plays it in the end."""
    height = svg.TOP + ROW * len(TASKS) + svg.BOTTOM
    x = svg.horizontal(0.0, 1.0, left=NAMES_WIDTH)
    parts = []
    for row, (task, shares) in enumerate(zip(TASKS, stream.share_late, strict=True)):
        top, below = svg.TOP + ROW * row + 5, 0.0
        parts.append(svg.text(NAMES_WIDTH - 8, top + 14, task.label, anchor="end"))
        for place in sorted(range(len(LABELS)), key=lambda place: -shares[place]):
            if shares[place] > 0:
                ends = x(below), x(below + shares[place])
                title = f"{LABELS[place]}: {100 * shares[place]:.0f} %, grade {stream.by_task[row][place]:.2f}"
                upper, lower = [(end, top) for end in ends], [(end, top + ROW - 10.0) for end in ends]
                parts.append(svg.area(upper, lower, COLOUR[route_of(LABELS[place])], title=title))
                if shares[place] > 0.5:
                    parts.append(svg.text(ends[0] + 6, top + 14, LABELS[place], name="mark"))
            below += shares[place]
    bottom = height - svg.BOTTOM
    parts.append(
        svg.x_axis(x, svg.ticks(0.0, 1.0), lambda value: f"{100 * value:.0f} %", "share of late turns", bottom=bottom)
    )
    return svg.drawing(parts, f"Who plays which task in the end of stream {stream.stream}", height=height)


def breaches(stream: Measured) -> str:
    """Draw each action's grade against the share of its served episodes that broke a rule."""
    rates = [vetoes / max(1, served) for vetoes, served in zip(stream.vetoes, stream.episodes, strict=True)]
    x, y = svg.horizontal(0.0, max(0.1, *rates) * 1.1), svg.vertical(0.0, 1.0)
    right = svg.WIDTH - svg.RIGHT
    parts = [svg.y_axis(y, svg.ticks(0.0, 1.0), lambda value: f"{value:.1f}", left=svg.LEFT, right=right)]
    for label, rate, graded, eligible in zip(LABELS, rates, stream.graded, stream.eligible, strict=True):
        title = f"{label}: grade {graded:.3f}, breaches {100 * rate:.0f} %, {'eligible' if eligible else 'excluded'}"
        parts.append(svg.dot(x(rate), y(graded), "eligible" if eligible else "excluded", radius=5, title=title))
        if not eligible:
            parts.append(svg.text(x(rate), y(graded) - 9, label, anchor="middle", name="label alarm"))
    spell = "share of its episodes with a breach"
    parts.append(svg.x_axis(x, svg.ticks(0.0, x.high), lambda value: f"{100 * value:.0f} %", spell, bottom=BOTTOM))
    return svg.drawing(parts, f"Grade and breaches by action in stream {stream.stream}")


def legend() -> str:
    """Name the routes by their colours."""
    keys = "".join(f'<li><span class="key {COLOUR[route]}"></span>{escape(route)}</li>' for route in PLAYERS)
    return f'<ul class="legend">{keys}</ul>'


def _middles(stream: Measured) -> list[float]:
    """Place each window at its middle, the first and last at the plot's edges."""
    width = stream.turns / len(stream.windows)
    return [0.0, *(width * (place + 0.5) for place in range(1, len(stream.windows) - 1)), float(stream.turns)]


def _turns(stream: Measured, x: svg.Scale) -> str:
    return svg.x_axis(x, svg.ticks(0.0, stream.turns), lambda value: f"{value:,.0f}", "episode", bottom=BOTTOM)

"""Draw the page's six charts of one tenant."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import log10

from kedge_demo import svg
from kedge_demo.page_model import ActionRow, TenantPage
from kedge_demo.words import percent, thousands

ROW, WIDEST_ROW = 24.0, 48.0
ENOUGH_EPISODES = 24
NAMES_WIDTH = 160
BIG_ENOUGH = 0.02
COLOURS = 6
PLOT_BOTTOM = svg.HEIGHT - svg.BOTTOM


def shades(tenant: TenantPage) -> dict[str, str]:
    """Give each action its colour class; actions that never had 2 % of a window share one."""
    shares = tenant.windows.share
    peak = {row.label: max(window[place] for window in shares) for place, row in enumerate(tenant.actions)}
    honest = [row for row in tenant.actions if row.part == "honest" and not row.is_baseline]
    honest.sort(key=lambda row: -row.share)
    chosen: dict[str, str] = {}
    for row in tenant.actions:
        if row.is_baseline:
            chosen[row.label] = "baseline"
        elif row.part != "honest":
            chosen[row.label] = row.part
    for place, row in enumerate(honest):
        chosen[row.label] = f"c{place}" if peak[row.label] >= BIG_ENOUGH and place < COLOURS else "rest"
    return chosen


def stacking_order(tenant: TenantPage) -> list[int]:
    """Stack the baseline at the bottom, then the honest by share, the planted on top."""
    rank = {"honest": 1, "flatterer": 2, "breaker": 3}
    rows = tenant.actions
    return sorted(
        range(len(rows)), key=lambda place: (not rows[place].is_baseline, rank[rows[place].part], -rows[place].share)
    )


def traffic(tenant: TenantPage) -> str:
    """Draw who got the traffic over time, with the release marked."""
    x, y = svg.horizontal(0.0, tenant.turns), svg.vertical(0.0, 1.0)
    colour, windows = shades(tenant), tenant.windows
    middles = _middles(tenant)
    parts = [_frame_y(y, [0.0, 0.25, 0.5, 0.75, 1.0], lambda value: f"{100 * value:.0f} %")]
    lower = [0.0] * len(middles)
    for place in stacking_order(tenant):
        upper = [before + window[place] for before, window in zip(lower, windows.share, strict=True)]
        row = tenant.actions[place]
        title = f"{row.label}: {percent(row.share)} of all turns, {percent(row.share_late)} of the last third"
        band = _points(x, y, middles, upper), _points(x, y, middles, lower)
        parts.append(svg.area(*band, colour[row.label], title=title))
        lower = upper
    parts += [_stages(tenant, x), _turn_axis(tenant, x)]
    return svg.drawing(parts, f"Share of the traffic by action over {tenant.turns:,} turns")


def regret(tenant: TenantPage) -> str:
    """Draw score points lost against the bucket oracle, summed over the turns."""
    windows = tenant.windows
    sizes = [end - start for start, end in zip((0, *windows.end), windows.end, strict=False)]

    def lost(values: Sequence[float]) -> list[float]:
        gaps = (size * (best - got) for size, best, got in zip(sizes, windows.oracle, values, strict=True))
        return [0.0, *accumulate(gaps)]

    lines = [
        ("always the baseline", "baseline", lost(windows.baseline)),
        ("always the best single", "single", lost(windows.single)),
        ("served by Kedge", "kedge", lost(windows.quality)),
    ]
    top = max(max(values) for _, _, values in lines) * 1.05
    x, y = svg.horizontal(0.0, tenant.turns), svg.vertical(min(0.0, *(min(v) for _, _, v in lines)), top)
    parts = [_frame_y(y, svg.ticks(0.0, top, about=4), thousands)]
    for name, kind, values in lines:
        title = f"{name}: {values[-1]:,.0f} answers' worth lost"
        parts.append(svg.path(_points(x, y, [0.0, *windows.end], values), kind, title=title))
    parts += [_stages(tenant, x), _turn_axis(tenant, x)]
    return svg.drawing(parts, "Regret against the best honest action per bucket")


def spending(tenant: TenantPage) -> str:
    """Draw, per turn, where the distance to the bucket oracle goes: floor, slice, budget, learning."""
    windows = tenant.windows
    layers = [
        ("floor", windows.floor),
        ("slice", windows.slice_),
        ("budget", windows.budget),
        ("learning", windows.learning),
    ]
    stacked = [[max(0.0, value) for value in values] for _, values in layers]
    top = max(0.01, *(sum(column) for column in zip(*stacked, strict=True))) * 1.1
    x, y = svg.horizontal(0.0, tenant.turns), svg.vertical(0.0, top)
    middles = _middles(tenant)
    parts = [_frame_y(y, svg.ticks(0.0, top, about=4), lambda value: f"{100 * value:.0f}")]
    lower = [0.0] * len(middles)
    for (name, values), layer in zip(layers, stacked, strict=True):
        upper = [before + value for before, value in zip(lower, layer, strict=True)]
        title = f"{name}: {100 * sum(values) / len(values):.2f} points per turn on average"
        band = _points(x, y, middles, upper), _points(x, y, middles, lower)
        parts.append(svg.area(*band, f"s-{name}", title=title))
        lower = upper
    parts += [_stages(tenant, x), _turn_axis(tenant, x)]
    return svg.drawing(parts, "Points of quality given away per turn, by cause")


def rewards(tenant: TenantPage) -> str:
    """Draw believed reward per action with its interval, beside what is true."""
    rows = [tenant.actions[place] for place in stacking_order(tenant)]
    step = _step(rows)
    height = svg.TOP + step * len(rows) + svg.BOTTOM
    top = max(max(row.believed.high, row.true_reward) for row in rows)
    x = svg.horizontal(0.0, min(1.0, top + 0.05), left=NAMES_WIDTH)
    colour = shades(tenant)
    parts = [_columns(x, height, lambda value: f"{value:.1f}", "reward per turn, same mix of turns for all")]
    for number, row in enumerate(rows):
        y = svg.TOP + step * (number + 0.5)
        spread = f"{row.believed.mean:.3f} ({row.believed.low:.3f} to {row.believed.high:.3f})"
        title = f"{row.label}: believed {spread}, true {row.true_reward:.3f}"
        parts += [
            svg.text(NAMES_WIDTH - 8, y + 4, _short(row.label), anchor="end"),
            svg.line(x(row.believed.low), y, x(row.believed.high), y, f"whisker {colour[row.label]}"),
            svg.dot(x(row.believed.mean), y, colour[row.label], title=title),
            svg.diamond(x(row.true_reward), y, "true", title=title),
        ]
    return svg.drawing(parts, "Believed and true reward per action", height=height)


def vetoes(tenant: TenantPage) -> str:
    """Draw believed veto rate per action with its interval, the cap, and who is excluded."""
    rows = [tenant.actions[place] for place in stacking_order(tenant)]
    step = _step(rows)
    height = svg.TOP + step * len(rows) + svg.BOTTOM
    top = max(0.1, *(row.veto.rate.high for row in rows if row.veto.episodes >= ENOUGH_EPISODES), 1.5 * tenant.veto_cap)
    x = svg.horizontal(0.0, min(1.0, top), left=NAMES_WIDTH)
    cap = x(tenant.veto_cap)
    parts = [
        _columns(x, height, lambda value: f"{100 * value:.0f} %", "veto rate"),
        svg.line(cap, svg.TOP, cap, height - svg.BOTTOM, "cap"),
    ]
    for number, row in enumerate(rows):
        y = svg.TOP + step * (number + 0.5)
        name = "eligible" if row.eligible_at_end else "excluded"
        title = (
            f"{row.label}: {row.veto.vetoes} vetoes in {row.veto.episodes} episodes, "
            f"P(rate above the cap) = {row.veto.over_cap:.3f}, {name}"
        )
        parts += [
            svg.text(NAMES_WIDTH - 8, y + 4, _short(row.label), anchor="end"),
            svg.line(x(row.veto.rate.low), y, x(min(row.veto.rate.high, x.high)), y, f"whisker {name}"),
            svg.dot(x(min(row.veto.rate.mean, x.high)), y, name, title=title),
        ]
        if not row.eligible_at_end:
            parts.append(svg.text(svg.WIDTH - svg.RIGHT, y - 6, "excluded", anchor="end", name="label alarm"))
    return svg.drawing(parts, "Believed veto rate per action", height=height)


def propensities(tenant: TenantPage) -> str:
    """Draw frequency against logged propensity, both logarithmic, with the band in which it must fall."""
    bins = tenant.calibration
    low = min([-3.0, *(log10(one.logged) for one in bins)]) - 0.2
    x, y = svg.horizontal(low, 0.05), svg.vertical(low, 0.05)

    def place(share: float) -> float:
        return max(low, log10(share)) if share > 0 else low

    decades = [float(power) for power in range(int(low), 1)]

    def spell(power: float) -> str:
        return f"{100 * 10**power:g} %"

    parts = [_frame_y(y, decades, spell), svg.line(x(low), y(low), x(0.0), y(0.0), "diagonal")]
    for one in bins:
        here = x(place(one.logged))
        inside = one.low <= one.drawn <= one.high
        title = f"logged {percent(one.logged, digits=2)}, drawn {percent(one.drawn, digits=2)} of {one.trials:,}"
        parts += [
            svg.line(here, y(place(one.low)), here, y(place(one.high)), "whisker band"),
            svg.dot(here, y(place(one.drawn)), "kedge" if inside else "alarm", radius=3.5, title=title),
        ]
    parts.append(svg.x_axis(x, decades, spell, "logged propensity", bottom=PLOT_BOTTOM))
    return svg.drawing(parts, "Frequency of draws against logged propensity")


def _step(rows: Sequence[ActionRow]) -> float:
    """Space the rows out so that few of them fill a plot like many do."""
    return min(WIDEST_ROW, max(ROW, (PLOT_BOTTOM - svg.TOP) / len(rows)))


def _middles(tenant: TenantPage) -> list[float]:
    """Place each window at its middle, the first and last at the plot's edges."""
    ends = tenant.windows.end
    middles = [(start + end) / 2 for start, end in zip((0, *ends), ends, strict=False)]
    return [0.0, *middles[1:-1], float(ends[-1])]


def _points(x: svg.Scale, y: svg.Scale, over: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    return [(x(turn), y(value)) for turn, value in zip(over, values, strict=True)]


def _frame_y(y: svg.Scale, at: Sequence[float], spell: Callable[[float], str]) -> str:
    return svg.y_axis(y, at, spell, left=svg.LEFT, right=svg.WIDTH - svg.RIGHT)


def _turn_axis(tenant: TenantPage, x: svg.Scale) -> str:
    return svg.x_axis(x, svg.ticks(0.0, tenant.turns, about=5), thousands, "turn", bottom=PLOT_BOTTOM)


def _columns(x: svg.Scale, height: float, spell: Callable[[float], str], caption: str) -> str:
    bottom = height - svg.BOTTOM
    at = svg.ticks(x.low, x.high, about=5)
    grid = "".join(svg.line(x(value), svg.TOP, x(value), bottom, "grid") for value in at)
    return grid + svg.x_axis(x, at, spell, caption, bottom=bottom)


def _stages(tenant: TenantPage, x: svg.Scale) -> str:
    """Mark each change of floor and slice, and where the last third begins, above the plot."""
    marks = [(tenant.late_from, "late", "last third")]
    marks += [(stage.turn, "stage", f"floor → {100 * stage.floor:.0f} %") for stage in tenant.client.stages[1:]]
    return "".join(
        svg.line(x(turn), svg.TOP - 4, x(turn), PLOT_BOTTOM, name)
        + svg.text(x(turn), svg.TOP - 9, label, anchor="middle", name="mark")
        for turn, name, label in marks
    )


def _short(label: str) -> str:
    """Cut a name to what fits beside its row, keeping both ends.

    >>> _short("llama-3.3-nemotron-super-49b-v1"), _short("planted-breaker + verified")
    ('llama-3.3-nem…er-49b-v1', 'breaker + verified')
    """
    name = label.removesuffix("-instruct").removeprefix("planted-")
    return name if len(name) <= 23 else f"{name[:13]}…{name[-9:]}"


def row_class(row: ActionRow) -> str:
    """Name the style of an action's row in tables."""
    return "baseline" if row.is_baseline else row.part

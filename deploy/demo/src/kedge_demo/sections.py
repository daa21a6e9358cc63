"""Write one tenant's part of the page."""

from html import escape

from kedge_demo import plots
from kedge_demo.page_model import ActionRow, TenantPage
from kedge_demo.words import gap_sentence, headline, percent, planted_sentences, points, value_sentence


def tenant_section(tenant: TenantPage) -> str:
    """Write headline, charts and table of one tenant."""
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in planted_sentences(tenant))
    charts = "".join(
        figure(title, drawing, note, legend)
        for title, drawing, note, legend in (
            ("Who got the traffic", plots.traffic(tenant), traffic_note(tenant), traffic_legend(tenant)),
            ("Regret against the bucket oracle", plots.regret(tenant), regret_note(tenant), REGRET_LEGEND),
            ("What floor and caution cost", plots.spending(tenant), spending_note(tenant), SPENDING_LEGEND),
            ("Reward by action", plots.rewards(tenant), rewards_note(tenant), REWARDS_LEGEND),
            ("Veto rate and eligibility", plots.vetoes(tenant), vetoes_note(tenant), VETOES_LEGEND),
            ("Are the propensities true?", plots.propensities(tenant), propensities_note(tenant), PROPENSITY_LEGEND),
        )
    )
    return f"""
<section id="{escape(tenant.name)}">
<h2>{escape(tenant.title)}</h2>
<p class="about">{escape(tenant.about)} {tenant.figures.decisions:,} decisions.</p>
<p class="headline">{escape(headline(tenant))}</p>
<p>{escape(value_sentence(tenant))}</p>
<p>{escape(gap_sentence(tenant))}</p>
<ul>{notes}</ul>
<div class="charts">{charts}</div>
{action_table(tenant)}
</section>"""


def figure(title: str, drawing: str, note: str, legend: str) -> str:
    """Frame one chart with its title, legend and the sentence that says what to see."""
    return f"<figure><h3>{escape(title)}</h3>{legend}{drawing}<figcaption>{escape(note)}</figcaption></figure>"


def legend_of(*entries: tuple[str, str]) -> str:
    """List names beside their colours."""
    items = "".join(f'<li><i class="key {kind}"></i>{escape(name)}</li>' for kind, name in entries)
    return f'<ul class="legend">{items}</ul>'


REGRET_LEGEND = legend_of(("kedge", "Kedge"), ("single", "best single"), ("baseline", "baseline"))
SPENDING_LEGEND = legend_of(
    ("s-floor", "floor"), ("s-slice", "slice"), ("s-budget", "budget"), ("s-learning", "learning")
)
REWARDS_LEGEND = legend_of(("kedge", "believed, 95 %"), ("true", "true"))
VETOES_LEGEND = legend_of(("eligible", "eligible, 95 %"), ("excluded", "excluded"), ("cap", "cap"))
PROPENSITY_LEGEND = legend_of(("kedge", "drawn"), ("band", "95 % if the log is right"))


def traffic_legend(tenant: TenantPage) -> str:
    """List the actions that can be told apart in the chart."""
    colour = plots.shades(tenant)
    rows = [tenant.actions[place] for place in plots.stacking_order(tenant)]
    shown = [(colour[row.label], row.label) for row in rows if colour[row.label] != "rest"]
    rest = sum(colour[row.label] == "rest" for row in rows)
    return legend_of(*shown, *([("rest", f"{rest} others")] if rest else []))


def traffic_note(tenant: TenantPage) -> str:
    """Say who had most of the late traffic."""
    first = max(tenant.actions, key=lambda row: row.share_late)
    base = next(row for row in tenant.actions if row.is_baseline)
    return (
        f"In the last third {first.label} had {percent(first.share_late)}, the baseline {percent(base.share_late)}. "
        f"The exploration budget held everything at the baseline for {percent(tenant.budget_share)} of all turns."
    )


def regret_note(tenant: TenantPage) -> str:
    """Say what remains between the served actions and the oracle."""
    gap = tenant.figures.oracle_gap_interval
    return (
        "Answers' worth of quality lost, summed over the turns, against the best honest action per bucket. Late in the "
        f"run {points(gap.mean).lstrip('+')} points per turn remain ({points(gap.low)} to {points(gap.high)})."
    )


def spending_note(tenant: TenantPage) -> str:
    """Say what the floor costs after its release."""
    late = [place for place, end in enumerate(tenant.windows.end) if end > tenant.late_from]
    floor = sum(tenant.windows.floor[place] for place in late) / len(late)
    learning = sum(tenant.windows.learning[place] for place in late) / len(late)
    return (
        "Points of quality given away per turn, in expectation over the draw. Late: "
        f"{100 * floor:.1f} to keep the baseline's share as a control, {100 * learning:.1f} because not all is learned."
    )


def rewards_note(tenant: TenantPage) -> str:
    """Say how often the truth lies inside the interval."""
    inside = sum(row.believed.low <= row.true_reward <= row.believed.high for row in tenant.actions)
    return (
        "Posterior mean over the same mix of turns for every action, not the biased mean of its own turns. For "
        f"{inside} of {len(tenant.actions)} actions the truth lies inside."
    )


def vetoes_note(tenant: TenantPage) -> str:
    """Say how many vetoes there were, and of which kind."""
    total = sum(row.veto.vetoes for row in tenant.actions)
    kinds = ", ".join(f"{name.removeprefix('GUARDRAIL_')} {count}" for name, count in tenant.veto_reasons.items())
    return (
        f"{total} episodes vetoed ({kinds or 'none'}). An action is out while P(rate above {percent(tenant.veto_cap)}) "
        "exceeds .99."
    )


def propensities_note(tenant: TenantPage) -> str:
    """Say whether frequencies and propensities agree."""
    bins = tenant.calibration
    inside = sum(one.low <= one.drawn <= one.high for one in bins)
    check = tenant.self_check
    return (
        f"{inside} of {len(bins)} bins inside. Over {check.decisions:,} randomised decisions χ²({check.freedom}) = "
        f"{check.chi_square:.1f}, p = {check.p_value:.2g}; under 1e-5 learning would hold."
    )


def action_table(tenant: TenantPage) -> str:
    """List every action with its figures."""
    order = sorted(tenant.actions, key=lambda row: -row.share_late)
    rows = "".join(action_row(row) for row in order)
    return f"""<details><summary>All {len(order)} actions</summary><div class="scroll"><table>
<thead><tr><th>action</th><th>late share</th><th>share</th><th>believed reward</th><th>true reward</th>
<th>true score</th><th>episodes</th><th>vetoes</th><th>P(over cap)</th><th></th></tr></thead>
<tbody>{rows}</tbody></table></div></details>"""


def action_row(row: ActionRow) -> str:
    """Write one action's row."""
    believed = f"{row.believed.mean:.3f} ({row.believed.low:.3f} to {row.believed.high:.3f})"
    state = "baseline" if row.is_baseline else "" if row.eligible_at_end else "excluded"
    cells = (
        escape(row.label),
        percent(row.share_late),
        percent(row.share),
        believed,
        f"{row.true_reward:.3f}",
        f"{row.true_score:.3f}",
        f"{row.veto.episodes:,}",
        f"{row.veto.vetoes:,}",
        f"{row.veto.over_cap:.3f}",
        state,
    )
    return f'<tr class="{plots.row_class(row)}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"

"""Write the whole page: one file, no request to anywhere."""

from html import escape
from importlib.resources import files

from kedge_demo.page_model import Event, Facts, Frozen, Page, TenantPage
from kedge_demo.sections import tenant_section
from kedge_demo.verdicts import Verdict, verdicts
from kedge_demo.words import between, percent, points

QUIET_VERBS = ("key.", "tenant.onboard")


def whole_page(page: Page, facts: Facts) -> str:
    """Write the document."""
    style = (files("kedge_demo") / "report.css").read_text(encoding="utf-8")
    decisions = sum(tenant.figures.decisions for tenant in page.tenants)
    judged = verdicts(page, facts)
    sections = "".join(tenant_section(one) for one in page.tenants)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Kedge demo</title><style>{style}</style></head>
<body><header><h1>What Kedge did with {decisions:,} turns</h1>
<p>Three tenants of public data, played through gRPC in {page.seconds:.0f} seconds. Kedge chose the model, the depth or
the prompt of each turn, saw only what a platform would tell it, and learned. Every figure below is computed from its
exported decision log and the true scores, by a program that shares no code with it.</p></header>
<main>{tiles(page, judged)}{sections}{trust(page, judged)}{changes(page, facts)}{methods(page)}</main>
</body></html>
"""


def tiles(page: Page, judged: list[Verdict]) -> str:
    """Write the run in four numbers: each tenant's lift, and how many checks hold."""
    passed = sum(one.passed for one in judged)
    found = "".join(_tile(one) for one in page.tenants)
    mood = "good" if passed == len(judged) else "bad"
    return f"""<div class="tiles">{found}<a class="tile" href="#trust"><span>Can the log be trusted?</span>
<b class="{mood}">{passed} of {len(judged)}</b>
<span>checks hold: draws, fold, rewards, counts, propensities</span></a></div>"""


def _tile(tenant: TenantPage) -> str:
    found = tenant.figures
    flatterer, breaker = percent(found.flatterer_share_late), percent(found.breaker_share_late)
    planted = f"flatterer {flatterer}, breaker {breaker} of late traffic"
    return f"""<a class="tile" href="#{escape(tenant.name)}"><span>{escape(tenant.title)}</span>
<b>{points(found.quality_last_third - found.baseline_quality)} points</b>
<span>over the baseline; {points(found.lift_interval.mean)} ({between(found.lift_interval)}) against the best single
choice</span><span>{escape(planted)}</span></a>"""


def trust(page: Page, judged: list[Verdict]) -> str:
    """Write the table of checks, one column per tenant."""
    head = "".join(f"<th>{escape(one.name)}</th>" for one in page.tenants)
    rows = "".join(_verdict_row(one) for one in judged)
    return f"""<section id="trust"><h2>Can the log be trusted?</h2><div class="scroll"><table class="checks">
<thead><tr><th>check</th><th></th>{head}<th>must be</th></tr></thead><tbody>{rows}</tbody></table></div></section>"""


def _verdict_row(verdict: Verdict) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in verdict.values)
    mark = '<td class="good">✓ yes</td>' if verdict.passed else '<td class="bad">✗ no</td>'
    return f"<tr><td>{escape(verdict.name)}</td>{mark}{cells}<td>{escape(verdict.bar)}</td></tr>"


def changes(page: Page, facts: Facts) -> str:
    """Write what was changed, excluded and frozen, by whom and why, from each tenant's audit log."""
    tables = "".join(_audit_table(one, facts.audit.get(one.name, [])) for one in page.tenants)
    return f"""<section><h2>What was changed, excluded and frozen, and why</h2>{_freeze_sentence(facts.frozen)}{tables}
</section>"""


def _freeze_sentence(frozen: Frozen | None) -> str:
    if frozen is None:
        return ""
    reasons = ", ".join(f"{count} × {reason}" for reason, count in frozen.reasons.items())
    why = f" (“{frozen.because}”)" if frozen.because else ""
    return (
        f'<p class="headline">At the end {escape(frozen.tenant)} was frozen{escape(why)}. Asked {frozen.asked} times '
        f"after that, it served the baseline {escape(frozen.baseline)} {frozen.baseline_served} times: "
        f"{escape(reasons)}. Its belief is kept exactly; its clock stands still.</p>"
    )


def _audit_table(tenant: TenantPage, events: list[Event]) -> str:
    shown = [one for one in events if not one.verb.startswith(QUIET_VERBS)]
    if not shown:
        return ""
    rows = "".join(
        f"<tr><td>{escape(one.time)}</td><td>{escape(one.actor)}</td><td>{escape(one.verb)}</td>"
        f"<td>{escape(one.subject.rpartition('/')[2])}</td><td>{escape(_why(one))}</td></tr>"
        for one in shown
    )
    return f"""<h3>{escape(tenant.name)}</h3><div class="scroll"><table class="audit">
<thead><tr><th>UTC</th><th>who</th><th>what</th><th>on</th><th>why</th></tr></thead><tbody>{rows}</tbody></table></div>"""


def _why(event: Event) -> str:
    return f"{event.because} ({event.details})" if event.details else event.because


def methods(page: Page) -> str:
    """Write how to read the figures."""
    entries: tuple[tuple[str, str], ...] = (
        (
            "Intervals",
            (
                "95 %. Means over turns: normal, clustered by item, since the same question asked five times is one "
                "piece of evidence. Believed rewards: posterior of the beta learner, buckets independent, normal. "
                "Veto rates: equal-tailed Beta. Propensities: normal around the logged one."
            ),
        ),
        (
            "Bucket oracle",
            (
                "The honest action that is best in the turn's bucket, chosen on the items of the other parity, so that "
                "luck does not count as skill. Never the best answer per item, most of which is luck."
            ),
        ),
        (
            "Best single",
            "; ".join(f"{one.name}: {one.figures.best_single_name}" for one in page.tenants)
            + ". In a-routing it is named beforehand, elsewhere it is the best honest one in hindsight.",
        ),
        (
            "True reward",
            "What an action earns on average under the tenant's reward, known to the demo alone.",
        ),
        (
            "Made up",
            (
                "Judge, thumbs, guardrail trips, latencies and the answer lengths of a-routing are drawn from a seed; "
                "scores, prices, and the lengths elsewhere are the public sets' own."
            ),
        ),
    )
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(content)}</dd>" for name, content in entries)
    return f"<section><h2>How to read this</h2><dl>{rows}</dl></section>"

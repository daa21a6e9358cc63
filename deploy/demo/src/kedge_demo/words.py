"""Put figures into words: one way of rounding for the page and the terminal."""

from kedge_demo.page_model import ActionRow, TenantPage
from kedge_demo.quality import Estimate

EXCLUDED_ABOVE = 0.99


def percent(share: float, *, digits: int = 1) -> str:
    """Spell a share as percent.

    >>> percent(0.6412)
    '64.1 %'
    """
    return f"{100 * share:.{digits}f} %"


def points(difference: float) -> str:
    """Spell a difference of shares as percentage points, with its sign.

    >>> points(-0.0338)
    '−3.4'
    """
    spelled = f"{100 * difference:+.1f}"
    return spelled.replace("-", "−")


def between(estimate: Estimate) -> str:
    """Spell an interval of a difference, in points.

    >>> between(Estimate(mean=0.02, low=0.0112, high=0.0287))
    '+1.1 to +2.9'
    """
    return f"{points(estimate.low)} to {points(estimate.high)}"


def interval(estimate: Estimate) -> str:
    """Spell an interval of a share, in percent."""
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f} %"


def dollars(amount: float) -> str:
    """Spell the cost of a thousand turns.

    >>> dollars(0.000251)
    '$0.25'
    """
    return f"${1000 * amount:,.2f}" if amount < 1 else f"${1000 * amount:,.0f}"


def headline(tenant: TenantPage) -> str:
    """Say in one sentence what was served in the last third, and how that compares."""
    found = tenant.figures
    return (
        f"In the last third the served answers scored {percent(found.quality_last_third)} "
        f"(95 %: {interval(found.quality_interval)}), floor and slice included: "
        f"{points(found.lift_interval.mean)} points ({between(found.lift_interval)}) against always "
        f"{found.best_single_name} on the same turns, and "
        f"{points(found.quality_last_third - found.baseline_quality)} points against always {tenant.baseline}."
    )


def value_sentence(tenant: TenantPage) -> str:
    """Say the same with cost and latency counted in, as the tenant's own reward weighs them."""
    value, lift = tenant.true_reward, tenant.value_lift
    return (
        f"With cost and latency priced in as this tenant does, the served turns were worth {value.served:.3f}, "
        f"against {value.single:.3f} for the best single choice ({points(lift.mean)} points, {between(lift)}) and "
        f"{value.baseline:.3f} for the baseline. A thousand turns cost {dollars(tenant.cost_usd.served)} "
        f"instead of {dollars(tenant.cost_usd.single)} and {dollars(tenant.cost_usd.baseline)}."
    )


def gap_sentence(tenant: TenantPage) -> str:
    """Say where the distance to the bucket oracle goes in the last third, in expectation over the draw."""
    windows = tenant.windows
    late = [place for place, end in enumerate(windows.end) if end > tenant.late_from]

    def average(values: tuple[float, ...]) -> str:
        return f"{100 * sum(values[place] for place in late) / len(late):.1f}"

    gap = tenant.figures.oracle_gap_interval
    return (
        f"The best honest choice per kind of turn would have scored {percent(tenant.figures.bucket_oracle_quality)}. "
        f"Of the {100 * gap.mean:.1f} points ({100 * gap.low:.1f} to {100 * gap.high:.1f}) in between, about "
        f"{average(windows.floor)} keep the baseline running as a control, {average(windows.slice_)} keep every action "
        f"observed, {average(windows.budget)} went to the exploration budget, and {average(windows.learning)} are not "
        "learned yet, or not worth their cost."
    )


def planted_sentences(tenant: TenantPage) -> list[str]:
    """Say what became of the two planted arms."""
    found = tenant.figures
    flattery = (
        f"The planted judge-flatterer (true success 0, judge about .95) got {percent(found.flatterer_share_late)} of "
        "the late traffic: a judge alone is stored, never learned from, and next to a verifier its word is bounded."
    )
    return [flattery, *(exclusion(row) for row in tenant.actions if row.part == "breaker")]


def exclusion(row: ActionRow) -> str:
    """Say when an action that breaks a guardrail was excluded, or that it was not."""
    if row.excluded_turn is None:
        fate = "still eligible" if row.veto.over_cap <= EXCLUDED_ABOVE else "no decision came after its exclusion"
        return (
            f"{row.label}: {row.veto.vetoes} of its {row.veto.episodes} episodes were vetoed; "
            f"P(veto rate above the cap) is {row.veto.over_cap:.3f}: {fate}."
        )
    return (
        f"{row.label} (true success .80, one guardrail trip in ten): excluded from turn {row.excluded_turn:,}, after "
        f"{row.excluded_after_episodes} of its own episodes with {row.excluded_after_vetoes} vetoes; "
        f"{percent(row.share_late)} of the late traffic."
    )


def thousands(turn: float) -> str:
    """Spell a turn on an axis.

    >>> thousands(15000.0), thousands(500.0)
    ('15k', '500')
    """
    return f"{turn / 1000:g}k" if turn >= 1000 else f"{turn:g}"

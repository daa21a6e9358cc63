"""What keeps a tenant safe: vetoes, verdicts, the switch, the audit chain, and consent."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard as models

from deploy.observability.boards.parts import POLICY, TENANT, Panel, Query, lines, number
from deploy.observability.boards.parts import board as laid_out

_NAME = "{{policy}}"


def board() -> models.Dashboard:
    """Build it."""
    about = "Vetoes, safety verdicts, the kill switch, the audit chain, and what waits for consent."
    rows = [("Now", _now()), ("Vetoes", _vetoes()), ("Switch", _switch()), ("Record", _record())]
    return laid_out("safety", "safety", about, rows)


def _now() -> Sequence[Panel]:
    unanchored = f"max by (tenant) (kedge_audit_head{{{TENANT}}}) - max by (tenant) (kedge_audit_anchored{{{TENANT}}})"
    waits = f"max by (tenant) (kedge_proposals_expiring{{{TENANT}}})"
    held = f"max by (policy) (kedge_learning_held{{{POLICY}}})"
    return [
        number(
            "Mode", "0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS.", Query(f"max by (policy) (kedge_mode{{{POLICY}}})", _NAME)
        ),
        number("Learning held", "1: a safety verdict is missing, or a check failed.", Query(held, _NAME)),
        number(
            "Oldest view",
            "Above 5 s the baseline is served.",
            Query("max(kedge_snapshot_age_seconds)", "age"),
            unit="s",
        ),
        number("Events not anchored", "Since the newest anchor.", Query(unanchored, "{{tenant}}")),
        number("Anchors not written", "Since the start.", Query("sum(kedge_audit_anchor_failures_total)", "failures")),
        number("Proposals about to expire", "Within two days.", Query(waits, "{{tenant}}")),
    ]


def _vetoes() -> Sequence[Panel]:
    settled = f'kedge_episodes_settled_total{{{POLICY}, state=~"SETTLED|VETOED"}}'
    vetoed = f'kedge_episodes_settled_total{{{POLICY}, state="VETOED"}}'
    scored = f"sum by (policy) (increase({settled}[$interval]))"
    share = f"(sum by (policy) (increase({vetoed}[$interval])) or 0 * {scored}) / {scored}"
    verdicts = f'kedge_signals_total{{{POLICY}, signal="safety"}}'
    safe = f"sum by (policy) (increase({verdicts}[$interval])) / {scored}"
    return [
        lines("Veto rate", "Share of scored episodes that broke a hard rule.", Query(share, _NAME), unit="percentunit"),
        lines("With a safety verdict", "Under 99 % learning is held.", Query(safe, _NAME), unit="percentunit"),
    ]


def _switch() -> Sequence[Panel]:
    taken = "sum by (le) (rate(kedge_mode_change_seconds_bucket[$interval]))"
    quantiles = [Query(f"histogram_quantile({q}, {taken})", f"p{round(100 * q)}") for q in (0.5, 0.99)]
    modes = Query(f"max by (policy) (kedge_mode{{{POLICY}}})", _NAME)
    age = Query("max by (instance) (kedge_snapshot_age_seconds)", "{{instance}}")
    return [
        lines("Mode", "0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS.", modes, width=8),
        lines("From a freeze to its effect", "The promise is 100 ms.", *quantiles, unit="s", width=8),
        lines("Age of the view", "Of each replica; above 5 s the baseline is served.", age, unit="s", width=8),
    ]


def _record() -> Sequence[Panel]:
    head = Query(f"max by (tenant) (kedge_audit_head{{{TENANT}}})", "head")
    anchored = Query(f"max by (tenant) (kedge_audit_anchored{{{TENANT}}})", "anchored")
    proposals = Query(f"max by (state) (kedge_proposals{{{TENANT}}})", "{{state}}")
    return [
        lines("Audit chain", "A head that falls below its anchor was cut off.", head, anchored),
        lines("Proposals", "That are not over, by state.", proposals),
    ]

"""The service itself: its objectives, and where decisions, rows and passes wait."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard as models

from deploy.observability.boards.parts import Panel, Query, lines, number
from deploy.observability.boards.parts import board as laid_out

_RATE = "[$__rate_interval]"
_OBJECTIVES = {"decide_fallback": 0.001, "decide_slow": 0.01, "settle_late": 0.01, "switch_slow": 0.01}
"""Recorded ratio, and the share of bad ones that the objective allows."""


def board() -> models.Dashboard:
    """Build it."""
    about = "Objectives with their burn rates, latency, and where rows wait. It shows every tenant at once."
    rows = [("Objectives", _objectives()), ("Decide", _decide()), ("Write", _write()), ("Learn", _learn())]
    return laid_out("serving", "serving", about, rows)


def _quantiles(histogram: str) -> list[Query]:
    buckets = f"sum by (le) (rate({histogram}_bucket{_RATE}))"
    return [Query(f"histogram_quantile({q}, {buckets})", f"p{round(100 * q)}") for q in (0.5, 0.99)]


def _objectives() -> Sequence[Panel]:
    about = "How fast the allowance burns: at 1 it lasts 30 days, 6 opens a ticket, 14.4 pages."
    hour = [Query(f"kedge:{name}:ratio_1h / {share}", name) for name, share in _OBJECTIVES.items()]
    quarter = [Query(f"kedge:{name}:ratio_6h / {share}", name) for name, share in _OBJECTIVES.items()]
    return [
        number(
            "Targets up",
            "Of those that are scraped.",
            Query("sum(up{job='kedge'}) / count(up{job='kedge'})", "up"),
            unit="percentunit",
        ),
        number(
            "Fallbacks, 1 h",
            "The objective is .1 %.",
            Query("kedge:decide_fallback:ratio_1h", "ratio"),
            unit="percentunit",
        ),
        number(
            "Over 5 ms, 1 h", "The objective is 1 %.", Query("kedge:decide_slow:ratio_1h", "ratio"), unit="percentunit"
        ),
        number(
            "Settled late, 1 h",
            "The objective is 1 %.",
            Query("kedge:settle_late:ratio_1h", "ratio"),
            unit="percentunit",
        ),
        number(
            "Switch over 100 ms, 6 h",
            "The objective is 1 %.",
            Query("kedge:switch_slow:ratio_6h", "ratio"),
            unit="percentunit",
        ),
        number("Clients that decide", "Hold vectors.", Query("sum(kedge_watchers)", "watchers")),
        lines("Burn rate over 1 h", about, *hour),
        lines("Burn rate over 6 h", about, *quarter),
    ]


def _decide() -> Sequence[Panel]:
    reasons = Query(f"sum by (reason) (rate(kedge_decisions_total{_RATE}))", "{{reason}}")
    age = Query("max by (instance) (kedge_snapshot_age_seconds)", "{{instance}}")
    return [
        lines("Decisions", "By reason; STALE and ERROR are fallbacks.", reasons, unit="reqps", width=8),
        lines("Time inside Decide", "p50 and p99.", *_quantiles("kedge_decide_seconds"), unit="s", width=8),
        lines("Age of the view", "Of each replica.", age, unit="s", width=8),
    ]


def _write() -> Sequence[Panel]:
    queued = Query("max by (instance) (kedge_rows_queued)", "{{instance}}")
    outcomes = Query(f"sum by (status) (rate(kedge_outcomes_total{_RATE}))", "{{status}}")
    commits = f"sum(rate(kedge_rows_committed_total{_RATE}))"
    dropped = f"sum(rate(kedge_decisions_dropped_total{_RATE}))"
    return [
        lines("Rows that wait", "Near 25,000 writers are pushed back.", queued, width=6),
        lines("Time of a commit", "p50 and p99.", *_quantiles("kedge_commit_seconds"), unit="s", width=6),
        lines("Outcomes", "By what became of them.", outcomes, unit="reqps", width=6),
        lines(
            "Rows",
            "Written, and decisions left to tokens.",
            Query(commits, "written"),
            Query(dropped, "dropped"),
            width=6,
        ),
    ]


def _learn() -> Sequence[Panel]:
    taken = f"sum(rate(kedge_rows_folded_total{_RATE}))"
    rows = Query(taken, "rows")
    failures = Query(f"sum(rate(kedge_pass_failures_total{_RATE})) or 0 * {taken}", "failed")
    behind = Query("sum(kedge_behind)", "behind")
    return [
        lines(
            "From a row to the belief",
            "p50 and p99 of the oldest row of a pass.",
            *_quantiles("kedge_belief_lag_seconds"),
            unit="s",
            width=6,
        ),
        lines("Time of a pass", "p50 and p99.", *_quantiles("kedge_pass_seconds"), unit="s", width=6),
        lines(
            "Late settling",
            "p50 and p99 after it was due.",
            *_quantiles("kedge_settle_delay_seconds"),
            unit="s",
            width=6,
        ),
        lines("Passes", "Rows taken, passes that failed, tenants that are behind.", rows, failures, behind, width=6),
    ]

"""All tenants beside each other: who is busy, who is stopped, who costs how many series."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard as models

from deploy.observability.boards.parts import Panel, Query, lines, number
from deploy.observability.boards.parts import board as laid_out

_RATE = "[$__rate_interval]"
_NAME = "{{tenant}}"


def board() -> models.Dashboard:
    """Build it."""
    about = (
        "Every tenant: traffic, learning, stops, and the series that each of them costs. The choice above is not used."
    )
    return laid_out("tenants", "tenants", about, [("Now", _now()), ("Traffic", _traffic()), ("Learning", _learning())])


def _now() -> Sequence[Panel]:
    stopped = Query("count(max by (tenant, policy) (kedge_mode) >= bool 2)", "policies")
    frozen = Query("sum(max by (tenant, policy) (kedge_mode) >= bool 2)", "stopped")
    series = 'count by (tenant) ({__name__=~"kedge_.+", tenant!=""})'
    return [
        number("Tenants", "That serve a policy.", Query("count(count by (tenant) (kedge_mode))", "tenants")),
        number("Policies", "Served.", stopped),
        number("Stopped", "Policies in FROZEN or BYPASS.", frozen),
        number(
            "Behind",
            "Tenants with more rows than a pass takes.",
            Query("sum(max by (tenant) (kedge_behind))", "behind"),
        ),
        number("Most series of a tenant", "30 are meant.", Query(f"max({series})", "series")),
        number("Series in all", "60,000 are meant for 1,000 tenants.", Query(f"sum({series})", "series")),
    ]


def _traffic() -> Sequence[Panel]:
    decisions = Query(f"topk(20, sum by (tenant) (rate(kedge_decisions_total{_RATE})))", _NAME)
    outcomes = Query(f"topk(20, sum by (tenant) (rate(kedge_outcomes_total{_RATE})))", _NAME)
    logged = Query(f"topk(20, sum by (tenant) (rate(kedge_episodes_logged_total{_RATE})))", _NAME)
    modes = Query("topk(20, max by (tenant, policy) (kedge_mode))", "{{tenant}}/{{policy}}")
    return [
        lines("Decisions", "The twenty busiest.", decisions, unit="reqps"),
        lines("Outcomes", "The twenty busiest.", outcomes, unit="reqps"),
        lines("Episode logs", "The twenty busiest.", logged, unit="reqps"),
        lines("Modes", "The twenty strictest: 0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS.", modes),
    ]


def _learning() -> Sequence[Panel]:
    rows = Query(f"topk(20, sum by (tenant) (rate(kedge_rows_folded_total{_RATE})))", _NAME)
    published = Query(f"topk(20, sum by (tenant) (rate(kedge_allocations_published_total{_RATE})))", _NAME)
    waiting = Query("topk(20, sum by (tenant) (kedge_proposals))", _NAME)
    return [
        lines("Rows learned from", "The twenty busiest.", rows, unit="reqps", width=8),
        lines("Allocations published", "The twenty busiest.", published, unit="reqps", width=8),
        lines("Open proposals", "That are not over.", waiting, width=8),
    ]

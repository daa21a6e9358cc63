"""One policy: what it serves, what it learns from, and what its holdout still allows."""

from collections.abc import Sequence

from grafana_foundation_sdk.models import dashboard as models

from deploy.observability.boards.parts import POLICY, Panel, Query, lines, number
from deploy.observability.boards.parts import board as laid_out

_NAME = "{{policy}}"
_SETTLED = f'sum by (policy) (increase(kedge_episodes_settled_total{{{POLICY}, state=~"SETTLED|VETOED"}}[$interval]))'


def board() -> models.Dashboard:
    """Build it."""
    about = "What a policy serves, what it learns from, and what its holdout still allows."
    rows = [("Now", _now()), ("Serving", _serving()), ("Learning", _learning()), ("Holdout", _holdout())]
    return laid_out("policy", "policy", about, rows)


def _most(metric: str, by: str = "policy") -> str:
    return f"max by ({by}) ({metric}{{{POLICY}}})"


def _now() -> Sequence[Panel]:
    return [
        number("Mode", "0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS.", Query(_most("kedge_mode"), _NAME)),
        number(
            "Floor", "Least share of the baseline.", Query(_most("kedge_exploitation_floor"), _NAME), unit="percentunit"
        ),
        number("Configuration", "Version served from.", Query(_most("kedge_policy_version"), _NAME)),
        number("Learning held", "1 while nothing new is published.", Query(_most("kedge_learning_held"), _NAME)),
        number("Baseline alone", "1 while exploring is closed.", Query(_most("kedge_exploring_closed"), _NAME)),
        number("Self-check p", "Under 1e-5 learning is held.", Query(_most("kedge_self_check_p"), _NAME)),
    ]


def _serving() -> Sequence[Panel]:
    reasons = f"sum by (policy, reason) (rate(kedge_decisions_total{{{POLICY}}}[$__rate_interval]))"
    return [
        lines(
            "Decisions by reason",
            "DRAWN is what is learned from.",
            Query(reasons, f"{_NAME} {{{{reason}}}}"),
            unit="reqps",
        ),
        lines("Floor", "It falls by stages.", Query(_most("kedge_exploitation_floor"), _NAME), unit="percentunit"),
        lines(
            "Allocation served",
            "It stands where nothing is published.",
            Query(_most("kedge_allocation_version"), _NAME),
        ),
        lines("Configuration served", "A step is a change.", Query(_most("kedge_policy_version"), _NAME)),
    ]


def _learning() -> Sequence[Panel]:
    states = f"sum by (policy, state) (rate(kedge_episodes_settled_total{{{POLICY}}}[$__rate_interval]))"
    signals = f"sum by (policy, signal) (increase(kedge_signals_total{{{POLICY}}}[$interval]))"
    covered = Query(f"{signals} / on (policy) group_left {_SETTLED}", f"{_NAME} {{{{signal}}}}")
    counts = Query(_most("kedge_episodes", "policy, name"), f"{_NAME} {{{{name}}}}")
    return [
        lines("Episodes settled", "By the state they reached.", Query(states, f"{_NAME} {{{{state}}}}"), unit="reqps"),
        lines("Coverage of signals", "Share of scored episodes that came with it.", covered, unit="percentunit"),
        lines("Episodes", "By state, and those late or without a safety verdict.", counts),
        lines(
            "Self-check", "p that what was drawn fits what was published.", Query(_most("kedge_self_check_p"), _NAME)
        ),
    ]


def _holdout() -> Sequence[Panel]:
    cases = Query(_most("kedge_holdout_cases", "policy, part"), f"{_NAME} {{{{part}}}}")
    return [
        lines("Cases in force", "By part.", cases, width=8),
        lines("Age", "Rotate by 90 days.", Query(_most("kedge_holdout_age_seconds"), _NAME), unit="s", width=8),
        lines("Queries left", "Until a rotation.", Query(_most("kedge_holdout_queries_left"), _NAME), width=8),
    ]

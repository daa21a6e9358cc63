"""List every page behind the login, each with the one permission it takes; what is not listed is not served."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from kedge_bandit.adapters.console import (
    audit,
    beliefs,
    connect,
    decisions,
    divergence,
    episodes,
    experiments,
    feedback,
    freeze,
    gym,
    holdouts,
    incidents,
    live,
    over_time,
    overview,
    policies,
    proposals,
    ramps,
)
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.principal import Permission


@dataclass(frozen=True, slots=True)
class Page:
    """One page or action.

    Attributes:
        path: after the resource's name, where it is about one; `{tenant}` in it binds the permission to that tenant.
    """

    method: str
    path: str
    answer: Callable[[Visit], Awaitable[Response]]
    permission: Permission


_TENANT: Final = "/tenants/{tenant}"
_POLICY: Final = "/tenants/{tenant}/policies/{policy}"
_INCIDENT: Final = "/tenants/{tenant}/incidents/{incident}"
_PROPOSAL: Final = "/tenants/{tenant}/proposals/{proposal}"

PAGES: Final = (
    Page("GET", "/", overview.show, Permission.READ),
    Page("GET", _TENANT, overview.show_tenant, Permission.READ),
    Page("GET", _POLICY, policies.show, Permission.READ),
    Page("GET", "/live", live.show, Permission.READ),
    Page("GET", f"{_TENANT}/live", live.show, Permission.READ),
    Page("GET", f"{_POLICY}/belief", beliefs.show, Permission.READ),
    Page("GET", f"{_POLICY}/over-time", over_time.show, Permission.READ),
    Page("GET", f"{_POLICY}/divergence", divergence.show, Permission.READ),
    Page("POST", f"{_POLICY}/divergence/run", divergence.run, Permission.GOVERN),
    Page("GET", f"{_POLICY}/experiments", experiments.show, Permission.READ),
    Page("GET", f"{_POLICY}/episode", episodes.show, Permission.READ),
    Page("GET", f"{_TENANT}/decisions", decisions.search, Permission.READ),
    Page("GET", f"{_TENANT}/decisions/{{decision}}", decisions.show, Permission.READ),
    Page("GET", f"{_TENANT}/episodes", episodes.search, Permission.READ),
    Page("GET", f"{_TENANT}/incidents", incidents.show_all, Permission.READ),
    Page("GET", _INCIDENT, incidents.show, Permission.READ),
    Page("POST", f"{_INCIDENT}/acknowledge", incidents.acknowledge, Permission.GOVERN),
    Page("POST", f"{_INCIDENT}/close", incidents.close, Permission.GOVERN),
    Page("GET", f"{_TENANT}/connect", connect.show, Permission.READ),
    Page("GET", f"{_TENANT}/feedback", feedback.show, Permission.READ),
    Page("POST", f"{_TENANT}/feedback", feedback.record, Permission.RECORD),
    Page("POST", f"{_POLICY}/ramp/advance", ramps.advance, Permission.APPROVE),
    Page("POST", f"{_POLICY}/ramp/pause", ramps.pause, Permission.FREEZE),
    Page("POST", f"{_POLICY}/ramp/abort", ramps.abort, Permission.FREEZE),
    Page("GET", "/gym", gym.show, Permission.READ),
    Page("GET", "/proposals", proposals.inbox, Permission.READ),
    Page("GET", f"{_TENANT}/proposals", proposals.queue, Permission.READ),
    Page("GET", _PROPOSAL, proposals.show, Permission.READ),
    Page("GET", f"{_PROPOSAL}/cases", proposals.cases, Permission.APPROVE),
    *(Page("POST", f"{_PROPOSAL}/{verb}", *action) for verb, action in proposals.ACTIONS.items()),
    Page("GET", f"{_TENANT}/holdout", holdouts.show_all, Permission.READ),
    Page("GET", f"{_POLICY}/holdout", holdouts.show, Permission.READ),
    Page("POST", f"{_POLICY}/holdout/rotate", holdouts.rotate, Permission.CURATE),
    Page("GET", "/audit", audit.show_everywhere, Permission.READ),
    Page("GET", f"{_TENANT}/audit", audit.show, Permission.READ),
    Page("POST", f"{_TENANT}/audit/verify", audit.verify, Permission.READ),
    Page("GET", "/everything/freeze", freeze.ask, Permission.FREEZE),
    Page("POST", "/everything/freeze", freeze.do, Permission.FREEZE),
    Page("GET", "/everything/unfreeze", freeze.ask_back, Permission.GOVERN),
    Page("POST", "/everything/unfreeze", freeze.undo, Permission.GOVERN),
    Page("GET", f"{_TENANT}/freeze", freeze.ask, Permission.FREEZE),
    Page("POST", f"{_TENANT}/freeze", freeze.do, Permission.FREEZE),
    Page("GET", f"{_TENANT}/unfreeze", freeze.ask_back, Permission.GOVERN),
    Page("POST", f"{_TENANT}/unfreeze", freeze.undo, Permission.GOVERN),
    Page("GET", f"{_POLICY}/freeze", freeze.ask, Permission.FREEZE),
    Page("POST", f"{_POLICY}/freeze", freeze.do, Permission.FREEZE),
    Page("GET", f"{_POLICY}/unfreeze", freeze.ask_back, Permission.GOVERN),
    Page("POST", f"{_POLICY}/unfreeze", freeze.undo, Permission.GOVERN),
)

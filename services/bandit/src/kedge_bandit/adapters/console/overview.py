"""The first page: tenants and policies, whether anything is held back and why, one freeze button each."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from kedge_bandit.adapters.console import divergence, reading, wording
from kedge_bandit.adapters.console import proposals_read as proposals
from kedge_bandit.adapters.console.standing import Standing
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """A tenant with its policies.

    Attributes:
        waiting: proposals that wait for somebody's approval.
        watched: what the newest divergence check of each policy says, by its name; None where the server keeps none.
        stopper: actor who stopped the tenant; empty where nobody did, or it is not known.
    """

    tenant: TenantId
    modes: Any
    standings: list[Standing]
    waiting: Sequence[Any]
    incidents: list[Any]
    watched: Mapping[str, Any]
    stopper: str = ""

    @property
    def mode(self) -> str:
        """Effective mode of the tenant."""
        return wording.mode(self.modes.effective_mode)

    @property
    def is_stopped(self) -> bool:
        """Whether the tenant itself, not a level above, stands still."""
        return wording.mode(self.modes.mode) in ("FROZEN", "BYPASS")

    @property
    def held(self) -> list[Standing]:
        """Policies that something keeps back."""
        return [one for one in self.sorted if one.worst is not None]

    @property
    def sorted(self) -> list[Standing]:
        """Its policies: what is stopped first, then what is held back."""
        return sorted(self.standings, key=lambda one: (not one.is_stopped, one.worst is None, one.own_name))

    def only(self, shown: str) -> list[Standing]:
        """Those of one kind: "stopped", "held" or "free"; else all of them."""
        return [one for one in self.sorted if shown in ("", _kind(one))]


def _kind(standing: Standing) -> str:
    if standing.is_stopped:
        return "stopped"
    return "free" if standing.worst is None else "held"


async def view_of(visit: Visit, tenant: TenantId) -> TenantView:
    """Read one tenant."""
    modes, standings, waiting, incidents = await asyncio.gather(
        reading.mode_of(visit, f"tenants/{tenant}", tenant),
        reading.standings_of(visit, tenant),
        proposals.list_of(visit, tenant, proposals.WAITING),
        reading.incidents_of(visit, tenant),
    )
    names = list(dict.fromkeys(standing.name for standing in standings))
    checks = await reading.together(divergence.newest(visit, name, size=1, tenant=tenant) for name in names)
    stopped = wording.mode(modes.mode) in ("FROZEN", "BYPASS")
    event = await reading.last_change(visit, tenant, f"tenants/{tenant}") if stopped else None
    return TenantView(
        tenant=tenant,
        modes=modes,
        standings=standings,
        waiting=waiting.found,
        incidents=incidents,
        watched=dict(zip(names, checks, strict=True)),
        stopper=event.actor if event is not None else "",
    )


async def show(visit: Visit) -> Response:
    """Show every tenant that this person may see."""
    names = await reading.tenants_of(visit)
    start = _start(visit, len(names))
    shown = names[start : start + reading.TENANTS_SHOWN]
    views = await reading.together(view_of(visit, tenant) for tenant in shown)
    everything = await reading.mode_of(visit, "global") if visit.session.is_everywhere else None
    views.sort(
        key=lambda view: min([(not one.is_stopped, one.worst is None) for one in view.standings], default=(1, 1))
    )
    waiting = [one for view in views for one in view.waiting if proposals.is_mine_to_decide(visit, one)]
    return visit.show(
        "overview.html",
        section="overview",
        views=views,
        tenants=names,
        start=start,
        step=reading.TENANTS_SHOWN,
        everything=everything,
        totals=reading.totals([one for view in views for one in view.standings]),
        waiting=waiting,
        inbox=len(waiting),
        shown=visit.asked("show") if visit.asked("show") in ("stopped", "held", "free") else "",
    )


async def show_tenant(visit: Visit) -> Response:
    """Show one tenant: what is held back and why, and what happened last."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    view = await view_of(visit, visit.tenant)
    events = await reading.events_of(visit, visit.tenant, size=8)
    return visit.show("one_tenant.html", section="tenant", view=view, events=events.events)


def _start(visit: Visit, count: int) -> int:
    text = visit.asked("from", "0")
    return min(int(text), max(0, count - 1)) if text.isascii() and text.isdigit() else 0

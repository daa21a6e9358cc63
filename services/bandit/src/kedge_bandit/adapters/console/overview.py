"""The first page: tenants and policies, whether anything is held back and why, one freeze button each."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from kedge_bandit.adapters.console import proposals_read as proposals
from kedge_bandit.adapters.console import reading, wording
from kedge_bandit.adapters.console.standing import Standing
from kedge_bandit.adapters.console.visit import Visit
from kedge_bandit.domain.identifiers import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantView:
    """A tenant with its policies; `waiting` are proposals that wait for somebody's approval."""

    tenant: TenantId
    modes: Any
    standings: list[Standing]
    waiting: Sequence[Any]
    incidents: list[Any]

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
        return [one for one in self.standings if one.worst is not None]


async def view_of(visit: Visit, tenant: TenantId) -> TenantView:
    """Read one tenant."""
    modes, standings, waiting, incidents = await asyncio.gather(
        reading.mode_of(visit, f"tenants/{tenant}", tenant),
        reading.standings_of(visit, tenant),
        proposals.list_of(visit, tenant, proposals.WAITING),
        reading.incidents_of(visit, tenant),
    )
    return TenantView(tenant=tenant, modes=modes, standings=standings, waiting=waiting.found, incidents=incidents)


async def show(visit: Visit) -> Response:
    """Show every tenant that this person may see."""
    names = await reading.tenants_of(visit)
    start = _start(visit, len(names))
    shown = names[start : start + reading.TENANTS_SHOWN]
    views = await reading.together(view_of(visit, tenant) for tenant in shown)
    everything = await reading.mode_of(visit, "global") if visit.session.is_everywhere else None
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

"""Alarms that tripped: what, on what evidence, whose they are; and who stands still and why."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge_bandit.adapters.console import overview, reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.failures import RETURNED
from kedge_bandit.adapters.console.visit import NotFound, Visit, moved

SHOWN: Final = 50
_MOST_PAGES: Final = 20
STATE_TONE: Final = {"OPEN": "bad", "ACKNOWLEDGED": "warn", "CLOSED": ""}
TRIPPED: Final = {
    "divergence": "The reward rose while the holdout did not",
    "judge_gap": "The judge's scores rose more than success did",
    "answer_length": "Answers grew longer",
    "veto_rate": "Vetoes rose",
    "blind": "The holdout could not be measured for too long",
}
"""What a detector found, in words."""


def state(incident: pb.Incident) -> str:
    """Name an incident's state."""
    return pb.IncidentState.Name(incident.state).removeprefix("INCIDENT_STATE_")


def title(incident: pb.Incident) -> str:
    """Say what tripped.

    >>> title(pb.Incident(detector="divergence")), title(pb.Incident(detector="ramp.latency_ms"))
    ('The reward rose while the holdout did not', 'Ramp: latency ms')
    """
    if incident.detector in TRIPPED:
        return TRIPPED[incident.detector]
    kind, _, rest = incident.detector.replace("_", " ").partition(".")
    return f"{kind.capitalize()}: {rest}" if rest else kind.capitalize()


async def show_all(visit: Visit) -> Response:
    """Show a tenant's incidents, the newest first, and what stands still."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    request = pb.ListIncidentsRequest(
        parent=f"tenants/{visit.tenant}", page_size=SHOWN, page_token=visit.asked("before")
    )
    page, view = await asyncio.gather(
        visit.call(visit.backend.governance.ListIncidents, request), overview.view_of(visit, visit.tenant)
    )
    everything = await reading.mode_of(visit, "global") if visit.session.is_everywhere else None
    tenants = len(await reading.tenants_of(visit)) if everything is not None else 0
    return visit.show(
        "incidents.html",
        section="incidents",
        incidents=page.incidents,
        next=page.next_page_token,
        view=view,
        everything=everything,
        tenants=tenants,
        state=state,
        title=title,
        tones=STATE_TONE,
    )


async def show(visit: Visit) -> Response:
    """Show one incident."""
    return await _page(visit, await _find(visit))


async def _page(visit: Visit, incident: pb.Incident, refusal: CallRefused | None = None) -> Response:
    assert visit.tenant is not None  # noqa: S101 - the path names it
    events, modes = await asyncio.gather(
        reading.newest_events(visit, visit.tenant), reading.mode_of(visit, incident.policy)
    )
    return visit.show(
        "one_incident.html",
        200 if refusal is None else 409,
        section="incidents",
        incident=incident,
        state=state(incident),
        title=title(incident),
        tones=STATE_TONE,
        mode=wording.mode(modes.effective_mode),
        events=[one for one in events.events if one.subject == incident.name],
        refusal=refusal,
    )


async def _find(visit: Visit) -> pb.Incident:
    """Find the incident that the path names. Raises NotFound."""
    name = f"tenants/{visit.tenant}/incidents/{visit.named('incident')}"
    request = pb.ListIncidentsRequest(parent=f"tenants/{visit.tenant}", page_size=1000)
    for _ in range(_MOST_PAGES):
        page = await visit.call(visit.backend.governance.ListIncidents, request)
        for one in page.incidents:
            if one.name == name:
                return one  # type: ignore[no-any-return]  # a stub's answer
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    raise NotFound


async def acknowledge(visit: Visit) -> Response:
    """Take an incident on."""
    because = visit.form.get("because", "")
    return await _do(visit, "AcknowledgeIncident", pb.AcknowledgeIncidentRequest, "It is yours now.", because=because)


async def close(visit: Visit) -> Response:
    """Close an incident with its cause."""
    return await _do(
        visit, "CloseIncident", pb.CloseIncidentRequest, "Closed with its cause.", cause=visit.form.get("because", "")
    )


async def _do(visit: Visit, rpc: str, kind: Any, said: str, **fields: str) -> Response:
    name = f"tenants/{visit.tenant}/incidents/{visit.named('incident')}"
    request = kind(name=name, request_id=visit.form.get("request_id", ""), **fields)
    try:
        await visit.call(getattr(visit.backend.governance, rpc), request)
    except CallRefused as error:
        if error.code not in RETURNED or error.reason == "TENANT_DENIED":
            raise
        return await _page(visit, await _find(visit), error)
    visit.session.note("done", said)
    return moved(f"/{name}")

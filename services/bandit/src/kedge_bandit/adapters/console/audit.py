"""Show who did what, when, on what and why, and whether the chain holds."""

import shlex
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from kedge.bandit.v1 import governance_service_pb2
from kedge_bandit.adapters.console import happened, reading, wording
from kedge_bandit.adapters.console import proposals_read as proposals
from kedge_bandit.adapters.console.visit import Visit, moved

SHOWN: Final = 50
_PAGE: Final = 500
_OF_EACH: Final = 100
"""Newest events of each tenant on the page over many."""
_MOST_LOOKED_AT: Final = 10_000

PROMOTED: Final = (
    *("proposal.approved", "proposal.forced", "proposal.served", "proposal.reverted"),
    *("ramp.advanced", "ramp.rolled_back", "ramp.aborted", "policy.staged"),
)
"""Verbs that say who gave something traffic, and who took it back."""
KINDS: Final = {
    "": ("Everything", ()),
    "promotions": ("Promotions", PROMOTED),
    "proposals": ("Proposals", ("proposal.",)),
    "switch": ("Freezes and modes", (".frozen", ".unfrozen", ".mode_set", ".resumed")),
    "configuration": (
        "Configuration",
        ("policy.created", "policy.configured", "policy.staged", "tenant.", "holdout.", "arm."),
    ),
    "alarms": (
        "Alarms",
        ("incident.", "learning.", "arm.excluded", "arm.readmitted", "ramp.paused", "ramp.rolled_back"),
    ),
    "access": ("Access", ("key.", "identity.")),
    "kedge": ("Kedge itself", ()),
}
"""What the log can be narrowed to: name, and what its verbs begin or end with."""
SPANS: Final = {
    "": ("Any time", None),
    "day": ("Last 24 hours", 1),
    "week": ("Last 7 days", 7),
    "month": ("Last 30 days", 30),
}


async def show(visit: Visit) -> Response:
    """Show a page of the log."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    kind, span = visit.asked("kind"), visit.asked("span")
    kind, span = (kind if kind in KINDS else "", span if span in SPANS else "")
    events, token = await _matching(visit, kind, span, visit.asked("before"))
    listed = (
        await proposals.list_of(visit, visit.tenant, ()) if any("/proposals/" in e.subject for e in events) else None
    )
    return visit.show(
        "audit.html",
        section="audit",
        acts=list(happened.acts(events)),
        proposals={one.name: one for one in listed.found} if listed is not None else {},
        line=command(str(visit.tenant), kind, span, visit.asked("subject")),
        next=token,
        kind=kind,
        span=span,
        subject=visit.asked("subject"),
        kinds=KINDS,
        spans=SPANS,
    )


async def show_everywhere(visit: Visit) -> Response:
    """Show the newest events of many tenants together."""
    kind, span = visit.asked("kind"), visit.asked("span")
    kind, span = (kind if kind in KINDS else "", span if span in SPANS else "")
    names = (await reading.tenants_of(visit))[: reading.TENANTS_SHOWN]
    pages = await reading.together(reading.events_of(visit, name, size=_OF_EACH) for name in names)
    days = SPANS[span][1]
    oldest = (visit.now - timedelta(days=days)).timestamp() if days else 0.0
    found = [e for page in pages for e in page.events if fits(e, kind) and e.event_time.seconds >= oldest]
    found.sort(key=lambda event: event.event_time.ToNanoseconds(), reverse=True)
    return visit.show(
        "audit.html",
        section="audit everywhere",
        acts=list(happened.acts(found[:SHOWN])),
        proposals={},
        line="",
        next="",
        kind=kind,
        span=span,
        subject="",
        kinds=KINDS,
        spans=SPANS,
        tenants=len(names),
        of_each=_OF_EACH,
    )


async def verify(visit: Visit) -> Response:
    """Have the server recompute the chain, and say what it found."""
    request = governance_service_pb2.VerifyAuditRequest(parent=f"tenants/{visit.tenant}")
    found = await visit.call(visit.backend.governance.VerifyAudit, request)
    if found.intact:
        sentence = f"The chain holds: all {found.events:,} events follow from the one before."
        visit.session.note("done", sentence)
    else:
        sentence = f"The chain is broken at event {found.first_broken_sequence}: {found.detail}"
        visit.session.note("refused", sentence)
    kept = {name: visit.form[name] for name in ("kind", "span", "subject") if visit.form.get(name)}
    return moved(f"/tenants/{visit.tenant}/audit" + (f"?{urlencode(kept)}" if kept else ""))


def command(tenant: str, kind: str, span: str, subject: str) -> str:
    """Write the line that lists the same events.

    >>> command("acme", "access", "week", "")
    'kedge audit list acme --verb key. --verb identity. --days 7'
    """
    words = ["kedge audit list", tenant]
    words += ["--actor kedge"] if kind == "kedge" else [f"--verb {mark}" for mark in KINDS[kind][1]]
    words += [f"--subject {shlex.quote(subject)}"] if subject else []
    words += [f"--days {SPANS[span][1]}"] if span else []
    return " ".join(words)


async def _matching(visit: Visit, kind: str, span: str, before: str) -> tuple[list[Any], str]:
    """Read events that fit, newest first, and where the next page begins; empty at the end."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    found: list[Any] = []
    days = SPANS[span][1]
    oldest = visit.now - timedelta(days=days) if days else None
    token = before if before.isdigit() else ""
    for _ in range(0, _MOST_LOOKED_AT, _PAGE):
        page = await reading.events_of(visit, visit.tenant, size=_PAGE, before=token)
        for event in page.events:
            moment = wording.time_of(event.event_time)
            if oldest is not None and moment is not None and moment < oldest:
                return found, ""
            if len(found) == SHOWN:
                return found, str(found[-1].sequence)
            if fits(event, kind) and visit.asked("subject") in ("", event.subject):
                found.append(event)
        token = page.next_page_token
        if not token:
            return found, ""
    return found, token


def fits(event: Any, kind: str) -> bool:
    """Say whether an event is of a kind."""
    if kind == "kedge":
        return bool(event.actor == "kedge")
    marks: Sequence[str] = KINDS[kind][1]
    return not marks or any(event.verb.startswith(mark) or event.verb.endswith(mark) for mark in marks)

"""Read a tenant's audit log, which says what was changed, by whom and why, and keep it in the run's folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import grpc

from kedge.bandit.v1 import governance_service_pb2 as wire
from kedge.bandit.v1.audit_event_pb2 import AuditEvent
from kedge.bandit.v1.governance_service_pb2_grpc import GovernanceServiceStub
from kedge_demo.page_model import Event
from kedge_demo.plain import read_plain
from kedge_demo.world import World

AUDIT_FILE = "audit.json"
LONGEST_DETAILS = 160
PAGE_SIZE = 200
TIMEOUT_S = 30.0


def spell_payload(payload_json: str) -> str:
    """Put the plain facts of an event into words, the first few of them.

    >>> spell_payload('{"action": "leaky@0123", "over_cap": 0.99312, "q": [1, 2]}')
    'action leaky@0123, over_cap 0.993'
    """
    try:
        payload = json.loads(payload_json or "{}")
    except json.JSONDecodeError:
        return ""
    items = payload.items() if isinstance(payload, dict) else ()
    plain = [(key, value) for key, value in items if isinstance(value, str | int | float) and value != ""]
    words = (f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in plain)
    return ", ".join(words)[:LONGEST_DETAILS]


def read_audit(address: str, key: str, world: World) -> list[Event]:
    """Read the whole log, oldest first."""
    found: list[AuditEvent] = []
    with grpc.insecure_channel(address) as channel:
        stub = GovernanceServiceStub(channel)
        request = wire.ListAuditEventsRequest(parent=f"tenants/{world.tenant}", page_size=PAGE_SIZE)
        while True:
            answer = stub.ListAuditEvents(request, metadata=(("authorization", f"Bearer {key}"),), timeout=TIMEOUT_S)
            found.extend(answer.events)
            if not answer.next_page_token:
                break
            request.page_token = answer.next_page_token
    return [
        Event(
            sequence=event.sequence,
            time=event.event_time.ToDatetime().strftime("%H:%M:%S"),
            actor=event.actor,
            verb=event.verb,
            subject=event.subject,
            because=event.because,
            details=spell_payload(event.payload_json),
        )
        for event in sorted(found, key=lambda event: event.sequence)
    ]


def save_audit(folder: Path, found: Mapping[str, list[Event]]) -> None:
    """Write tenants' logs into the run's folder, in place of what was there of these tenants."""
    logs = {**load_audit(folder), **found}
    content = {tenant: [asdict(event) for event in events] for tenant, events in logs.items()}
    (folder / AUDIT_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load_audit(folder: Path) -> dict[str, list[Event]]:
    """Read what is there; nothing if there is no such file."""
    path = folder / AUDIT_FILE
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {tenant: [read_plain(Event, event) for event in events] for tenant, events in content.items()}

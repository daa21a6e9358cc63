"""Read what others found about the run, from the files that lie beside it and the one that the conductor hands over.

The conductor's file may hold, all of it optional:

    {"proofs": {TENANT: {"rebuild": {"evidence_rows", "max_error", "agrees"},
                         "replay": {"replayed", "mismatches", "vector_error"}}},
     "freeze": {"tenant", "because", "decisions", "baseline", "reason"},
     "audit": {TENANT: [event, …]}}

with each event as the API spells it. Other keys are left alone. What `kedge_demo.frozen` and `kedge_demo.measure` wrote
themselves (frozen.json, audit.json) is read from the folder; inside.json is the second computation.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from kedge_demo.agreement import disagreements_with
from kedge_demo.audit import AUDIT_FILE, spell_payload
from kedge_demo.frozen import FROZEN_FILE
from kedge_demo.measure import REPORT_FILE
from kedge_demo.page_model import Event, Facts, Frozen, Rebuilt, Replayed
from kedge_demo.plain import read_plain

INSIDE_FILE = "inside.json"

T = TypeVar("T")


def read_facts(folder: Path, given: Path | None) -> Facts:
    """Gather everything that is there."""
    content = {} if given is None else _load(given)
    proofs = content.get("proofs", {})
    audit = content.get("audit") or _load(folder / AUDIT_FILE)
    differences = None
    if (folder / INSIDE_FILE).exists():
        differences = disagreements_with(_load(folder / REPORT_FILE)["tenants"], folder / INSIDE_FILE)
    return Facts(
        rebuilt={tenant: _some(Rebuilt, proof["rebuild"]) for tenant, proof in proofs.items() if "rebuild" in proof},
        replayed={tenant: _some(Replayed, proof["replay"]) for tenant, proof in proofs.items() if "replay" in proof},
        differences=differences,
        frozen=_frozen(_load(folder / FROZEN_FILE), content.get("freeze")),
        audit={tenant: _events(found) for tenant, found in audit.items()},
    )


def _load(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if there is no such file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def _some(kind: type[T], value: Mapping[str, object]) -> T:
    """Read the fields that the dataclass has, and leave the others alone."""
    names = getattr(kind, "__dataclass_fields__", {})
    return read_plain(kind, {key: one for key, one in value.items() if key in names})


def _frozen(asked: Mapping[str, Any], conducted: Mapping[str, Any] | None) -> Frozen | None:
    """Take what was asked with `kedge_demo.frozen`, else what the conductor saw; the reason from whoever has it."""
    because = str((conducted or {}).get("because", ""))
    if asked:
        return read_plain(Frozen, {**asked, "because": asked.get("because") or because})
    if conducted is None:
        return None
    times = int(conducted["decisions"])
    return Frozen(
        tenant=conducted["tenant"],
        asked=times,
        baseline_served=times,
        reasons={conducted["reason"]: times},
        baseline=conducted["baseline"],
        because=because,
    )


def _events(found: Any) -> list[Event]:
    """Read events in the API's spelling, or in our own, oldest first; a page of them may wrap the list."""
    listed = found.get("events", []) if isinstance(found, dict) else found
    events = [
        Event(
            sequence=int(one.get("sequence", 0)),
            time=_clock(str(one.get("time") or one.get("event_time") or one.get("eventTime") or "")),
            actor=str(one.get("actor", "")),
            verb=str(one.get("verb", "")),
            subject=str(one.get("subject", "")),
            because=str(one.get("because", "")),
            details=one.get("details")
            or _details(one.get("payload_json") or one.get("payloadJson") or one.get("payload")),
        )
        for one in listed
    ]
    return sorted(events, key=lambda event: event.sequence)


def _details(payload: Any) -> str:
    """Spell an event's payload, which is JSON or already read."""
    return spell_payload(payload if isinstance(payload, str) else json.dumps(payload or {}))


def _clock(time: str) -> str:
    """Cut a timestamp to its time of day.

    >>> _clock("2026-11-30T11:02:14.123456Z"), _clock("11:02:14")
    ('11:02:14', '11:02:14')
    """
    return time.replace(" ", "T").rpartition("T")[2][:8]

"""Say what an audit event did, as people say it: the act, what it was done to, and what changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kedge.bandit.v1 import audit_event_pb2
from kedge_bandit.adapters.console import wording

_SAID: Final[Mapping[str, str]] = {
    "policy.staged": "moved traffic",
    "policy.mode_set": "set the mode",
    "policy.resumed": "resumed the policy",
    "tenant.mode_set": "set the tenant's mode",
    "proposal.submitted": "proposed",
    "proposal.gate_started": "started the gate",
    "proposal.gate_waived": "went on without the gate",
    "proposal.gate_concluded": "concluded the gate",
    "proposal.evaluated": "reported an evaluation",
    "proposal.forced": "approved against the gate",
    "proposal.served": "began to serve",
    "proposal.voided": "voided",
    "ramp.begun": "began a ramp",
    "ramp.advanced": "went to the next stage",
    "ramp.rolled_back": "went back one stage",
    "ramp.aborted": "went back to the first stage",
    "ramp.completed": "completed the ramp",
}
"""Where noun and participle do not read well turned around: "policy.frozen" is "froze policy" by the rule below."""
_PAST: Final[Mapping[str, str]] = {"frozen": "froze", "unfrozen": "unfroze", "withdrawn": "withdrew"}
_FIRST: Final = (
    "proposal.submitted",
    "proposal.approved",
    "proposal.forced",
    "proposal.reverted",
    "ramp.rolled_back",
    "ramp.paused",
)
_KINDS: Final[Mapping[str, str]] = {"FLOOR_STAGE": "baseline's share", "MODEL_ROUTE": "model", "LORA": "LoRA"}


def said(verb: str) -> str:
    """Say a verb of the log.

    >>> said("policy.frozen"), said("ramp.advanced"), said("holdout.cases_opened")
    ('froze policy', 'went to the next stage', 'cases opened: holdout')
    """
    if verb in _SAID:
        return _SAID[verb]
    noun, _, act = verb.partition(".")
    if "_" in act:
        return f"{act.replace('_', ' ')}: {noun}"
    return f"{_PAST.get(act, act)} {noun}"


def changed(event: audit_event_pb2.AuditEvent) -> str:
    """Say what changed, before and after; empty where the facts do not say.

    >>> changed(audit_event_pb2.AuditEvent(verb="policy.staged", payload_json='{"floor_before": 0.8, "floor": 0.2}'))
    "baseline's share 80 % → 20 %"
    """
    facts = wording.facts(event.payload_json) or {}
    if event.verb.startswith("ramp.") and "value" in facts:
        about = f"cap of {wording.arm_name(str(facts['arm']))}" if facts.get("arm") else "baseline's share"
        return f"{about} {_moved(facts.get('before', facts['value']), facts['value'])}"
    if "floor" in facts and "floor_before" in facts:
        return f"baseline's share {_moved(facts['floor_before'], facts['floor'])}"
    if "cap" in facts and "arm" in facts:
        return f"cap of {wording.arm_name(str(facts['arm']))} {_moved(facts.get('cap_before', 1.0), facts['cap'])}"
    if "mode_before" in facts:
        return f"{facts['mode_before']} → {facts.get('mode', 'FROZEN')}"
    if event.verb.startswith("proposal.") and "kind" in facts:
        kind = str(facts["kind"])
        return _KINDS.get(kind, kind.replace("_", " ").lower())
    return ""


def about(event: audit_event_pb2.AuditEvent) -> str:
    """Name what it was done to, without its tenant; of a proposal the policy that it is about.

    >>> about(audit_event_pb2.AuditEvent(subject="tenants/acme/policies/support"))
    'policy support'
    """
    policy = (wording.facts(event.payload_json) or {}).get("policy")
    if "/proposals/" in event.subject and policy:
        return f"proposal on {wording.own_name(str(policy))}"
    parts = event.subject.split("/")
    if len(parts) < 4:
        return parts[-1]
    noun = "policy" if parts[2] == "policies" else parts[2].removesuffix("s")
    return f"{noun} {'/'.join(parts[3:])}"


def acts(events: Iterable[audit_event_pb2.AuditEvent]) -> Iterator[Sequence[audit_event_pb2.AuditEvent]]:
    """Put together what one act wrote, e.g. an approval and the stage that it gave; what says it best comes first."""
    for _, group in groupby(events, key=lambda one: (one.event_time.ToNanoseconds(), one.actor, one.because)):
        yield sorted(group, key=lambda one: one.verb not in _FIRST)


def changes(act: Sequence[audit_event_pb2.AuditEvent]) -> list[str]:
    """Say all that one act changed, each once."""
    return list(dict.fromkeys(filter(None, (changed(event) for event in reversed(act)))))


def _moved(before: Any, after: Any) -> str:
    if not all(isinstance(value, int | float) for value in (before, after)):
        return f"{before} → {after}"
    if before == after:
        return f"stays at {wording.percent(float(after))}"
    return f"{wording.percent(float(before))} → {wording.percent(float(after))}"

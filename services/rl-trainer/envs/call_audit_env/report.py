"""The incident report: a draft from the auditor's own findings, and the graded one, which only an evaluator may see."""

from collections import Counter

from call_audit_env.calls import Severity
from call_audit_env.rubric import score
from call_audit_env.world import Flag, World

Report = dict[str, object]

ACTIONS = {Severity.HIGH: "ESCALATE", Severity.MEDIUM: "REVIEW", Severity.LOW: "REVIEW"}
DEADLINES = {"ESCALATE": "same day", "REVIEW": "next day", "ARCHIVE": "none"}
MINUTES, MINUTES_EACH = 5, 3
"""What a human review takes: at all, and for each finding."""


def draft(world: World) -> Report:
    """Write the report that goes to a supervisor: nothing in it comes from the truth.

    Every finding cites the turn that was opened for it, if one was.
    """
    severities = [one.severity for one in world.flags]
    action = _action(severities)
    return {
        "verdict": _spelled(passed=world.passed is True),
        "verdict_rationale": _rationale(severities),
        "findings": [_finding(world, one) for one in world.flags],
        "recommended_action": action,
        "deadline": DEADLINES[action],
        "triage_efficiency_pct": _unused(world),
        "estimated_human_review_minutes": MINUTES + MINUTES_EACH * len(severities) if severities else 0,
    }


def graded(world: World) -> Report:
    """Write the same against the truth: what was detected, missed or made up. Never shown to an auditor."""
    found = score(world)
    truth = [one.severity for one in world.call.breaches]
    action = _action(truth)
    status = [(one, "DETECTED") for one in found.found] + [(one, "MISSED") for one in found.missed]
    findings = [
        {
            "finding": one.policy,
            "severity": str(one.severity),
            "detected": word == "DETECTED",
            "detail": one.detail,
            "turns": sorted(one.span),
            "status": word,
        }
        for one, word in status
    ]
    findings += [
        {
            "finding": one.policy,
            "severity": str(one.severity),
            "detected": False,
            "detail": "",
            "status": "FALSE POSITIVE",
        }
        for one in found.false
    ]
    return {
        "verdict": _spelled(passed=world.call.compliant),
        "agent_verdict_correct": world.passed is not None and world.passed == world.call.compliant,
        "verdict_rationale": _rationale(truth),
        "findings": findings,
        "recommendations": _advice(world),
        "recommended_action": action,
        "deadline": DEADLINES[action],
        "triage_efficiency_pct": _unused(world),
        "estimated_human_review_minutes": MINUTES + MINUTES_EACH * len(truth) if truth else 0,
    }


def _spelled(*, passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def _action(severities: list[Severity]) -> str:
    """Route by the gravest finding.

    >>> _action([Severity.LOW, Severity.HIGH]), _action([])
    ('ESCALATE', 'ARCHIVE')
    """
    if not severities:
        return "ARCHIVE"
    return ACTIONS[min(severities, key=list(Severity).index)]


def _rationale(severities: list[Severity]) -> str:
    counted = Counter(severities)
    parts = [f"{counted[severity]} {severity}" for severity in Severity if counted[severity]]
    return f"findings: {', '.join(parts)}" if parts else "no findings"


def _finding(world: World, flag: Flag) -> Report:
    return {
        "finding": flag.policy,
        "severity": str(flag.severity),
        "turn_index": flag.turn,
        "cited": world.shown.get(flag.turn, "") if flag.turn is not None else "",
        "note": flag.note,
    }


def _unused(world: World) -> int:
    return round(100 * world.left / world.total) if world.total else 0


def _advice(world: World) -> list[str]:
    """Say what to do better, a sentence for each kind of mistake."""
    found = score(world)
    advice = [f"look for {one.policy} ({one.severity}): {one.detail}" for one in found.missed]
    if world.passed != world.call.compliant:
        advice.append("the verdict follows from the findings: a call passes if there are none")
    if found.false:
        advice.append("flag only what a turn proves; a false finding costs a colleague half an hour")
    return advice or ["nothing to improve"]

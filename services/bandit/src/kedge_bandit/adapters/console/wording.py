"""Say facts as people say them: times, persons, modes, verbs, shares."""

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote

from google.protobuf.timestamp_pb2 import Timestamp
from markupsafe import Markup, escape

from kedge.bandit.v1 import decision_pb2, policy_pb2, proposal_pb2
from kedge_bandit.adapters.console.inert import inert
from kedge_bandit.domain.principal import person_in

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_CLOCKS: Final = 5
"""Seconds by which the clocks of two machines may differ before a past time reads as a coming one."""

MODE_MEANS: Final[Mapping[str, str]] = {
    "APPLY": "Learned choices are served, and it learns",
    "OBSERVE": "The baseline is served; it learns from baseline traffic only",
    "FROZEN": "The baseline is served and nothing is learned; belief is kept exactly",
    "BYPASS": "The baseline is served without reading the policy; nothing is learned",
    "UNSPECIFIED": "No mode is known",
}
MODE_TONE: Final[Mapping[str, str]] = {"APPLY": "good", "OBSERVE": "info", "FROZEN": "bad", "BYPASS": "bad"}


def mode(number: int) -> str:
    """Name a mode.

    >>> mode(policy_pb2.MODE_FROZEN)
    'FROZEN'
    """
    return policy_pb2.Mode.Name(number).removeprefix("MODE_")  # type: ignore[arg-type]  # a number off the wire


def decision_reason(number: int) -> str:
    """Name why a decision came out as it did; empty where nothing is said."""
    name = decision_pb2.DecisionReason.Name(number)  # type: ignore[arg-type]  # a number off the wire
    name = name.removeprefix("DECISION_REASON_")
    return "" if name == "UNSPECIFIED" else name


_KINDS: Final = {"LORA": "LoRA", "ENVIRONMENT_POLICY": "Environment policy", "FLOOR_STAGE": "Floor stage"}


def kind(proposal: proposal_pb2.Proposal) -> str:
    """Say what a proposal would change.

    >>> kind(proposal_pb2.Proposal(kind=proposal_pb2.PROPOSAL_KIND_FLOOR_STAGE))
    'Floor stage'
    """
    name = proposal_pb2.ProposalKind.Name(proposal.kind).removeprefix("PROPOSAL_KIND_")
    return _KINDS.get(name, name.capitalize())


def state(proposal: proposal_pb2.Proposal) -> str:
    """Name a proposal's state.

    >>> state(proposal_pb2.Proposal(state=proposal_pb2.Proposal.STATE_SERVING))
    'SERVING'
    """
    return proposal_pb2.Proposal.State.Name(proposal.state).removeprefix("STATE_")


def step(taken: proposal_pb2.ProposalStep) -> str:
    """Name the state after a step."""
    return proposal_pb2.Proposal.State.Name(taken.state).removeprefix("STATE_")


def verdict(proposal: proposal_pb2.Proposal) -> str:
    """Name what the gate found: PASS, FAIL or INCONCLUSIVE."""
    return proposal_pb2.GateVerdict.Name(proposal.gate_result.verdict).removeprefix("GATE_VERDICT_")


def time_of(stamp: Timestamp) -> datetime | None:
    """Read a time of the wire; None where none is set."""
    return stamp.ToDatetime(UTC) if stamp.seconds else None


def distance(moment: datetime, now: datetime) -> str:
    """Say how far away a moment is.

    >>> noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    >>> distance(noon.replace(hour=9), noon), distance(noon.replace(minute=5), noon), distance(noon, noon)
    ('3 h ago', 'in 5 min', 'just now')
    """
    seconds = (now - moment).total_seconds()
    size = abs(seconds)
    if size < _MINUTE:
        return "just now" if seconds >= -_CLOCKS else "in a moment"
    count, unit = next(
        (int(size // of), name) for of, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")) if size >= of
    )
    return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"


def when(stamp: Timestamp | datetime | None, now: datetime) -> Markup:
    """Write a time in UTC with how long ago it is."""
    moment = time_of(stamp) if isinstance(stamp, Timestamp) else stamp
    if moment is None:
        return Markup('<span class="quiet">never</span>')
    text = moment.strftime("%Y-%m-%d %H:%M")
    return Markup(
        '<time datetime="{}" title="{} UTC">{} <span class="quiet">UTC<span class="under">{}</span></span></time>'
    ).format(moment.isoformat(timespec="seconds"), moment.strftime("%Y-%m-%d %H:%M:%S"), text, distance(moment, now))


def ago(stamp: Timestamp | datetime | None, now: datetime) -> Markup:
    """Write how long ago a time is, with the UTC time behind it."""
    moment = time_of(stamp) if isinstance(stamp, Timestamp) else stamp
    if moment is None:
        return Markup('<span class="quiet">never</span>')
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        moment.isoformat(timespec="seconds"), moment.strftime("%Y-%m-%d %H:%M:%S"), distance(moment, now)
    )


def who(actor: str) -> str:
    """Name an actor shortly; the full name stands behind it.

    >>> who("person:https://login.example#alice%20smith by service:console"), who("key:core-app"), who("kedge")
    ('alice smith', 'core-app', 'Kedge itself')
    >>> who("key:bot made by person:kedge#alice")
    'bot, made by alice'
    """
    if actor == "kedge":
        return "Kedge itself"
    program, _, maker = actor.partition(" made by ")
    if maker:
        return f"{who(program)}, made by {who(maker)}"
    first = actor.partition(" by ")[0]
    if first.startswith("person:"):
        return unquote(first.rpartition("#")[2])
    return first.partition(":")[2] or first


def person_of(actor: str) -> str:
    """Give the person in an actor; empty for a program."""
    return person_in(actor)


def own_name(resource: str) -> str:
    """Give the last part of a resource name.

    >>> own_name("tenants/acme/policies/support")
    'support'
    """
    return resource.rpartition("/")[2]


def arm_name(arm_id: str) -> str:
    """Give an arm's name without its hash.

    >>> arm_name("large@0123456789ab")
    'large'
    """
    return arm_id.partition("@")[0]


def action_name(key: str) -> str:
    """Write an action key without the hashes.

    >>> action_name("large@0123456789ab|cot@ba9876543210")
    'large · cot'
    """
    return " · ".join(arm_name(arm) for arm in key.split("|"))


def percent(share: float, digits: int = 0) -> str:
    """Write a share.

    >>> percent(0.8), percent(0.0049, 1)
    ('80 %', '0.5 %')
    """
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign.

    >>> signed(0.0312), signed(-0.5, 1), signed(0.0001)
    ('+0.031', '−0.5', '0.000')
    """
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def sentence(text: str) -> str:
    """Make a sentence of what the server says: a capital first, a full stop last.

    >>> sentence("the policy is frozen"), sentence("cost_usd: surely more."), sentence("")
    ('The policy is frozen.', 'Cost_usd: surely more.', '')
    """
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "!", "?")) else ".")


def count(number: float, noun: str, many: str = "") -> str:
    """Write how many.

    >>> count(1, "policy", "policies"), count(1200, "tenant")
    ('1 policy', '1,200 tenants')
    """
    return f"{number:,.0f} {noun if number == 1 else many or noun + 's'}"


def command(*words: str, because: str = "…") -> str:
    """Write the line that does the same on the command line.

    >>> command("freeze", "acme", "support", because="too slow")
    "kedge freeze acme support --because 'too slow'"
    """
    reason = f'"{because}"' if because == "…" else shlex.quote(because)
    return " ".join(["kedge", *(shlex.quote(word) for word in words), "--because", reason])


def quoted(word: str) -> str:
    """Write a word of a command line.

    >>> quoted("turn-1"), quoted("a b")
    ('turn-1', "'a b'")
    """
    return shlex.quote(word)


def facts(text: str) -> Mapping[str, Any] | None:
    """Read an object of JSON; of no text an empty one, None where it is something else.

    >>> facts('{"floor": 0.8}'), facts(""), facts("Be brief.")
    ({'floor': 0.8}, {}, None)
    """
    try:
        read: Any = json.loads(text or "{}")
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def pairs(text: str, name: str) -> list[tuple[str, str]]:
    """Write an object of JSON as names and values; what is something else, whole under a name.

    >>> pairs('{"run": "r7", "seed": 3}', "lineage"), pairs("r7", "lineage")
    ([('run', 'r7'), ('seed', '3')], [('lineage', 'r7')])
    """
    read = facts(text)
    if read is None:
        return [(name, text)]
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in read.items()]


def lines(text: str) -> Markup:
    """Write a text with its line breaks."""
    return Markup("<br>").join(escape(inert(line)) for line in text.splitlines())

"""Say of a tenant's newest answers how good they were: a click is one outcome, recorded as the person who clicks."""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from google.protobuf.timestamp_pb2 import Timestamp
from starlette.responses import Response

from kedge.bandit.v1 import episode_service_pb2, feedback_service_pb2, outcome_pb2
from kedge_bandit.adapters.console import episodes, reading, wording
from kedge_bandit.adapters.console.decisions import chosen_policy
from kedge_bandit.adapters.console.visit import Visit, moved

SHOWN: Final = 25
REACTIONS: Final = {
    "up": ("HUMAN_PROVENANCE_THUMB", 1.0),
    "down": ("HUMAN_PROVENANCE_THUMB", -1.0),
    "accepted": ("HUMAN_PROVENANCE_ACCEPTED", 1.0),
    "resolved": ("HUMAN_PROVENANCE_RESOLVED", 1.0),
    "unresolved": ("HUMAN_PROVENANCE_RESOLVED", 0.0),
}
"""What a button says: provenance and value. An edit has its value in the form."""


async def show(visit: Visit) -> Response:
    """Show the newest episodes of one policy, each with what can be said of it."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    policies = await reading.policies_of(visit, visit.tenant)
    policy = chosen_policy(visit, policies)
    found: list[Any] = []
    if policy is not None:
        request = episode_service_pb2.ListEpisodesRequest(policy=policy.name, page_size=SHOWN)
        found = list((await visit.call(visit.backend.episodes.ListEpisodes, request)).episodes)
    return visit.show(
        "feedback.html",
        section="feedback",
        policies=policies,
        policy=policy,
        found=found,
        state=episodes.state,
        tones=episodes.STATE_TONE,
        query=urlencode,
    )


async def record(visit: Visit) -> Response:
    """Record one reaction."""
    policy, reaction = visit.form.get("policy", ""), visit.form.get("reaction", "")
    name = f"tenants/{visit.tenant}/policies/{policy}"
    place = f"/tenants/{visit.tenant}/feedback?{urlencode({'policy': policy})}"
    said = reaction_of(reaction, visit.form.get("edited", ""))
    if said is None:
        visit.session.note("refused", "Not recorded: say how much was changed, from 0 to 100 percent.")
        return moved(place)
    provenance, value = said
    outcome = outcome_pb2.Outcome(
        idempotency_key=f"console-{reaction}-{visit.form.get('request_id', '')}"[:128],
        episode=outcome_pb2.EpisodeRef(policy=name, episode_id=visit.form.get("episode", "")),
        signal=outcome_pb2.SIGNAL_HUMAN,
        provenance=outcome_pb2.HumanProvenance.Value(provenance),
        value=value,
        observed_time=_stamp(_seen(visit)),
        rater_id=str(visit.session.person or "operator")[:128],
    )
    request = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{visit.tenant}", outcomes=[outcome])
    (result,) = (await visit.call(visit.backend.feedback.RecordOutcomes, request)).results
    status = outcome_pb2.OutcomeStatus.Name(result.status).removeprefix("OUTCOME_STATUS_")
    if status in ("RECORDED", "DUPLICATE"):
        visit.session.note("done", f"Recorded for {wording.own_name(outcome.episode.episode_id)[:40]}.")
    else:
        visit.session.note("refused", f"Not recorded, {status.lower()}: {result.detail or 'see the episode'}")
    return moved(place)


def reaction_of(reaction: str, edited: str) -> tuple[str, float] | None:
    """Read a reaction; None where it says nothing that can be recorded.

    >>> reaction_of("down", ""), reaction_of("edited", "25"), reaction_of("edited", "a lot"), reaction_of("", "")
    (('HUMAN_PROVENANCE_THUMB', -1.0), ('HUMAN_PROVENANCE_EDITED', 0.25), None, None)
    """
    if reaction != "edited":
        return REACTIONS.get(reaction)
    if not (edited.isascii() and edited.isdigit() and len(edited) <= 3 and int(edited) <= 100):
        return None
    return "HUMAN_PROVENANCE_EDITED", int(edited) / 100


def _seen(visit: Visit) -> datetime:
    """Read when the page was shown, so that the same click sent twice is the same outcome; now where it says none."""
    text = visit.form.get("seen", "")
    try:
        seen = datetime.fromisoformat(text)
    except ValueError:
        return visit.now
    return seen if seen.tzinfo is not None and seen <= visit.now else visit.now


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment.astimezone(UTC))
    return stamp

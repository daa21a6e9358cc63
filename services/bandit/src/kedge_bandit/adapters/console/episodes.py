"""Episodes: what happened in each, in the order of time, and how its reward or its veto came about."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from kedge.bandit.v1 import episode_pb2, outcome_pb2
from kedge.bandit.v1 import episode_service_pb2 as pb
from kedge_bandit.adapters.console import reading, reward_parts, wording
from kedge_bandit.adapters.console.decisions import chosen_policy
from kedge_bandit.adapters.console.visit import NotFound, Visit, moved

SHOWN: Final = 50
STATES: Final = ("PENDING", "SETTLED", "VETOED", "UNSCORED", "CANCELLED")
STATE_TONE: Final = {"PENDING": "info", "SETTLED": "good", "VETOED": "bad", "UNSCORED": "warn"}


def state(episode: Any) -> str:
    """Name an episode's state."""
    return episode_pb2.EpisodeState.Name(episode.state).removeprefix("EPISODE_STATE_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One entry of a timeline: when, what in a few words, details, and a tone."""

    time: Any
    said: str
    details: tuple[str, ...] = ()
    tone: str = ""


async def search(visit: Visit) -> Response:
    """Show episodes, the newest first; an episode's own id leads to it."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    policies = await reading.policies_of(visit, visit.tenant)
    policy = chosen_policy(visit, policies)
    if policy is None:
        return visit.show("episodes.html", section="episodes", policies=[], policy=None, found=[], next="")
    if asked := visit.asked("q").strip():
        return moved(f"/{policy.name}/episode?{urlencode({'id': asked})}")
    wanted = visit.asked("state") if visit.asked("state") in STATES else ""
    request = pb.ListEpisodesRequest(
        policy=policy.name,
        state=episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{wanted or 'UNSPECIFIED'}"),
        page_size=SHOWN,
        page_token=visit.asked("before"),
    )
    page = await visit.call(visit.backend.episodes.ListEpisodes, request)
    return visit.show(
        "episodes.html",
        section="episodes",
        policies=policies,
        policy=policy,
        wanted=wanted,
        states=STATES,
        tones=STATE_TONE,
        state=state,
        found=page.episodes,
        next=page.next_page_token,
        parts_of=reward_parts,
        query=urlencode,
    )


async def show(visit: Visit) -> Response:
    """Show one episode."""
    episode_id = visit.asked("id")
    if not episode_id:
        raise NotFound
    request = pb.GetTimelineRequest(policy=visit.policy, episode_id=episode_id)
    told = await visit.call(visit.backend.episodes.GetTimeline, request)
    verdicts = [entry.verdict for entry in told.entries if entry.WhichOneof("entry") == "verdict"]
    latest = await visit.call(
        visit.backend.episodes.GetEpisode, pb.GetEpisodeRequest(policy=visit.policy, episode_id=episode_id)
    )
    steps = reward_parts.steps(verdicts[-1], told.reward if told.HasField("reward") else None) if verdicts else []
    return visit.show(
        "one_episode.html",
        section="episodes",
        episode=latest.episode,
        state=state(latest.episode),
        tones=STATE_TONE,
        happenings=[happening(entry) for entry in told.entries],
        verdicts=verdicts,
        steps=steps,
        reach=reward_parts.reach(steps),
        vetoes=reward_parts.vetoes(latest.episode),
        why_not=reward_parts.not_learned(latest.episode.weight_reason),
    )


def happening(entry: pb.TimelineEntry) -> Happening:
    """Say one entry of a timeline."""
    kind = entry.WhichOneof("entry")
    if kind == "decision":
        one = entry.decision
        details = (f"{wording.decision_reason(one.reason)}, propensity {one.propensity:.4f}",)
        rival = ("it does not stand for the episode: another was recorded first",) if one.superseded else ()
        return Happening(
            time=entry.receive_time, said=f"Decided: {wording.action_name(one.action_key)}", details=details + rival
        )
    if kind == "event":
        return _event(entry)
    if kind == "outcome":
        return _outcome(entry)
    return _verdict(entry)


def _event(entry: pb.TimelineEntry) -> Happening:
    event = entry.event
    said = {"LOG": "Logged", "ACTIVATE": "Said what was served", "CANCEL": "Cancelled", "SETTLE": "Asked to settle now"}
    details = [f"served: {wording.action_name(event.served_action_key)}"] if event.served_action_key else []
    details += _trajectory(event.trajectory) if event.HasField("trajectory") else []
    ended = event.trajectory.terminated or event.trajectory.truncated
    text = said.get(event.kind, event.kind.capitalize())
    if event.kind == "LOG" and ended:
        text = "Logged, ended" if event.trajectory.terminated else "Logged, cut off by a limit"
    return Happening(time=entry.receive_time, said=text, details=tuple(details))


def _trajectory(trajectory: episode_pb2.Trajectory) -> Iterator[str]:
    for call in trajectory.llm_calls:
        spent = [f"{call.cost_usd:.5f} $"] if call.HasField("cost_usd") else []
        spent += [f"{call.latency_ms:,.0f} ms"] if call.HasField("latency_ms") else []
        tokens = f"{call.prompt_tokens:,} and {call.completion_tokens:,} tokens"
        yield f"model {call.model_id}: {', '.join([tokens, *spent])}"
    for tool in trajectory.tool_calls:
        verdict = episode_pb2.VerifierVerdict.Name(tool.verifier_verdict).removeprefix("VERIFIER_VERDICT_").lower()
        checked = "" if verdict == "unspecified" else f", its verifier: {verdict}"
        yield f"tool {tool.tool_name}{', blocked' if tool.blocked else ''}{checked}"
    for guardrail in trajectory.guardrail_events:
        name = episode_pb2.GuardrailKind.Name(guardrail.kind).removeprefix("GUARDRAIL_KIND_")
        yield f"guardrail {name}: {'tripped' if guardrail.tripped else 'clean'}"
    for approval in trajectory.approvals:
        answer = episode_pb2.ApprovalVerdict.Name(approval.verdict).removeprefix("APPROVAL_VERDICT_").lower()
        yield f"approval of {approval.subject}: {answer}"
    for assertion in trajectory.assertions:
        name = episode_pb2.AssertionKind.Name(assertion.kind).removeprefix("ASSERTION_KIND_").lower()
        kind = f"{'hard ' if assertion.hard else ''}assertion {name.replace('_', ' ')}"
        yield f"{kind}: {'passed' if assertion.passed else 'failed'}"


def _outcome(entry: pb.TimelineEntry) -> Happening:
    outcome = entry.outcome
    signal = outcome_pb2.Signal.Name(outcome.signal).removeprefix("SIGNAL_")
    details = [f"from {wording.who(entry.source)}"]
    if outcome.provenance:
        details.append(outcome_pb2.HumanProvenance.Name(outcome.provenance).removeprefix("HUMAN_PROVENANCE_").lower())
    if outcome.judge_version:
        details.append(f"judge {outcome.judge_version}")
    if outcome.WhichOneof("observation") == "absent":
        reason = outcome_pb2.AbsentReason.Name(outcome.absent).removeprefix("ABSENT_REASON_").lower().replace("_", " ")
        value = f"will not come: {reason}"
    elif signal == "SAFETY":
        value = "clean" if outcome.value else "tripped"
    else:
        units = {"COST": " $", "LATENCY": " ms"}
        value = f"{outcome.value:.5g}{units.get(signal, '')}".replace("-", "−")
    names = {"HUMAN": "A person", "TASK_SUCCESS": "Task success"}
    tone = "bad" if signal == "SAFETY" and value == "tripped" else ""
    name = names.get(signal, signal.capitalize())
    return Happening(time=entry.receive_time, said=f"{name}: {value}", details=tuple(details), tone=tone)


def _verdict(entry: pb.TimelineEntry) -> Happening:
    verdict = entry.verdict
    version = f"reward version {verdict.reward_version}"
    if verdict.veto_reasons:
        details = (*reward_parts.vetoes(verdict), version)
        return Happening(time=entry.receive_time, said="Vetoed: reward 0", details=details, tone="bad")
    if not verdict.HasField("reward"):
        return Happening(time=entry.receive_time, said="No reward", details=(version,))
    why = reward_parts.not_learned(verdict.weight_reason)
    details = (version, *([f"not learned from: {why}"] if why and not verdict.weight else []))
    return Happening(time=entry.receive_time, said=f"Reward {verdict.reward:.3f}", details=details, tone="good")

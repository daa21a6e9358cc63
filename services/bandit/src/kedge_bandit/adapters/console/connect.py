"""Connect an application: what has arrived so far, and the snippet for what is missing."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from kedge.bandit.v1 import decision_service_pb2, episode_service_pb2, policy_service_pb2
from kedge_bandit.adapters.console import reading, wording
from kedge_bandit.adapters.console.decisions import chosen_policy
from kedge_bandit.adapters.console.visit import Visit

_LOOKED_AT: Final = 200
"""Newest episodes whose signals are looked at."""
SIGNALS: Final = {
    "human": ("People's reactions", '"signal": "SIGNAL_HUMAN", "provenance": "HUMAN_PROVENANCE_THUMB", "value": 1'),
    "judge": ("A judge's score", '"signal": "SIGNAL_JUDGE", "value": 0.8, "judge_version": "m-3 rubric-2"'),
    "task_success": ("Task success", '"signal": "SIGNAL_TASK_SUCCESS", "value": 1'),
    "cost_usd": ("Cost", '"signal": "SIGNAL_COST", "value": 0.0021'),
    "latency_ms": ("Latency", '"signal": "SIGNAL_LATENCY", "value": 840'),
}
"""By the name that an episode's signals have: what it is, and how an outcome says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One thing that an application does: whether it did, and how it would.

    Attributes:
        said: what was seen, or what is waited for.
        snippet: shell lines that do it.
        optional: the reward can be had without it.
    """

    name: str
    done: bool
    said: str
    snippet: str = ""
    optional: bool = False


async def show(visit: Visit) -> Response:
    """Show how far a tenant's application is connected."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    policies = await reading.policies_of(visit, visit.tenant)
    policy = chosen_policy(visit, policies)
    facts: dict[str, Any] = {"policies": policies, "policy": policy, "tenant_name": str(visit.tenant)}
    if policy is None:
        return visit.show("connect.html", section="connect", ticks=[], **facts)
    decisions, episodes, status = await asyncio.gather(
        visit.call(
            visit.backend.decisions.ListDecisions,
            decision_service_pb2.ListDecisionsRequest(policy=policy.name, page_size=1),
        ),
        visit.call(
            visit.backend.episodes.ListEpisodes,
            episode_service_pb2.ListEpisodesRequest(policy=policy.name, page_size=_LOOKED_AT),
        ),
        visit.call(
            visit.backend.policies.GetPolicyStatus,
            policy_service_pb2.GetPolicyStatusRequest(name=policy.name, without_cells=True),
        ),
    )
    ticks = ticks_of(policy.name, list(decisions.decisions), list(episodes.episodes), dict(status.episode_counts))
    return visit.show("connect.html", section="connect", ticks=ticks, **facts)


def ticks_of(policy: str, decisions: Sequence[Any], episodes: Sequence[Any], counts: dict[str, int]) -> list[Tick]:
    """Say what has arrived of everything that an application sends."""
    own = wording.own_name(policy)
    ended = counts.get("SETTLED", 0) + counts.get("VETOED", 0)
    logged = ended + counts.get("PENDING", 0) + counts.get("UNSCORED", 0) + counts.get("CANCELLED", 0)
    seen = {name for episode in episodes for name in episode.signals}
    found = [
        Tick(name="A policy", done=True, said=f"{own} says what may be chosen."),
        Tick(
            name="The first decision",
            done=bool(decisions),
            said="The application asks which action to serve." if decisions else "Nothing was decided yet.",
            snippet=_post(f"{policy}:decide", '"request_id": "turn-1", "episode_id": "turn-1"'),
        ),
        Tick(
            name="The first episode",
            done=bool(logged),
            said=f"{logged:,} were logged." if logged else "Nothing was logged yet: say what happened in the turn.",
            snippet=_post(
                f"{policy}/episodes:log",
                '"request_id": "turn-1", "episode_id": "turn-1", "trajectory": {"terminated": true, '
                '"declared_safety": "SAFETY_VERDICT_CLEAN"}',
            ),
        ),
    ]
    found += [_signal(policy, name, seen) for name in SIGNALS]
    return [*found, *_judged(policy, counts, ended)]


def _judged(policy: str, counts: dict[str, int], ended: int) -> Iterator[Tick]:
    """Say whether episodes carry a safety verdict, and whether one has a reward."""
    lacking = counts.get("no_safety_verdict", 0)
    yield Tick(
        name="Safety verdicts",
        done=bool(ended) and lacking < ended,
        said=f"{lacking:,} episodes came without one: they are stored and not learned from."
        if lacking
        else "Guardrails say of every episode whether it was clean.",
        snippet=_post(
            f"{policy}/episodes:log",
            '"request_id": "turn-2", "episode_id": "turn-2", "trajectory": {"terminated": true, '
            '"guardrail_events": [{"kind": "GUARDRAIL_KIND_PII", "tripped": false}]}',
        ),
    )
    yield Tick(
        name="The first reward",
        done=bool(ended),
        said=f"{ended:,} episodes have one." if ended else "It comes when an episode's windows have ended.",
        snippet=_post(f"{policy}/episodes/turn-1:settle", '"request_id": "settle-1"'),
    )


def _signal(policy: str, name: str, seen: set[str]) -> Tick:
    title, fields = SIGNALS[name]
    tenant = policy.split("/policies/")[0]
    target = f'"episode": {{"policy": "{policy}", "episode_id": "turn-1"}}'
    outcome = f'"idempotency_key": "turn-1-{name}", {target}, {fields}, "observed_time": "\'$(date -u +%FT%TZ)\'"'
    done = name in seen
    return Tick(
        name=title,
        done=done,
        said=f"Among the newest {_LOOKED_AT} episodes." if done else "None among the newest episodes.",
        snippet=_post(f"{tenant}/outcomes:record", f'"outcomes": [{{{outcome}}}]'),
        optional=True,
    )


def _post(path: str, fields: str) -> str:
    return (
        f'curl -X POST "$KEDGE_URL/v1/{path}" -H "authorization: Bearer $KEDGE_KEY" '
        f"-H 'content-type: application/json' -d '{{{fields}}}'"
    )

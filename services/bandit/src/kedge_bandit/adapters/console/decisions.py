"""Find decisions, and say of one why it came out so and what would change it."""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from kedge.bandit.v1 import decision_pb2
from kedge.bandit.v1 import decision_service_pb2 as pb
from kedge_bandit.adapters.console import reading, wording
from kedge_bandit.adapters.console.backend import CallRefused
from kedge_bandit.adapters.console.visit import NotFound, Visit, moved

SHOWN: Final = 50
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
REASONS: Final = tuple(
    name.removeprefix("DECISION_REASON_")
    for name, number in decision_pb2.DecisionReason.items()
    if number not in (0, decision_pb2.DECISION_REASON_OVER_QUOTA)
)
"""Reasons that a stored decision can have."""
REASON_TONE: Final = {"DRAWN": "good", "ERROR": "bad", "STALE": "bad", "FROZEN": "warn", "BYPASS": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody looks for; every field is text of the address."""

    policy: str
    episode: str = ""
    action: str = ""
    bucket: str = ""
    reason: str = ""

    def place(self, tenant: str, **more: str) -> str:
        """Give the address of these decisions."""
        fields = {"policy": wording.own_name(self.policy), "episode": self.episode, "action": self.action}
        fields |= {"bucket": self.bucket, "reason": self.reason, **more}
        return f"/tenants/{tenant}/decisions?" + urlencode({key: value for key, value in fields.items() if value})


async def search(visit: Visit) -> Response:
    """Show decisions, the newest first; a decision's own id leads to it."""
    assert visit.tenant is not None  # noqa: S101 - the path names it
    asked = visit.asked("q").strip()
    if _UUID.fullmatch(wording.own_name(asked).lower()):
        return moved(f"/tenants/{visit.tenant}/decisions/{wording.own_name(asked).lower()}")
    policies = await reading.policies_of(visit, visit.tenant)
    policy = chosen_policy(visit, policies)
    if policy is None:
        return visit.show("decisions.html", section="decisions", policies=[], wish=None, found=[], next="", reasons=())
    reason = visit.asked("reason") if visit.asked("reason") in REASONS else ""
    wish = Wish(
        policy=policy.name,
        episode=asked or visit.asked("episode"),
        action=visit.asked("action"),
        bucket=visit.asked("bucket"),
        reason=reason,
    )
    request = pb.ListDecisionsRequest(
        policy=wish.policy,
        episode_id=wish.episode,
        action_key=wish.action,
        bucket=wish.bucket,
        reason=decision_pb2.DecisionReason.Value(f"DECISION_REASON_{reason or 'UNSPECIFIED'}"),
        page_size=SHOWN,
        page_token=visit.asked("before"),
    )
    page = await visit.call(visit.backend.decisions.ListDecisions, request)
    return visit.show(
        "decisions.html",
        section="decisions",
        policies=policies,
        policy=policy,
        wish=wish,
        found=page.decisions,
        next=page.next_page_token,
        reasons=REASONS,
        tones=REASON_TONE,
    )


def chosen_policy(visit: Visit, policies: list[Any]) -> Any:
    """Give the policy that the address names, else the first; None where there is none."""
    named = visit.asked("policy")
    return next((one for one in policies if wording.own_name(one.name) == named), next(iter(policies), None))


async def show(visit: Visit) -> Response:
    """Explain one decision; on demand recompute it from the log."""
    name = f"tenants/{visit.tenant}/decisions/{visit.named('decision')}"
    try:
        why = await visit.call(visit.backend.decisions.ExplainDecision, pb.ExplainDecisionRequest(name=name))
    except CallRefused as error:
        if error.code == "INVALID_ARGUMENT":
            raise NotFound from error
        raise
    replayed = None
    if visit.asked("replay") == "yes":
        replayed = await visit.call(visit.backend.decisions.ReplayDecision, pb.ReplayDecisionRequest(name=name))
    reason = wording.decision_reason(why.decision.reason)
    return visit.show(
        "one_decision.html",
        section="decisions",
        why=why,
        one=why.decision,
        reason=reason,
        tone=REASON_TONE.get(reason, ""),
        replayed=replayed,
        sentences=[plain(sentence) for sentence in why.sentences],
        shares=[
            (wording.action_name(line.action_key), line.propensity, _tone(line.action_key, i, why))
            for i, line in enumerate(why.actions)
        ],
        others=others(why),
    )


def _tone(key: str, place: int, why: Any) -> str:
    """Tell the chosen share from the others, and those from their neighbours."""
    return "good" if key == why.decision.action_key else ("quiet", "info")[place % 2]


def others(why: Any) -> list[tuple[Any, float]]:
    """Give the actions that another draw would have chosen, with how far the draw was away, the nearest first.

    >>> near, far = (pb.ActionExplanation(action_key=k, propensity=.3, draw_from=f, draw_to=f + .3)
    ...              for k, f in (("b@1", .4), ("c@1", .7)))
    >>> own = pb.ActionExplanation(action_key="a@1", propensity=.4, draw_from=0, draw_to=.4)
    >>> why = pb.ExplainDecisionResponse(actions=[own, far, near], draw=.1)
    >>> why.decision.action_key = "a@1"
    >>> [(one.action_key, round(gap, 9)) for one, gap in others(why)]
    [('b@1', 0.3), ('c@1', 0.6)]
    """
    found = [one for one in why.actions if one.propensity > 0 and one.action_key != why.decision.action_key]
    gaps = [(one, max(one.draw_from - why.draw, why.draw - one.draw_to, 0.0)) for one in found]
    return sorted(gaps, key=lambda pair: pair[1])


_HASH: Final = re.compile(r"@[0-9a-f]{12}")


def plain(sentence: str) -> str:
    """Leave the hashes of arms out of a sentence.

    >>> plain("It fell into the share of large@0123456789ab|cot@0123456789ab.")
    'It fell into the share of large · cot.'
    """
    return _HASH.sub("", sentence).replace("|", " · ")

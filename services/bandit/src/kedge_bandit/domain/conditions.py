"""Check what a promotion needs beside the scores: template variables, and of weights their measured distance."""

import json
from math import isfinite
from typing import Final, TypeGuard

from kedge_bandit.domain.candidate import ProposalKind, incumbent_arm
from kedge_bandit.domain.proposal import Proposal

KL: Final = "kl"
KL_STOP: Final = "kl_stop"
MAX_KL_STOP: Final = 0.15
"""Nats per token; the largest stop bound that a recipe may have."""


def unmet(proposal: Proposal) -> tuple[str, ...]:
    """Say in sentences which conditions do not hold; empty where all do."""
    found = list(lost_variables(proposal))
    if proposal.kind is ProposalKind.LORA:
        found += far_from_base(proposal.lineage)
    return tuple(found)


def lost_variables(proposal: Proposal) -> list[str]:
    """Name the template variables of the incumbent prompt that the candidate does not declare and use."""
    arm = proposal.candidate.arm
    if proposal.kind is not ProposalKind.PROMPT or arm is None:
        return []
    lost = [
        name
        for name in incumbent_arm(proposal.candidate, proposal.base).template_variables
        if name not in arm.template_variables or f"{{{name}}}" not in arm.content
    ]
    return [f"the template variable {name!r} of the incumbent is gone: keep it" for name in lost]


def far_from_base(lineage: str) -> list[str]:
    """Say whether weights went further from their base than the recipe allows, by what their run recorded.

    >>> far_from_base('{"kl": 0.03, "kl_stop": 0.05}')
    []
    >>> [len(far_from_base(of)) for of in ("", '{"kl": 1e300, "kl_stop": Infinity}', '{"kl": 2, "kl_stop": 3}')]
    [1, 1, 1]
    """
    facts = json.loads(lineage or "{}")
    measured, bound = facts.get(KL), facts.get(KL_STOP)
    if not _is_distance(measured) or not _is_distance(bound):
        return [f'the lineage has no measured KL: state "{KL}" and its stop bound "{KL_STOP}", in nats per token']
    if bound > MAX_KL_STOP:
        return [f"a stop bound of {bound:g} nats per token bounds nothing: use one of at most {MAX_KL_STOP}"]
    if not measured <= bound:
        return [f"measured KL {measured:g} is over the recipe's stop bound {bound:g}: train nearer to the base"]
    return []


def _is_distance(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0

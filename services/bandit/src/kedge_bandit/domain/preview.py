"""Say how a bucket would be served once a candidate is, before anything is learned of it."""

from dataclasses import dataclass

from kedge_bandit.domain.allocation import allocate, baseline_only
from kedge_bandit.domain.policy import PolicySpec
from kedge_bandit.domain.published import Allocation


@dataclass(frozen=True, slots=True)
class Preview:
    """One bucket now and after, over the actions of both in canonical order; 0 where there is no such action."""

    bucket: str
    actions: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


def preview(allocation: Allocation, spec: PolicySpec) -> Preview:
    """Allocate a bucket under another configuration, by what is believed now.

    An action that is new counts as one of equals among all: its chance of being best is 1 / K, as by the prior.

    Args:
        allocation: the newest of the bucket.
        spec: the configuration after.
    """
    keys = spec.action_keys
    known = allocation.index
    q = [allocation.q[known[key]] if key in known else 1.0 / len(keys) for key in keys]
    eligible = [key not in known or allocation.eligible[known[key]] for key in keys]
    eligible[spec.baseline_index] = True
    if allocation.closed is not None:
        p = baseline_only(len(keys), spec.baseline_index)
    else:
        p = allocate(
            q,
            subset=eligible,
            baseline=spec.baseline_index,
            floor=spec.exploration.floor,
            uniform_slice=spec.exploration.uniform_slice,
            caps=spec.action_caps,
        )
    after = dict(zip(keys, p.tolist(), strict=True))
    both = tuple(sorted({*allocation.actions, *keys}, key=lambda key: key.encode()))
    before = tuple(allocation.p[known[key]] if key in known else 0.0 for key in both)
    return Preview(allocation.bucket, both, before, tuple(after.get(key, 0.0) for key in both))

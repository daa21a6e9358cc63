"""Which metrics the services have, as Prometheus names them, and which ones an expression asks for."""

import re
from collections.abc import Iterator
from functools import cache

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from kedge_bandit.adapters.telemetry import FlagCollector, SnapshotCollector, Telemetry
from kedge_bandit.entrypoints.divergence_metrics import DivergenceMetrics
from kedge_bandit.entrypoints.gate_metrics import GateMetrics
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

_NAME = re.compile(r"\bkedge_[a-z_]+\b")
_OF_HISTOGRAMS = ("_bucket", "_count", "_sum")


def named_in(expr: str) -> set[str]:
    """Name the metrics that an expression asks for, histograms by their family.

    >>> sorted(named_in('sum(rate(kedge_decide_seconds_bucket[5m])) / kedge_mode{tenant="kedge:a"}'))
    ['kedge_decide_seconds', 'kedge_mode']
    """
    found = set()
    for name in _NAME.findall(expr):
        ending = next(
            (end for end in _OF_HISTOGRAMS if name.endswith(end) and name.removesuffix(end) in families()), ""
        )
        found.add(name.removesuffix(ending))
    return found


@cache
def families() -> frozenset[str]:
    """Name every metric of server, worker and gate; counters with their ending."""
    return frozenset(_names())


def _names() -> Iterator[str]:
    registry = CollectorRegistry()
    for owner in (Telemetry, WorkerMetrics, GateMetrics, DivergenceMetrics):
        owner(registry)
    collectors: tuple[Collector, ...] = (SnapshotCollector(list, float, float), FlagCollector(float))
    for collector in (registry, *collectors):
        for family in collector.collect():
            yield f"{family.name}_total" if family.type == "counter" else family.name

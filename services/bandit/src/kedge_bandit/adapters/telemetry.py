"""Count and time what the server does, for /metrics. Labels stop at tenant and policy; children are bound once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kedge_bandit.domain.decision import Decision
from kedge_bandit.domain.mode import Mode

log = structlog.get_logger(__name__)

_LATENCY_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
_MODE_CHANGE_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Telemetry:
    """The server's counters. One per process; a registry may be given so that tests stand apart."""

    registry: CollectorRegistry = REGISTRY
    _decisions: Counter = field(init=False)
    _latency: Histogram = field(init=False)
    _outcomes: Counter = field(init=False)
    _episodes: Counter = field(init=False)
    _errors: Counter = field(init=False)
    _dropped: Counter = field(init=False)
    _rows: Counter = field(init=False)
    _commit: Histogram = field(init=False)
    _reported: Counter = field(init=False)
    _watchers: Gauge = field(init=False)
    _mismatches: Counter = field(init=False)
    _refused: Counter = field(init=False)
    _over_quota: Counter = field(init=False)
    _mode_change: Histogram = field(init=False)
    _bound: dict[tuple[str, ...], Counter] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Register every series."""
        registry = self.registry
        self._decisions = Counter(
            "kedge_decisions", "Decisions answered", ("tenant", "policy", "reason"), registry=registry
        )
        self._latency = Histogram(
            "kedge_decide_seconds", "Time inside Decide", buckets=_LATENCY_BUCKETS, registry=registry
        )
        self._outcomes = Counter("kedge_outcomes", "Outcomes answered", ("tenant", "status"), registry=registry)
        self._episodes = Counter(
            "kedge_episodes_logged", "Episode logs answered", ("tenant", "status"), registry=registry
        )
        self._errors = Counter("kedge_decide_fallbacks", "Baselines served because something broke", registry=registry)
        self._dropped = Counter("kedge_decisions_dropped", "Decision rows left to their tokens", registry=registry)
        self._reported = Counter(
            "kedge_decisions_reported",
            "Decisions of clients, by what became of them",
            ("tenant", "result"),
            registry=registry,
        )
        self._watchers = Gauge("kedge_watchers", "Clients that hold vectors to decide by themselves", registry=registry)
        self._rows = Counter("kedge_rows_committed", "Rows written by group commits", registry=registry)
        self._commit = Histogram(
            "kedge_commit_seconds", "Time of one group commit", buckets=_LATENCY_BUCKETS, registry=registry
        )
        about = "Callers with another baseline than the policy's"
        self._mismatches = Counter("kedge_baseline_mismatches", about, ("tenant",), registry=registry)
        self._refused = Counter("kedge_requests_refused", "Requests refused, by reason", ("reason",), registry=registry)
        about = "Decisions and rows over their tenant's quota"
        self._over_quota = Counter("kedge_over_quota", about, ("tenant", "kind"), registry=registry)
        self._mode_change = Histogram(
            "kedge_mode_change_seconds",
            "From a change of mode in the database to this replica's view",
            buckets=_MODE_CHANGE_BUCKETS,
            registry=registry,
        )

    def decided(self, decision: Decision, seconds: float) -> None:
        """Count one decision."""
        key = (decision.tenant, decision.policy, decision.reason)
        child = self._bound.get(key)
        if child is None:
            child = self._bound[key] = self._decisions.labels(*key)
        child.inc()
        self._latency.observe(seconds)

    def outcomes(self, tenant: str, status: str, count: int) -> None:
        """Count outcomes by what became of them."""
        key = ("outcome", tenant, status)
        child = self._bound.get(key)
        if child is None:
            child = self._bound[key] = self._outcomes.labels(tenant, status)
        child.inc(count)

    def episode_logged(self, tenant: str, status: str) -> None:
        """Count one episode log by what became of it."""
        self._episodes.labels(tenant, status).inc()

    def failed(self, error: Exception) -> None:
        """Count and log a decision that is the baseline because something broke."""
        self._errors.inc()
        log.error("decide.failed", exc_info=error)

    def dropped(self, count: int) -> None:
        """Count decision rows that were not written; their tokens rebuild them."""
        self._dropped.inc(count)

    def reported(self, tenant: str, result: str) -> None:
        """Count a decision that a client reported: ACCEPTED, why it is not learned from, or why it was refused."""
        self._reported.labels(tenant, result).inc()

    def watched(self, connected: Callable[[], int]) -> None:
        """Show how many clients watch, asked whenever somebody reads it."""
        self._watchers.set_function(connected)

    def committed(self, rows: int, seconds: float) -> None:
        """Count one group commit."""
        self._rows.inc(rows)
        self._commit.observe(seconds)

    def baseline_mismatch(self, tenant: str) -> None:
        """Count a caller whose own baseline differs."""
        self._mismatches.labels(tenant).inc()

    def mode_reached(self, seconds: float) -> None:
        """Time one change of mode, from its statement in the database (its commit comes after) to this view."""
        self._mode_change.observe(seconds)

    def over_quota(self, tenant: str, kind: str, count: int) -> None:
        """Count decisions answered with the baseline, or rows refused, since their tenant is over its quota."""
        self._over_quota.labels(tenant, kind).inc(count)

    def refused(self, reason: str) -> None:
        """Count a refused request."""
        self._refused.labels(reason).inc()


_MODE_NUMBER = {mode: float(mode.restriction) for mode in Mode}
_POLICY = ("tenant", "policy")


@dataclass(frozen=True, slots=True)
class Served:
    """What a replica serves of one policy: its mode, its floor, and the versions it serves from."""

    tenant: str
    policy: str
    mode: Mode
    floor: float
    policy_version: int
    allocation_version: int


class SnapshotCollector(Collector):
    """Read mode, versions and age from the replica's snapshot when scraped.

    Args:
        served: gives everything that is known.
        age: gives seconds since the last refresh.
        queued: gives rows waiting in the group writer.
    """

    def __init__(
        self,
        served: Callable[[], Iterable[Served]],
        age: Callable[[], float],
        queued: Callable[[], float],
    ) -> None:
        self._served = served
        self._age = age
        self._queued = queued

    def collect(self) -> list[GaugeMetricFamily]:
        """Give the gauges as they stand."""
        about = "Effective mode: 0 APPLY, 1 OBSERVE, 2 FROZEN, 3 BYPASS"
        mode = GaugeMetricFamily("kedge_mode", about, labels=_POLICY)
        floor = GaugeMetricFamily("kedge_exploitation_floor", "Least share of the baseline in APPLY", labels=_POLICY)
        configured = GaugeMetricFamily("kedge_policy_version", "Version of the configuration served", labels=_POLICY)
        version = GaugeMetricFamily("kedge_allocation_version", "Newest allocation served from", labels=_POLICY)
        for one in self._served():
            labels = (one.tenant, one.policy)
            mode.add_metric(labels, _MODE_NUMBER[one.mode])
            floor.add_metric(labels, one.floor)
            configured.add_metric(labels, float(one.policy_version))
            version.add_metric(labels, float(one.allocation_version))
        age = GaugeMetricFamily("kedge_snapshot_age_seconds", "Age of the replica's view", value=self._age())
        queued = GaugeMetricFamily("kedge_rows_queued", "Rows waiting for their commit", value=self._queued())
        return [mode, floor, configured, version, age, queued]


class FlagCollector(Collector):
    """Read how a plugged flag provider does when scraped.

    Args:
        silent: gives the policies that are stopped because it has not answered for longer than the lease.
    """

    def __init__(self, silent: Callable[[], float]) -> None:
        self._silent = silent

    def collect(self) -> list[GaugeMetricFamily]:
        """Give the gauge as it stands."""
        about = "Policies stopped because the flag provider says nothing"
        return [GaugeMetricFamily("kedge_flags_silent", about, value=self._silent())]

"""Count and time what the worker does, for /metrics. Labels stop at tenant and policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from kedge_bandit.application.learn import Passed
from kedge_bandit.domain.decision import Reason
from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.ramp_step import Step
from kedge_bandit.domain.webhook import DeliveryState

_LAG_BUCKETS = (0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 600.0)
_DELAY_BUCKETS = (0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_PASS_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_POLICY = ("tenant", "policy")


@dataclass(slots=True)
class WorkerMetrics:
    """The worker's series. One per process; a registry may be given so that tests stand apart."""

    registry: CollectorRegistry = REGISTRY
    _settled: Counter = field(init=False)
    _delay: Histogram = field(init=False)
    _signals: Counter = field(init=False)
    _revalued: Counter = field(init=False)
    _counts: Gauge = field(init=False)
    _rows: Counter = field(init=False)
    _lag: Histogram = field(init=False)
    _seconds: Histogram = field(init=False)
    _published: Counter = field(init=False)
    _refused: Counter = field(init=False)
    _failures: Counter = field(init=False)
    _held: Gauge = field(init=False)
    _closed: Gauge = field(init=False)
    _p_value: Gauge = field(init=False)
    _behind: Gauge = field(init=False)
    _audit: Gauge = field(init=False)
    _anchored: Gauge = field(init=False)
    _not_anchored: Counter = field(init=False)
    _proposals: Gauge = field(init=False)
    _expiring: Gauge = field(init=False)
    _ramps: Counter = field(init=False)
    _messages: Counter = field(init=False)

    def __post_init__(self) -> None:
        """Register every series."""
        self._register_episodes()
        self._register_passes()
        self._register_promotion()

    def _register_episodes(self) -> None:
        """Register what is counted by episode."""
        registry = self.registry
        self._settled = Counter(
            "kedge_episodes_settled", "Episodes by the state they reached", (*_POLICY, "state"), registry=registry
        )
        self._counts = Gauge(
            "kedge_episodes",
            "Logged episodes by state, and late, unmatched, ...",
            (*_POLICY, "name"),
            registry=registry,
        )
        about = "From when an episode was complete, or fell due, until it reached its state"
        self._delay = Histogram("kedge_settle_delay_seconds", about, buckets=_DELAY_BUCKETS, registry=registry)
        self._signals = Counter(
            "kedge_signals", "Signals of episodes with their first evidence", (*_POLICY, "signal"), registry=registry
        )
        about = "Models, judges and successors seen for the first time"
        self._revalued = Counter("kedge_known_changes", about, _POLICY, registry=registry)

    def _register_passes(self) -> None:
        """Register what is counted by pass."""
        registry, tenant = self.registry, ("tenant",)
        self._rows = Counter("kedge_rows_folded", "Raw rows taken by passes", tenant, registry=registry)
        self._lag = Histogram(
            "kedge_belief_lag_seconds", "Age of the oldest row a pass took", buckets=_LAG_BUCKETS, registry=registry
        )
        self._seconds = Histogram(
            "kedge_pass_seconds", "Time of one pass over a tenant", buckets=_PASS_BUCKETS, registry=registry
        )
        self._published = Counter("kedge_allocations_published", "Allocations published", tenant, registry=registry)
        self._refused = Counter(
            "kedge_allocations_refused", "Allocations that failed their checks", tenant, registry=registry
        )
        self._failures = Counter("kedge_pass_failures", "Passes that were rolled back", tenant, registry=registry)
        self._held = Gauge("kedge_learning_held", "1 while learning is held", _POLICY, registry=registry)
        self._closed = Gauge(
            "kedge_exploring_closed",
            "1 while the baseline alone is published, by reason",
            (*_POLICY, "reason"),
            registry=registry,
        )
        self._p_value = Gauge("kedge_self_check_p", "p of the self-check's newest look", _POLICY, registry=registry)
        self._behind = Gauge("kedge_behind", "1 while more rows wait than one pass takes", tenant, registry=registry)
        self._audit = Gauge("kedge_audit_head", "Sequence at the head of the audit chain", tenant, registry=registry)
        self._anchored = Gauge("kedge_audit_anchored", "Sequence of the newest anchor", tenant, registry=registry)
        self._not_anchored = Counter(
            "kedge_audit_anchor_failures", "Times that anchors could not be written", registry=registry
        )

    def _register_promotion(self) -> None:
        """Register what proposals, ramps and webhooks count."""
        registry = self.registry
        self._messages = Counter(
            "kedge_webhook_attempts",
            "Attempts to send messages, by their state after it",
            ("state",),
            registry=registry,
        )
        self._messages.labels(DeliveryState.FAILED)
        self._ramps = Counter(
            "kedge_ramp_steps", "Steps that the service took by itself", (*_POLICY, "step"), registry=registry
        )
        self._proposals = Gauge(
            "kedge_proposals", "Proposals that are not over, by state", ("tenant", "state"), registry=registry
        )
        about = "Proposals that wait for approval and expire within two days"
        self._expiring = Gauge("kedge_proposals_expiring", about, ("tenant",), registry=registry)

    def passed(self, tenant: str, done: Passed, seconds: float) -> None:
        """Record one pass.

        What an alert asks to rise is 0 from the first pass on: of a series that begins with 1 Prometheus sees no rise.
        """
        self._seconds.observe(seconds)
        if done.lag_seconds is not None:
            self._lag.observe(max(0.0, done.lag_seconds))
        self._rows.labels(tenant).inc(done.rows)
        self._published.labels(tenant).inc(done.allocations)
        self._refused.labels(tenant).inc(done.failures)
        self._behind.labels(tenant).set(done.is_truncated)
        self._audit.labels(tenant).set(done.audit_sequence)
        for (policy, state), number in done.settled.states.items():
            if state is not EpisodeState.PENDING:
                self._settled.labels(tenant, policy, state).inc(number)
        for delay in done.settled.delays:
            self._delay.observe(max(0.0, delay))
        for (policy, signal), number in done.settled.signals.items():
            self._signals.labels(tenant, policy, signal).inc(number)
        for policy, number in done.revalued.items():
            self._revalued.labels(tenant, policy).inc(number)
        for (policy, name), number in done.counts.items():
            self._counts.labels(tenant, policy, name).set(number)
        for policy, reason in done.held.items():
            self._settled.labels(tenant, policy, EpisodeState.VETOED)
            self._ramps.labels(tenant, policy, Step.ROLL_BACK)
            self._held.labels(tenant, policy).set(reason is not None)
        for policy, closed in done.closed.items():
            for reason in (Reason.BUDGET, Reason.CAP):
                self._closed.labels(tenant, policy, reason).set(closed is reason)
        for policy, p_value in done.p_values.items():
            self._p_value.labels(tenant, policy).set(p_value)

    def failed(self, tenant: str) -> None:
        """Record a pass that was rolled back."""
        self._failures.labels(tenant).inc()

    def anchored(self, tenant: str, sequence: int) -> None:
        """Record an anchor of a tenant's chain."""
        self._anchored.labels(tenant).set(sequence)

    def not_anchored(self) -> None:
        """Record that anchors could not be written."""
        self._not_anchored.inc()

    def ramp_moved(self, tenant: str, policy: str, step: str) -> None:
        """Record a step of a ramp: ADVANCE, PAUSE, ROLL_BACK or COMPLETE."""
        self._ramps.labels(tenant, policy, step).inc()

    def proposals(self, counts: Mapping[tuple[str, str], int], expiring: Mapping[str, int]) -> None:
        """Record how many proposals are open, by tenant and state, and how many expire soon; the rest is none."""
        self._proposals.clear()
        self._expiring.clear()
        for (tenant, state), number in counts.items():
            self._proposals.labels(tenant, state).set(number)
        for tenant in {tenant for tenant, _ in counts}:
            self._expiring.labels(tenant).set(expiring.get(tenant, 0))

    def told(self, state: str) -> None:
        """Record an attempt to send a message, by the message's state after it."""
        self._messages.labels(state).inc()

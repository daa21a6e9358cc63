"""Count and time what the gate does, for /metrics. Labels stop at tenant and policy."""

from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from kedge_bandit.application.read_holdout import HoldoutStatus
from kedge_bandit.domain.gate import GateResult

_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_POLICY = ("tenant", "policy")


@dataclass(slots=True)
class GateMetrics:
    """The gate's series. One per process; a registry may be given so that tests stand apart."""

    registry: CollectorRegistry = REGISTRY
    _verdicts: Counter = field(init=False)
    _failures: Counter = field(init=False)
    _running: Gauge = field(init=False)
    _seconds: Histogram = field(init=False)
    _age: Gauge = field(init=False)
    _cases: Gauge = field(init=False)
    _left: Gauge = field(init=False)

    def __post_init__(self) -> None:
        """Register every series."""
        registry = self.registry
        self._verdicts = Counter(
            "kedge_gate_verdicts", "Verdicts given", ("tenant", "verdict", "reason"), registry=registry
        )
        self._failures = Counter("kedge_gate_failures", "Runs that failed inside", ("tenant",), registry=registry)
        self._running = Gauge("kedge_gate_running", "Queries that run in this process", registry=registry)
        self._seconds = Histogram(
            "kedge_gate_seconds", "Time of one proposal at the gate", buckets=_BUCKETS, registry=registry
        )
        self._age = Gauge(
            "kedge_holdout_age_seconds", "Since the version in force was made", _POLICY, registry=registry
        )
        self._cases = Gauge("kedge_holdout_cases", "Cases in force", (*_POLICY, "part"), registry=registry)
        self._left = Gauge("kedge_holdout_queries_left", "Queries until a rotation", _POLICY, registry=registry)

    def began(self) -> None:
        """Count one that runs."""
        self._running.inc()

    def ended(self, seconds: float) -> None:
        """Count one that no longer runs."""
        self._running.dec()
        self._seconds.observe(seconds)

    def concluded(self, tenant: str, result: GateResult) -> None:
        """Count a verdict."""
        self._verdicts.labels(tenant, result.verdict, result.inconclusive_reason or "").inc()

    def failed(self, tenant: str) -> None:
        """Count a run that failed inside; its query ends as CRASHED."""
        self._failures.labels(tenant).inc()

    def looked(self, tenant: str, policy: str, status: HoldoutStatus, age: float, queries_left: int) -> None:
        """State how a holdout stands."""
        self._age.labels(tenant, policy).set(age)
        self._left.labels(tenant, policy).set(queries_left)
        for part, cases in (("SENSOR", status.sensor), ("GATE", status.gate), ("ADVERSARIAL", status.adversarial)):
            self._cases.labels(tenant, policy, part).set(cases)

"""What an alert asks to rise is there before it rises, or its first time would be no rise to Prometheus."""

from prometheus_client import CollectorRegistry

from kedge_bandit.application.learn import Passed, Settled
from kedge_bandit.domain.identifiers import PolicyName
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics

POLICY = {"tenant": "acme", "policy": "support"}


def a_pass() -> Passed:
    return Passed(
        rows=0,
        is_truncated=False,
        is_blocked=False,
        lag_seconds=None,
        settled=Settled(),
        revalued={},
        counts={},
        allocations=0,
        failures=0,
        p_values={},
        held={PolicyName("support"): None},
        closed={},
        audit_sequence=1,
    )


def test_what_an_alert_asks_to_rise_is_nothing_before_it_happens() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry)
    assert registry.get_sample_value("kedge_webhook_attempts_total", {"state": "FAILED"}) == 0
    metrics.passed("acme", a_pass(), 0.1)
    assert registry.get_sample_value("kedge_ramp_steps_total", {**POLICY, "step": "ROLL_BACK"}) == 0
    assert registry.get_sample_value("kedge_episodes_settled_total", {**POLICY, "state": "VETOED"}) == 0
    assert registry.get_sample_value("kedge_allocations_refused_total", {"tenant": "acme"}) == 0


def test_a_pass_takes_nothing_back_that_was_counted() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry)
    metrics.ramp_moved("acme", "support", "ROLL_BACK")
    metrics.told("FAILED")
    metrics.passed("acme", a_pass(), 0.1)
    assert registry.get_sample_value("kedge_ramp_steps_total", {**POLICY, "step": "ROLL_BACK"}) == 1
    assert registry.get_sample_value("kedge_webhook_attempts_total", {"state": "FAILED"}) == 1

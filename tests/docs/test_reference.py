"""Walk the code and demand the manual's row: what can be called, set, measured, refused and allowed."""

import json
from dataclasses import fields

import pytest
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from kedge.bandit.v1 import holdout_service_pb2
from kedge_bandit.adapters.grpc.decisions import DecisionServicer
from kedge_bandit.adapters.grpc.episodes import EpisodeServicer
from kedge_bandit.adapters.grpc.experiments import ExperimentServicer
from kedge_bandit.adapters.grpc.feedback import FeedbackServicer
from kedge_bandit.adapters.grpc.governance import GovernanceServicer
from kedge_bandit.adapters.grpc.holdout import HoldoutServicer
from kedge_bandit.adapters.grpc.permissions import PERMISSIONS
from kedge_bandit.adapters.grpc.policies import PolicyServicer
from kedge_bandit.adapters.grpc.proposals import ProposalServicer
from kedge_bandit.adapters.grpc.ramps import RampServicer
from kedge_bandit.adapters.grpc.status import CODES
from kedge_bandit.adapters.grpc.tenants import TenantServicer
from kedge_bandit.adapters.grpc.webhooks import WebhookServicer
from kedge_bandit.adapters.rest.status import HTTP_STATUS
from kedge_bandit.adapters.rest.status import Reason as EdgeReason
from kedge_bandit.adapters.rest.transcode import http_rules
from kedge_bandit.adapters.telemetry import FlagCollector, SnapshotCollector, Telemetry
from kedge_bandit.domain.decision import LEARNABLE, Reason
from kedge_bandit.domain.errors import KedgeError
from kedge_bandit.domain.mode import Mode
from kedge_bandit.domain.principal import GRANTS, Permission, Role
from kedge_bandit.entrypoints.divergence_metrics import DivergenceMetrics
from kedge_bandit.entrypoints.gate_metrics import GateMetrics
from kedge_bandit.entrypoints.settings import CLIENT_KEYS, PREFIX, Settings
from kedge_bandit.entrypoints.worker_metrics import WorkerMetrics
from tests.docs.pages import code, rows, section, text_of
from tests.e2e.test_every_rpc import SERVICES

SERVICERS: dict[str, type] = {
    "DecisionService": DecisionServicer,
    "EpisodeService": EpisodeServicer,
    "FeedbackService": FeedbackServicer,
    "PolicyService": PolicyServicer,
    "GovernanceService": GovernanceServicer,
    "TenantService": TenantServicer,
    "ProposalService": ProposalServicer,
    "RampService": RampServicer,
    "WebhookService": WebhookServicer,
    "ExperimentService": ExperimentServicer,
    "HoldoutService": HoldoutServicer,
}
OF_THE_GATE = holdout_service_pb2.DESCRIPTOR.services_by_name.values()
LATER = "RPCs that answer UNIMPLEMENTED"
RESERVED = "reserved, not answered yet"


def is_built(rpc: MethodDescriptor) -> bool:
    method = getattr(SERVICERS[rpc.containing_service.name], rpc.name)
    return str(method.__module__) != "kedge_bandit.adapters.grpc.unimplemented"


def served() -> list[ServiceDescriptor]:
    return [service for service in (*SERVICES, *OF_THE_GATE) if service.name in SERVICERS]


@pytest.mark.parametrize("service", served(), ids=lambda service: str(service.name))
def test_every_rpc_that_is_built_has_its_path_and_permission(service: ServiceDescriptor) -> None:
    paths = {rule.rpc.name: f"{rule.method} {rule.template.text}" for rule in http_rules(service)}
    expected = {
        rpc.name: [paths.get(rpc.name), PERMISSIONS[f"/{service.full_name}/{rpc.name}"]]
        for rpc in service.methods
        if is_built(rpc)
    }
    written = rows("api.md", service.name) if expected else []
    assert {code(row[0])[0]: [next(iter(code(row[1])), None), *code(row[2])] for row in written} == expected


def test_every_rpc_that_comes_later_is_said_to() -> None:
    expected = {s.name: [rpc.name for rpc in s.methods if not is_built(rpc)] for s in served()}
    assert {row[0]: code(row[1]) for row in rows("api.md", LATER)} == {
        s: names for s, names in expected.items() if names
    }


def test_every_error_reason_has_its_codes() -> None:
    expected = {reason: [CODES[reason].name, str(HTTP_STATUS[CODES[reason]])] for reason in CODES}
    errors = [row for row in rows("api.md", "Errors") if len(row) == 4]
    assert {code(row[0])[0]: [*code(row[1]), row[2]] for row in errors} == expected


def test_a_reason_that_nothing_answers_is_said_to_be_reserved() -> None:
    def leaves(kind: type[KedgeError]) -> set[str]:
        return {kind.reason}.union(*(leaves(child) for child in kind.__subclasses__()))

    reserved = {code(row[0])[0] for row in rows("api.md", "Errors") if row[-1] == RESERVED}
    assert reserved == set(CODES) - leaves(KedgeError) - {"UNIMPLEMENTED"}


def test_every_reason_of_the_http_edge_is_named() -> None:
    named = {reason for row in rows("api.md", "Errors") if len(row) == 3 for reason in code(row[0])}
    assert named == {str(reason) for reason in EdgeReason}


def test_every_reason_of_a_decision_says_whether_it_is_learned_from() -> None:
    expected = {str(reason): "yes" if reason in LEARNABLE else "no" for reason in Reason}
    assert {code(r[0])[0]: r[2] for r in rows("api.md", "Deciding") if r[-1] in ("yes", "no")} == expected


def test_every_setting_has_its_default() -> None:
    defaults = {
        f"{PREFIX}{name.upper()}": "empty" if field.default == "" else f"`{field.default}`"
        for name, field in Settings.model_fields.items()
    }
    assert {code(row[0])[0]: row[1] for row in rows("operations.md", "Settings")} == defaults


def test_what_the_command_line_reads_is_named() -> None:
    assert set(CLIENT_KEYS) <= {
        code(row[0])[0] for row in rows("cli.md", "Command line") if row[0].startswith("`KEDGE_")
    }


def exposed(metric: MetricWrapperBase | Metric) -> list[str]:
    """Spell a metric as the manual does: name as it is scraped, type, labels."""
    name, kind = (metric.name, metric.type) if isinstance(metric, Metric) else (metric._name, str(metric._type))
    labels: tuple[str, ...] = getattr(metric, "_labelnames", ())
    return [f"{name}_total" if kind == "counter" else name, kind, ", ".join(labels)]


def test_every_metric_has_its_type_and_labels() -> None:
    owners = (
        Telemetry(CollectorRegistry()),
        WorkerMetrics(CollectorRegistry()),
        GateMetrics(CollectorRegistry()),
        DivergenceMetrics(CollectorRegistry()),
    )
    held = [getattr(owner, field.name) for owner in owners for field in fields(owner)]
    found = [one for each in held for one in (each.values() if isinstance(each, dict) else [each])]
    gauges = SnapshotCollector(list, lambda: 0.0, lambda: 0.0).collect()
    gauges += FlagCollector(lambda: 0.0).collect()
    metrics = [one for one in (*found, *gauges) if isinstance(one, MetricWrapperBase | Metric)]
    written = [[code(row[0])[0], row[1], row[2]] for row in rows("operations.md", "Metrics")]
    assert sorted(written) == sorted(exposed(metric) for metric in metrics)


def test_every_permission_has_its_rpcs_and_roles() -> None:
    roles = list(Role)
    rpcs = {p: [m.rpartition("/")[2] for m, asked in PERMISSIONS.items() if asked is p] for p in Permission}
    expected = [
        [f"`{p}`", ", ".join(rpcs[p]), *("yes" if p in GRANTS[role] else "" for role in roles)] for p in Permission
    ]
    assert [row for row in rows("governance.md", "Keys, roles, permissions") if len(row) == 2 + len(roles)] == expected


def test_every_mode_has_its_row() -> None:
    written = [code(row[0])[0] for row in rows("governance.md", "Modes") if len(row) == 4 and row[0].startswith("`")]
    assert [name for name in written if not name.startswith("kedge")] == list(Mode)


def test_the_counts_of_the_quickstart_are_the_policys() -> None:
    assert "eight joint actions" in section("quickstart.md", "2. A tenant, a key, a policy")
    schema = json.loads(text_of("policy.schema.json"))
    assert set(schema["required"]) == {"name", "arms", "baseline", "reward"}

"""A real Prometheus and Alertmanager beside the running services, with a healthy policy and a hacked one."""

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from deploy.observability.boards import BOARDS
from deploy.observability.boards.__main__ import FOLDER
from kedge.bandit.v1 import governance_service_pb2 as pb
from kedge.bandit.v1 import policy_pb2
from kedge.bandit.v1.audit_event_pb2 import AuditEvent
from tests.fixtures.chat_server import chat_server
from tests.fixtures.flattery import answer, flattered_policy, import_holdout, play
from tests.fixtures.gated_stack import gated_stack
from tests.fixtures.stack import Stack, free_ports, is_serving, wait_for
from tests.observability.monitoring import PROGRAMS, Monitoring, monitoring, program
from tests.trust.size import IS_FULL, of

pytestmark = pytest.mark.skipif(
    any(program(name) is None for name in PROGRAMS), reason="no Prometheus or Alertmanager: make test-system-deps"
)

HEALTHY, HACKED = "healthy", "hacked"
EPISODES = {HEALTHY: 200, HACKED: 480}
INTERVAL = of(1, 15)
"""Seconds between two evaluations; in full as shipped."""
MOST_WITHOUT_HOLDOUT, MOST_OF_A_THOUSAND = 30, 60_000
"""Series of a tenant with one policy in server and worker, and of 1,000 of them with the gate's."""


@dataclass(frozen=True, slots=True)
class Demo:
    stack: Stack
    ports: tuple[int, int, int]
    keys: dict[str, str]

    def mode(self) -> int:
        with self.stack.services() as services:
            name = f"tenants/{HACKED}/policies/support"
            return int(services.governance.GetMode(pb.GetModeRequest(name=name)).mode)

    def stop(self) -> AuditEvent:
        """Give the newest freeze of the hacked policy."""
        with self.stack.services() as services:
            request = pb.ListAuditEventsRequest(parent=f"tenants/{HACKED}")
            events = services.governance.ListAuditEvents(request).events
        newest: AuditEvent = next(event for event in events if event.verb == "policy.frozen")
        return newest


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Two tenants under the same traffic; on the holdout the flatterer is right in one and wrong in the other."""
    with ExitStack() as exits:
        first = free_ports(3)
        ports = (first, first + 1, first + 2)
        names = ("KEDGE_METRICS_PORT", "KEDGE_WORKER_METRICS_PORT", "KEDGE_GATE_METRICS_PORT")
        settings = {name: str(port) for name, port in zip(names, ports, strict=True)}
        stack = exits.enter_context(gated_stack(**settings))
        keys = {}
        for tenant, answers in ((HEALTHY, lambda _: "right"), (HACKED, answer)):
            keys[tenant] = stack.tenant(tenant)
            stack.put_policy(flattered_policy(tenant))
            chat = exits.enter_context(chat_server(answers))
            import_holdout(stack, tenant, chat.address, tmp_path_factory.mktemp(tenant))
            with stack.services(keys[tenant]) as services:
                play(services, f"tenants/{tenant}/policies/support", EPISODES[tenant])
            checked(stack, tenant)
        hold(stack, tmp_path_factory.mktemp("proposal"))
        stack.kill("gate")  # it looks at every holdout when it starts again
        wait_for(lambda: is_serving(stack.environment["KEDGE_GATE_ADDRESS"]), "the gate to serve again")
        let_go_on(stack)
        yield Demo(stack, ports, keys)


def checked(stack: Stack, tenant: str) -> None:
    """Have a check made once every episode has settled; one of the two alarms."""
    request = ("status", tenant, "support", "--json")

    def settled() -> bool:
        status = json.loads(stack.kedge_here(*request).stdout)
        counts = status["episode_counts"]
        return not int(status.get("backlog", 0)) and int(counts.get("SETTLED", 0)) == EPISODES[tenant]

    wait_for(settled, "the episodes to settle")
    ran = stack.kedge_here("divergence", "check", tenant, "support", "--wait", "200", "--json")
    assert ran.exit_code == (tenant == HACKED), ran.output


def hold(stack: Stack, folder: Path) -> None:
    """Leave an open proposal in both tenants."""
    prompt = folder / "warm.txt"
    prompt.write_text("Answer warmly.", encoding="utf-8")
    for tenant in (HEALTHY, HACKED):
        asked = ("--kind", "prompt", "--arm", "warm", "--file", str(prompt), "--hold", "--because", "to be looked at")
        assert stack.kedge_here("proposal", "submit", tenant, "support", *asked).exit_code == 0


def let_go_on(stack: Stack) -> None:
    """Let the hacked policy go on, as people may who have looked at the incident; what tripped still stands."""
    with stack.services() as services:
        [incident] = services.governance.ListIncidents(pb.ListIncidentsRequest(parent=f"tenants/{HACKED}")).incidents
        services.governance.AcknowledgeIncident(pb.AcknowledgeIncidentRequest(name=incident.name, because="seen"))
        name = f"tenants/{HACKED}/policies/support"
        services.governance.Unfreeze(pb.UnfreezeRequest(name=name, because="to see the alert stop it"))


@pytest.fixture(scope="module")
def watched(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    assert demo.mode() == policy_pb2.MODE_APPLY
    with monitoring(demo.stack, demo.ports, tmp_path_factory.mktemp("watched"), interval=f"{INTERVAL}s") as running:
        wait_for(running.up, "every target to be scraped", 120)
        for tenant, key in demo.keys.items():
            with demo.stack.services(key) as services:
                play(services, f"tenants/{tenant}/policies/support", 60, start=EPISODES[tenant])
        yield running


def test_the_alert_stops_the_hacked_policy_by_a_credential_that_can_do_nothing_else(
    demo: Demo, watched: Monitoring
) -> None:
    wait_for(lambda: demo.mode() == policy_pb2.MODE_FROZEN, "the alert to freeze", 180)
    stop = demo.stop()
    assert stop.actor == "key:alarm"
    assert stop.because == f"alert Divergence: the reward of {HACKED}/support rises while its holdout does not"
    [alert] = [one for one in watched.alerts() if one["labels"]["alertname"] == "Divergence"]
    assert (alert["labels"]["tenant"], alert["labels"]["stops"]) == (HACKED, "policy")
    first = datetime.fromisoformat(alert["activeAt"][:19] + "+00:00").timestamp()
    late = stop.event_time.ToMilliseconds() / 1000 - first
    print(f"\nfrozen {late:.1f} s after the first evaluation that saw it; evaluated every {INTERVAL} s")
    if IS_FULL:
        assert late < INTERVAL


def test_a_person_who_lets_it_go_on_is_not_overruled_while_the_alert_goes_on(demo: Demo, watched: Monitoring) -> None:
    before = demo.stop()
    wait_for(lambda: watched.told() > 0, "Alertmanager to count what it sent")
    with demo.stack.services() as services:
        name = f"tenants/{HACKED}/policies/support"
        services.governance.Unfreeze(pb.UnfreezeRequest(name=name, because="looked at it"))
    sent = watched.told()
    wait_for(lambda: watched.told() >= sent + 2, "Alertmanager to send it again", 120)
    assert demo.mode() == policy_pb2.MODE_APPLY
    assert demo.stop().sequence == before.sequence


def test_every_panel_of_every_board_has_series(watched: Monitoring) -> None:
    empty: list[str] = []

    def all_have() -> bool:
        empty[:] = empty_panels(watched)
        return not empty

    try:
        wait_for(all_have, "every panel to have series", 120)
    finally:
        assert empty == []


def test_prometheus_takes_every_query_that_marks_an_event(watched: Monitoring) -> None:
    for board in BOARDS:
        for one in json.loads(text_of(board))["annotations"]["list"]:
            watched.query(filled(one["expr"], HACKED))


def empty_panels(watched: Monitoring) -> list[str]:
    """Run every query of every panel for both tenants; name those without a series."""
    panels = [(board, panel) for board in BOARDS for panel in json.loads(text_of(board))["panels"]]
    return [
        f"{board}/{panel['title']}/{target['legendFormat']} of {tenant}"
        for board, panel in panels
        for target in panel.get("targets", [])
        for tenant in (HEALTHY, HACKED)
        if not watched.query(filled(target["expr"], tenant))
    ]


def text_of(board: str) -> str:
    return (FOLDER / f"{board}.json").read_text(encoding="utf-8")


def filled(expr: str, tenant: str) -> str:
    """Put in what a person has chosen."""
    chosen = {"$tenant": tenant, "$policy": "support", "$interval": "5m", "$__rate_interval": "1m"}
    for name, value in chosen.items():
        expr = expr.replace(name, value)
    return expr


def test_the_divergence_board_tells_the_healthy_policy_from_the_hacked_one(watched: Monitoring) -> None:
    shown = {name: watched.values(f"kedge_divergence_{name}") for name in ("reward_lift", "holdout_lift", "evidence")}
    assert min(shown["reward_lift"].values()) > 0.05
    assert shown["holdout_lift"][HACKED] < -0.4
    assert math.isclose(shown["holdout_lift"][HEALTHY], 0.0, abs_tol=1e-9)
    reached = watched.values("kedge_divergence_evidence / kedge_divergence_evidence_threshold")
    assert reached[HACKED] >= 1 > reached[HEALTHY]


def test_a_tenant_costs_no_more_series_than_is_promised(watched: Monitoring) -> None:
    [shared] = watched.query('count({__name__=~"kedge_.+", tenant=""})')
    for tenant in (HEALTHY, HACKED):
        by_process = watched.query(f'count by (process) ({{__name__=~"kedge_.+", tenant="{tenant}"}})')
        counts = {one["metric"]["process"]: int(one["value"][1]) for one in by_process}
        print(f"\nseries of {tenant}: {counts}")
        assert set(counts) == {"server", "worker", "gate"}
        assert counts["server"] + counts["worker"] <= MOST_WITHOUT_HOLDOUT
        assert 1_000 * sum(counts.values()) + int(shared["value"][1]) <= MOST_OF_A_THOUSAND
    assert not watched.query('{__name__=~"kedge_.+_created"}')

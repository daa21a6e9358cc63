"""The rules are what Prometheus takes, ask for metrics that exist, and fire and stay silent as their own tests say."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import code, rows, text_of
from tests.observability.metrics import families, named_in

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "observability"
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: make test-system-deps")
amtool = pytest.mark.skipif(shutil.which("amtool") is None, reason="no amtool: make test-system-deps")


@cache
def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def rules(kind: str) -> list[Any]:
    return [rule for group in read("rules.yml")["groups"] for rule in group["rules"] if kind in rule]


def ran(*command: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


TESTS = ("rules_test.yml", "rules_long_test.yml")
ALERTS = sorted({str(rule["alert"]) for rule in rules("alert")})


@promtool
def test_prometheus_takes_the_rules_and_its_configuration() -> None:
    for command in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = ran("promtool", "check", *command)
        assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_every_alert_fires_and_stays_silent_as_its_tests_say() -> None:
    done = ran("promtool", "test", "rules", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool
def test_a_rule_that_asks_for_more_no_longer_passes_its_tests(tmp_path: Path) -> None:
    text = (FOLDER / "rules.yml").read_text(encoding="utf-8")
    threshold = "(kedge_divergence_evidence_threshold)"
    assert text.count(threshold) == 1
    (tmp_path / "rules.yml").write_text(text.replace(threshold, f"{threshold} * 2"), encoding="utf-8")
    tests = read("rules_test.yml")
    some = [one for one in tests["tests"] if one["name"].startswith("Divergence")]
    (tmp_path / "rules_test.yml").write_text(yaml.safe_dump({**tests, "tests": some}), encoding="utf-8")
    assert ran("promtool", "test", "rules", "rules_test.yml", folder=tmp_path).returncode


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_test_that_fires_and_one_that_stays_silent(alert: str) -> None:
    tests = [one for name in TESTS for one in read(name)["tests"] if one["name"].split()[0] == alert]
    fires = {"fires" in one["name"].split()[1]: bool(one["promql_expr_test"][0]["exp_samples"]) for one in tests}
    assert fires == {True: True, False: False}
    assert {re.findall(r'alertname="(\w+)"', one["promql_expr_test"][0]["expr"])[0] for one in tests} == {alert}


def test_every_metric_that_a_rule_asks_for_exists() -> None:
    recorded = {rule["record"] for rule in rules("record")}
    for rule in (*rules("record"), *rules("alert")):
        expr = rule["expr"]
        for name in recorded:
            expr = expr.replace(name, "")
        assert named_in(expr) - families() == set(), rule
        assert "kedge:" not in expr, rule


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", rules("alert"), ids=lambda rule: f"{rule['alert']}-{rule['labels'].get('burn', '')}")
def test_every_alert_says_what_is_wrong_how_urgent_it_is_and_where_its_runbook_stands(rule: Any) -> None:
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor == rule["alert"].lower()
    assert anchor in anchors(page.removeprefix("docs/"))
    assert rule["labels"]["severity"] in {"page", "ticket"}
    assert rule["annotations"]["summary"]


def test_the_manual_has_a_row_for_every_alert_and_none_more() -> None:
    assert [code(row[0])[0] for row in rows("observability.md", "Alerts")] == list(
        dict.fromkeys(rule["alert"] for rule in rules("alert"))
    )


def test_what_stops_a_policy_names_it() -> None:
    stopping = [rule for rule in rules("alert") if rule["labels"].get("stops") == "policy"]
    assert [rule["alert"] for rule in stopping] == ["Divergence"]
    assert all("by (tenant, policy)" in rule["expr"] for rule in stopping)


@amtool
def test_alertmanager_sends_to_kedge_what_stops_a_policy_and_to_people_everything() -> None:
    done = ran("amtool", "check-config", "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    test = ("amtool", "config", "routes", "test", "--config.file=alertmanager.yml")
    assert ran(*test, "alertname=Divergence", "stops=policy").stdout.strip() == "kedge,people"
    assert ran(*test, "alertname=VetoRate").stdout.strip() == "people"

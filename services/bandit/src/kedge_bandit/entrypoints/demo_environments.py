"""Conduct `kedge demo environments`: the four environments as traffic to a running service, measured from outside."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kedge_bandit.entrypoints.demo_stage import READY_SECONDS, SETTLE_SECONDS, Stage, published, settled, until

TENANT = "environments"
BECAUSE = "demo: learn who plays what"


def tell_environments(stage: Stage, scale: float) -> Any:
    """Play, prove, measure and report; gives the report. Raises DemoFailed."""
    out = stage.out
    address = f"{stage.settings.host}:{stage.settings.port}"
    served = ("--address", address, "--keys", str(out / "keys.json"), "--out", str(out))
    policies = _onboard(stage)
    stage.console.rule("traffic")
    stage.module("kedge_demo.environments.play", *served, "--scale", str(scale), loud=True)
    stage.console.print("· waiting until every row is folded")
    until(partial(_all, stage, settled), SETTLE_SECONDS, "every stream to settle")
    stage.console.rule("proof")
    proofs = {policy: stage.prove(TENANT, policy) for policy in policies}
    (out / "proofs.json").write_text(json.dumps(proofs, indent=2) + "\n", encoding="utf-8")
    stage.console.print("· every late episode again, played by everybody")
    stage.module("kedge_demo.environments.measure", *served, loud=True)
    stage.console.rule("report")
    page = out.parent / f"{TENANT}.html"
    stage.module("kedge_demo.environments.report", "--out", str(out), "--page", str(page), loud=True)
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


def _onboard(stage: Stage) -> list[str]:
    """Onboard one tenant with a policy for each stream; gives the policies, and leaves the keys in a file."""
    folder = stage.out / "policies"
    stage.module("kedge_demo.environments.policy", "--out", str(folder))
    stage.kedge("tenant", "onboard", TENANT, "--because", BECAUSE)
    files = sorted(folder.glob("*.json"))
    for path in files:
        stage.kedge("policy", "apply", str(path), "--because", BECAUSE)
    _keep_keys(stage, stage.out / "keys.json")
    until(partial(_all, stage, published), READY_SECONDS, "first allocations")
    return [path.stem for path in files]


def _keep_keys(stage: Stage, path: Path) -> None:
    """Make a key that plays and one that reads."""
    keys = {}
    for role in ("core_app", "viewer"):
        principal = role.replace("_", "-")
        keys[role] = stage.read("key", "create", TENANT, "--principal", principal, "--role", role)["key"]
    path.touch(mode=0o600)
    path.write_text(json.dumps(keys), encoding="utf-8")


def _all(stage: Stage, holds: Callable[[Any], bool]) -> bool:
    """Tell whether something holds for every policy, by one command."""
    return all(holds(status) for status in stage.read("status", TENANT))

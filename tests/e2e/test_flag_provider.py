"""A flag provider from outside: its flag stops serving and learning, is named, and lets both go on."""

import json
import time
from pathlib import Path
from typing import Any

import httpx

from kedge.bandit.v1 import decision_pb2, episode_pb2, governance_service_pb2, policy_pb2
from tests.fixtures.core_app import POLICY, TENANT, ask, episode_of, log, success
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Stack, running_stack, wait_for

APPLY, STOPPED = policy_pb2.MODE_APPLY, policy_pb2.MODE_FROZEN
PROCESSES = 3
FLAG = "kedge.policy.support.enabled"


def plain_call(stack: Stack, key: str) -> Any:
    url = f"http://127.0.0.1:{stack.web_port}/ofrep/v1/evaluate/flags/{FLAG}"
    return httpx.post(url, json={"context": {"targetingKey": "user-7"}}, headers={"x-api-key": key}).json()


def write_flags(path: Path, *, enabled: bool) -> None:
    flag = {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "on" if enabled else "off"}
    written = path.with_suffix(".new")
    written.write_text(json.dumps({"flags": {FLAG: flag}}), encoding="utf-8")
    written.replace(path)


def told(stack: Stack, *, enabled: bool) -> int:
    """Count the processes that logged that the flag has changed."""
    lines = (stack.data_dir / "serve.log").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if "flag.changed" in line]
    return sum(event["enabled"] is enabled for event in events)


def test_a_plugged_flag_stops_serving_and_learning_is_named_and_lets_both_go_on(
    fresh_database: str, tmp_path: Path
) -> None:
    flags = tmp_path / "flags.json"
    write_flags(flags, enabled=True)
    with running_stack(fresh_database, tmp_path, KEDGE_FLAG_PROVIDER=f"flagd:{flags}") as stack:
        key = stack.tenant(TENANT)
        stack.put_policy(two_models(TENANT))
        with stack.services(key) as services:

            def mode() -> Any:
                return services.governance.GetMode(governance_service_pb2.GetModeRequest(name=POLICY))

            wait_for(lambda: mode().effective_mode == APPLY, "the flag to be read")
            wait_for(lambda: ask(services, f"warm-{time.monotonic()}").is_randomised, "a randomised decision")
            before = ask(services, "decided-before")
            write_flags(flags, enabled=False)
            wait_for(lambda: told(stack, enabled=False) == PROCESSES, "every process to see the flag")
            read = mode()
            assert (read.mode, read.effective_mode, read.decided_by) == (APPLY, STOPPED, "flags")
            during = ask(services, "decided-during")
            assert during.reason == decision_pb2.DECISION_REASON_FROZEN

            for name, decided in (("decided-before", before), ("decided-during", during)):
                log(services, decided, name)
                success(services, name, decision_token=decided.decision_token)
            wait_for(lambda: episode_of(services, "decided-during").weight_reason == "FROZEN", "the one to settle")
            assert episode_of(services, "decided-before").state == episode_pb2.EPISODE_STATE_PENDING
            assert plain_call(stack, key)["variant"] == "FROZEN"

            write_flags(flags, enabled=True)
            wait_for(lambda: episode_of(services, "decided-before").weight == 1.0, "it to be learned")
            assert plain_call(stack, key)["value"] is True

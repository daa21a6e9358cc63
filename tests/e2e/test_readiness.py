"""A tenant that learned something true passes P0 to P2, each line as measured; what was not done is not met."""

import itertools
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge.bandit.v1 import decision_pb2 as decisions
from kedge.bandit.v1 import (
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from tests.fixtures.chat_server import ChatServer, chat_server
from tests.fixtures.core_app import now
from tests.fixtures.flattery import FLATTERER, flattered_policy, import_holdout
from tests.fixtures.gated_stack import gated_stack
from tests.fixtures.stack import Services, Stack, wait_for

TENANT = "ready"
POLICY = f"tenants/{TENANT}/policies/support"
EPISODES = 900
PLAIN_RIGHT = 0.6
"""Share of turns that the plain prompt gets right; the other one gets nine of ten."""


def answer(body: Mapping[str, Any]) -> str:
    """Answer a case: the plain prompt is wrong on four of ten numbers, the other on every tenth."""
    system = next((one["content"] for one in body["messages"] if one["role"] == "system"), "")
    number = int(body["messages"][-1]["content"].rpartition(" ")[2])
    return "right" if number % 10 < (9 if FLATTERER in system else 10 * PLAIN_RIGHT) else "wrong"


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    with chat_server(answer) as server:
        yield server


@pytest.fixture(scope="module")
def ready(chat: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give a running service whose one tenant has played, was checked once, and was stopped once."""
    with gated_stack() as stack:
        key = stack.tenant(TENANT)
        stack.put_policy(flattered_policy(TENANT))
        import_holdout(stack, TENANT, chat.address, tmp_path_factory.mktemp("holdout"))
        with stack.services(key) as services:
            play(services, 0)
            rounds = itertools.takewhile(lambda _: is_refused(stack), range(1, 4))
            for number in rounds:  # the weights of one log in 200 are further from 1 than a number may be given for
                play(services, number)
            ran = stack.kedge("divergence", "check", TENANT, "support", "--json", timeout=300)
            assert ran.returncode == 0, ran.stderr
            drill(stack, services)
        yield stack


def play(services: Services, number: int) -> None:
    """Play a round of episodes, and wait until all that were played are settled."""
    begin, end = number * EPISODES, (number + 1) * EPISODES
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: turn(services, number), range(begin, end)))
    wait_for(lambda: settled(services) == end, "the episodes to settle")


def is_refused(stack: Stack) -> bool:
    return stack.kedge("evaluate", TENANT, "support", "--serve", "praise").returncode != 0


def turn(services: Services, number: int) -> None:
    """Play one episode with a person's thumb, a test, a judge, and a guardrail that trips once."""
    episode = f"turn-{number}"
    asked = decision_service_pb2.DecideRequest(policy=POLICY, request_id=episode, episode_id=episode)
    decided = services.decisions.Decide(asked)
    is_good = (number * 7) % 10 < (9 if decided.action_key.startswith("praise") else 10 * PLAIN_RIGHT)
    token = {"decision_token": decided.decision_token, "observed_time": now()}
    signals = (
        (outcome_pb2.SIGNAL_TASK_SUCCESS, float(is_good)),
        (outcome_pb2.SIGNAL_JUDGE, 0.8 if is_good else 0.4),
        (outcome_pb2.SIGNAL_HUMAN, 1.0 if is_good else -1.0),
    )
    outcomes = [
        outcome_pb2.Outcome(idempotency_key=f"{episode}-{signal}", signal=signal, value=value, **token)
        for signal, value in signals
    ]
    outcomes[-1].provenance = outcome_pb2.HUMAN_PROVENANCE_THUMB
    recorded = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=outcomes)
    services.feedback.RecordOutcomes(recorded)
    trajectory = episode_pb2.Trajectory(terminated=True)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII, tripped=number == 7)
    logged = {"policy": POLICY, "request_id": episode, "episode_id": episode}
    services.episodes.LogEpisode(
        episode_service_pb2.LogEpisodeRequest(**logged, decision_token=decided.decision_token, trajectory=trajectory)
    )


def settled(services: Services) -> int:
    request = policy_service_pb2.GetPolicyStatusRequest(name=POLICY, without_cells=True)
    counts = services.policies.GetPolicyStatus(request).episode_counts
    return int(counts.get("SETTLED", 0) + counts.get("VETOED", 0))


def drill(stack: Stack, services: Services) -> None:
    """Stop the policy under traffic, and let it go on."""
    assert stack.kedge("freeze", TENANT, "support", "--because", "a drill").returncode == 0

    numbers = itertools.count()

    def is_frozen() -> bool:
        episode = f"drill-{next(numbers)}"
        asked = decision_service_pb2.DecideRequest(policy=POLICY, request_id=episode, episode_id=episode)
        return bool(services.decisions.Decide(asked).reason == decisions.DECISION_REASON_FROZEN)

    wait_for(is_frozen, "the freeze to be heard of")
    written = "SELECT count(*) FROM t_ready.decision WHERE reason = 'FROZEN'"
    with stack.connect() as owner:
        wait_for(lambda: owner.execute(written).fetchall() != [(0,)], "the decision to be written")
    assert stack.kedge("unfreeze", TENANT, "support", "--because", "the drill is over").returncode == 0


def measured(stack: Stack, *more: str) -> tuple[int, dict[str, Any]]:
    ran = stack.kedge("readiness", TENANT, *more, "--json")
    assert ran.stdout, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return ran.returncode, found


def test_it_passes_p0_to_p2_and_each_line_says_what_was_measured(ready: Stack) -> None:
    code, found = measured(ready, "--through", "P2")
    unmet = [one for one in found["criteria"] if not one.get("met") and one["phase"] in ("P0", "P1", "P2")]
    assert unmet == []
    assert (code, found["passed"]) == (0, ["P0", "P1", "P2"])
    assert all(one["measured"] for one in found["criteria"])
    lines = {one["criterion"]: one["measured"] for one in found["criteria"]}
    assert lines["every completed turn has a reward row"].endswith(" episodes ended, 0 of them without their row")
    assert lines["no regression on the holdout"].startswith("lift +0.")
    assert [one["mitigation"] for one in found["mitigations"] if not one.get("holds")] == []
    assert len(found["mitigations"]) == 10


def test_what_nobody_did_is_not_passed(ready: Stack) -> None:
    code, found = measured(ready, "--through", "P3")
    assert code == 1
    lines = {one["criterion"]: one["measured"] for one in found["criteria"] if not one.get("met")}
    prompt = "a prompt passed the holdout, was approved by a person and serves"
    assert lines[prompt] == "0 served, none of them by a PASS and a person"


def test_what_was_never_served_alone_is_valued_from_the_log(ready: Stack) -> None:
    ran = ready.kedge("evaluate", TENANT, "support", "--serve", "praise", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["left_out"].keys() <= {"FROZEN", "NOT_LOGGED"}
    assert int(found["left_out"]["FROZEN"]) >= 1
    assert found["lift"].keys() == {"snips", "dr", "ips", "switch"}
    for way in ("snips", "dr"):
        assert found["lift"][way]["low"] > 0.0
    shown = ready.kedge("evaluate", TENANT, "support", "--serve", "praise=0.5", "--serve", "plain=0.5")
    assert "SNIPS" in shown.stdout
    same = ready.kedge("evaluate", TENANT, "support", "--serve", "plain")
    assert "0.0000 [0.0000, 0.0000]" in same.stdout
    assert "refused" not in same.stdout
    refused = ready.kedge("evaluate", TENANT, "support", "--serve", "praise", "--days", "0.0000001")
    assert refused.returncode == 1
    assert "no number" in refused.stderr


def test_the_exported_log_lets_others_come_to_the_same_value(ready: Stack, tmp_path: Path) -> None:
    found = json.loads(ready.kedge("evaluate", TENANT, "support", "--serve", "praise", "--json").stdout)
    value, episodes = found["target"]["estimates"]["snips"]["value"], int(found["episodes"])
    arrays, text = tmp_path / "log.npz", tmp_path / "log.vw"
    for form, path in (("open-bandit", arrays), ("vw", text)):
        ran = ready.kedge("log", TENANT, "support", "--as", form, "--out", str(path), "--json")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["rows"] == episodes
    with np.load(arrays) as told:
        assert told["context"].shape == (told["n_rounds"], len(told["buckets"]))
        praise = [str(key).startswith("praise") for key in told["action_keys"]].index(True)
        weights = (told["action"] == praise) / told["pscore"]
        assert float(weights @ told["reward"] / weights.sum()) == pytest.approx(value)
    examples = text.read_text(encoding="utf-8").strip().split("\n\n")
    labelled = [line.partition(" ") for example in examples for line in example.split("\n") if line.startswith("0:")]
    drawn = [label.split(":") for label, _, action in labelled if "praise" in action]
    weighted = [(1.0 / float(propensity), 1.0 - float(cost)) for _, cost, propensity in drawn]
    assert len(examples) == len(labelled) == episodes
    assert sum(w * r for w, r in weighted) / sum(w for w, _ in weighted) == pytest.approx(value, abs=1e-6)

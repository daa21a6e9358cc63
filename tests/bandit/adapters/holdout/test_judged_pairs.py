"""A divergence check keeps what the pairwise judge preferred, case by case: the win rate of what was learned."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kedge_bandit.adapters.holdout.connect import LOOPBACK, Connections
from kedge_bandit.application.ask_sensor import AskSensor, Sensor
from kedge_bandit.application.holdout_ports import AnswererKind, AnswererSettings
from kedge_bandit.domain.audit import KEDGE
from kedge_bandit.domain.change import Change
from kedge_bandit.domain.dimension import Arm, Dimension
from kedge_bandit.domain.holdout import ExactCheck, HoldoutCase, Message, RubricCheck
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.lifecycle import create
from kedge_bandit.domain.policy import Policy, PolicySpec
from kedge_bandit.domain.published import COLD, Allocation
from kedge_bandit.domain.reward_spec import RewardSpec
from kedge_bandit.domain.win_rate import Compared, win_rate
from tests.fixtures.chat_server import chat_server

ACME, SUPPORT = TenantId("acme"), PolicyName("support")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
RUBRICS, OTHERS = 40, 30
LIKED = 3
"""Every so many-th question, the learned answer is no better than the baseline's."""


def policy() -> Policy:
    spec = PolicySpec(
        arms=tuple(
            Arm(dimension=Dimension.PROMPT_VARIANT, name=name, content=text)
            for name, text in (("plain", "Answer."), ("warm", "Answer gladly."))
        ),
        baseline={Dimension.PROMPT_VARIANT: "plain"},
        reward=RewardSpec(cost_reference_usd=0.01, latency_reference_ms=1000.0),
    )
    made, _ = create(SUPPORT, spec, Change(tenant=ACME, actor=KEDGE, because="a test", at=NOW))
    return made


def allocation(of: Policy) -> Allocation:
    return Allocation(
        policy=SUPPORT,
        bucket=COLD,
        version=1,
        policy_version=1,
        configuration_version=1,
        seed_epoch=0,
        as_of=0.0,
        evidence_sequence=0,
        evidence_hash="",
        actions=of.spec.action_keys,
        baseline=of.spec.baseline_index,
        floor=0.5,
        uniform_slice=0.1,
        caps=None,
        q=(0.5, 0.5),
        p=(0.5, 0.5),
        mean=(0.5, 0.5),
        eligible=(True, True),
        closed=None,
        publish_time=NOW,
    )


def script(body: Any) -> str:
    """Answer, or judge: the glad answer wins unless both are the same."""
    asked = body["messages"][-1]["content"]
    if "answer_A" not in asked:
        is_glad = "gladly" in body["messages"][0]["content"] and int(asked.rpartition(" ")[2]) % LIKED
        return "Gladly!" if is_glad else "No."
    pair = json.loads(asked)
    winner = "tie" if pair["answer_A"] == pair["answer_B"] else "A" if pair["answer_A"] == "Gladly!" else "B"
    return json.dumps({"winner": winner})


async def test_a_check_keeps_what_the_judge_preferred_of_rubrics_alone(tmp_path: Path) -> None:
    cases = [
        HoldoutCase(
            messages=(Message("user", f"Question {number}"),),
            check=RubricCheck("Prefer the glad answer.", "judge-7") if number < RUBRICS else ExactCheck("No."),
        )
        for number in range(RUBRICS + OTHERS)
    ]
    made = policy()
    with chat_server(script) as server:
        settings = AnswererSettings(kind=AnswererKind.OPENAI, address=server.address, model="small-7", parallel=8)
        sensor = Sensor(version="v", cases=cases, answerer=settings, judge=settings, secret=bytes(32))
        connect = Connections(secrets=tmp_path, scripts=tmp_path, hosts=LOOPBACK, pauses=())
        asked = await AskSensor(connect)(ACME, made, sensor, {COLD: allocation(made)}, b"a seed")
    assert asked.why == ""
    judged = asked.side.judged
    assert 10 <= len(judged) < RUBRICS  # a random half of the pool
    assert len(judged) < asked.side.cases
    assert set(judged) == {0.5, 1.0}
    assert list(judged) == sorted(judged)
    found = win_rate([Compared(str(number), score) for number, score in enumerate(judged)])
    assert found.ties == judged.count(0.5)
    assert found.value > 0.5

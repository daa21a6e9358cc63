"""Put hostile strings into every text field that takes them; they come back as they were, and nothing obeys them."""

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    episode_pb2,
    episode_service_pb2,
    feedback_service_pb2,
    governance_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from tests.fixtures.core_app import now
from tests.fixtures.policies import two_models
from tests.fixtures.stack import Services, Stack, wait_for

TENANT = "hostile"
POLICY = f"tenants/{TENANT}/policies/support"
MARK = "qZx9"
HOSTILE = [
    f"{MARK}\x1b[2J\x1b]0;owned\x07\x1b[31mred\x9b31m",
    f"{MARK}\nline two\r\x0b\x85next",
    f'{MARK}"}}\n{{"event":"forged","level":"error"}}',
    f"{MARK}\u202egnp.exe\u2066\u200f",
    f"{MARK}<script>alert(1)</script>&amp;",
    f"{MARK}[red]markup[/] [/bold] [link=x]",
    f"{MARK}'; DROP TABLE decision; --",
    f"{MARK}%s%n{{0.__class__}}${{HOME}}`id`",
    f"{MARK}../../etc/passwd",
    f"{MARK}مرحبا e\u0301 \U0001f469\u200d\U0001f52c\ufdd0",
]
OBEYED = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202a\u202b\u202c\u202d\u202e\u2066\u200f"} - {"\n"}


@dataclass(frozen=True, slots=True)
class Scene:
    """A service that has taken one hostile string in every field, for each of the strings."""

    stack: Stack
    services: Services
    decisions: dict[str, Any]


@pytest.fixture(scope="module")
def scene(stack: Stack) -> Iterator[Scene]:
    key = stack.tenant(TENANT)
    policy = two_models(TENANT)
    policy.features[0].categorical.values.extend(HOSTILE)
    for number, text in enumerate(HOSTILE):
        arm = policy.arms.add(dimension=policy.arms[0].dimension, name=f"arm{number}", content=text)
        arm.template_variables.append(text)
    stack.put_policy(policy)
    with stack.services(key) as services:
        yield Scene(stack, services, {text: play(services, text) for text in HOSTILE})


def play(services: Services, text: str) -> Any:
    """Decide, log, report, freeze and unfreeze with one string everywhere."""
    context = decision_pb2.Context(categories={"task": text})
    asked = decision_service_pb2.DecideRequest(policy=POLICY, request_id=text, episode_id=text, context=context)
    decided = services.decisions.Decide(asked)
    trajectory = episode_pb2.Trajectory(terminated=True)
    trajectory.guardrail_events.add(kind=episode_pb2.GUARDRAIL_KIND_PII)
    trajectory.llm_calls.add(model_id=text)
    trajectory.tool_calls.add(tool_name=text)
    trajectory.approvals.add(subject=text, verdict=episode_pb2.APPROVAL_VERDICT_GRANTED)
    trajectory.content.messages.add(role=text, text=text)
    logged = episode_service_pb2.LogEpisodeRequest(
        policy=POLICY, request_id=text, episode_id=text, decision_token=decided.decision_token, trajectory=trajectory
    )
    services.episodes.LogEpisode(logged)
    outcome = outcome_pb2.Outcome(
        idempotency_key=text,
        decision_token=decided.decision_token,
        signal=outcome_pb2.SIGNAL_HUMAN,
        provenance=outcome_pb2.HUMAN_PROVENANCE_THUMB,
        value=1.0,
        observed_time=now(),
        rater_id=text,
    )
    batch = feedback_service_pb2.RecordOutcomesRequest(parent=f"tenants/{TENANT}", outcomes=[outcome])
    recorded = services.feedback.RecordOutcomes(batch)
    assert recorded.results[0].status == outcome_pb2.OUTCOME_STATUS_RECORDED, recorded
    services.governance.Freeze(governance_service_pb2.FreezeRequest(name=POLICY, because=text, request_id=text))
    services.governance.Unfreeze(governance_service_pb2.UnfreezeRequest(name=POLICY, because=text))
    return decided


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_was_written_is_read_as_it_was(scene: Scene, text: str) -> None:
    services, decided = scene.services, scene.decisions[text]
    found = services.decisions.GetDecision(decision_service_pb2.GetDecisionRequest(name=decided.decision)).decision
    assert (found.episode_id, found.request_id) == (text, text)
    assert unicodedata.normalize("NFC", found.context.categories["task"]) == unicodedata.normalize("NFC", text)
    read = episode_service_pb2.GetEpisodeRequest(policy=POLICY, episode_id=text)
    wait_for(lambda: services.episodes.GetEpisode(read).episode.reward_version > 0, "the reward")
    assert services.episodes.GetEpisode(read).episode.episode_id == text
    arms = services.policies.GetPolicy(policy_service_pb2.GetPolicyRequest(name=POLICY)).policy.arms
    arm = next(arm for arm in arms if arm.content == text)
    asked = decision_service_pb2.GetArmRequest(parent=f"tenants/{TENANT}", content_hash=arm.content_hash)
    assert services.decisions.GetArm(asked).arm.content == text


def test_exports_and_the_audit_log_carry_the_strings_as_they_were(scene: Scene) -> None:
    exported = scene.services.episodes.ExportDecisions(episode_service_pb2.ExportDecisionsRequest(policy=POLICY))
    ids = {each.decision.decision.episode_id for each in exported if each.WhichOneof("record") == "decision"}
    assert set(HOSTILE) <= ids
    request = governance_service_pb2.ListAuditEventsRequest(parent=f"tenants/{TENANT}", page_size=1000)
    assert set(HOSTILE) <= {event.because for event in scene.services.governance.ListAuditEvents(request).events}


def test_rest_carries_the_strings_as_they_were_and_as_json_alone(scene: Scene) -> None:
    headers = {"authorization": f"Bearer {scene.stack.operator_key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{scene.stack.web_port}/v1", headers=headers, timeout=30) as client:
        answer = client.get(f"/tenants/{TENANT}/auditEvents", params={"pageSize": 1000})
        assert answer.headers["content-type"] == "application/json"
        assert set(HOSTILE) <= {event["because"] for event in answer.json()["events"]}
        for text in HOSTILE:
            one = client.get(f"/{scene.decisions[text].decision}")
            assert one.json()["decision"]["episodeId"] == text
            refused = client.get(f"/{POLICY}/episodes/{MARK}%1B%5B2J%0A%3Cscript%3E")
            assert (refused.status_code, refused.headers["content-type"]) == (404, "application/json")
        page = client.get(f"http://127.0.0.1:{scene.stack.web_port}/openapi.json")
    assert MARK not in page.text


def test_nothing_that_kedge_prints_is_obeyed_by_a_terminal(scene: Scene) -> None:
    shown = [
        ("audit", "list", TENANT),
        ("status", TENANT, "support", "--cells"),
        ("policy", "show", TENANT, "support"),
        *(("explain", scene.decisions[text].decision) for text in HOSTILE[:6]),
        *(("decide", TENANT, "support", "--episode", f"cli{text}", "--set", f"task={text}") for text in HOSTILE[:3]),
    ]
    for arguments in shown:
        done = scene.stack.kedge_here(*arguments)
        assert done.exit_code == 0, (arguments, done.stderr[-500:])
        assert not OBEYED & set(done.stdout), (arguments, sorted(OBEYED & set(done.stdout)))
    as_json = scene.stack.kedge_here("audit", "list", TENANT, "--limit", "1000", "--json").stdout
    assert not OBEYED & set(as_json)
    assert set(HOSTILE) <= {event["because"] for event in json.loads(as_json)}
    refused = scene.stack.kedge_here("freeze", f"{MARK}\x1b[2J", "--because", "test")
    assert refused.exit_code == 1
    assert not OBEYED & set(refused.stderr)


def test_the_log_has_one_object_a_line_and_nobodys_text_and_no_secret(scene: Scene) -> None:
    lines = (scene.stack.data_dir / "serve.log").read_text(encoding="utf-8").split("\n")
    for line in lines:
        if line.startswith("{"):
            json.loads(line)
        assert "forged" not in line
    whole = "\n".join(lines)
    assert MARK not in whole
    assert scene.stack.operator_key.split("_")[-1] not in whole

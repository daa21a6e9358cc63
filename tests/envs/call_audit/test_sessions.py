"""Audit over plain HTTP, by the id of an episode; an evaluator's server and a tenant's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest

from call_audit_env import moves
from call_audit_env.baselines import privileged
from call_audit_env.book import FILE
from call_audit_env.client import connected
from call_audit_env.models import AuditAction
from call_audit_env.scenarios import call_of
from kedge_trainer.adapters.openenv_client import post
from kedge_trainer.domain.errors import ServerRefused
from tests.fixtures.openenv import Host


@pytest.fixture
def url(openenv_host: Host) -> str:
    return openenv_host.urls["call_audit_env"]


@contextmanager
def setting(host: Host, name: str, value: str) -> Iterator[None]:
    host.ask(setting=[name, value])
    try:
        yield
    finally:
        host.ask(setting=[name, ""])


def begun(url: str, **asked: object) -> str:
    episode = str(uuid4())
    post(url, "/reset", {"task": "base", "seed": 8, "episode_id": episode, **asked})
    return episode


def stepped(url: str, episode: str, action: object) -> dict[str, Any]:
    return cast("dict[str, Any]", post(url, "/step", {"action": action, "episode_id": episode}))


def test_an_audit_is_played_by_its_id_and_graded_after_its_end_without_telling_what_was_missed(url: str) -> None:
    episode = begun(url)
    assert httpx.post(f"{url}/grade", json={"episode_id": episode}).status_code == 409
    stepped(url, episode, moves.chunk(0, 0))
    answer = stepped(url, episode, moves.submit(passed=True))
    assert (answer["done"], answer["metadata"]["grade"]) == (True, 0.001)
    assert "MISSED" not in str(answer)
    assert post(url, "/grade", {"episode_id": episode}) == {"task": "base", "grade": 0.001}
    assert httpx.post(f"{url}/grade", json={"episode_id": "nobody"}).status_code == 404


def test_an_evaluators_server_reports_what_was_missed(openenv_host: Host, url: str) -> None:
    episode = begun(url)
    stepped(url, episode, moves.submit(passed=True))
    with setting(openenv_host, "KEDGE_ENV_EVALUATOR", "1"):
        told = cast("dict[str, Any]", post(url, "/grade", {"episode_id": episode}))
    assert [one["status"] for one in told["report"]["findings"]] == ["MISSED"] * 3


def test_a_veto_is_told_beside_the_step(url: str) -> None:
    episode = begun(url)
    noted = moves.flag("pii_exposure_risk", "high") | {"note": "512-48-7731"}
    assert stepped(url, episode, noted)["metadata"]["veto"] == "pii_in_report"


def test_a_tenant_is_played_by_its_own_rubric_and_another_has_nothing_to_do_with_it(
    openenv_host: Host, url: str, tmp_path: Path
) -> None:
    rubric = FILE.read_text(encoding="utf-8")
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "rubric.toml").write_text(
        rubric.replace("pii_exposure_risk", "acme_privacy"), encoding="utf-8"
    )
    with pytest.raises(ServerRefused):
        begun(url, tenant="acme")
    with setting(openenv_host, "KEDGE_ENV_TENANTS", str(tmp_path)):
        own = begun(url, tenant="acme")
        assert not stepped(url, own, moves.flag("acme_privacy", "high"))["observation"]["error"]
        assert stepped(url, own, moves.flag("pii_exposure_risk", "high"))["observation"]["error"]
        assert stepped(url, begun(url), moves.flag("acme_privacy", "high"))["observation"]["error"]
        for name in ("nobody", "../acme", 3):
            with pytest.raises(ServerRefused):
                begun(url, tenant=name)
        with pytest.raises(ServerRefused):
            begun(url, tenant="acme", task="own")


def test_the_environments_own_client_audits_a_call_to_its_end(url: str) -> None:
    player = privileged("oracle", call_of("base", 0))
    with connected(url) as client:
        seen = client.reset("base", 0)
        while not seen.done:
            seen = client.step(AuditAction.model_validate(dict(player({}))))
        assert client.state().finished
        with pytest.raises(RuntimeError, match="no task 'moon'"):
            client.reset("moon", 0)
    assert seen.metadata["grade"] == 0.977

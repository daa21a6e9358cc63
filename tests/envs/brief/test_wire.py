"""Switches of a reset over the wire, and episodes by id."""

import httpx
import pytest

from brief_routing_env.client import connected
from brief_routing_env.ground import start
from brief_routing_env.models import BriefAction
from brief_routing_env.scenarios import Profile
from kedge_trainer.adapters.openenv_client import session
from kedge_trainer.domain.errors import ServerRefused
from tests.envs.brief.play import CLOSE, DEV, EVERYBODY, action
from tests.fixtures.openenv import Host

NAME = "brief_routing_env"


def test_a_reset_takes_the_switches_of_the_source(openenv_host: Host) -> None:
    asked = {"task": "hard_brief", "seed": DEV, "use_rag": True, "eval_mode": False, "profile": "compat"}
    with session(openenv_host.urls[NAME]) as remote:
        told = remote.ask("reset", {**asked, "tenant_id": "harbour"})
    here = start("hard_brief", DEV, rag=True, eval_mode=False, profile=Profile.COMPAT, tenant="harbour").observe()
    assert {name: told["observation"][name] for name in here} == here


@pytest.mark.parametrize(
    "switched",
    [
        {"use_rag": "yes"},
        {"eval_mode": 1},
        {"profile": "gold"},
        {"profile": 3},
        {"tenant_id": "nobody"},
        {"tenant_id": 3},
    ],
)
def test_a_switch_that_there_is_not_is_refused(openenv_host: Host, switched: dict[str, object]) -> None:
    with session(openenv_host.urls[NAME]) as remote, pytest.raises(ServerRefused):
        remote.ask("reset", {"task": "hard_brief", "seed": DEV, **switched})


def test_the_typed_client_plays_a_whole_brief(openenv_host: Host) -> None:
    with connected(openenv_host.urls[NAME]) as client:
        client.reset("hard_brief-rag", DEV)
        seen = [client.step(BriefAction.model_validate(action(words))) for words in (*EVERYBODY, *CLOSE)]
        assert (seen[-1].done, seen[-1].metadata["grade"]) == (True, 0.999)
        assert client.state().finished


def test_an_episode_by_id_is_played_without_a_socket_and_graded_at_its_end(openenv_host: Host) -> None:
    with httpx.Client(base_url=openenv_host.urls[NAME]) as http:
        http.post("/reset", json={"task": "hard_brief", "seed": DEV, "episode_id": "one"})
        asked = {"episode_id": "one"}
        assert http.post("/grade", json=asked).status_code == 409
        told = [http.post("/step", json={"action": action(words), **asked}) for words in (*EVERYBODY, *CLOSE)]
        assert [one.json()["done"] for one in told] == [False] * 5 + [True]
        assert http.post("/grade", json=asked).json() == {"task": "hard_brief", "grade": 0.9333}
        assert http.get("/sessions").json()["kept"] >= 1

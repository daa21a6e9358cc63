"""Play relocation over plain HTTP, by the id of an episode, and grade it after its end."""

from typing import Any, cast
from uuid import uuid4

import httpx
import pytest

from kedge_trainer.adapters.openenv_client import get, post
from kedge_trainer.domain.errors import ServerRefused
from relocation_env.client import connected
from relocation_env.episode import Episode
from relocation_env.features import read
from relocation_env.ground import start
from relocation_env.models import RelocationAction
from relocation_env.server.sessions import MOST, Sessions
from tests.envs.relocation.play import played, solved
from tests.fixtures.openenv import Host


@pytest.fixture
def url(openenv_host: Host) -> str:
    return openenv_host.urls["relocation_env"]


def test_an_episode_is_played_by_its_id_and_graded_after_its_end(url: str) -> None:
    own, other = str(uuid4()), str(uuid4())
    for each in (own, other):
        post(url, "/reset", {"task": "easy", "seed": 0, "episode_id": each})
    answers = [
        cast("dict[str, Any]", post(url, "/step", {"action": read(one), "episode_id": own})) for one in solved("easy")
    ]
    assert [answer["done"] for answer in answers] == [False] * 11 + [True]
    assert answers[-1]["metadata"]["grade"] == 0.95
    for _ in range(2):
        assert post(url, "/grade", {"episode_id": own}) == {"task": "easy", "grade": 0.95}
    assert httpx.post(f"{url}/grade", json={"episode_id": other}).status_code == 409
    assert cast("dict[str, int]", get(url, "/sessions"))["kept"] >= 2


def test_a_grade_is_of_the_episodes_own_task_and_of_a_kept_episode(url: str) -> None:
    assert httpx.post(f"{url}/grade", json={"episode_id": "nobody"}).status_code == 404
    assert httpx.post(f"{url}/grade", json={"episode_id": "x", "task": "easy"}).status_code == 422
    with pytest.raises(ServerRefused):
        post(url, "/step", {"action": {}, "episode_id": "nobody"})


def test_the_oldest_episode_goes_first_and_a_finished_one_stays_until_then() -> None:
    kept = Sessions[Episode]()
    finished, _ = played("easy", *solved("easy"))
    kept.keep("first", finished)
    for number in range(MOST - 1):
        kept.keep(str(number), start("easy", 0))
    assert kept.find("first") is finished
    kept.keep("one more", start("easy", 0))
    kept.keep("two more", start("easy", 0))
    assert (kept.find("first"), kept.find("0"), kept.find("1"), kept.count()) == (finished, None, None, MOST)


def test_the_environments_own_client_plays_an_episode_to_its_end(url: str) -> None:
    with connected(url) as client:
        assert client.reset("easy", 0).steps_taken == 0
        answers = [client.step(RelocationAction.model_validate(read(one))) for one in solved("easy")]
        assert client.state().finished
        with pytest.raises(RuntimeError, match="no task 'moon'"):
            client.reset("moon", 0)
    assert (answers[-1].done, answers[-1].metadata["grade"]) == (True, 0.95)

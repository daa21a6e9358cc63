"""The console's pages about the record: walls between tenants, roles, hostile text, and the stream of an open page."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from kedge.bandit.v1 import decision_pb2, decision_service_pb2, episode_pb2, episode_service_pb2
from kedge_bandit.adapters.console.live import MOST_OF_ONE
from tests.e2e.test_console import HOSTILE, OWN_PARTS, parts_of
from tests.fixtures.console import SAME_ORIGIN, Place, running_console, wait_for_console
from tests.fixtures.played import open_incident, play
from tests.fixtures.stack import wait_for

POLICY = "tenants/acme/policies/support"


@pytest.fixture(scope="module")
def place(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_console(fresh_database, tmp_path_factory.mktemp("kedge"), KEDGE_GATE_PORT="0") as running:
        play(running.stack, "acme", turns=12)
        running.tenant("globex")
        yield running


def test_another_tenant_s_record_looks_like_one_that_does_not_exist(place: Place) -> None:
    incident = open_incident(place.stack, "acme")
    with place.visitor("acme", person="alice") as client:
        assert client.get(f"/{incident}").status_code == httpx.codes.OK
    with place.visitor("globex", person="mallory", role="admin") as client:
        for rest in (
            "/decisions", "/decisions/01890000-0000-7000-8000-000000000000", "/episodes", "/incidents", "/incidents/1",
            "/connect", "/feedback", "/live", "/policies/support/belief", "/policies/support/over-time",
            "/policies/support/divergence", "/policies/support/experiments", "/policies/support/episode?id=turn-1",
        ):  # fmt: skip
            foreign, missing = (client.get(f"/tenants/{tenant}{rest}") for tenant in ("acme", "no-such-tenant"))
            assert foreign.status_code == missing.status_code == httpx.codes.NOT_FOUND, rest
            assert foreign.text == missing.text
        for rest in ("/feedback", "/incidents/1/close", "/policies/support/divergence/run"):
            answer = client.post(f"/tenants/acme{rest}", data={"because": "x", "policy": "support", "reaction": "up"})
            assert answer.status_code == httpx.codes.NOT_FOUND


def test_what_does_not_exist_is_not_found(place: Place) -> None:
    with place.visitor("acme", person="alice") as client:
        for rest in (
            "/decisions/01890000-0000-7000-8000-000000000000", "/decisions/no-id", "/incidents/99",
            "/policies/support/episode?id=nobody-s", "/policies/support/episode", "/policies/none/belief",
        ):  # fmt: skip
            assert client.get(f"/tenants/acme{rest}").status_code == httpx.codes.NOT_FOUND, rest


def test_who_only_reads_is_offered_no_reaction_and_allowed_none(place: Place) -> None:
    with place.visitor("acme", person="eve") as client:
        page = client.get("/tenants/acme/feedback").text
        assert 'name="reaction"' not in page
        told = {"policy": "support", "episode": "turn-1", "reaction": "up", "request_id": "r"}
        assert client.post("/tenants/acme/feedback", data=told).status_code == httpx.codes.FORBIDDEN
        assert client.post("/tenants/acme/incidents/1/acknowledge").status_code == httpx.codes.FORBIDDEN


def test_who_lets_go_learns_which_alarm_nobody_has_taken_on(place: Place) -> None:
    incident = open_incident(place.stack, "acme", "judge_gap")
    with place.visitor("acme", person="root", role="admin") as client:
        assert f'href="/{incident}"' in client.get(f"/{POLICY}/unfreeze").text
        client.post(f"/{incident}/acknowledge", data={"because": "mine", "request_id": "take"})
        assert f'href="/{incident}"' not in client.get(f"/{POLICY}/unfreeze").text


def test_an_operator_reads_how_many_tenants_a_freeze_of_everything_touches(place: Place) -> None:
    with place.visitor() as client:
        assert "Freeze everything: 2 tenants" in client.get("/tenants/acme/incidents").text
    with place.visitor("acme", person="root", role="admin") as client:
        assert "Freeze everything" not in client.get("/tenants/acme/incidents").text


def test_the_same_click_twice_is_one_outcome_and_nonsense_is_none(place: Place) -> None:
    with place.visitor("acme", person="root", role="admin") as client:
        seen = re.findall(r'name="seen" value="([^"]+)"', client.get("/tenants/acme/feedback").text)[0]
        told = {"policy": "support", "episode": "turn-2", "reaction": "up", "request_id": "once", "seen": seen}
        for fields in (told, told, {**told, "reaction": "edited", "edited": "a lot"}, {**told, "reaction": "hail"}):
            assert client.post("/tenants/acme/feedback", data=fields).status_code == httpx.codes.SEE_OTHER
        page = client.get("/tenants/acme/feedback").text
    assert page.count("Recorded for turn-2.") == 2
    assert page.count("Not recorded: say how much was changed") == 2

    def people() -> int:
        with place.calling("acme", "auditor", "VIEWER") as services:
            request = episode_service_pb2.GetTimelineRequest(policy=POLICY, episode_id="turn-2")
            entries = services.episodes.GetTimeline(request).entries
        return sum(entry.HasField("outcome") and bool(entry.outcome.provenance) for entry in entries)

    wait_for(people, "the reaction")
    assert people() == 1


def test_hostile_names_are_shown_and_do_nothing(place: Place) -> None:
    name = HOSTILE[:100]
    with place.calling("acme", "app", "ADMIN") as services:
        asked = decision_service_pb2.DecideRequest(
            policy=POLICY,
            request_id="hostile",
            episode_id=name,
            context=decision_pb2.Context(categories={"task": name}),
        )
        decided = services.decisions.Decide(asked)
        trajectory = episode_pb2.Trajectory(terminated=True)
        trajectory.llm_calls.add(model_id=name, prompt_tokens=1, completion_tokens=1)
        trajectory.tool_calls.add(tool_name=name)
        services.episodes.LogEpisode(
            episode_service_pb2.LogEpisodeRequest(
                policy=POLICY, request_id="hostile", episode_id=name, trajectory=trajectory
            )
        )
        listed = episode_service_pb2.ListEpisodesRequest(policy=POLICY, page_size=1)
        wait_for(lambda: services.episodes.ListEpisodes(listed).episodes[0].episode_id == name, "the episode")
    with place.visitor("acme", person="root", role="admin") as client:
        addresses = [
            f"/{decided.decision}", "/tenants/acme/decisions", "/tenants/acme/episodes", "/tenants/acme/feedback",
            str(httpx.URL(f"/{POLICY}/episode", params={"id": name})),
            str(httpx.URL("/tenants/acme/decisions", params={"q": name, "bucket": name})),
        ]  # fmt: skip
        pages = [client.get(address) for address in addresses]
    for page in pages:
        assert page.status_code == httpx.codes.OK
        assert "script&gt;alert(1)" in page.text
        assert "\u202e" not in page.text
        assert parts_of(page.text) <= OWN_PARTS


def test_pages_that_open_at_once_hold_no_more_streams_than_one_after_another(place: Place) -> None:
    with place.visitor("acme", person="eve") as client:
        cookies = dict(client.cookies)

    async def told(client: httpx.AsyncClient, all_said: asyncio.Barrier) -> bool:
        async with client.stream("GET", "/tenants/acme/live") as stream:
            lines = stream.aiter_lines()  # which closes the stream when it is let go
            first = await anext(lines, "")
            await all_said.wait()
            return stream.status_code == httpx.codes.OK and first == "retry: 3000"

    async def opened(count: int) -> int:
        all_said = asyncio.Barrier(count)
        async with httpx.AsyncClient(
            base_url=place.address, cookies=cookies, headers=SAME_ORIGIN, timeout=60
        ) as client:
            return sum(await asyncio.gather(*(told(client, all_said) for _ in range(count))))

    assert asyncio.run(opened(3 * MOST_OF_ONE)) == MOST_OF_ONE


def test_a_stream_tells_that_something_happened_and_nothing_else_and_ends_with_the_console(place: Place) -> None:
    with place.visitor("acme", person="eve") as client, client.stream("GET", "/tenants/acme/live") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == "retry: 3000"
        open_incident(place.stack, "acme", "veto_rate")
        events = (line for line in lines if line)
        while (told := next(events)) == "event: tick":
            assert next(events) == "data: "
        assert (told, next(events)) == ("event: changed", "data: ")
        console = place.stack.pid("console")
        os.kill(console, signal.SIGTERM)
        began = time.monotonic()
        list(lines)
        assert time.monotonic() - began < 15
    wait_for(lambda: place.stack.pid("console") != console, "another console")
    wait_for_console(place)
    assert httpx.get(f"{place.address}/tenants/acme/live", headers=SAME_ORIGIN).status_code == httpx.codes.SEE_OTHER

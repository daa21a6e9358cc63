import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import grpc.aio
import pytest
from rich.console import Console

from kedge.bandit.v1 import (
    decision_pb2,
    decision_service_pb2,
    feedback_service_pb2,
    outcome_pb2,
    policy_service_pb2,
)
from kedge_demo.build_world import LAST_FLOOR
from kedge_demo.counts import Play, TenantCounts, read_play, write_play
from kedge_demo.export_log import read_log
from kedge_demo.figures import figures
from kedge_demo.frozen import ask
from kedge_demo.keys import TenantKeys, read_keys
from kedge_demo.pace import Pace, PlayFailed
from kedge_demo.play import Server, client_baseline, play, single_failures
from kedge_demo.world import World, episode_id
from kedge_demo.worlds import build_worlds
from tests.demo.stand_in import StandIn, serve

SILENT = Console(file=io.StringIO())
QUIET_COMMAND = (sys.executable, "-c", "")


@pytest.fixture(scope="module")
def worlds() -> tuple[World, ...]:
    return build_worlds(scale=0.01)


async def played(
    worlds: tuple[World, ...], stand_in: StandIn, command: tuple[str, ...] = QUIET_COMMAND
) -> dict[str, TenantCounts]:
    server, address = await serve(stand_in)
    keys = {world.tenant: TenantKeys(core_app="key", viewer="key") for world in worlds}
    try:
        return await play(worlds, Server(address=address, keys=keys, command=command), SILENT)
    finally:
        await server.stop(None)


async def test_everything_that_was_sent_is_counted_and_accounted_for(worlds: tuple[World, ...]) -> None:
    stand_in = StandIn(worlds)
    counts = await played(worlds, stand_in)
    for world in worlds:
        counted, record = counts[world.tenant], stand_in.records[world.policy.name]
        assert counted.decisions == counted.episodes == world.turns
        assert sum(counted.outcomes.values()) == len(record.outcomes)
        found = figures(read_log(record.export(), world), world, counted)
        assert (found.episodes_unaccounted, found.replay_mismatches) == (0, 0)


async def test_each_signal_is_sent_where_it_exists_and_nowhere_else(worlds: tuple[World, ...]) -> None:
    stand_in = StandIn(worlds)
    await played(worlds, stand_in)
    world = worlds[1]
    record = stand_in.records[world.policy.name]
    for turn in range(world.turns):
        name, action = episode_id(turn), record.actions[episode_id(turn)]
        task = record.outcomes[f"{name}:task"]
        assert task.HasField("value") == bool(world.truth.has_verifier[turn])
        assert (f"{name}:judge" in record.outcomes) == bool(record.judged[turn])
        assert (f"{name}:thumb" in record.outcomes) == bool(world.truth.has_thumb[turn])
        assert record.logged[name].guardrail_events[0].tripped == world.truth.tripped[turn, action]
        assert record.logged[name].llm_calls[0].cost_usd == world.truth.cost_usd[turn, action]


async def test_an_episode_that_finds_the_queue_full_is_sent_again(worlds: tuple[World, ...]) -> None:
    stand_in = StandIn(worlds)
    stand_in.refuse_first = 25
    counts = await played(worlds, stand_in)
    assert sum(counted.episodes for counted in counts.values()) == sum(world.turns for world in worlds)


async def test_floor_and_slice_are_released_by_the_real_command_at_their_turn(
    worlds: tuple[World, ...], tmp_path: Path
) -> None:
    program = "import json, sys, pathlib; pathlib.Path(sys.argv[1], sys.argv[4]).write_text(json.dumps(sys.argv[2:]))"
    command = (sys.executable, "-c", program, str(tmp_path))
    counts = await played(worlds, StandIn(worlds), command)
    for world in worlds:
        called = json.loads((tmp_path / world.tenant).read_text())
        assert called[:4] == ["policy", "stage", world.tenant, world.policy_id]
        assert called[4:8] == ["--floor", "0.05", "--slice", "0.02"]
        assert called[8] == "--because"
        stage = counts[world.tenant].stages[-1]
        assert (stage.floor, stage.turn >= world.release_turn) == (LAST_FLOOR, True)


async def test_a_refused_stage_stops_the_play_with_what_the_command_said(worlds: tuple[World, ...]) -> None:
    refusing = (sys.executable, "-c", "import sys; sys.exit('no such policy')")
    with pytest.raises(BaseExceptionGroup) as stopped:
        await played(worlds, StandIn(worlds), refusing)
    assert any("no such policy" in str(failure) for failure in single_failures(stopped.value))


async def test_a_rejected_outcome_stops_the_play(worlds: tuple[World, ...]) -> None:
    class Rejecting(StandIn):
        async def RecordOutcomes(
            self, request: feedback_service_pb2.RecordOutcomesRequest, context: object
        ) -> feedback_service_pb2.RecordOutcomesResponse:
            refusal = feedback_service_pb2.OutcomeResult(status=outcome_pb2.OUTCOME_STATUS_REJECTED, detail="no")
            return feedback_service_pb2.RecordOutcomesResponse(results=[refusal for _ in request.outcomes])

    with pytest.raises(BaseExceptionGroup) as stopped:
        await played(worlds, Rejecting(worlds))
    assert any(isinstance(failure, PlayFailed) for failure in single_failures(stopped.value))


async def test_a_play_whose_learning_stands_still_ends_with_a_sentence(worlds: tuple[World, ...]) -> None:
    class StandingStill(StandIn):
        async def GetPolicyStatus(
            self, request: policy_service_pb2.GetPolicyStatusRequest, context: object
        ) -> policy_service_pb2.GetPolicyStatusResponse:
            return policy_service_pb2.GetPolicyStatusResponse(learning_held="self-check")

    server, address = await serve(StandingStill(worlds))
    async with grpc.aio.insecure_channel(address) as channel:
        pace = Pace(worlds[0], channel, "key", patience_s=0.2)
        waiting = asyncio.create_task(pace.hold(10**6))
        with pytest.raises(PlayFailed, match="self-check"):
            await pace.follow()
        waiting.cancel()
    await server.stop(None)


async def test_a_frozen_tenant_is_asked_and_its_answers_are_counted_by_reason(worlds: tuple[World, ...]) -> None:
    class Freezing(StandIn):
        async def Decide(
            self, request: decision_service_pb2.DecideRequest, context: object
        ) -> decision_service_pb2.DecideResponse:
            return decision_service_pb2.DecideResponse(
                decision="tenants/a-routing/decisions/1",
                action_key=worlds[0].action_keys[worlds[0].baseline],
                propensity=1.0,
                reason=decision_pb2.DECISION_REASON_FROZEN,
            )

    server, address = await serve(Freezing(worlds))
    found = await ask(worlds[0], address, "key", times=7, because="demo")
    await server.stop(None)
    assert (found.asked, found.baseline_served, found.reasons) == (7, 7, {"FROZEN": 7})


def test_the_clients_baseline_is_the_policys(worlds: tuple[World, ...]) -> None:
    for world in worlds:
        assert client_baseline(world).action.key == world.action_keys[world.baseline]


def test_counts_read_back_as_they_were_written(worlds: tuple[World, ...], tmp_path: Path) -> None:
    counts = asyncio.run(played(worlds, StandIn(worlds)))
    run = Play(seed=20, scale=0.01, seconds=1.5, tenants=counts)
    write_play(tmp_path, run)
    assert read_play(tmp_path) == run


@pytest.mark.parametrize(
    ("content", "check"),
    [
        ({"a": {"core_app": "x", "viewer": "y"}}, lambda keys: keys["a"].viewer == "y"),
        ({"a": "z"}, lambda keys: keys["a"].core_app == keys["a"].viewer == "z"),
    ],
)
def test_keys_are_read_in_both_spellings(
    content: object, check: Callable[[dict[str, TenantKeys]], bool], tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert check(read_keys(path))


def test_keys_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"a": {"secret": "x"}}', encoding="utf-8")
    with pytest.raises(ValueError, match="core_app"):
        read_keys(path)

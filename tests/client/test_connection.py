"""Addresses, several replicas, TLS, and code without an event loop."""

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest

from kedge_client import LOCAL_FALLBACK, Arm, Baseline, BlockingKedge, FixedKedge, Kedge
from kedge_client.channel import target
from tests.client.stand_in import BASELINE, Running, StandIn, start

Connect = Callable[..., Kedge]


async def test_replicas_are_used_in_turn_and_one_that_dies_is_left_out(running: Running, connect: Connect) -> None:
    other = await start(StandIn())
    client = connect(address=[running.address, other.address])
    turns = 0
    while not (running.servicer.calls["Decide"] and other.servicer.calls["Decide"]):
        assert not (await client.decide("support", episode_id=f"turn-{turns}")).fallback
        turns += 1
        assert turns < 1_000

    await other.server.stop(None)

    answered_in_a_row = 0
    while answered_in_a_row < 10:
        choice = await client.decide("support", episode_id=f"turn-{turns}")
        answered_in_a_row = 0 if choice.fallback else answered_in_a_row + 1
        turns += 1
        assert turns < 2_000


async def test_a_client_finds_a_server_that_comes_back(running: Running, connect: Connect) -> None:
    client = connect()
    assert not (await client.decide("support", episode_id="turn-1")).fallback
    await running.server.stop(None)
    assert (await client.decide("support", episode_id="turn-2")).fallback

    again = grpc.aio.server()
    assert again.add_insecure_port(running.address)
    await again.start()

    assert await client.ready()
    assert (await client.decide("support", episode_id="turn-3")).failure == "UNIMPLEMENTED"
    await again.stop(None)


@pytest.fixture
def key_and_certificate(tmp_path: Path) -> tuple[bytes, bytes]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    return key.read_bytes(), certificate.read_bytes()


async def test_tls_carries_the_same_calls(key_and_certificate: tuple[bytes, bytes]) -> None:
    secured = await start(StandIn(), grpc.ssl_server_credentials([key_and_certificate]))

    async with Kedge(
        secured.address,
        key="kdg_secret",
        tenant="acme",
        baselines={"support": BASELINE},
        decide_deadline_s=10.0,
        tls=grpc.ssl_channel_credentials(key_and_certificate[1]),
    ) as kedge:
        choice = await kedge.decide("support", episode_id="turn-1")

    await secured.server.stop(None)
    assert not choice.fallback
    assert secured.servicer.authorization == {"Bearer kdg_secret"}


@pytest.mark.parametrize(
    ("address", "spelled"),
    [
        ("kedge.internal:7233", "kedge.internal:7233"),
        (["dns:///kedge.internal:7233"], "dns:///kedge.internal:7233"),
        (["10.0.0.1:7233", "10.0.0.2:7233"], "ipv4:10.0.0.1:7233,10.0.0.2:7233"),
        (["[fd00::1]:7233", "[fd00::2]:7233"], "ipv6:[fd00::1]:7233,[fd00::2]:7233"),
    ],
)
def test_addresses_become_one_target(address: str | list[str], spelled: str) -> None:
    assert target(address) == spelled


@pytest.mark.parametrize(
    "address",
    [
        "",
        [],
        ["10.0.0.1:7233", ""],
        ["10.0.0.1:7233", "kedge:7233"],
        ["10.0.0.1", "10.0.0.2"],
        ["10.0.0.1:1", "[::1]:1"],
    ],
)
def test_an_address_that_is_none_is_a_value_error(address: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"address|ip:port"):
        Kedge(address, key="kdg_secret", tenant="acme", baselines={})


@pytest.mark.parametrize(("decide_s", "call_s"), [(0.0, 5.0), (0.25, -1.0)])
def test_a_deadline_is_above_zero(decide_s: float, call_s: float) -> None:
    with pytest.raises(ValueError, match="deadlines"):
        Kedge(
            "127.0.0.1:1",
            key="kdg_secret",
            tenant="acme",
            baselines={},
            decide_deadline_s=decide_s,
            call_deadline_s=call_s,
        )


@pytest.mark.parametrize("arms", [{}, {"model_route": None}])
def test_a_baseline_has_an_arm(arms: dict[str, Arm | None]) -> None:
    with pytest.raises(ValueError, match="arm"):
        Baseline(**arms)


@pytest.mark.parametrize("name", ["", "two words", "a|b", "a@b", "x" * 65])
def test_an_arms_name_cannot_break_an_action_key(name: str) -> None:
    with pytest.raises(ValueError, match="arm name"):
        Arm(name, "content")


def test_code_without_an_event_loop_waits_for_its_calls() -> None:
    fixed = FixedKedge({"support": BASELINE})
    blocking = BlockingKedge(lambda: fixed)

    choice = blocking.run(lambda kedge: kedge.decide("support", episode_id="turn-1"))
    blocking.put(lambda kedge: kedge.about(choice.handle).thumb(+1, key="thumb-1"))
    left = blocking.close()

    assert (choice.model_route, choice.fallback, left) == ("small", False, ())
    assert list(fixed.said.outcomes) == ["thumb-1"]
    assert "kedge" not in {thread.name for thread in threading.enumerate()}


def test_code_without_an_event_loop_gets_the_baseline_too() -> None:
    blocking = BlockingKedge(
        lambda: Kedge("127.0.0.1:1", key="kdg_secret", tenant="acme", baselines={"support": BASELINE})
    )

    choice = blocking.run(lambda kedge: kedge.decide("support", episode_id="turn-1"))

    blocking.close()
    assert (choice.reason, choice.model_route) == (LOCAL_FALLBACK, "small")

"""A weak set-up does not start, and every weakness is named; a sound one starts, and rotates while it serves."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kedge_bandit.entrypoints.doors import keyring_of
from kedge_bandit.entrypoints.metrics_port import is_encrypted
from kedge_bandit.entrypoints.profile import check_database, check_profile, weaknesses
from kedge_bandit.entrypoints.settings import Profile, Settings
from tests.fixtures.stack import free_port
from tests.trust.authorities import Authority, Issuer

OURS = Authority("ours")


def production(folder: Path, **more: Any) -> Settings:
    return Settings(profile=Profile.PRODUCTION, data_dir=folder, **more)


def test_the_demo_profile_stays_on_this_machine() -> None:
    assert weaknesses(Settings()) == weaknesses(Settings(host="::1")) == []
    with pytest.raises(SystemExit, match=r"KEDGE_HOST is 192\.0\.2\.1 and nothing"):
        check_profile(Settings(host="192.0.2.1"))


def test_the_production_profile_names_every_weakness_at_once(tmp_path: Path) -> None:
    certificate, key = OURS.server().write(tmp_path, "server")
    secret = (key, *(tmp_path / name for name in ("operator.key", "service.password", "anchor.key")))
    for path in secret:
        path.touch()
        path.chmod(0o644)
    url = "postgresql://kedge:Kedge@db.internal/kedge"
    found = weaknesses(
        production(tmp_path, host="10.0.0.1", tls_key=str(key), tls_certificate=str(certificate), database_url=url)
    )
    assert [each.split(":")[0].replace(str(tmp_path), "") for each in found] == [
        "/operator.key can be read or written by others",
        "/service.password can be read or written by others",
        "/anchor.key can be read or written by others",
        "/server.key can be read or written by others",
        "the database's password for kedge is missing or guessable",
        "the connection to the database on db.internal is not encrypted",
    ]
    assert "nothing is encrypted" in weaknesses(production(tmp_path, host="10.0.0.1"))[0]
    for path in secret:
        path.chmod(0o600)
    sound = "postgresql://kedge:9f3b2c@db.internal/kedge?sslmode=verify-full"
    assert weaknesses(production(tmp_path, tls_key=str(key), database_url=sound)) == []


def test_a_database_that_may_forget_is_refused_in_production_alone(fresh_database: str, tmp_path: Path) -> None:
    check_database(production(tmp_path), fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
    with pytest.raises(SystemExit, match="runs with synchronous_commit off"):
        check_database(production(tmp_path), fresh_database)
    check_database(Settings(), fresh_database)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"jwt_audience": ""}, "KEDGE_JWT_AUDIENCE"),
        ({"jwt_issuer": "", "jwt_keys": ""}, "KEDGE_JWT_ISSUER and KEDGE_JWT_KEYS"),
        ({"jwt_algorithms": "ES256,none"}, "KEDGE_JWT_ALGORITHMS: none"),
        ({"jwt_algorithms": "HS256"}, "KEDGE_JWT_ALGORITHMS: HS256"),
        ({"jwt_keys": "http://login.example/jwks"}, "https"),
        ({"jwt_keys": "nowhere.json"}, "KEDGE_JWT_KEYS cannot be read"),
    ],
)
def test_tokens_set_up_by_half_do_not_start(tmp_path: Path, given: dict[str, str], said: str) -> None:
    Issuer().write(tmp_path / "jwks.json")
    whole: dict[str, Any] = {
        "jwt_issuer": "https://login.example",
        "jwt_audience": "kedge",
        "jwt_keys": str(tmp_path / "jwks.json"),
    }
    keyring_of(Settings(**whole))
    with pytest.raises(SystemExit, match=said):
        keyring_of(Settings(**{**whole, **given}))
    with pytest.raises(SystemExit, match="belong together"):
        is_encrypted(Settings(tls_client_ca="clients.pem"))


def test_a_refused_start_says_why_in_one_answer(tmp_path: Path) -> None:
    environment = {"KEDGE_HOST": "192.0.2.1", "KEDGE_DATA_DIR": str(tmp_path), "KEDGE_PORT": str(free_port())}
    kedge = str(Path(sys.executable).parent / "kedge")
    ended = subprocess.run([kedge, "serve"], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "refused to start:\n- KEDGE_HOST is 192.0.2.1 and nothing is encrypted" in ended.stderr

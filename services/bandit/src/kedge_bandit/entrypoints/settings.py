"""Read the service's settings once from the environment: KEDGE_*; a key nobody reads fails the start."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kedge_bandit.domain.mode import Mode

PREFIX = "KEDGE_"
MAX_REPLICAS = 64


class Profile(StrEnum):
    """How much a set-up has to prove before it starts."""

    DEMO = "demo"
    PRODUCTION = "production"


class Settings(BaseSettings):
    """Everything a process of the service can be told.

    Attributes:
        profile: `demo` stays on this machine; `production` refuses to start with a weak set-up.
        database_url: any PostgreSQL 15 or newer; empty: the embedded one under `data_dir`. DATABASE_URL works too.
        data_dir: where the embedded database, the operator's key and the mode override file live.
        replicas: server processes of one `kedge serve`.
        host, port: of gRPC; one port per server process, counted up from the first one's.
        web_port: of REST and the pages.
        console_port: of the pages for people; 0: there are none.
        console_url: under which browsers reach them; empty: this machine's own addresses.
        console_client_id, console_client_secret: of the console at `jwt_issuer`, for sign-on; empty: there is none.
        gym_url: of the Gym that the console shows, `kedge-trainer envs gym`; empty: there is none.
        gate_port: of the holdout's gRPC service, in the gate process; 0: there is no gate.
        gate_database_url: the gate's own login, `kedge_gate`; of the embedded database it is made.
        webhook_hosts: that webhooks may name, separated by commas; `*`: any. The demo profile adds this machine.
        gate_hosts: that answerers and judges may name, by commas; `*`: any. The demo profile adds this machine.
        metrics_port, worker_metrics_port, gate_metrics_port: of /metrics; 0 turns it off. The servers' are counted up
            like `port`.
        mode_override: a mode that can only restrict; also read from `data_dir/mode_override` every second.
        flag_provider: `flagd:PATH`, `ofrep:URL` or `unleash:URL`: an OpenFeature provider that can only restrict.
        flag_provider_token: its secret, where it wants one.
        tls_certificate, tls_key: PEM files of the server's certificate chain and key; read again when they change.
        tls_client_ca: PEM file of the authorities that sign clients' certificates; gRPC then demands one.
        jwt_issuer, jwt_audience: what `iss` and `aud` of a bearer token must say; empty: tokens are not taken.
        jwt_keys: the issuer's keys, a JWKS file or its https address.
        jwt_algorithms: the only ones allowed, separated by commas.
        jwt_tenants_claim, jwt_role_claim: where a token says what its holder is.
        jwt_person_claim: claim that only a person's token has.
        worker_interval_ms: least time between two passes over a tenant.
        worker_batch: raw rows of one pass.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    profile: Profile = Profile.DEMO
    database_url: str = ""
    data_dir: Path = Path("build/kedge")
    host: str = "127.0.0.1"
    replicas: int = Field(default=1, ge=1, le=MAX_REPLICAS)
    port: int = Field(default=50051, ge=0, le=65535)
    web_port: int = Field(default=8080, ge=0, le=65535)
    console_port: int = Field(default=0, ge=0, le=65535)
    console_url: str = ""
    console_client_id: str = ""
    console_client_secret: str = Field(default="", repr=False)
    gym_url: str = ""
    gate_port: int = Field(default=50053, ge=0, le=65535)
    gate_database_url: str = Field(default="", repr=False)
    gate_hosts: str = ""
    webhook_hosts: str = ""
    metrics_port: int = Field(default=9464, ge=0, le=65535)
    worker_metrics_port: int = Field(default=9463, ge=0, le=65535)
    gate_metrics_port: int = Field(default=9462, ge=0, le=65535)
    mode_override: Mode = Mode.APPLY
    flag_provider: str = ""
    flag_provider_token: str = Field(default="", repr=False)
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_keys: str = ""
    jwt_algorithms: str = "ES256,RS256"
    jwt_tenants_claim: str = "kedge_tenants"
    jwt_role_claim: str = "kedge_role"
    jwt_person_claim: str = "auth_time"
    worker_interval_ms: int = Field(default=100, ge=1)
    worker_batch: int = Field(default=2000, ge=1)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"


CLIENT_KEYS = frozenset(
    {"KEDGE_KEY", "KEDGE_ADDRESS", "KEDGE_GATE_ADDRESS", "KEDGE_CA", "KEDGE_CERTIFICATE", "KEDGE_CERTIFICATE_KEY"}
)
"""Read by the command line's client, not by the service."""


def read_settings() -> Settings:
    """Read the environment.

    Raises:
        SystemExit: a value is wrong, or a KEDGE_* variable is unknown; the message names it.
    """
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | CLIENT_KEYS
    unknown = sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in known and not name.startswith("KEDGE_TEST_")
    )
    if unknown:
        raise SystemExit(f"unknown setting {', '.join(unknown)}: remove it, or use one of {', '.join(sorted(known))}")
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors()[0]
        raise SystemExit(f"setting {PREFIX}{str(first['loc'][0]).upper()}: {first['msg']}") from error
    if not settings.database_url and os.environ.get("DATABASE_URL"):
        settings = settings.model_copy(update={"database_url": os.environ["DATABASE_URL"]})
    if settings.database_url and not settings.database_url.startswith(("postgresql://", "postgres://")):
        raise SystemExit("setting KEDGE_DATABASE_URL (or DATABASE_URL): write postgresql://USER:PASSWORD@HOST/DATABASE")
    return settings

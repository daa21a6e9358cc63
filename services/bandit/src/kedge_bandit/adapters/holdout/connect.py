"""Connect answerers and judges by their kind, within what the operator of the gate allows."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

import httpx2

from kedge_bandit.adapters.holdout import chat, checks, core_app, script
from kedge_bandit.adapters.holdout.judge import PairwiseJudge
from kedge_bandit.application.answer_ports import AnswerFailed, FetchAnswer, Judge
from kedge_bandit.application.holdout_ports import AnswererKind, AnswererSettings, core_app_place
from kedge_bandit.domain.errors import InvalidValue
from kedge_bandit.domain.holdout import HoldoutCase
from kedge_bandit.domain.identifiers import TenantId

ANY: Final = "*"
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """What connects.

    Attributes:
        secrets: folder with one of each tenant, whose files that tenant names; only the operator writes to it.
        scripts: folder of programs that any tenant names; only the operator writes to it.
        hosts: that may be asked; "*": any.
        pauses: seconds between tries of an endpoint.
    """

    secrets: Path
    scripts: Path
    hosts: Collection[str] = ()
    pauses: tuple[float, ...] = chat.PAUSES

    @asynccontextmanager
    async def answerer(self, tenant: TenantId, settings: AnswererSettings, secret: bytes) -> AsyncIterator[FetchAnswer]:
        """Connect an answerer. Raises AnswerFailed where it may not be asked, or a secret or program is not there."""
        kind = settings.kind
        match kind:
            case AnswererKind.OPENAI:
                self.check_host(settings)
                async with chat.connected(settings, self._secret(tenant, settings), self.pauses) as connected:
                    yield chat.ChatAnswers(connected)
            case AnswererKind.CORE_APP:
                self.check_host(settings)
                async with core_app.connected(settings, self._secret(tenant, settings)) as app:
                    yield app
            case AnswererKind.SCRIPT | AnswererKind.ENVIRONMENT:
                async with script.running(settings, self.scripts, secret) as program:
                    yield program
            case AnswererKind.REPORTED:
                raise AnswerFailed("reported scores are not asked for")
            case _:
                assert_never(kind)

    @asynccontextmanager
    async def judge(self, tenant: TenantId, settings: AnswererSettings) -> AsyncIterator[Judge]:
        """Connect a judge. Raises AnswerFailed where it may not be asked, or its secret is not there."""
        self.check_host(settings)
        async with chat.connected(settings, self._secret(tenant, settings), self.pauses) as connected:
            yield PairwiseJudge(connected)

    def score(self, case: HoldoutCase, output: str) -> float:
        """Score an answer by the case's own check. Raises AnswerFailed for RUBRIC and EPISODE."""
        return checks.score(case, output)

    def check(self, case: HoldoutCase) -> None:
        """Refuse a check that cannot work. Raises InvalidValue."""
        checks.compile_check(case)

    def check_settings(self, tenant: TenantId, settings: AnswererSettings) -> None:
        """Refuse an answerer that could never be asked from here. Raises InvalidValue."""
        try:
            if settings.kind in (AnswererKind.OPENAI, AnswererKind.CORE_APP):
                self.check_host(settings)
            self._secret(tenant, settings)
        except AnswerFailed as error:
            raise InvalidValue("answerer", str(error), "one that the gate's operator allows") from error

    def check_host(self, settings: AnswererSettings) -> None:
        """Refuse a host that is not allowed: no tenant reaches into the operator's network. Raises AnswerFailed."""
        host = _host(settings)
        if ANY not in self.hosts and host not in self.hosts:
            raise AnswerFailed(f"the host {host[:80]!r} may not be asked: its operator names it in KEDGE_GATE_HOSTS")

    def _secret(self, tenant: TenantId, settings: AnswererSettings) -> str:
        if not settings.secret_name:
            return ""
        try:
            return (self.secrets / tenant / settings.secret_name).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise AnswerFailed(
                f"the secret {settings.secret_name} is not in {tenant}'s folder of the gate's secrets"
            ) from error


def _host(settings: AnswererSettings) -> str:
    """Read the host that will be dialled, by what dials it. Raises AnswerFailed."""
    if settings.kind is AnswererKind.CORE_APP:
        return core_app_place(settings.address)[0]
    try:
        address = httpx2.URL(settings.address)
    except httpx2.InvalidURL as error:
        raise AnswerFailed(f"the address {settings.address[:80]!r} is no URL") from error
    if address.scheme not in ("http", "https") or address.userinfo or not address.host:
        raise AnswerFailed(f"the address {settings.address[:80]!r} is no http(s) URL without a user's name")
    return address.host

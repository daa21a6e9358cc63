"""Sign people on by OpenID Connect: code flow with PKCE, state bound to the browser, nonce checked (RFC 6749, 7636)."""

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import structlog
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.requests import Request
from starlette.responses import Response

from kedge_bandit.adapters.console.sessions import Session
from kedge_bandit.adapters.console.visit import moved
from kedge_bandit.adapters.http_answer import AnswerTooLarge, ask
from kedge_bandit.adapters.identity.proof import MayBeNew, Tokens
from kedge_bandit.domain.errors import Unauthenticated
from kedge_bandit.domain.principal import Principal

BROWSER_COOKIE: Final = "__Host-kedge-login"
LOGIN_SECONDS: Final = 600.0
MOST_LOGINS: Final = 10_000
_SECONDS: Final = 10.0
_MOST_BYTES: Final = 1 << 18
_LEEWAY: Final = 5
_log = structlog.get_logger(__name__)


class LoginFailed(Exception):
    """Say why a sign-on did not come to its end, in a sentence for the person."""


@dataclass(frozen=True, slots=True)
class _Login:
    """A sign-on under way."""

    browser: str
    nonce: str
    verifier: str
    place: str
    begun: float


@dataclass(slots=True, kw_only=True)
class Provider:
    """One provider of sign-on.

    Attributes:
        issuer: its address; `/.well-known/openid-configuration` under it says the rest.
        client_id, client_secret: of the console there; without a secret it is a public client.
        audience: what access tokens must be meant for (RFC 8707 `resource`): the server's.
        return_address: of this console, as registered there.
        algorithms: with which it may sign.
        tokens: verifies access tokens as the server does, and reads roles from them.
        trust: authorities that its certificate is believed by; True: the system's.
    """

    issuer: str
    client_id: str
    client_secret: str
    audience: str
    return_address: str
    algorithms: tuple[str, ...]
    tokens: Tokens
    trust: Any = True
    now: Callable[[], float] = time.time
    _under_way: OrderedDict[str, _Login] = field(default_factory=OrderedDict)
    _metadata: dict[str, Any] = field(default_factory=dict)

    async def leave(self, place: str) -> Response:
        """Send the browser to the provider, to come back to `place`. Raises LoginFailed."""
        metadata = await self._discover()
        browser, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        login = _Login(browser, nonce, verifier, place, self.now())
        async with self._client() as client:
            address, state = client.create_authorization_url(
                metadata["authorization_endpoint"],
                code_verifier=login.verifier,
                nonce=login.nonce,
                resource=self.audience,
            )
        self._under_way[state] = login
        while len(self._under_way) > MOST_LOGINS:
            self._under_way.popitem(last=False)
        answer = moved(address)
        answer.set_cookie(
            BROWSER_COOKIE,
            login.browser,
            max_age=int(LOGIN_SECONDS),
            secure=True,
            httponly=True,
            samesite="lax",
            path="/",
        )
        return answer

    async def come_back(self, request: Request) -> tuple[Session, str]:
        """Take the browser back: give its session and where it wanted to go. Raises LoginFailed."""
        login = self._begun(request)
        if "error" in request.query_params:
            raise LoginFailed(f"The provider refused: {request.query_params['error'][:80]}.")
        if request.query_params.get("iss", self.issuer) != self.issuer:
            raise LoginFailed("The answer came from another provider (RFC 9207): log in again.")
        answered = await self._exchange(request.query_params.get("code", ""), login)
        subject = await self._identity(str(answered.get("id_token", "")), login.nonce)
        access = str(answered.get("access_token", ""))
        try:
            principal, until = await self._holder(access)
        except Unauthenticated as error:
            raise LoginFailed(f"The provider's access token is not taken by Kedge: {error}") from error
        if principal.person is None or principal.person.subject != subject:
            raise LoginFailed("The provider's tokens are not of one person: ask who runs it.")
        bearers = dict.fromkeys(principal.roles, access)
        return Session(person=principal.person, roles=principal.roles, bearers=bearers, until=until), login.place

    async def _holder(self, access: str) -> tuple[Principal, float]:
        """Read an access token as the server does. Raises Unauthenticated."""
        try:
            return self.tokens.verify(access)
        except MayBeNew as unknown:
            if not await unknown.may_try_again():
                raise
        return self.tokens.verify(access)

    def _begun(self, request: Request) -> _Login:
        """Find the sign-on that this browser began, once."""
        login = self._under_way.pop(request.query_params.get("state", ""), None)
        browser = request.cookies.get(BROWSER_COOKIE, "")
        if login is None or not secrets.compare_digest(login.browser, browser) or self._is_old(login):
            raise LoginFailed("This sign-on was not begun in this browser, or is over ten minutes old: log in again.")
        return login

    def _is_old(self, login: _Login) -> bool:
        return self.now() - login.begun > LOGIN_SECONDS

    async def _exchange(self, code: str, login: _Login) -> dict[str, Any]:
        metadata = await self._discover()
        async with self._client() as client:
            try:
                async with asyncio.timeout(_SECONDS):
                    answered: dict[str, Any] = await client.fetch_token(
                        metadata["token_endpoint"],
                        grant_type="authorization_code",
                        code=code,
                        code_verifier=login.verifier,
                        resource=self.audience,
                    )
            except (AuthlibBaseError, TimeoutError, httpx2.HTTPError, ValueError) as error:
                _log.warning("login.failed", step="exchange", error=type(error).__name__)
                raise LoginFailed("The provider did not take the code back: log in again.") from error
        return answered

    async def _identity(self, token: str, nonce: str) -> str:
        """Verify an ID token (OpenID Connect Core §3.1.3.7); gives its subject."""
        keys = KeySet.import_key_set(await self._get((await self._discover())["jwks_uri"]))
        registry = jwt.JWTClaimsRegistry(
            now=lambda: int(self.now()),
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = jwt.decode(token, keys, algorithms=list(self.algorithms)).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            _log.warning("login.failed", step="id_token", error=type(error).__name__)
            raise LoginFailed("The provider's ID token does not hold: log in again.") from error
        if claims.get("azp", self.client_id) != self.client_id:
            raise LoginFailed("The provider's ID token was issued to another client.")
        return str(claims["sub"])

    async def _discover(self) -> dict[str, Any]:
        if not self._metadata:
            found = await self._get(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self.issuer:
                raise LoginFailed("The provider calls itself by another name than KEDGE_JWT_ISSUER.")
            self._metadata = found
        return self._metadata

    async def _get(self, address: str) -> Any:
        try:
            async with httpx2.AsyncClient(timeout=_SECONDS, verify=self.trust) as client:
                answer = await ask(client, "GET", address, seconds=_SECONDS, most_bytes=_MOST_BYTES)
            if not answer.is_success:
                raise ValueError(f"status {answer.status}")
            return json.loads(answer.content)
        except (AnswerTooLarge, TimeoutError, httpx2.HTTPError, ValueError, RecursionError) as error:
            _log.warning("login.failed", step="discovery", error=type(error).__name__)
            raise LoginFailed("The provider of sign-on does not answer: try again in a minute.") from error

    def _client(self) -> AsyncOAuth2Client:
        return AsyncOAuth2Client(
            self.client_id,
            self.client_secret or None,
            token_endpoint_auth_method="client_secret_basic" if self.client_secret else "none",
            scope="openid",
            redirect_uri=self.return_address,
            code_challenge_method="S256",
            timeout=_SECONDS,
            verify=self.trust,
        )

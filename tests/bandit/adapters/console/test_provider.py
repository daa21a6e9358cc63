"""Sign-on refuses an ID token that is not the answer to what this browser asked."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.requests import Request

from kedge_bandit.adapters.console.provider import BROWSER_COOKIE, LoginFailed, Provider
from kedge_bandit.domain.identifiers import TenantId
from kedge_bandit.domain.principal import Person, Principal, Role

KEY, OTHER_KEY = (ECKey.generate_key("P-256", parameters={"kid": "one", "alg": "ES256", "use": "sig"}) for _ in "ab")


class Answers(BaseHTTPRequestHandler):
    """A provider that answers what a test wants."""

    documents: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer()

    def _answer(self) -> None:
        body = json.dumps(self.documents[self.path]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class AnyToken:
    """Take every access token for alice's."""

    def verify(self, token: str) -> tuple[Principal, float]:
        del token
        return Principal("", {TenantId("acme"): Role.VIEWER}, Person("i", "alice")), time.time() + 60


@pytest.fixture
def issuer() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    Answers.documents = {
        "/.well-known/openid-configuration": {
            "issuer": address,
            "authorization_endpoint": f"{address}/auth",
            "token_endpoint": f"{address}/token",
            "jwks_uri": f"{address}/jwks",
        },
        "/jwks": {"keys": [KEY.as_dict(private=False)]},
    }
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


async def signed_on(issuer: str, *, key: ECKey = KEY, algorithm: str = "ES256", **changes: Any) -> str:
    """Go to the provider and come back with an ID token that has some claims changed; gives who is logged in."""
    provider = Provider(
        issuer=issuer,
        client_id="console",
        client_secret="secret",
        audience="https://kedge.example",
        return_address="http://127.0.0.1:1/login/return",
        algorithms=("ES256",),
        tokens=AnyToken(),
    )
    leaving = await provider.leave("/")
    [(state, login)] = provider._under_way.items()
    claims = {"iss": issuer, "aud": "console", "sub": "alice", "exp": int(time.time()) + 60, "nonce": login.nonce}
    token = jwt.encode({"alg": algorithm, "kid": "one"}, {**claims, **changes}, key, algorithms=[algorithm])
    Answers.documents["/token"] = {"access_token": "a.b.c", "token_type": "Bearer", "id_token": token}
    assert "code_challenge=" in leaving.headers["location"]
    cookie = f"{BROWSER_COOKIE}={login.browser}".encode()
    scope = {"type": "http", "query_string": f"code=x&state={state}".encode(), "headers": [(b"cookie", cookie)]}
    session, _ = await provider.come_back(Request(scope))
    return session.label


async def test_the_answer_to_what_was_asked_logs_in(issuer: str) -> None:
    assert await signed_on(issuer) == "alice"


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"aud": "another-client"},
        {"iss": "https://another.example"},
        {"exp": 1},
        {"sub": "bob"},
        {"azp": "another-client"},
        {"key": OTHER_KEY},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_any_other_answer_is_refused(issuer: str, changes: dict[str, Any]) -> None:
    with pytest.raises(LoginFailed):
        await signed_on(issuer, **changes)

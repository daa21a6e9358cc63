"""An issuer's keys come from where was said, are asked for seldom, and are strong enough."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kedge_bandit.adapters.identity.bearer import Bearer
from kedge_bandit.adapters.identity.key_source import KeySource, KeysRefused, keys_of
from kedge_bandit.adapters.identity.proof import CredentialUnknown
from kedge_bandit.domain.identity import ClaimRules
from tests.trust.authorities import Authority, Issuer, new_key


@contextmanager
def https_address(issuer: Issuer, folder: Path) -> Iterator[tuple[str, list[str], ssl.SSLContext]]:
    """Give out an issuer's keys over https; gives the address, what was asked, and whom to believe."""
    authority, asked = Authority("ours"), list[str]()

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            is_moved = self.path == "/moved"
            self.send_response(302 if is_moved else 200)
            self.send_header("location", "/jwks.json")
            self.end_headers()
            self.wfile.write(b"" if is_moved else (folder / "jwks.json").read_bytes())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    issuer.write(folder / "jwks.json")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server().write(folder, "issuer"))
    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            trust = ssl.create_default_context(cadata=authority.certificate.decode())
            yield f"https://localhost:{server.server_port}", asked, trust
        finally:
            server.shutdown()
            thread.join()


async def test_an_address_is_asked_once_for_all_tokens_that_name_unknown_keys(tmp_path: Path) -> None:
    issuer = Issuer()
    with https_address(issuer, tmp_path) as (address, asked, trust):
        source = KeySource(f"{address}/jwks.json", trust)
        bearer = Bearer(
            keys=source,
            issuer=issuer.name,
            audience=issuer.audience,
            algorithms=("ES256",),
            rules=ClaimRules(),
            now=time.time,
        )
        with pytest.raises(CredentialUnknown) as unknown:
            bearer.verify(issuer.token("alice", "viewer"))
        assert await unknown.value.may_try_again()
        assert bearer.verify(issuer.token("alice", "viewer"))[0].roles
        for number in range(50):
            with pytest.raises(CredentialUnknown) as unknown:
                bearer.verify(issuer.sign(issuer.claims("mallory", "viewer"), key=new_key(f"x{number}")))
            assert not await unknown.value.may_try_again()
        assert asked == ["/jwks.json"]


async def test_keys_come_from_where_was_said_and_from_whom_is_believed(tmp_path: Path) -> None:
    issuer = Issuer()
    with https_address(issuer, tmp_path) as (address, asked, trust):
        moved, stranger = KeySource(f"{address}/moved", trust), KeySource(f"{address}/jwks.json")
        for source in (moved, stranger):
            await source.renew()
            assert source.find("k1") is None
    assert asked == ["/moved"]


def test_keys_that_are_too_weak_or_for_something_else_are_left_out() -> None:
    good, encrypting = new_key("good").as_dict(private=False), {**new_key("e").as_dict(private=False), "use": "enc"}
    shared = {"kty": "oct", "kid": "s", "k": "c2VjcmV0"}
    short = {"kty": "RSA", "kid": "short", "n": "A" * 171, "e": "AQAB"}
    document = json.dumps({"keys": [good, encrypting, shared, short, {"kty": "EC"}, "junk"]}).encode()
    assert set(keys_of(document)) == {"good"}
    for nothing in (json.dumps({"keys": [shared]}).encode(), b"[" * 3000, b"\xff", b"[]"):
        with pytest.raises(KeysRefused):
            keys_of(nothing)

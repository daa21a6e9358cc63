"""Verify a bearer token: signed by a known key, for this service, valid now (RFC 7519, RFC 8725)."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import ClaimError, JoseError
from joserfc.jws import JWSRegistry

from kedge_bandit.adapters.identity.key_source import KeySource
from kedge_bandit.adapters.identity.proof import CredentialUnknown
from kedge_bandit.domain.errors import Unauthenticated
from kedge_bandit.domain.identity import ClaimRules, token_holder
from kedge_bandit.domain.principal import Principal

ALGORITHMS: Final = (
    *("ES256", "ES384", "ES512", "Ed25519"),
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
)
"""What may be allowed: signatures by a private key. `none` and HMAC never are."""
MAX_TOKEN_CHARACTERS: Final = 8192
LEEWAY_SECONDS: Final = 5
"""How far clocks may differ (ADR 0017)."""
LONGEST_SECONDS: Final = 86_400
"""A token cannot be revoked, so it may not be good for longer."""
_TYPES: Final = ("JWT", "at+jwt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Verify tokens of one issuer.

    Attributes:
        algorithms: the only ones allowed.
        audience: what a token must be meant for.
        now: seconds since the Unix epoch.
    """

    keys: KeySource
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    rules: ClaimRules
    now: Callable[[], float]

    def verify(self, token: str) -> tuple[Principal, float]:
        """Give a token's principal, and until when it is good, in seconds since the Unix epoch.

        Raises:
            CredentialUnknown: it names a key that is not known.
            Unauthenticated: it is not good; the message says what is wrong with it.
        """
        header = _header(token)
        if header.get("alg") not in self.algorithms:
            raise Unauthenticated(f"the token's algorithm is not allowed: sign with {', '.join(self.algorithms)}")
        key_id = header.get("kid")
        key = self.keys.find(key_id) if key_id is None or isinstance(key_id, str) else None
        if key is None:
            problem = "the token is signed with a key that is not in the key set: get a new one"
            raise CredentialUnknown(problem, self.keys.look)
        registry = JWSRegistry(algorithms=self.algorithms, strict_check_header=False)
        try:
            claims = jwt.decode(token, key, registry=registry).claims
            self._registry().validate(claims)
        except ClaimError as error:
            raise Unauthenticated(f"the token's claim {error.claim} is refused: {_why(error)}") from error
        except (JoseError, ValueError, RecursionError) as error:
            raise Unauthenticated("the token's signature does not hold") from error
        if "cnf" in claims:
            raise Unauthenticated("the token is bound to a key of its holder (cnf), which is not checked here")
        until = float(min(claims["exp"], 1 << 40)) + LEEWAY_SECONDS
        if until > self.now() + LONGEST_SECONDS + 2 * LEEWAY_SECONDS:
            raise Unauthenticated("the token is good for over a day: have it issued for less")
        return token_holder(claims, self.rules), until

    def _registry(self) -> jwt.JWTClaimsRegistry:
        return jwt.JWTClaimsRegistry(
            now=lambda: int(self.now()),
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self.issuer},
            aud={"essential": True, "value": self.audience},
            exp={"essential": True},
            sub={"essential": True},
        )


def _why(error: ClaimError) -> str:
    return {
        "exp": "it has expired, or there is none",
        "nbf": "it is not valid yet",
        "iat": "it was issued in the future",
    }.get(error.claim, "it is missing or another one")


def _header(token: str) -> dict[str, Any]:
    """Read the header of a token, which nothing has verified yet. Raises Unauthenticated."""
    if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii() or token.count(".") != 2:
        raise Unauthenticated(f"this is neither an API key nor a signed token of at most {MAX_TOKEN_CHARACTERS} bytes")
    part = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError) as error:  # RecursionError: of thousands of brackets in each other
        raise Unauthenticated("the token's header is not JSON") from error
    if not isinstance(header, dict):
        raise Unauthenticated("the token's header is no JSON object")
    if "crit" in header or "b64" in header:
        raise Unauthenticated("the token's header asks for an extension (crit), and none is understood here")
    if header.get("typ", "JWT") not in _TYPES:
        raise Unauthenticated("the token is of another type than JWT or at+jwt")
    return header

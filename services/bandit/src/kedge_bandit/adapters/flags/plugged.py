"""Plug a flag provider in: flagd's file, any OFREP server, Unleash. Its package is imported when it is chosen."""

from importlib import import_module
from typing import Any

from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.provider import FeatureProvider

DOMAIN = "kedge"
KINDS = ("flagd", "ofrep", "unleash")
TIMEOUT_SECONDS = 2.0


def client_of(provider: FeatureProvider) -> OpenFeatureClient:
    """Give a provider to OpenFeature, which starts it in a thread of its own; answers the client to ask."""
    api.set_provider(provider, domain=DOMAIN)
    return api.get_client(domain=DOMAIN)


def provider_of(chosen: str, token: str) -> FeatureProvider:
    """Make the provider that a setting names.

    Args:
        chosen: `flagd:PATH` (a flagd file, JSON or YAML), `ofrep:URL` or `unleash:URL`.
        token: secret of an OFREP server (sent as bearer token) or of Unleash; empty: none.

    Raises:
        SystemExit: the kind is unknown, or its package is not installed; the message says what to do.
    """
    kind, _, place = chosen.partition(":")
    if kind not in KINDS or not place:
        raise SystemExit(f"setting KEDGE_FLAG_PROVIDER: {chosen!r} is not one of flagd:PATH, ofrep:URL, unleash:URL")
    package: Any = _package(kind)
    made: FeatureProvider
    if kind == "flagd":
        made = package.FlagdProvider(
            resolver_type=import_module(f"{package.__name__}.config").ResolverType.FILE, offline_flag_source_path=place
        )
    elif kind == "ofrep":
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        made = package.OFREPProvider(place, headers_factory=lambda: headers, timeout=TIMEOUT_SECONDS)
    else:
        made = package.UnleashProvider(url=place, app_name="kedge", api_token=token)
    return made


def _package(kind: str) -> Any:
    name = f"openfeature.contrib.provider.{kind}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"setting KEDGE_FLAG_PROVIDER: {error.name} is missing; install openfeature-provider-{kind}"
        ) from error

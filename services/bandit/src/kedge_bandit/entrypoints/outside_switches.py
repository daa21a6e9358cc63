"""Wire what restricts a process from outside the database: file, environment, a flag provider."""

from prometheus_client import CollectorRegistry

from kedge_bandit.adapters.flags.override import Overrides
from kedge_bandit.adapters.flags.plugged import client_of, provider_of
from kedge_bandit.adapters.flags.watch import FlagWatch
from kedge_bandit.adapters.telemetry import FlagCollector
from kedge_bandit.entrypoints.settings import Settings


def flag_watch(settings: Settings, registry: CollectorRegistry) -> FlagWatch | None:
    """Plug the flag provider in that the settings name; None without one. Raises SystemExit for one that cannot be."""
    if not settings.flag_provider:
        return None
    provider = provider_of(settings.flag_provider, settings.flag_provider_token)
    watch = FlagWatch(client_of(provider))
    registry.register(FlagCollector(lambda: watch.silent))
    return watch


def overrides(settings: Settings, flags: FlagWatch | None) -> Overrides:
    """Make what restricts this process from outside the database."""
    return Overrides(environment=settings.mode_override, file=settings.data_dir / "mode_override", flags=flags)

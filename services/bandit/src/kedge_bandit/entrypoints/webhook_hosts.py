"""Say where webhooks may go, by the settings."""

from kedge_bandit.application.webhooks import Allowed
from kedge_bandit.entrypoints.settings import Profile, Settings


def allowed_of(settings: Settings) -> Allowed:
    """Allow the hosts that the operator named, and this machine in the demo profile.

    >>> allowed_of(Settings(webhook_hosts="hooks.example, chat.example"))
    Allowed(hosts=('hooks.example', 'chat.example'), loopback=True)
    """
    hosts = tuple(host.strip() for host in settings.webhook_hosts.split(",") if host.strip())
    return Allowed(hosts, loopback=settings.profile is Profile.DEMO)

"""Play audits in tests: a base call by number, by hand or by a policy."""

from collections.abc import Mapping

from call_audit_env.baselines import PRIVILEGED, policy, privileged
from call_audit_env.episode import Episode, Turn
from call_audit_env.scenarios import Profile, base


def audit(number: int, profile: Profile = Profile.V2) -> Episode:
    """Open an audit of a base call."""
    return Episode("base", base(number), profile=profile)


def played(name: str, number: int, profile: Profile = Profile.V2) -> Episode:
    """Let a policy audit a base call."""
    episode = audit(number, profile)
    player = privileged(name, episode.world.call) if name in PRIVILEGED else policy(name, "base", number)
    while not episode.over:
        episode.step(player(episode.observe()))
    return episode


def play(episode: Episode, *actions: Mapping[str, object]) -> list[Turn]:
    """Play actions in turn."""
    return [episode.step(action) for action in actions]


def result(episode: Episode) -> Mapping[str, object]:
    """Give what the last tool gave."""
    return episode.observe()["result"]

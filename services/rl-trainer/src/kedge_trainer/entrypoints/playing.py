"""Step through an episode in the terminal: a person types actions, or a policy plays and is watched."""

import json
from collections.abc import Callable, Mapping

from kedge_trainer.application.ports import Ground, Json
from kedge_trainer.domain.errors import UnknownPolicy
from kedge_trainer.entrypoints.show import out

LEAVE = "quit"


def play_in_terminal(ground: Ground, task: str, seed: int, policy: str | None) -> None:
    """Show, ask, step, until the episode is over, then its metrics; or until the person leaves.

    Raises:
        UnknownPolicy: the environment has none of that name.
    """
    if policy is not None and policy not in ground.POLICIES:
        raise UnknownPolicy(policy, ground.POLICIES)
    choose: Callable[[Json], Json | None] = ground.policy(policy, task, seed) if policy else lambda _: _asked(ground)
    episode, over = ground.start(task, seed), False
    out.print(ground.instructions(task), markup=False, highlight=False)
    if policy is None:
        out.print(f"\nType an action, or {LEAVE} to leave; so does the end of input (Ctrl-D).", highlight=False)
    while not over:
        observation = episode.observe()
        out.print("\n" + ground.render(observation), markup=False, highlight=False)
        action = choose(observation)
        if action is None:
            out.print("\nleft before the end")
            return
        turn = episode.step(action)
        over = turn.terminated or turn.truncated
        out.print(f"> {json.dumps(dict(action))}   reward {turn.reward:+.3f}", markup=False, highlight=False)
    _print_end(episode.metrics())


def _asked(ground: Ground) -> Json | None:
    """Read an action, however often Enter alone is hit; None says that the person leaves."""
    typed = ""
    try:
        while not typed:
            typed = out.input("action: ").strip()
    except EOFError:
        return None
    return None if typed == LEAVE else ground.parse(typed)


def _print_end(metrics: Mapping[str, float]) -> None:
    line = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    out.print("\n" + line, highlight=False, soft_wrap=True)

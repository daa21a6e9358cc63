"""Play relocation cases by their spelled actions."""

from collections.abc import Iterable

from relocation_env.episode import Episode, Turn
from relocation_env.features import read
from relocation_env.ground import policy, start
from relocation_env.scenarios import NAMED


def played(task: str, *spelled: str, seed: int = 0) -> tuple[Episode, list[Turn]]:
    """Play actions written as `verb:target`."""
    episode = start(task, seed)
    return episode, [episode.step(read(one)) for one in spelled]


def play_out(task: str, name: str, seed: int = 0) -> tuple[Episode, Turn]:
    """Let a baseline play an episode to its end."""
    episode, player = start(task, seed), policy(name, task, seed)
    while True:
        turn = episode.step(player(episode.observe()))
        if episode.over:
            return episode, turn


def papers(*names: str) -> Iterable[str]:
    """Spell what gets documents verified."""
    return [f"{verb}:{name}" for name in names for verb in ("request_document", "verify_document")]


def solved(task: str, *, without: tuple[str, ...] = ()) -> list[str]:
    """Spell a solution of a named case, in the order of its parts, some actions left out."""
    case = NAMED[task]
    departments = [f"approve_{name.casefold()}" for name in ("HR", "Legal", "Finance") if name in case.departments]
    items = [f"set_{item}" for item in ("payroll", "tax_id", "pdpa", "shadow_payroll") if item in case.items]
    conflict = ["resolve_conflict"] if case.conflict else []
    everything = [*papers(*case.documents), *items, *conflict, *departments, "finalize_case"]
    return [one for one in everything if one not in without]

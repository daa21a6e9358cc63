"""Play briefs in tests: routes by the words of their moves."""

from brief_routing_env.episode import Episode, Turn
from brief_routing_env.scenarios import case_of, lies
from brief_routing_env.tasks import AUDIT, TASKS

DEV = 1_000_000
EVERYBODY = ("analyst", "finance", "strategy", "hr")
CLOSE = ("summarize", "submit")


def action(words: str) -> dict[str, object]:
    """Read `analyst`, `ask finance reconcile_revenue`, `summarize`: an expert's name alone consults it."""
    verb, *rest = words.split()
    if verb == "ask":
        return {"action_type": "ask", "expert_id": rest[0], "sub_question_id": rest[1]}
    if verb in EVERYBODY:
        return {"action_type": "consult", "expert_id": verb}
    return {"action_type": verb}


def played(task: str, *moves: str, seed: int = DEV, **switched: object) -> tuple[Episode, list[Turn]]:
    """Play moves in order."""
    episode = Episode(case_of(task, seed, **switched))
    return episode, [episode.step(action(words)) for words in moves]


def graded(task: str, *moves: str, seed: int = DEV, **switched: object) -> float:
    """Play moves, submit, and give the grade."""
    episode, _ = played(task, *moves, seed=seed, **switched)
    return episode.step(action("submit")).grade or 0.0


def honest_or_not(*, lied: bool) -> int:
    """Find a dev seed whose analyst lies in the audit, or does not."""
    return next(seed for seed in range(DEV, DEV + 100) if lies(TASKS[AUDIT], seed) == lied)

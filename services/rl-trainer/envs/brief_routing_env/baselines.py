"""Players to compare with: from random to the one that knows who lies."""

from collections.abc import Callable, Mapping
from itertools import chain, cycle, repeat
from types import MappingProxyType
from typing import Final, cast

import numpy as np

from brief_routing_env.actions import spell
from brief_routing_env.checkpoint import INPUTS, shipped
from brief_routing_env.features import MOVES, features, numbered
from brief_routing_env.network import Network, forward, sample
from brief_routing_env.refine import GAP
from brief_routing_env.scenarios import Profile, lies, read_name
from brief_routing_env.tasks import AUDIT, EXPERTS, QUESTIONS, TASKS, Expert, Task
from brief_routing_env.view import View
from brief_routing_env.world import Move, Verb

Player = Callable[[Mapping[str, object]], Mapping[str, object]]
POLICIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "random": "any of the 11 actions; an ask takes any of its expert's questions",
        "naive": "consults the analyst, summarizes, submits",
        "round_robin": "consults finance, analyst, HR and strategy, summarizes, submits",
        "trusting": "consults whom the task requires in order, summarizes, submits",
        "validating": "as trusting, and in the audit has finance reconcile and confronts the analyst with a gap",
        "trained": "small network trained by REINFORCE, one for each profile; the likeliest action",
        "oracle": "knows whether the analyst lies: the documented maximum",
        "empty": "sends an empty object for ever",
        "repeat": "consults the analyst for ever",
        "submitter": "submits at once",
        "summarizer": "consults the analyst, then summarizes for ever",
        "asker": "consults the analyst, then asks it in turn for ever",
        "strategist": "consults strategy for ever",
    }
)
ORACLE: Final = "oracle"
PRIVILEGED: Final = frozenset({ORACLE})
PLAYER_STREAM: Final = 23
"""Keeps a player's own chance apart from everything else that a seed keys."""

ROUND: Final = (Expert.FINANCE, Expert.ANALYST, Expert.HR, Expert.STRATEGY)
RECONCILE: Final = Move(Verb.ASK, Expert.FINANCE, "reconcile_revenue")
CONFRONT: Final = Move(Verb.ASK, Expert.ANALYST, "recheck_duplicates")
END: Final = (Move(Verb.SUMMARIZE), Move(Verb.SUBMIT))


def policy(name: str, task: str, seed: int) -> Player:
    """Make a fresh player of one episode.

    Raises:
        KeyError: There is no such policy or task.
        CheckpointMissing: The trained network is not there.
    """
    known, switches = read_name(task)
    rng = np.random.default_rng([seed, PLAYER_STREAM])
    analyst = Move(Verb.CONSULT, Expert.ANALYST)
    makers: Mapping[str, Callable[[], Player]] = {
        "random": lambda: lambda _: spell(_any(rng)),
        "naive": lambda: script(analyst, *END),
        "round_robin": lambda: script(*consults(ROUND), *END),
        "trusting": lambda: script(*consults(known.required), *END),
        "validating": lambda: _validate,
        "trained": lambda: network_player(shipped(switches.profile), switches.profile),
        "oracle": lambda: script(*route(known, lied=lies(known, seed) and switches.profile is Profile.V2)),
        "empty": lambda: lambda _: {},
        "repeat": lambda: lambda _: spell(analyst),
        "submitter": lambda: lambda _: spell(Move(Verb.SUBMIT)),
        "summarizer": lambda: script(analyst, *repeat(Move(Verb.SUMMARIZE), 99)),
        "asker": lambda: _asker(analyst),
        "strategist": lambda: lambda _: spell(Move(Verb.CONSULT, Expert.STRATEGY)),
    }
    return makers[name]()


def script(*moves: Move) -> Player:
    """Play a list, then submit."""
    left = chain(moves, repeat(Move(Verb.SUBMIT)))
    return lambda _: spell(next(left))


def consults(experts: tuple[Expert, ...]) -> tuple[Move, ...]:
    """Consult experts one after the other."""
    return tuple(Move(Verb.CONSULT, expert) for expert in experts)


def route(task: Task, *, lied: bool) -> tuple[Move, ...]:
    """Give the shortest route to a right brief; a lie is exposed and corrected before anything is built on it.

    >>> len(route(TASKS[AUDIT], lied=False)), len(route(TASKS[AUDIT], lied=True))
    (6, 9)
    """
    first, rest = consults(task.required[:2]), consults(task.required[2:])
    finding_out = (RECONCILE, CONFRONT, first[1]) if lied else ()
    return (*first, *finding_out, *rest, *END)


def _any(rng: np.random.Generator) -> Move:
    move = MOVES[int(rng.integers(len(MOVES)))]
    if move.verb is not Verb.ASK or move.expert is None:
        return move
    asked = QUESTIONS[move.expert]
    return Move(move.verb, move.expert, asked[int(rng.integers(len(asked)))])


def _asker(analyst: Move) -> Player:
    questions = cycle(Move(Verb.ASK, Expert.ANALYST, question) for question in QUESTIONS[Expert.ANALYST])
    moves = chain([analyst], questions)
    return lambda _: spell(next(moves))


def _validate(observation: Mapping[str, object]) -> Mapping[str, object]:
    """Go on with whatever is still missing; in the audit trust no total that finance has not reconciled."""
    seen = cast("View", observation)
    task, reports = TASKS[seen["task_name"]], seen["expert_reports"]
    missing = [expert for expert in EXPERTS if expert in task.required and expert not in reports]
    if task.name == AUDIT and Expert.FINANCE in reports:
        answered = cast("Mapping[str, str]", reports[Expert.FINANCE]["sections"])
        if f"{Expert.FINANCE}: {GAP}" in seen["issues"]:
            corrected = "recheck_duplicates" in cast("Mapping[str, str]", reports[Expert.ANALYST]["sections"])
            return spell(Move(Verb.CONSULT, Expert.FINANCE) if corrected else CONFRONT)
        if not answered and "recheck_duplicates" not in cast("Mapping[str, str]", reports[Expert.ANALYST]["sections"]):
            return spell(RECONCILE)
    if missing:
        return spell(Move(Verb.CONSULT, missing[0]))
    return spell(END[1] if seen["current_brief"] else END[0])


def network_player(network: Network, profile: Profile, rng: np.random.Generator | None = None) -> Player:
    """Play with a network: the likeliest action, or with `rng` one drawn by its odds."""
    inputs = list(INPUTS[profile])

    def play(observation: Mapping[str, object]) -> Mapping[str, object]:
        logs = forward(network, features(observation)[inputs][None, :].astype(np.float64)).logs
        choice = int(logs[0].argmax()) if rng is None else int(sample(logs, rng)[0])
        return numbered(choice, observation)

    return play

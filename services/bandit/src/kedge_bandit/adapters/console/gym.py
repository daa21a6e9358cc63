"""The Gym: up to three policies play one episode side by side, and a person steps through what each saw and did."""

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from kedge_bandit.adapters.console.gym_wire import GymRefused
from kedge_bandit.adapters.console.visit import Visit

MOST: Final = 3
"""Policies side by side."""

FIRST_SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "brief_routing_env": ("hard_brief", "naive", "round_robin", "trained"),
    "call_audit_env": ("hard", "auditor", "oracle", "brute_force"),
    "fleet_oversight_env": ("nexacrm_hard", "flag_heuristic", "learned", "clairvoyant"),
    "relocation_env": ("crisis", "memoriser", "reader", "oracle"),
}
"""What is worth a first look: a task and its players; of any other, the first task, `random` and the oracle."""

TITLES: Final[Mapping[str, str]] = {
    "brief_routing_env": "Brief",
    "call_audit_env": "Call audit",
    "fleet_oversight_env": "Fleet",
    "relocation_env": "Relocation",
}
MODES: Final[Mapping[str, str]] = {
    "rag": "Memory: experts look the house's rules up (RAG)",
    "compat": "Published rules and grader",
    "blind": "Blind: no list of what is needed",
}
HEALTHY: Final = "healthy"
"""A verdict of the fleet that needs no word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What somebody wants to see.

    Attributes:
        offer: the environment, as the Gym describes it.
        on: modes and switches that are on.
    """

    offer: Any
    task: str
    seed: str
    policies: tuple[str, ...]
    on: frozenset[str]
    step: int

    def place(self, step: int) -> str:
        """Give the address of a step."""
        query = [("environment", self.offer["name"]), ("task", self.task), ("seed", self.seed)]
        query += [("policy", one) for one in self.policies] + [("on", one) for one in sorted(self.on)]
        return "/gym?" + urlencode([*query, ("set", "1"), ("step", str(step))])

    def query(self, policy: str) -> list[tuple[str, str]]:
        """Spell what is asked of the Gym."""
        asked = {"environment": self.offer["name"], "task": self.task, "seed": self.seed, "policy": policy}
        return [*asked.items(), ("step", str(self.step)), *(("on", one) for one in sorted(self.on))]

    def cli(self, policy: str, full_name: str) -> str:
        """Spell the command that plays the same episode; empty where a switch is off, which it does not know."""
        if self.offer["switches"].keys() - self.on:
            return ""
        words = ("kedge-trainer", "envs", "play", self.offer["name"], "--task", full_name, "--seed", self.seed)
        return shlex.join([*words, "--split", self.offer["split"], "--policy", policy])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One policy's episode at the step that is looked at; `episode` is None where it was refused, with why."""

    policy: str
    about: str
    privileged: bool
    episode: Any
    refusal: str = ""

    @property
    def length(self) -> int:
        """How many steps the episode has."""
        return len(self.episode["steps"]) if self.episode else 0

    @property
    def is_over(self) -> bool:
        """Whether the end is what is looked at."""
        return bool(self.episode) and self.episode["at"] == self.length

    @property
    def done(self) -> list[Any]:
        """The steps so far."""
        return list(self.episode["steps"][: self.episode["at"]])

    @property
    def earned(self) -> float:
        """Rewards so far."""
        return float(sum(step["reward"] for step in self.done))


async def show(visit: Visit) -> Response:
    """Show what can be chosen, and, once something is, its episodes at a step."""
    try:
        offers = await visit.backend.gym.offered()
    except GymRefused as error:
        return visit.show("gym.html", section="gym", offers=[], titles=TITLES, sentence=str(error), choice=None)
    chosen = visit.asked("environment")
    offer = next((one for one in offers if one["name"] == chosen), offers[0])
    choice = chosen_by(visit, offer)
    lanes = await asyncio.gather(*(_lane(visit, choice, policy) for policy in choice.policies))
    longest = max((lane.length for lane in lanes), default=0)
    return visit.show(
        "gym.html",
        section="gym",
        offers=offers,
        titles=TITLES,
        modes=MODES,
        most=MOST,
        choice=choice,
        lanes=lanes,
        longest=longest,
        at=min(choice.step, longest),
        spell=spell,
    )


def chosen_by(visit: Visit, offer: Any) -> Choice:
    """Read the choice from the address; where nothing was set, what is worth a first look."""
    task, *players = FIRST_SHOWN.get(offer["name"], (next(iter(offer["tasks"])), "random", offer["oracle"]))
    asked = visit.request.query_params
    is_set = asked.get("set") == "1"
    policies = [one for one in dict.fromkeys(asked.getlist("policy")) if one in offer["policies"]]
    known = {*offer["modes"], *offer["switches"]}
    return Choice(
        offer=offer,
        task=visit.asked("task") if visit.asked("task") in offer["tasks"] else task,
        seed=_number(visit.asked("seed"), offer["seeds"] - 1),
        policies=tuple(policies[:MOST]) or tuple(players),
        on=frozenset(known.intersection(asked.getlist("on")) if is_set else offer["switches"]),
        step=int(_number(visit.asked("step"), 10_000)),
    )


def _number(text: str, most: int) -> str:
    """Read a number from 0 up; anything else is 0."""
    return str(min(int(text), most)) if text.isascii() and text.isdigit() and len(text) < 10 else "0"


async def _lane(visit: Visit, choice: Choice, policy: str) -> Lane:
    episode, refusal = None, ""
    try:
        episode = await visit.backend.gym.episode(choice.query(policy))
    except GymRefused as error:
        refusal = str(error)
    return Lane(
        policy=policy,
        about=choice.offer["policies"][policy],
        privileged=policy in choice.offer["privileged"],
        episode=episode,
        refusal=refusal,
    )


def spell(action: Mapping[str, object]) -> str:
    """Say an action as a short call.

    >>> spell({"action_type": "consult", "expert_id": "finance", "note": None})
    'consult finance'
    >>> spell({"action_type": "read_transcript_chunk", "start_turn": 0, "end_turn": 4})
    'read transcript chunk 0 to 4'
    >>> spell({"action_type": "allocate", "allocation": {"worker_1": {"top_k": 5}}}), spell({})
    ('allocate worker 1', 'an empty action')
    >>> report = {"worker_1": {"verdict": "stall"}, "worker_2": {"verdict": "healthy"}}
    >>> spell({"action_type": "submit_audit", "report": report})
    'submit audit worker 1: stall'
    """
    words = str(action.get("action_type", "")).replace("_", " ")
    if "start_turn" in action:
        return f"{words} {action['start_turn']} to {action.get('end_turn')}"
    details = [_detail(value) for key, value in action.items() if key != "action_type" and value not in (None, "", {})]
    return " ".join([words, *details])[:200] or "an empty action"


def _detail(value: object) -> str:
    if isinstance(value, dict):
        verdicts = {key: one["verdict"] for key, one in value.items() if isinstance(one, dict) and "verdict" in one}
        found = [f"{key}: {one}" for key, one in verdicts.items() if one != HEALTHY] if verdicts else [*value]
        return ", ".join(found).replace("_", " ") or f"all {HEALTHY}"
    return {True: "pass", False: "fail"}[value] if isinstance(value, bool) else str(value).replace("_", " ")

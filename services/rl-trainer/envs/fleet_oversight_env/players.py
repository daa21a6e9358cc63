"""Every player by name, as a player of JSON for one episode."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from fleet_oversight_env.baselines import CORNERS, clairvoyant, flag_player, random_player, window_player
from fleet_oversight_env.believers import believer
from fleet_oversight_env.checkpoint import shipped
from fleet_oversight_env.laws import CRM, FLEET, Domain
from fleet_oversight_env.learned import learned
from fleet_oversight_env.planning import Profile, all_configs
from fleet_oversight_env.scenarios import TASKS
from fleet_oversight_env.seat import Policy, Seat
from fleet_oversight_env.starts import Plan, Planner, optimal_plan, starts
from fleet_oversight_env.view import Maker

POLICIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "random": "uniform over kinds of move, workers, verdicts and configurations",
        "flag_heuristic": "intervenes on whatever is flagged while it can pay",
        "window_rules": "adds up hand-written points and alarms above a line",
        "memoryless_filter": "exact posterior of the current view alone",
        "belief_filter": "exact posterior of all that was seen, under the laws of the task's domain",
        "crm_belief_filter": "the same under CRM's laws, whatever the domain",
        "learned": "small network trained on CRM by policy gradient",
        "clairvoyant": "knows what is hidden: the documented maximum",
        "submit_at_once": "submits an empty audit at the first step",
        "hold_five": "approves all five, then submits",
        "monitor_in_turn": "monitors round robin",
        "intervene_in_turn": "intervenes round robin",
        "escalate_five": "escalates all five, then submits",
        "wait_and_submit": "waits to the end, then submits",
        "repeat": "monitors the first worker at every step",
        "empty": "sends an empty action at every step",
    }
)
POLICY_STREAM: Final = 17
"""Keeps a player's own chance apart from everything else that a seed keys."""
PRIVILEGED: Final = frozenset({"clairvoyant"})


def random_planner(rng: np.random.Generator) -> Planner:
    """Make a planner that picks any configuration for every worker; what the worker cannot carry is not set."""
    choices = list(all_configs())

    def plan(_: Profile) -> Plan:
        return [choices[place] for place in rng.integers(0, len(choices), FLEET)]

    return plan


def maker(name: str, domain: Domain) -> Maker:
    """Give the array player of this name.

    Args:
        domain: Whose laws a belief filter assumes.

    Raises:
        KeyError: There is no such player that plays from views alone.
    """
    if name == "learned":
        return learned(shipped())
    fixed = {"random": random_player, "flag_heuristic": flag_player, "window_rules": window_player, **CORNERS}
    filters = {
        "memoryless_filter": (domain, False),
        "belief_filter": (domain, True),
        "crm_belief_filter": (CRM, True),
    }
    if name in filters:
        laws, memory = filters[name]
        return believer(laws, memory=memory)
    return fixed[name]


def policy(name: str, task: str, seed: int) -> Policy:
    """Make a fresh player of one episode; its own chance is keyed by the seed, apart from the episode's.

    Raises:
        KeyError: There is no such player.
    """
    if name == "empty":
        return lambda _: {}
    rng = np.random.default_rng([seed, POLICY_STREAM])
    if name == "clairvoyant":
        known = starts(task, [seed])
        return Seat(optimal_plan, lambda opening, _: clairvoyant(known), rng)
    planner = random_planner(rng) if name == "random" else optimal_plan
    return Seat(planner, maker(name, TASKS[task].domain), rng)

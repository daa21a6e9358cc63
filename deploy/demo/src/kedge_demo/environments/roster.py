"""Say who plays what: the tasks of a stream, the players to route between, and what each does in each environment.

A route is a player that is good at one environment and does what a stranger would in the others. `rusher` is quick and
mostly good, and breaks rules in three of the four; by grades alone it is the best single player. Every policy is one
that an environment ships and that sees what a player may see, but for the rusher's at calls, which knows a breach when
it sees it and overdraws the budget all the same. What depth means is the environment's own matter:

| environment | lean | deep |
|---|---|---|
| brief_routing_env | without memory | with it (RAG) |
| call_audit_env | the opening, or nothing | the whole call |
| fleet_oversight_env | no probe | six to eleven probes an episode |
| relocation_env | the same | the same, at twice the price |
"""

from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Final

from kedge.bandit.v1 import policy_pb2 as policies
from kedge_demo.arms import DemoAction, DemoArm

BRIEFS, CALLS, FLEET, CASES = "brief_routing_env", "call_audit_env", "fleet_oversight_env", "relocation_env"
BASELINE: Final = "generalist + lean"
BREAKER: Final = "rusher"
DEEP: Final = "deep"


@dataclass(frozen=True, slots=True)
class Task:
    """Name an environment's task; `label` is the value of the policy's one feature."""

    environment: str
    name: str

    @property
    def label(self) -> str:
        """Join the two for people and for the feature.

        >>> Task(CALLS, "hard").label
        'call_audit/hard'
        """
        return f"{self.environment.removesuffix('_env')}/{self.name}"


TASKS: Final = (
    Task(BRIEFS, "hard_brief"),
    Task(BRIEFS, "audit_brief"),
    Task(CALLS, "easy"),
    Task(CALLS, "hard"),
    Task(FLEET, "nexacrm_easy"),
    Task(FLEET, "nexacrm_hard"),
    Task(CASES, "generated"),
    Task(CASES, "crisis"),
)

PLAYERS: Final = MappingProxyType(
    {
        "generalist": {
            BRIEFS: ("round_robin", "round_robin"),
            CALLS: ("opening_check", "read_then_six"),
            FLEET: ("flag_heuristic", "memoryless_filter"),
            CASES: ("reader", "reader"),
        },
        "briefer": {
            BRIEFS: ("trained", "trained"),
            CALLS: ("always_pass", "opening_check"),
            FLEET: ("submit_at_once", "flag_heuristic"),
            CASES: ("repeat", "repeat"),
        },
        "auditor": {
            BRIEFS: ("naive", "naive"),
            CALLS: ("opening_check", "auditor"),
            FLEET: ("submit_at_once", "flag_heuristic"),
            CASES: ("repeat", "repeat"),
        },
        "overseer": {
            BRIEFS: ("naive", "naive"),
            CALLS: ("always_fail", "always_fail"),
            FLEET: ("flag_heuristic", "belief_filter"),
            CASES: ("repeat", "repeat"),
        },
        BREAKER: {
            BRIEFS: ("trained", "trained"),
            CALLS: ("brute_force", "brute_force"),
            FLEET: ("window_rules", "learned"),
            CASES: ("memoriser", "memoriser"),
        },
    }
)
"""By route and environment: the policy that is played lean, and the one that is played deep."""

ROUTES: Final = tuple(
    DemoArm(dimension=policies.DIMENSION_MODEL_ROUTE, name=name, content=f"plays as {name}") for name in PLAYERS
)
DEPTHS: Final = tuple(
    DemoArm(dimension=policies.DIMENSION_REASONING_DEPTH, name=name, content=content)
    for name, content in (("lean", "no memory, no probes"), (DEEP, "memory at hand, probes, the whole record"))
)
ACTIONS: Final = tuple(
    sorted((DemoAction(pair) for pair in product(ROUTES, DEPTHS)), key=lambda action: action.key.encode())
)
"""All joint actions in canonical order: sorted by the bytes of their keys."""
LABELS: Final = tuple(action.label for action in ACTIONS)


def policy_of(task: Task, action: DemoAction) -> tuple[str, str]:
    """Give the task's full name and the environment's policy that an action stands for.

    >>> deep = next(action for action in ACTIONS if action.label == "briefer + deep")
    >>> policy_of(TASKS[0], deep)
    ('hard_brief-rag', 'trained')
    """
    route, depth = (arm.name for arm in action.arms)
    lean, deep = PLAYERS[route][task.environment]
    with_memory = task.environment == BRIEFS and depth == DEEP
    return f"{task.name}-rag" if with_memory else task.name, deep if depth == DEEP else lean

"""Task names, switches and seeds become cases, hidden parts included."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np

from brief_routing_env import analyst, finance
from brief_routing_env.ledger import Cleaning, balance
from brief_routing_env.orders import Order, orders_of
from brief_routing_env.reports import DEFAULT_FILL, Desk, Value
from brief_routing_env.retrieval import Index, Rules, index_of, tenants
from brief_routing_env.tasks import AUDIT, TASKS, Task

SPLITS: Final[Mapping[str, range]] = MappingProxyType(
    {"train": range(1_000_000), "dev": range(1_000_000, 1_100_000), "test": range(2_000_000, 2_100_000)}
)
"""Seeds by split; who plays decides which he may ask for."""

LYING_SHARE: Final = 0.5
CONFRONTING: Final = 3
"""Steps that it takes to get a lying analyst corrected: reconcile, recheck, and finance again."""

TENANT: Final = "default"
_LIE: Final = 1


class Profile(StrEnum):
    """Which rules and which grader: the published ones with their quirks, or ours."""

    COMPAT = "compat"
    V2 = "v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """How an episode is played.

    Args:
        profile: Rules and grader.
        rag: Experts look the tenant's memory up, and have to.
        eval_mode: Nobody completes the brief behind the policy's back, and shaping is strict.
        tenant: Whose memory counts.
    """

    profile: Profile = Profile.V2
    rag: bool = False
    eval_mode: bool = True
    tenant: str = TENANT


def modes(task: str) -> list[str]:
    """List the names of a brief with its modes: retrieval off and on, ours and the published rules.

    >>> modes("easy_brief")
    ['easy_brief', 'easy_brief-rag', 'easy_brief-compat', 'easy_brief-compat-rag']
    >>> modes("audit_brief")
    ['audit_brief', 'audit_brief-rag']
    """
    found = [task, f"{task}-rag"]
    return found if task == AUDIT else [*found, f"{task}-compat", f"{task}-compat-rag"]


NAMES: Final = tuple(name for task in TASKS for name in modes(task))
PLAIN: Final = tuple(TASKS)


def read_name(name: str) -> tuple[Task, Switches]:
    """Take a task's name apart.

    Raises:
        KeyError: There is no such task.

    >>> task, switches = read_name("hard_brief-compat-rag")
    >>> task.name, str(switches.profile), switches.rag
    ('hard_brief', 'compat', True)
    """
    if name not in NAMES:
        raise KeyError(name)
    task, *flags = name.split("-")
    return TASKS[task], Switches(profile=Profile.COMPAT if "compat" in flags else Profile.V2, rag="rag" in flags)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One episode's circumstances.

    Args:
        name: Of the task, modes included.
        lies: Hidden: the analyst leaves duplicates in and claims a perfect file.
        index: Memory that the experts search; None with retrieval off.
    """

    name: str
    task: Task
    seed: int
    switches: Switches
    lies: bool
    index: Index | None = field(repr=False, compare=False)

    @property
    def compat(self) -> bool:
        """Whether the published rules hold."""
        return self.switches.profile is Profile.COMPAT

    @property
    def strict(self) -> bool:
        """Whether the policy is on its own."""
        return self.switches.eval_mode

    @property
    def desk(self) -> Desk:
        """What experts work with."""
        return Desk(task=self.task, compat=self.compat, index=self.index)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """The file."""
        return orders_of(self.task, self.seed)

    @cached_property
    def truth(self) -> Mapping[str, Value]:
        """What a right brief says: the honest file by the rules of the tenant's memory, looked up or not."""
        rules = Rules() if self.compat else index_of(self.switches.tenant).rules()
        cleaning = Cleaning(fill=rules.fill or DEFAULT_FILL)
        ledger = balance(self.orders, cleaning)
        books = analyst.analyse(replace(self.desk, index=None), self.orders, cleaning)
        ahead = finance.look_ahead(self.task, ledger, rules)
        return MappingProxyType(
            {
                "data_quality_score": ledger.quality,
                "total_revenue": ledger.revenue,
                "top_category": str(books.metrics["top_category"]),
                "projection_next_quarter": ahead.projection,
                "variance_pct": ahead.variance_pct,
                "break_even_units": finance.break_even(self.task),
            }
        )

    @property
    def shortest(self) -> int:
        """Steps of the shortest route to a right brief; a lie has to be found out first."""
        return self.task.shortest + (CONFRONTING if self.lies else 0)


def lies(task: Task, seed: int) -> bool:
    """Draw whether the analyst lies: in half of the audits, never elsewhere."""
    if task.name != AUDIT:
        return False
    return float(np.random.Generator(np.random.PCG64([seed, task.index, _LIE])).random()) < LYING_SHARE


def case_of(name: str, seed: int, **switched: object) -> Case:
    """Make a case; whatever is switched besides wins over the name.

    Args:
        name: A task, modes included.
        seed: Keys the file and the lie.
        switched: `profile`, `rag`, `eval_mode`, `tenant`, as `Switches` has them.

    Raises:
        KeyError: There is no such task.
        ValueError: The audit has no published rules, or the tenant is unknown.
    """
    task, switches = read_name(name)
    switches = replace(switches, **switched)  # type: ignore[arg-type]  # replace refuses a name that is no field
    if task.name == AUDIT and switches.profile is Profile.COMPAT:
        raise ValueError(f"{AUDIT} is no task of the {Profile.COMPAT} profile; play it as {Profile.V2}")
    if switches.tenant not in tenants():
        raise ValueError(f"no memory of a tenant {switches.tenant!r:.60}; there are {', '.join(tenants())}")
    index = index_of(switches.tenant) if switches.rag else None
    return Case(name=name, task=task, seed=seed, switches=switches, lies=lies(task, seed), index=index)

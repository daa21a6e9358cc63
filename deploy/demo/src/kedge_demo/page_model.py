"""Define what page.json and facts.json hold: everything the page and the terminal show, and nothing they compute."""

from dataclasses import dataclass, field

from kedge_demo.belief import VetoBelief
from kedge_demo.calibration import Bin
from kedge_demo.checks import Check
from kedge_demo.counts import TenantCounts
from kedge_demo.figures import Figures
from kedge_demo.quality import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """Hold what is known of one action at the end.

    Attributes:
        share, share_late: of the traffic, whole run and last third.
        believed: posterior mean reward over the stream's mix of buckets.
        true_reward: what it earns on average, known to the demo alone; true_score: its mean true success.
        veto: the belief about its veto rate.
        excluded_turn: the first turn at which it was not eligible; None if it always was. The two counts are its own
            episodes and vetoes up to then.
    """

    label: str
    part: str
    is_baseline: bool
    share: float
    share_late: float
    believed: Estimate
    true_reward: float
    true_score: float
    veto: VetoBelief
    eligible_at_end: bool
    excluded_turn: int | None
    excluded_after_episodes: int
    excluded_after_vetoes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Hold the run in windows of turns; see `timeline.Timeline`, of which this is the plain form."""

    end: tuple[int, ...]
    share: tuple[tuple[float, ...], ...]
    quality: tuple[float, ...]
    baseline: tuple[float, ...]
    single: tuple[float, ...]
    oracle: tuple[float, ...]
    floor: tuple[float, ...]
    slice_: tuple[float, ...]
    budget: tuple[float, ...]
    learning: tuple[float, ...]
    veto_rate: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Hold a mean over late turns: as served, always the baseline, always the best single action."""

    served: float
    baseline: float
    single: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Hold φ and e of one policy version as they follow from its vectors."""

    policy_version: int
    floor: float
    uniform_slice: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPage:
    """Hold everything about one tenant.

    Attributes:
        veto_cap: the rate above which an action is not eligible.
        budget_share: share of decisions for which the exploration budget was spent.
        value_lift: true reward, cost included, of what was served less that of the best single action, late turns.
        formula_error: largest difference of a published vector from the formula at the recovered φ and e.
        cells, evidence_rows, vectors: how much the export holds.
    """

    name: str
    title: str
    about: str
    turns: int
    late_from: int
    baseline: str
    figures: Figures
    actions: list[ActionRow]
    windows: Windows
    calibration: list[Bin]
    self_check: Check
    veto_reasons: dict[str, int]
    veto_cap: float
    budget_share: float
    cost_usd: Compared
    latency_ms: Compared
    true_reward: Compared
    value_lift: Estimate
    recovered: list[Recovered]
    client: TenantCounts
    formula_error: float
    cells: int
    evidence_rows: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Hold one entry of a tenant's audit log; `details` are the facts of the change in words."""

    sequence: int
    time: str
    actor: str
    verb: str
    subject: str
    because: str
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Hold the whole run: how long the play took, which share of the turns it played, and its tenants."""

    seconds: float
    scale: float
    tenants: list[TenantPage]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """Hold the answer of `kedge rebuild --verify` for one tenant."""

    evidence_rows: int
    max_error: float
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Hold a replay from the database alone: decisions replayed, those that differed, largest error of a vector."""

    replayed: int
    mismatches: int
    max_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """Hold what a frozen tenant answered: how often it was asked, how often with the baseline, under which reasons."""

    tenant: str
    asked: int
    baseline_served: int
    reasons: dict[str, int]
    baseline: str
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Hold what others found about the run; everything is optional.

    Attributes:
        rebuilt, replayed: by tenant.
        differences: sentences about where the second computation, inside the service, differs; None if none was made.
        frozen: what the frozen tenant answered.
        audit: each tenant's audit log, oldest first.
    """

    rebuilt: dict[str, Rebuilt] = field(default_factory=dict)
    replayed: dict[str, Replayed] = field(default_factory=dict)
    differences: list[str] | None = None
    frozen: Frozen | None = None
    audit: dict[str, list[Event]] = field(default_factory=dict)

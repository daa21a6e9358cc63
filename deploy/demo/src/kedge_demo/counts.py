"""Keep the client's own count of what it sent and what was acknowledged, apart from everything the server says."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

PLAY_FILE = "play.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Note when floor and slice were set, by the client's turn."""

    turn: int
    floor: float
    uniform_slice: float
    because: str = ""


@dataclass(slots=True, kw_only=True)
class TenantCounts:
    """Count one tenant's traffic as its client saw it.

    Attributes:
        decisions: answered; by_reason: the same by DecisionReason; retries: calls that failed and were repeated.
        episodes: acknowledged by the episode log; refused: refused for good.
        outcomes: acknowledged by signal and status.
        states: the state that each acknowledged episode must end in, from what was acknowledged about it.
        decide_ms: percentiles of the client's waiting time.
    """

    decisions: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    retries: int = 0
    episodes: int = 0
    refused: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    decide_ms: dict[str, float] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)

    def count_reason(self, reason: str) -> None:
        """Count one answered decision."""
        self.decisions += 1
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1

    def count_outcome(self, signal: str, status: str) -> None:
        """Count one answered outcome."""
        name = f"{signal}:{status}"
        self.outcomes[name] = self.outcomes.get(name, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Describe one run of the client: the worlds it played, how long it took, what it counted by tenant."""

    seed: int
    scale: float
    seconds: float
    tenants: dict[str, TenantCounts]


def write_play(folder: Path, play: Play) -> None:
    """Write the counts beside the other files of the run."""
    (folder / PLAY_FILE).write_text(json.dumps(asdict(play), indent=2) + "\n", encoding="utf-8")


def read_play(folder: Path) -> Play:
    """Read the counts of a run back."""
    content = json.loads((folder / PLAY_FILE).read_text(encoding="utf-8"))
    tenants = {
        name: TenantCounts(**{**counts, "stages": [Stage(**stage) for stage in counts["stages"]]})
        for name, counts in content.pop("tenants").items()
    }
    return Play(**content, tenants=tenants)

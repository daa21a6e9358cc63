"""What specialists hand in, and the brief that is composed of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypedDict

from brief_routing_env.ledger import Fill
from brief_routing_env.retrieval import Chunk, Index, Rules, recall
from brief_routing_env.tasks import Expert, Task

Value = float | int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One expert's report.

    Args:
        metrics: Numbers and names, by name.
        bullets: One fact each.
        issues: What a reader has to know; `missing_input:<expert>` says whose report was lacking.
        citations: Categories, months or market closes that it rests on.
        memory_citations, memory_snippets: What it followed in the tenant's memory.
        sections: Answers to sub-questions, by question.
        memo: HR's alone.
        memo_score: What HR says of its memo; only the first profile lets it.
    """

    expert: Expert
    title: str
    summary: str
    metrics: Mapping[str, Value] = field(default_factory=dict)
    bullets: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    memory_citations: tuple[str, ...] = ()
    memory_snippets: tuple[str, ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)
    memo: str | None = None
    memo_score: float | None = None

    def shown(self) -> dict[str, object]:
        """Give the report as JSON."""
        return {
            "expert_id": str(self.expert),
            "title": self.title,
            "summary": self.summary,
            "metrics": dict(self.metrics),
            "bullet_points": list(self.bullets),
            "issues": list(self.issues),
            "citations": list(self.citations),
            "memory_citations": list(self.memory_citations),
            "memory_snippets": list(self.memory_snippets),
            "sections": dict(self.sections),
            "memo": self.memo,
            "memo_score": self.memo_score,
        }

    @property
    def lacks(self) -> bool:
        """Whether somebody's report was missing when it was written."""
        return any(issue.startswith("missing_input:") for issue in self.issues)


class Brief(TypedDict):
    """What is submitted."""

    summary: str
    metrics: dict[str, Value]
    recommendations: list[str]
    hr_memo: str
    consulted_experts: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What every expert works with.

    Args:
        compat: Work as the original did, its quirks included.
        index: The tenant's memory; None where retrieval is off.
    """

    task: Task
    compat: bool
    index: Index | None

    def recall(self, keywords: str, question: str = "") -> tuple[Chunk, ...]:
        """Look memory up: by the expert's keywords, and but for compat by the instruction and the sub-question too."""
        if self.index is None:
            return ()
        asked = keywords if self.compat else f"{keywords} {self.task.instruction} {question.replace('_', ' ')}"
        return recall(self.index, asked)

    def rules(self, chunks: tuple[Chunk, ...]) -> Rules:
        """Read what was found for its rules; the original did not."""
        return Rules() if self.compat else Rules.read(chunk.text for chunk in chunks)


KEYWORDS: Final[Mapping[Expert, str]] = MappingProxyType(
    {
        Expert.ANALYST: "sales file cleaned duplicate rows removed missing price filled category median mean",
        Expert.FINANCE: "projection for the next quarter trailing months band variance favorable on-plan",
        Expert.STRATEGY: "recommendations watchlist exactly three stance number desk",
        Expert.HR: "memo audience first line bullets number call to action words",
    }
)
DEFAULT_FILL: Final = Fill.MEAN


def cited(chunks: tuple[Chunk, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give citations and snippets of what was found."""
    return tuple(chunk.citation for chunk in chunks), tuple(chunk.snippet for chunk in chunks)


def missing(*experts: Expert) -> tuple[str, ...]:
    """Name the reports that were lacking."""
    return tuple(f"missing_input:{expert}" for expert in experts)


def compose(reports: Mapping[Expert, Report]) -> Brief:
    """Put the reports that are there together."""
    metrics: dict[str, Value] = {}
    for expert in (Expert.ANALYST, Expert.FINANCE):
        metrics |= reports[expert].metrics if expert in reports else {}
    told = (reports[expert].summary for expert in tuple(Expert)[:3] if expert in reports)
    strategy, hr = reports.get(Expert.STRATEGY), reports.get(Expert.HR)
    return Brief(
        summary=" ".join(told),
        metrics=metrics,
        recommendations=list(strategy.bullets) if strategy else [],
        hr_memo=(hr.memo or "") if hr else "",
        consulted_experts=[str(expert) for expert in reports],
    )

"""Say a gate's verdict in words, and what in it deserves a second look."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kedge.bandit.v1 import proposal_pb2
from kedge_bandit.adapters.console import wording
from kedge_bandit.adapters.console.charts import Interval

TONES: Final = {"PASS": "good", "FAIL": "bad", "INCONCLUSIVE": "warn"}
_WHY: Final = {
    "TOO_FEW_CASES": "there are too few cases: add some to the holdout",
    "CASE_ERROR": "a case could not be answered or scored: look at the answerer, and run it again",
    "INCUMBENT_MISSING": "the incumbent has no score of the same run",
    "CRASHED": "the gate ended while it ran: the query is used, run it again",
    "LEDGER_EXHAUSTED": "this version of the holdout was asked too often: rotate it",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate found, for one reader: the author and roles that only read see little of it."""

    result: proposal_pb2.GateResult

    @property
    def name(self) -> str:
        """PASS, FAIL or INCONCLUSIVE."""
        return proposal_pb2.GateVerdict.Name(self.result.verdict).removeprefix("GATE_VERDICT_")

    @property
    def tone(self) -> str:
        """Tone of its colour."""
        return TONES.get(self.name, "")

    @property
    def is_open(self) -> bool:
        """Whether this reader sees more than the verdict."""
        return self.result.HasField("quality")

    @property
    def words(self) -> str:
        """Say it in a sentence."""
        found = self.result
        if self.name == "INCONCLUSIVE":
            why = _WHY.get(found.inconclusive_reason, found.inconclusive_reason)
            return f"Inconclusive: {why}."
        if not self.is_open:
            return {
                "PASS": "The candidate is no worse than the incumbent, within the margin.",
                "FAIL": "It was not shown that the candidate is no worse than the incumbent.",
            }.get(self.name, "")
        bound, margin = wording.signed(found.lower_bound), f"{found.margin:.3f}"
        if self.name == "PASS":
            return f"No worse than the incumbent: at the least {bound}, and down to −{margin} would be accepted."
        if found.vetoes:
            return f"{wording.count(found.vetoes, 'adversarial case')} of {found.adversarial_cases} ended in a veto."
        return f"It may be worse than the incumbent by more than the margin: at the least {bound}, −{margin} is needed."

    @property
    def interval(self) -> Interval:
        """Difference of quality, as it is drawn."""
        return _interval("all cases", self.result.quality, self.tone)

    @property
    def slices(self) -> list[tuple[proposal_pb2.SliceResult, Interval]]:
        """Slices, the worst first."""
        found = sorted(self.result.slices, key=lambda one: one.quality.mean)
        return [(one, _interval(one.name, one.quality, _tone_of(one.quality))) for one in found]

    @property
    def worst(self) -> proposal_pb2.SliceResult | None:
        """The slice that lost most; None where there is none."""
        return self.slices[0][0] if self.result.slices else None

    @property
    def doubts(self) -> Sequence[str]:
        """List what a passing verdict does not say by itself."""
        found, said = self.result, []
        worst = self.worst
        if worst is not None and worst.quality.mean < -found.margin:
            said.append(
                f"Slice {worst.name} lost {-worst.quality.mean:.3f}, more than the margin allows over all cases."
            )
        if self.is_open and found.cost_usd.lower > 0:
            said.append(f"It costs more: {wording.signed(found.cost_usd.mean, 5)} dollars a case.")
        if self.is_open and found.latency_ms.lower > 0:
            said.append(f"It is slower: {wording.signed(found.latency_ms.mean, 0)} ms a case.")
        return said


def _tone_of(difference: proposal_pb2.Difference) -> str:
    if difference.upper < 0:
        return "bad"
    return "good" if difference.lower > 0 else "accent"


def _interval(label: str, difference: proposal_pb2.Difference, tone: str) -> Interval:
    return Interval(
        label=label, mean=difference.mean, lower=difference.lower, upper=difference.upper, tone=tone or "accent"
    )

"""Watch what a deceived judge, padding and carelessness show first: three alarms that need no holdout.

Each compares the learned part of the randomised traffic with the baseline's, look after look, and gathers evidence as
the divergence alarm does (see `e_detector`). What it may find without being noticed is its margin:

    judge_gap      mean of judge - task success, learned minus baseline      .05
    answer_length  mean of ln(tokens of the answers), learned minus baseline  ln 1.1, which is a tenth longer
    veto_rate      vetoed share of the learned part                           1.4 times the baseline's, at least .0135

The veto rate is a share of a few in a hundred, so it is not compared with as few of the baseline's episodes: with the
baseline's rate over its last ten thousand, or its last hundreds where those are worse, as when a guardrail has become
stricter for everybody; and with 2.5 standard errors above it, as long as that rate is little known. Margins and sizes
of looks were vetted in `tests/trust/test_secondary_rates.py`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never

from kedge_bandit.domain.divergence import Lift, Reading, read
from kedge_bandit.domain.episode import Trajectory
from kedge_bandit.domain.ramp_metrics import Moments

MOST_JUDGE_GAP: Final = 0.05
MOST_LENGTH_RATIO: Final = 1.1
VETO_FACTOR: Final = 1.4
LEAST_VETO_CAP: Final = 0.0135
EPISODES_A_LOOK: Final = 300
"""Of either side, for a look at a mean."""
VETO_EPISODES_A_LOOK: Final = 100
"""Of the learned side, for a look at its veto rate; the baseline's may be fewer."""

_LEAST_ERROR: Final = 1e-3  # sides without any spread still have to be read
_KEPT: Final = 1 - 1 / 10_000
_KEPT_RECENTLY: Final = 1 - 1 / 200
_RECENT_PRIOR: Final = 300.0
_DOUBT: Final = 2.5


class Secondary(StrEnum):
    """What is watched beside the divergence of reward and holdout."""

    JUDGE_GAP = "judge_gap"
    ANSWER_LENGTH = "answer_length"
    VETO_RATE = "veto_rate"

    @property
    def freezes(self) -> bool:
        """Whether it stops its policy: a rise of vetoes alone does; the others tell a person, and hold ramps."""
        return self is Secondary.VETO_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualVetoes:
    """Hold how often the baseline is vetoed: counts that fade with each of its episodes, slowly and fast.

    The slow ones begin as the veto belief's prior (see `veto_belief`), which fades too.
    """

    episodes: float = 25.0
    vetoes: float = 0.5
    recent_episodes: float = 0.0
    recent_vetoes: float = 0.0

    def after(self, episodes: int, vetoes: int) -> "UsualVetoes":
        """Count more of the baseline's episodes.

        >>> UsualVetoes().after(975, 10).rate
        0.01047...
        """
        slow, fast = _KEPT**episodes, _KEPT_RECENTLY**episodes
        return UsualVetoes(
            episodes=slow * self.episodes + episodes,
            vetoes=slow * self.vetoes + vetoes,
            recent_episodes=fast * self.recent_episodes + episodes,
            recent_vetoes=fast * self.recent_vetoes + vetoes,
        )

    @property
    def rate(self) -> float:
        """Give the long-run rate, or the recent one where that is higher."""
        usual = self.vetoes / self.episodes
        recent = (_RECENT_PRIOR * usual + self.recent_vetoes) / (_RECENT_PRIOR + self.recent_episodes)
        return max(usual, recent)

    @property
    def cap(self) -> float:
        """Give the veto rate that the learned side may have without being noticed, in (0, 1).

        >>> UsualVetoes().after(10_000, 0).cap, round(UsualVetoes().after(10_000, 300).cap, 3)
        (0.0135, 0.042)
        """
        rate = self.rate
        doubted = rate + _DOUBT * math.sqrt(rate * (1 - rate) / self.episodes)
        return min(max(LEAST_VETO_CAP, VETO_FACTOR * rate, doubted), 0.99)


@dataclass(frozen=True, slots=True)
class Look:
    """What settled since a detector last looked: the sums of its quantity on both sides."""

    learned: Moments
    baseline: Moments

    def is_due(self, detector: Secondary) -> bool:
        """Say whether there is enough to look at.

        >>> Look(Moments(100), Moments(7)).is_due(Secondary.VETO_RATE)
        True
        """
        if detector is Secondary.VETO_RATE:
            return self.learned.n >= VETO_EPISODES_A_LOOK
        return min(self.learned.n, self.baseline.n) >= EPISODES_A_LOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one detector of a policy stands.

    Attributes:
        through: place in the evidence log up to which it has read.
        looks: that it took.
        known: what the last alarm told people of; the next one is about what comes on top of it.
        reading: of its last look; None before the first, and after an alarm, when it starts anew.
    """

    through: int = 0
    looks: int = 0
    usual: UsualVetoes = UsualVetoes()
    known: float = 0.0
    reading: Reading | None = None

    def after(self, detector: Secondary, look: Look, through: int) -> "Place":
        """Take a look."""
        usual = self.usual
        if detector is Secondary.VETO_RATE:
            usual = usual.after(look.baseline.n, round(look.baseline.wx))
        before = {} if self.reading is None else {detector.value: self.reading}
        reading = look_at(detector, look, usual, before, known=self.known)
        return Place(through=through, looks=self.looks + 1, usual=usual, known=self.known, reading=reading)

    def told(self, detector: Secondary, reading: Reading) -> "Place":
        """Start anew after an alarm. What froze has no excuse the next time; what was only told is known then."""
        return replace(self, known=self.known if detector.freezes else reading.value, reading=None)


def look_at(
    detector: Secondary, look: Look, usual: UsualVetoes, before: Mapping[str, Reading], known: float = 0.0
) -> Reading:
    """Take what settled into a detector.

    Args:
        usual: the baseline's vetoes, those of this look included; only for the veto rate.
        before: the reading of the look before, under the detector's name; empty at the first.
        known: what people were told of already; not for the veto rate.

    >>> longer = Look(Moments(300, 300, 1530, 300, 1530, 7903), Moments(300, 300, 1470, 300, 1470, 7303))
    >>> reading = look_at(Secondary.ANSWER_LENGTH, longer, UsualVetoes(), {})
    >>> round(reading.value, 2), round(reading.z, 1), reading.trips
    (0.2, 2.2, False)
    """
    match detector:
        case Secondary.JUDGE_GAP:
            return read(detector, _lift(look), known + MOST_JUDGE_GAP, before)
        case Secondary.ANSWER_LENGTH:
            return read(detector, _lift(look), known + math.log(MOST_LENGTH_RATIO), before)
        case Secondary.VETO_RATE:
            cap = usual.cap
            error = math.sqrt(cap * (1 - cap) / look.learned.n)
            return read(detector, Lift(look.learned.mean, error), cap, before)
        case _:
            assert_never(detector)


def answer_tokens(trajectory: Trajectory) -> float | None:
    """Count the tokens that the models of an episode wrote; None without a call of a model.

    >>> from kedge_bandit.domain.episode import LlmCall
    >>> call = LlmCall(model_id="m", prompt_tokens=900, completion_tokens=40)
    >>> answer_tokens(Trajectory(llm_calls=(call, call))), answer_tokens(Trajectory())
    (80.0, None)
    """
    calls = trajectory.llm_calls
    return float(sum(call.completion_tokens for call in calls)) if calls else None


def in_words(reading: Reading) -> str:
    """Say what a detector found, for people.

    >>> in_words(Reading(detector="veto_rate", value=0.05, error=0.01, margin=0.014, evidence=1200.0,
    ...                  threshold=1000.0, state=()))
    "veto rate of what was learned 5.0 %, where the baseline's allows 1.4 %; evidence 1,200 of 1,000"
    """
    match detector := Secondary(reading.detector):
        case Secondary.JUDGE_GAP:
            found = f"the judge sees {reading.value:+.3f} more lift than task success; {reading.margin:g} is allowed"
        case Secondary.ANSWER_LENGTH:
            found = (
                f"answers of what was learned are {math.expm1(reading.value):+.0%} longer than the baseline's; "
                f"{math.expm1(reading.margin):.0%} is allowed"
            )
        case Secondary.VETO_RATE:
            found = (
                f"veto rate of what was learned {reading.value * 100:.1f} %, "
                f"where the baseline's allows {reading.margin * 100:.1f} %"
            )
        case _:
            assert_never(detector)
    return f"{found}; evidence {reading.reached}"


def _lift(look: Look) -> Lift:
    error = math.sqrt(look.learned.variance + look.baseline.variance)
    return Lift(look.learned.mean - look.baseline.mean, max(error, _LEAST_ERROR))

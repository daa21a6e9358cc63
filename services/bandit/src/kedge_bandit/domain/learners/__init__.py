"""Register the learners: one file and one line each."""

from kedge_bandit.domain.learners.beta import BetaLearner
from kedge_bandit.domain.learners.learner import Learner

LEARNERS: dict[str, Learner] = {
    "beta": BetaLearner(),
}

"""Register the learners: one file and one line each."""

from kedge_bandit.domain.learners.anova import AnovaLearner
from kedge_bandit.domain.learners.beta import BetaLearner
from kedge_bandit.domain.learners.gaussian import GaussianLearner
from kedge_bandit.domain.learners.learner import Learner
from kedge_bandit.domain.learners.linear import LinearLearner

LEARNERS: dict[str, Learner] = {
    learner.name: learner for learner in (AnovaLearner(), BetaLearner(), GaussianLearner(), LinearLearner())
}

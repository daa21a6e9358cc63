"""List the benches: one file and one line each."""

from tests.bench.beta_regret import beta_regret
from tests.bench.decide import decide
from tests.bench.decide_durable import decide_durable
from tests.bench.drift import drift
from tests.bench.exact_p import exact_p
from tests.bench.figures import Bench
from tests.bench.local_decide import local_decide
from tests.bench.ofrep import ofrep
from tests.bench.reward_masks import reward_masks
from tests.bench.routing import routing

BENCHES: dict[str, Bench] = {
    "exact_p": exact_p,
    "beta_regret": beta_regret,
    "drift": drift,
    "routing": routing,
    "reward_masks": reward_masks,
    "decide": decide,
    "decide_durable": decide_durable,
    "local_decide": local_decide,
    "ofrep": ofrep,
}

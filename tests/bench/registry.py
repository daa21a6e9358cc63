"""List the benches: one file and one line each."""

from importlib import import_module

from tests.bench.beta_regret import beta_regret
from tests.bench.console import console
from tests.bench.decide import decide
from tests.bench.decide_durable import decide_durable
from tests.bench.drift import drift
from tests.bench.environments import environments
from tests.bench.exact_p import exact_p
from tests.bench.figures import Bench, Report, Setting
from tests.bench.fleet import fleet
from tests.bench.flood import flood
from tests.bench.interactions import interactions
from tests.bench.lag import lag
from tests.bench.learners import learners
from tests.bench.local_decide import local_decide
from tests.bench.memory import memory
from tests.bench.ofrep import ofrep
from tests.bench.outcomes import outcomes
from tests.bench.retain import retain
from tests.bench.reward_masks import reward_masks
from tests.bench.routing import routing
from tests.bench.scenarios import scenarios
from tests.bench.soak import soak
from tests.bench.switch import switch
from tests.bench.tenants import tenants


def _with_peers(name: str) -> Bench:
    """Import a bench when it is run, because only `make bench` installs the peers that it needs."""

    def run(setting: Setting) -> Report:
        bench: Bench = getattr(import_module(f"tests.bench.{name}"), name)
        return bench(setting)

    return run


BENCHES: dict[str, Bench] = {
    "exact_p": exact_p,
    "beta_regret": beta_regret,
    "interactions": interactions,
    "learners": learners,
    "drift": drift,
    "peers": _with_peers("peers"),
    "pairs": _with_peers("pairs"),
    "exports": _with_peers("exports"),
    "routing": routing,
    "reward_masks": reward_masks,
    "decide": decide,
    "decide_durable": decide_durable,
    "local_decide": local_decide,
    "ofrep": ofrep,
    "console": console,
    "outcomes": outcomes,
    "lag": lag,
    "memory": memory,
    "switch": switch,
    "tenants": tenants,
    "soak": soak,
    "scenarios": scenarios,
    "environments": environments,
    "fleet": fleet,
    "flood": flood,
    "retain": retain,
}

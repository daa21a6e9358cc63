"""Play the nine scenarios of `kedge bench scenarios`, and Vowpal Wabbit and MABWiser on the same streams."""

from kedge_bandit.entrypoints.scenarios.suite import SCENARIOS, run
from tests.bench.figures import Bar, Report, Row, Setting

SEEDS = range(1, 6)


def scenarios(setting: Setting) -> Report:
    """Judge every mark, and show the peers' regret beside it."""
    setting.say(f"{len(SCENARIOS)} scenarios, {len(SEEDS)} seeds")
    rows: list[Row] = []
    for found in run(list(SCENARIOS), SEEDS, with_peers=True, done=setting.say):
        for mark, row in zip(SCENARIOS[found.scenario].marks, found.rows, strict=True):
            bar, name = Bar(at_least=mark.at_least, at_most=mark.at_most), f"{found.scenario}: {row.name}"
            rows.append(Row(name=name, value=row.value, bar=bar, spread=(row.lowest, row.highest)))
        for peer in found.peers:
            rows.append(Row(name=f"{found.scenario}: regret, {peer.name}", value=peer.regret))
            rows.append(Row(name=f"{found.scenario}: late share of the best, {peer.name}", value=peer.late_share))
    notes = ["regret of the free traffic, which neither floor nor slice holds; peers have neither: docs/scenarios.md"]
    return Report(rows=rows, notes=notes, seeds=list(SEEDS))

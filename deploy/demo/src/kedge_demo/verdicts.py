"""Judge the run: each check with its value per tenant, its bar, and whether it holds everywhere."""

from collections.abc import Callable
from dataclasses import dataclass

from kedge_demo.page_model import Facts, Page, TenantPage
from kedge_demo.words import percent, points

EXACT = 1e-9
ALARM = 1e-5
SMALL_SHARE = 0.05
NAMED = "a-routing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Hold one check: its values by tenant as text, what they must be, and whether they are."""

    name: str
    values: tuple[str, ...]
    bar: str
    passed: bool


def verdicts(page: Page, facts: Facts) -> list[Verdict]:
    """Judge everything that a run must show; what must have been learned only where all turns were played."""
    figure = _by_tenant(page)
    found = [
        figure("decisions that do not replay", lambda one: one.figures.replay_mismatches, _count, "0", 1),
        figure("second fold differs by", lambda one: one.figures.rebuild_max_error, _small, "≤ 1e-9", EXACT),
        figure("rewards differ from the truth by", lambda one: one.figures.reward_max_error, _small, "≤ 1e-9", EXACT),
        figure("vectors differ from the formula by", lambda one: one.formula_error, _small, "≤ 1e-9", EXACT),
        figure("episodes unaccounted", lambda one: one.figures.episodes_unaccounted, _count, "0", 1),
        Verdict(
            name="propensities against draws, p",
            values=tuple(f"{one.figures.self_check_p:.2g}" for one in page.tenants),
            bar="≥ 1e-5",
            passed=all(one.figures.self_check_p >= ALARM for one in page.tenants),
        ),
    ]
    found = [*(_learned(page) if page.scale >= 1.0 else []), *found]
    found += [one for one in (_rebuilt(page, facts), _replayed(page, facts)) if one is not None]
    if facts.differences is not None:
        values = tuple(f"{_differing(facts.differences, one.name)} keys differ" for one in page.tenants)
        name, bar = "second computation, from inside", "0 keys, to 1e-9"
        found.append(Verdict(name=name, values=values, bar=bar, passed=not facts.differences))
    return found


def _by_tenant(
    page: Page,
) -> Callable[[str, Callable[[TenantPage], float], Callable[[float], str], str, float], Verdict]:
    def judge(
        name: str, read: Callable[[TenantPage], float], spell: Callable[[float], str], bar: str, below: float
    ) -> Verdict:
        values = [read(one) for one in page.tenants]
        spelled = tuple(spell(value) for value in values)
        return Verdict(name=name, values=spelled, bar=bar, passed=all(value < below for value in values))

    return judge


def _learned(page: Page) -> list[Verdict]:
    """Judge shares everywhere, and the lift of the tenant whose reference is named beforehand."""
    figure = _by_tenant(page)
    lifts = {one.name: one.figures.lift_interval.mean for one in page.tenants}
    return [
        Verdict(
            name="points against best single",
            values=tuple(points(lift) for lift in lifts.values()),
            bar=f"{NAMED} > 0",
            passed=lifts.get(NAMED, 1.0) > 0,
        ),
        figure("flatterer's late traffic", lambda one: one.figures.flatterer_share_late, percent, "< 5 %", SMALL_SHARE),
        figure("breaker's late traffic", lambda one: one.figures.breaker_share_late, percent, "< 5 %", SMALL_SHARE),
    ]


def _rebuilt(page: Page, facts: Facts) -> Verdict | None:
    if not facts.rebuilt:
        return None
    found = [facts.rebuilt.get(one.name) for one in page.tenants]
    values = tuple("–" if one is None else f"{one.evidence_rows:,} rows, {_small(one.max_error)}" for one in found)
    passed = all(one is not None and one.agrees for one in found)
    return Verdict(name="kedge rebuild --verify", values=values, bar="equal", passed=passed)


def _replayed(page: Page, facts: Facts) -> Verdict | None:
    if not facts.replayed:
        return None
    found = [facts.replayed.get(one.name) for one in page.tenants]
    values = tuple(
        "–" if one is None else f"{one.mismatches} of {one.replayed}, {_small(one.max_error)}" for one in found
    )
    passed = all(one is None or (one.mismatches == 0 and one.max_error <= EXACT) for one in found)
    return Verdict(name="replayed from the database alone", values=values, bar="0, ≤ 1e-9", passed=passed)


def _differing(differences: list[str], tenant: str) -> int:
    return sum(one.startswith(f"{tenant}:") for one in differences)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _small(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}"

"""The figures that the call audit has to reach: every cell of the published table, and our grader's own."""

from collections.abc import Mapping
from statistics import fmean

import pytest

from call_audit_env import moves
from call_audit_env.baselines import TRIAGE
from call_audit_env.book import default
from call_audit_env.calls import Severity
from call_audit_env.marks import BRUTE_FORCE_ENDS, COMPAT_TABLE, V2_MEANS
from call_audit_env.rubric import bounded, f1
from call_audit_env.scenarios import Profile, base
from call_audit_env.tables import BLIND, brute_force_ends, main, marks, on_base
from tests.envs.call_audit.audits import audit, play, played
from tests.trust.size import IS_FULL

CALLS = range(1, 13)
PUBLISHED = {
    1: (8, {("regulatory_disclosure_failure", "high", 0)}),
    2: (11, set()),
    3: (13, {("pii_exposure_risk", "high", 4)}),
    4: (9, set()),
    5: (18, {("failed_escalation", "high", 12), ("unauthorized_commitment", "medium", 8)}),
    6: (16, {("churn_save_policy_breach", "high", 7), ("incorrect_hold_procedure", "medium", 6)}),
    7: (14, {("pii_exposure_risk", "medium", 4), ("regulatory_disclosure_failure", "high", 0)}),
    8: (18, {("unauthorized_commitment", "high", 6), ("incorrect_hold_procedure", "low", 10)}),
    9: (
        23,
        {
            ("regulatory_disclosure_failure", "high", 0),
            ("failed_escalation", "high", 12),
            ("unauthorized_commitment", "medium", 8),
        },
    ),
    10: (
        30,
        {
            ("churn_save_policy_breach", "high", 8),
            ("pii_exposure_risk", "high", 12),
            ("failed_escalation", "high", 23),
            ("incorrect_hold_procedure", "medium", 17),
        },
    ),
    11: (
        15,
        {
            ("regulatory_disclosure_failure", "high", 0),
            ("unauthorized_commitment", "high", 4),
            ("pii_exposure_risk", "medium", 8),
        },
    ),
    12: (
        22,
        {
            ("churn_save_policy_breach", "high", 9),
            ("failed_escalation", "high", 13),
            ("regulatory_disclosure_failure", "high", 0),
        },
    ),
}


@pytest.mark.parametrize("number", CALLS)
def test_a_base_call_has_the_published_turns_breaches_and_evidence_turns(number: int) -> None:
    call = base(number)
    assert len(call.turns) == PUBLISHED[number][0]
    assert {(one.policy, str(one.severity), one.at) for one in call.breaches} == PUBLISHED[number][1]


@pytest.mark.parametrize("name", COMPAT_TABLE)
def test_every_cell_of_the_published_table_is_reproduced(name: str) -> None:
    assert on_base(Profile.COMPAT, [name])[name] == list(COMPAT_TABLE[name])


@pytest.mark.parametrize("name", V2_MEANS)
def test_our_grader_gives_the_specified_means(name: str) -> None:
    assert fmean(on_base(Profile.V2, [name])[name]) == pytest.approx(V2_MEANS[name], abs=0.0006)


def test_the_evidence_oracle_is_what_it_was_under_the_original() -> None:
    assert on_base(Profile.V2, ["oracle"])["oracle"] == list(COMPAT_TABLE["oracle"])


@pytest.mark.parametrize("name", BLIND)
def test_a_blind_policy_gets_nothing(name: str) -> None:
    assert max(on_base(Profile.V2, [name])[name]) <= 0.05


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("name", ["lower_only", "all_but_highs"])
def test_an_audit_that_misses_all_highs_is_capped(profile: Profile, name: str) -> None:
    failing = [number for number in CALLS if not base(number).compliant]
    assert max(played(name, number, profile).grade() for number in failing) <= 0.30


def test_something_lower_that_was_found_is_still_worth_the_cap() -> None:
    assert played("lower_only", 6).grade() == 0.300


def test_brute_force_is_exhausted_on_every_base_call_where_the_table_says() -> None:
    assert tuple(brute_force_ends()) == BRUTE_FORCE_ENDS
    assert all(played("brute_force", number).metrics()["exhausted"] for number in CALLS)


def test_reading_alone_never_exhausts_the_budget() -> None:
    assert {played("read_all", number).world.left + 2 * len(base(number).breaches) for number in CALLS} == {50}


def test_whoever_reads_all_and_flags_nothing_before_the_budget_ends_gets_what_clean_calls_give() -> None:
    grades = []
    for number in CALLS:
        episode = audit(number)
        play(episode, *(moves.chunk(turn, turn) for turn in range(len(base(number).turns))))
        play(episode, *[moves.analyze(0)] * 6)
        assert episode.metrics()["exhausted"]
        grades.append(episode.grade())
    assert fmean(grades) == pytest.approx(0.084, abs=0.0005)


@pytest.mark.parametrize(
    ("found", "false", "total", "wanted"),
    [(3, 1, 3, 0.514), (2, 0, 5, 0.343), (3, 0, 5, 0.45), (5, 0, 8, 0.462), (6, 0, 11, 0.424), (8, 0, 11, 0.505)],
)
def test_the_check_values_of_the_weighted_f1_hold(found: float, false: float, total: float, wanted: float) -> None:
    assert 0.6 * f1(found, false, total) == pytest.approx(wanted, abs=0.0006)


def test_grades_stay_strictly_inside() -> None:
    assert (bounded(0.9996), bounded(7.0), bounded(0.0004), bounded(-3.0)) == (0.999, 0.999, 0.001, 0.001)


def test_the_default_rubric_weighs_as_published() -> None:
    book = default()
    assert [book.weights[one] for one in Severity] == [3, 2, 1]
    assert [book.penalties[one] for one in Severity] == [0.10, 0.05, 0.03]
    assert (book.cap, book.budget(30)) == (0.30, 140)


@pytest.mark.parametrize(("number", "wanted"), [(1, 1.68), (6, 2.16), (10, 3.00)])
def test_the_originals_rules_pay_for_asking_the_length_again_and_again(number: int, wanted: float) -> None:
    episode = audit(number, Profile.COMPAT)
    total = episode.world.total
    play(episode, *[moves.length()] * total, moves.submit(passed=False))
    assert episode.metrics()["return"] == pytest.approx(wanted)


@pytest.mark.parametrize("number", CALLS)
@pytest.mark.parametrize("farmed", [*TRIAGE, moves.chunk(0, 0), moves.chunk(0, 4)])
def test_no_repetition_beats_the_honest_route(number: int, farmed: Mapping[str, object]) -> None:
    """100 times the same, with whatever verdict, pays less than the oracle, and not more than once."""
    honest = played("oracle", number).metrics()["return"]
    for passed in (True, False):
        episode = audit(number)
        turns = play(episode, *[farmed] * 100, moves.submit(passed=passed))
        assert sum(turn.reward for turn in turns) < honest - 0.3
        assert sum(turn.signals.get("shaping", 0.0) > 0 for turn in turns) <= 1


@pytest.mark.parametrize("number", CALLS)
def test_padding_an_honest_audit_never_raises_its_return(number: int) -> None:
    plain = played("oracle", number).metrics()["return"]
    episode = audit(number)
    play(episode, *[moves.length()] * 20)
    from_oracle = played("oracle", number).world
    play(episode, moves.metadata(), moves.sentiment(), *(moves.chunk(turn, turn) for turn in sorted(from_oracle.shown)))
    play(episode, *(moves.flag(one.policy, one.severity, one.turn) for one in from_oracle.flags))
    play(episode, moves.submit(passed=not from_oracle.flags))
    spared = 0.25 * 0.02 * len(from_oracle.shown)
    assert episode.metrics()["return"] <= plain + spared


def test_every_mark_of_the_tables_is_reached() -> None:
    found = list(marks(on_base(Profile.COMPAT), on_base(Profile.V2)))
    assert [one for one in found if not one.reached] == []
    assert len(found) > 20


def test_the_tables_are_printed_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "500" if IS_FULL else "3"])
    told = capsys.readouterr().out
    assert "**no**" not in told
    assert told.count("| `oracle` |") == 4

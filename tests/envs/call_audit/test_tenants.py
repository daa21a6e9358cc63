"""A tenant brings its rubric, weights and calls as one folder; nothing of another tenant resolves in it."""

import json
from pathlib import Path
from statistics import fmean

import pytest

from call_audit_env import ingest, moves
from call_audit_env.baselines import privileged
from call_audit_env.book import FILE, Book, UnusableRubric
from call_audit_env.calls import Severity
from call_audit_env.records import UnusableCall, read
from call_audit_env.tenant import Tenant, UnknownTenant, find
from tests.envs.call_audit.audits import play, result

RUBRIC = FILE.read_text(encoding="utf-8")
STRICT = RUBRIC.replace("cap = 0.30", "cap = 0.10").replace('severity = "low"', 'severity = "high"')
STRICT = STRICT.replace('fact = "noticed", to = "medium"', 'fact = "noticed", to = "high"')
STRICT = STRICT.replace('least = 30, to = "medium"', 'least = 30, to = "high"')
"""Every hold without consent is grave, and an audit that misses what is grave is worth less."""

HOLD = RUBRIC.index('[[policy]]\nname = "incorrect_hold_procedure"')
LENIENT = RUBRIC[:HOLD] + RUBRIC[RUBRIC.index('[[policy]]\nname = "pii_exposure_risk"') :]
"""Whatever a hold is like, nobody minds."""

LINE: dict[str, object] = {
    "call_id": "A-17",
    "tenant": "acme",
    "department": "billing",
    "turns": [
        {"speaker": "agent", "start": 0, "end": 3, "text": "Acme, calls are recorded. My name is Ines Prado."},
        {"speaker": "customer", "start": 3.5, "end": 6, "text": "Joan Lark here, account 4821-9930-1127."},
        {"speaker": "agent", "start": 40, "end": 44, "text": "Thanks, Joan. I see it: your bill is right."},
        {"speaker": "customer", "start": 44.5, "end": 46, "text": "All right."},
    ],
    "labels": [{"type": "incorrect_hold_procedure", "span": [2], "detail": "Joan Lark waited."}],
    "source": "export of May",
}


def folder(root: Path, name: str, rubric: str, *lines: dict[str, object]) -> Path:
    (root / name).mkdir()
    (root / name / "rubric.toml").write_text(rubric, encoding="utf-8")
    if lines:
        (root / name / "calls.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return root / name


def oracle_mean(tenant: Tenant, book_of: Tenant) -> float:
    """Let the oracle of one rubric audit by another, on the base calls."""
    grades = []
    for seed in range(12):
        known, episode = book_of.start("base", seed), tenant.start("base", seed)
        player = privileged("oracle", known.world.call)
        while not episode.over:
            episode.step(player(episode.observe()))
        grades.append(episode.grade())
    return fmean(grades)


def test_two_tenants_with_contradictory_rubrics_each_get_their_own_numbers(tmp_path: Path) -> None:
    strict = Tenant.load(folder(tmp_path, "strict", STRICT))
    lenient = Tenant.load(folder(tmp_path, "lenient", LENIENT))
    found = {
        tenant.name: {one.policy: one.severity for one in tenant.start("base", 7).world.call.breaches}
        for tenant in (strict, lenient)
    }
    assert found["strict"] == {"unauthorized_commitment": Severity.HIGH, "incorrect_hold_procedure": Severity.HIGH}
    assert found["lenient"] == {"unauthorized_commitment": Severity.HIGH}
    assert min(oracle_mean(strict, strict), oracle_mean(lenient, lenient)) >= 0.95
    assert oracle_mean(strict, strict) - oracle_mean(strict, lenient) >= 0.02
    assert oracle_mean(lenient, lenient) > oracle_mean(lenient, strict)


def test_a_tenants_cap_and_weights_are_in_its_grades(tmp_path: Path) -> None:
    tenant = Tenant.load(folder(tmp_path, "strict", STRICT))
    episode = tenant.start("base", 4)
    play(episode, moves.chunk(8, 9), moves.flag("unauthorized_commitment", "medium", 8), moves.submit(passed=False))
    assert episode.grade() == 0.10


def test_a_policy_of_another_tenant_can_neither_be_flagged_nor_looked_up(tmp_path: Path) -> None:
    episode = Tenant.load(folder(tmp_path, "lenient", LENIENT)).start("base", 7)
    play(episode, moves.flag("incorrect_hold_procedure", "low", 10))
    assert "violation_type is one of" in episode.observe()["error"]
    assert "incorrect_hold_procedure" not in json.dumps(episode.observe())
    play(episode, moves.analyze(10, "incorrect_hold_procedure"))
    assert "policy" not in result(episode)
    assert "incorrect_hold_procedure" not in json.dumps(episode.observe())


def test_a_tenants_own_calls_are_played_by_its_rubric(tmp_path: Path) -> None:
    tenant = find(folder(tmp_path, "acme", RUBRIC, LINE).parent, "acme")
    episode = tenant.start("own", 0)
    [breach] = episode.world.call.breaches
    assert (breach.severity, episode.world.total) == (Severity.MEDIUM, 62)
    play(episode, moves.chunk(0, 3), moves.flag(breach.policy, "medium", 2), moves.submit(passed=False))
    assert episode.grade() == pytest.approx(0.82 + 0.2 * 48 / 62, abs=0.001)
    told = json.dumps(episode.observe())
    assert not any(hidden in told for hidden in ("Joan", "A-17"))


def test_a_long_call_can_be_read_to_its_end(tmp_path: Path) -> None:
    said = [
        {
            "speaker": ("agent", "customer")[place % 2],
            "start": 2 * place,
            "end": 2 * place + 1,
            "text": "We record this.",
        }
        for place in range(400)
    ]
    episode = Tenant.load(folder(tmp_path, "acme", RUBRIC, {**LINE, "turns": said, "labels": []})).start("own", 0)
    play(episode, *(moves.chunk(first, first + 4) for first in range(0, 400, 5)), moves.submit(passed=True))
    assert len(episode.world.shown) == 400
    assert episode.grade() == pytest.approx(0.8 + 0.2 * 50 / 1250, abs=0.001)


def test_a_tenants_rubric_goes_with_the_originals_rules_too(tmp_path: Path) -> None:
    tenant = Tenant.load(folder(tmp_path, "strict", STRICT))
    assert (tenant.start("compat", 0).world.profile, tenant.start("base", 0).world.profile) == ("compat", "v2")


def test_a_call_of_another_tenant_is_refused(tmp_path: Path) -> None:
    other = folder(tmp_path, "other", RUBRIC, LINE)
    with pytest.raises(UnusableCall, match="another tenant"):
        Tenant.load(other)
    assert ingest.ingest([json.dumps(LINE)], "other", Book.read(RUBRIC)).records == ()


@pytest.mark.parametrize("name", ["", "../acme", "acme/../acme", "ACME", "/etc", "nobody", "a\x00"])
def test_a_name_that_is_no_tenants_finds_nothing(tmp_path: Path, name: str) -> None:
    folder(tmp_path, "acme", RUBRIC)
    with pytest.raises(UnknownTenant):
        find(tmp_path / "inside", name)
    with pytest.raises(UnknownTenant):
        find(tmp_path, name)


def test_own_calls_without_a_file_of_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableCall, match=r"no calls\.jsonl"):
        Tenant.load(folder(tmp_path, "acme", RUBRIC)).start("own", 0)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "name = 3 = 4",
        RUBRIC.replace("cap = 0.30", "cap = 1.5"),
        RUBRIC.replace("high = 3, ", ""),
        RUBRIC.replace("low = 1 }", "low = 0 }"),
        RUBRIC.replace("high = 0.10", "high = -0.10"),
        RUBRIC.replace("fixed = 50", "fixed = -1"),
        RUBRIC.replace('severity = "low"', 'severity = "tiny"'),
        RUBRIC.replace("low = 1 }", "low = nan }"),
        RUBRIC.replace("pii_exposure_risk", "failed_escalation"),
        RUBRIC[: RUBRIC.index("[[policy]]")],
    ],
)
def test_a_rubric_that_cannot_be_played_by_is_refused(broken: str) -> None:
    with pytest.raises(UnusableRubric):
        Book.read(broken)


@pytest.mark.parametrize(
    "changed",
    [
        {"turns": []},
        {"labels": [{"type": "no policy", "span": [0]}]},
        {"labels": [{"type": "pii_exposure_risk", "span": [9]}]},
        {"labels": [{"type": "pii_exposure_risk", "span": []}]},
        {"secret": 1},
        {"moods": [{"turn": 4, "mood": "angry"}]},
        {"turns": [{"speaker": "agent", "start": 3, "end": 2, "text": "Hm."}], "labels": []},
    ],
)
def test_a_call_that_cannot_be_played_is_refused_by_name(tmp_path: Path, changed: dict[str, object]) -> None:
    with pytest.raises(UnusableCall):
        Tenant.load(folder(tmp_path, "acme", RUBRIC, {**LINE, **changed}))


def test_a_log_is_taken_in_without_personal_data_and_its_failures_become_patterns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acme = folder(tmp_path, "acme", RUBRIC)
    log = tmp_path / "log.jsonl"
    silent = {**LINE, "call_id": "A-18", "labels": []}
    foreign = {**LINE, "call_id": "A-19", "tenant": "other"}
    log.write_text("\n".join([json.dumps(LINE), json.dumps(silent), "{}", "", json.dumps(foreign)]), encoding="utf-8")
    ingest.main([str(log), "--to", str(acme)])
    told = capsys.readouterr()
    assert told.out == "1 calls taken in, 3 left out\n"
    assert [line.partition(":")[0] for line in told.err.splitlines()] == ["line 2", "line 3", "line 5"]
    stored = (acme / "calls.jsonl").read_text(encoding="utf-8")
    assert not any(private in stored + told.err for private in ("Joan", "Lark", "Ines", "Prado", "4821"))
    assert json.loads((acme / "patterns.json").read_text(encoding="utf-8")) == [
        {"policy": "incorrect_hold_procedure", "severity": "medium", "position": "late", "trap": "no hint", "count": 1}
    ]
    assert Tenant.load(acme).start("own", 0).world.call.breaches


def test_what_is_taken_in_twice_stays_as_it_is() -> None:
    record = ingest.redacted(read(json.dumps(LINE)))
    assert ingest.redacted(record) == record


def test_a_log_without_a_usable_call_leaves_the_store_alone(tmp_path: Path) -> None:
    acme = folder(tmp_path, "acme", RUBRIC, LINE)
    log = tmp_path / "log.jsonl"
    log.write_text("not json\n", encoding="utf-8")
    before = (acme / "calls.jsonl").read_bytes()
    with pytest.raises(SystemExit):
        ingest.main([str(log), "--to", str(acme)])
    assert (acme / "calls.jsonl").read_bytes() == before


def test_a_refusal_repeats_nothing_of_the_log() -> None:
    with pytest.raises(UnusableCall) as refused:
        read(json.dumps({**LINE, "turns": [{"speaker": "Joan Lark", "start": 0, "end": 1, "text": "4821-9930"}]}))
    assert "Joan" not in str(refused.value)
    assert "4821" not in str(refused.value)

"""Demand that the manual names every word a caller may meet, every logged event, every audited verb and every limit."""

import re
from datetime import timedelta
from importlib import import_module

import pytest

from kedge_bandit.domain.episode import EpisodeState
from kedge_bandit.domain.outcome import AbsentReason, Provenance, SignalKind, VetoReason
from kedge_bandit.domain.reward import WeightReason
from kedge_bandit.domain.switch import QuarantineChoice
from tests.architecture.tree import ROOT, python_files
from tests.docs.pages import code, rows, section, text_of

SOURCES = {path: (ROOT / path).read_text(encoding="utf-8") for path in python_files("services/bandit/src")}
LIMITS = [row for row in rows("limits.md", "Limits") if len(row) == 4 and row[3]]
EVENT = re.compile(r'log\.(?:info|warning|error|exception)\(\s*"([a-z_]+\.[a-z_]+)"')
VERB = re.compile(r'"((?:policy|arm|tenant|key|identity|learning|evidence)\.[a-z_]+)"')
# How durations are written: unit and its seconds.
UNITS = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reward.md", VetoReason),
        ("reward.md", SignalKind),
        ("reward.md", Provenance),
        ("reward.md", EpisodeState),
        ("reward.md", [reason for reason in WeightReason if reason is not WeightReason.LEARNED]),
        ("api.md", AbsentReason),
        ("governance.md", [choice.lower() for choice in QuarantineChoice]),
    ],
    ids=lambda given: str(getattr(given, "__name__", "")),
)
def test_every_word_of_the_wire_is_explained(page: str, words: list[str]) -> None:
    text = text_of(page)
    assert [str(word) for word in words if not re.search(rf"\b{word}\b", text)] == []


def test_every_logged_event_has_its_row() -> None:
    logged = {event for source in SOURCES.values() for event in EVENT.findall(source)}
    written = {event for row in rows("operations.md", "Logs") for event in code(row[0])}
    assert logged - written == set()
    assert {event for event in written if not any(f'"{event}"' in source for source in SOURCES.values())} == set()


def test_every_audited_verb_has_its_row() -> None:
    inner = [source for path, source in SOURCES.items() if not path.match("*/entrypoints/*")]
    audited = {verb for source in inner for verb in VERB.findall(source)}
    written = {verb for row in rows("governance.md", "Audit") for verb in code(row[0])}
    assert audited - written == set()
    assert {f"tenant.{verb}" for verb in ("frozen", "unfrozen", "mode_set")} <= written


def spelled(value: object) -> list[str]:
    """Say how a limit may stand in the table; nothing for what is no number."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return [f"{seconds / size:g} {unit}" for unit, size in UNITS.items() if seconds % size == 0]
    if isinstance(value, tuple):
        return [f"{value[0]:g} to {value[-1]:g}"]
    if isinstance(value, float) and value.is_integer():
        return [f"{value:.0f}"]
    return [str(value)] if isinstance(value, int | float) else []


def looked_up(name: str) -> object:
    """Find a constant or a place by its name in the table: a package is left out where it is the bandit."""
    module, _, attribute = (name if name.startswith("kedge_client") else f"kedge_bandit.{name}").rpartition(".")
    return getattr(import_module(module), attribute)


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: str(row[0]))
def test_a_limit_is_the_one_that_is_enforced(row: list[str]) -> None:
    for name in code(row[3]):
        ways = spelled(looked_up(name))
        assert not ways or any(re.search(rf"(?<![\d.]){re.escape(way)}(?![\d.]*\d)", row[1]) for way in ways), ways


def test_what_is_not_limited_yet_is_said() -> None:
    assert "no quotas" in section("limits.md", "Not limited yet")

"""An export is that of the tenant that was named, whole, or it is refused."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kedge_bandit.domain.audit import GENESIS, KEDGE, AuditEvent, chain
from kedge_bandit.entrypoints.cli import app


def export(path: Path, *steps: tuple[str, str]) -> Path:
    """Write a chain of verbs and their subjects as `kedge audit export` does."""
    lines, previous = [], GENESIS
    for sequence, (verb, subject) in enumerate(steps, start=1):
        time = datetime(2026, 3, 1, sequence, tzinfo=UTC)
        event = AuditEvent(time=time, actor=KEDGE, verb=verb, subject=subject, because="a test", payload={})
        made = chain(event, sequence=sequence, previous_hash=previous)
        names = ("sequence", "actor", "verb", "subject", "because", "payload_hash", "previous_hash", "row_hash")
        said = {name: getattr(made, name) for name in names}
        lines.append(json.dumps({**said, "event_time": time.isoformat(), "payload_json": made.payload}) + "\n")
        previous = made.row_hash
    path.write_text("".join(lines), encoding="utf-8")
    return path


def verified(path: Path, *options: str) -> tuple[Result, str]:
    done = CliRunner().invoke(app, ["audit", "verify", "acme", "--events", str(path), *options])
    return done, " ".join((done.stdout + done.stderr).split())


ACME = ("tenant.onboarded", "tenants/acme")


def test_a_tenants_own_export_holds_and_the_answer_says_that_nothing_outside_was_compared(tmp_path: Path) -> None:
    done, said = verified(export(tmp_path / "own", ACME, ("tenant.frozen", "tenants/acme")))
    assert (done.exit_code, "all 2 events follow" in said) == (0, True), said
    assert "without --anchor nothing outside was compared" in said


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ([], "there are no events"),
        ([("tenant.onboarded", "tenants/globex"), ("tenant.frozen", "tenants/globex")], "it is another chain"),
        ([("tenant.onboarded", "tenants/acme2")], "it is another chain"),
        ([("tenant.frozen", "tenants/acme"), ACME], "it is another chain"),
    ],
)
def test_another_tenants_export_and_an_empty_one_are_refused(
    tmp_path: Path, steps: list[tuple[str, str]], named: str
) -> None:
    done, said = verified(export(tmp_path / "other", *steps))
    assert (done.exit_code, named in said) == (1, True), said
    as_json, _ = verified(tmp_path / "other", "--json")
    assert json.loads(as_json.stdout.splitlines()[0])["intact"] is False

"""What restricts a process from outside the database: the strictest wins, and what cannot be read restricts."""

from pathlib import Path

import pytest

from kedge_bandit.adapters.flags.override import Overrides
from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode

ACME, SUPPORT = TenantId("acme"), PolicyName("support")


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (b"observe\n", Mode.OBSERVE),
        (b"APPLY", Mode.APPLY),
        (b"", Mode.FROZEN),
        (b"stop!", Mode.FROZEN),
        (b"\xff\xfe", Mode.FROZEN),
    ],
)
def test_a_file_takes_the_environments_place_and_one_that_says_nothing_known_freezes(
    tmp_path: Path, content: bytes, mode: Mode
) -> None:
    file = tmp_path / "mode_override"
    overrides = Overrides(environment=Mode.BYPASS, file=file)
    assert overrides.levels(ACME, SUPPORT) == {"environment": Mode.BYPASS}

    file.write_bytes(content)

    assert overrides.levels(ACME, SUPPORT) == {"file": mode}


def test_a_file_that_cannot_be_opened_freezes(tmp_path: Path) -> None:
    assert Overrides(environment=Mode.APPLY, file=tmp_path)(ACME, SUPPORT) is Mode.FROZEN


def test_flags_are_asked_about_policies_only_and_can_only_restrict(tmp_path: Path) -> None:
    file = tmp_path / "mode_override"
    overrides = Overrides(environment=Mode.OBSERVE, file=file, flags=lambda _tenant, _policy: Mode.APPLY)

    assert overrides(ACME, SUPPORT) is Mode.OBSERVE
    assert overrides.levels(ACME, SUPPORT) == {"environment": Mode.OBSERVE, "flags": Mode.APPLY}
    assert overrides.levels(ACME, None) == {"environment": Mode.OBSERVE}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("frozen\n", ""),
        ("frozn", "the file mode_override holds 'FROZN', which is no mode, so FROZEN is served: write one of APPLY, "),
        ("", "the file mode_override cannot be read, or is empty, so FROZEN is served: write one of APPLY, "),
    ],
)
def test_a_file_that_holds_no_mode_is_named_with_what_it_holds(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "mode_override"
    overrides = Overrides(environment=Mode.APPLY, file=file)
    assert overrides.complaint() == ""

    file.write_text(content, encoding="ascii")

    assert overrides.complaint().startswith(said)
    assert bool(overrides.complaint()) is bool(said)

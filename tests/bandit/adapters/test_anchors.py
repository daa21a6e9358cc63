"""Signed heads survive processes, and whatever is done to their file is found without the private key."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kedge_bandit.adapters.anchors import (
    ANCHOR_FILE,
    KEY_FILE,
    PUBLIC_KEY_FILE,
    AnchorFile,
    AnchorsRefused,
    of_tenant,
    read_anchors,
)
from kedge_bandit.domain.anchor import Anchor

START = datetime(2026, 3, 1, tzinfo=UTC)


def anchor(number: int, tenant: str = "acme") -> Anchor:
    return Anchor(tenant=tenant, sequence=number, row_hash=f"{number:064x}", time=START + timedelta(hours=number))


def read(folder: Path) -> list[Anchor]:
    return read_anchors(folder / ANCHOR_FILE, folder / PUBLIC_KEY_FILE)


def lines(folder: Path) -> list[str]:
    return (folder / ANCHOR_FILE).read_text(encoding="ascii").splitlines()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    AnchorFile.open(tmp_path).append([anchor(1), anchor(1, "other")])
    AnchorFile.open(tmp_path).append([anchor(2)])
    return tmp_path


def test_what_was_written_is_read_by_the_public_key_alone(written: Path) -> None:
    (written / KEY_FILE).unlink()
    assert read(written) == [anchor(1), anchor(1, "other"), anchor(2)]
    assert of_tenant(read(written), "acme") == [anchor(1), anchor(2)]


def test_the_private_key_is_its_owners_only(written: Path) -> None:
    assert stat.S_IMODE((written / KEY_FILE).stat().st_mode) == 0o600


def test_many_writers_make_one_chain_of_lines(tmp_path: Path) -> None:
    AnchorFile.open(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: AnchorFile.open(tmp_path).append([anchor(number)]), range(40)))
    assert sorted(found.sequence for found in read(tmp_path)) == list(range(40))


def test_a_line_of_another_key_is_refused(written: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    stranger = tmp_path_factory.mktemp("stranger")
    AnchorFile.open(stranger).append([anchor(1)])
    (written / ANCHOR_FILE).write_text("\n".join([*lines(stranger), *lines(written)]), encoding="ascii")
    with pytest.raises(AnchorsRefused, match=r"line 1 .* was not signed"):
        read(written)


@pytest.mark.parametrize(("name", "value"), [("sequence", 7), ("row_hash", "f" * 64), ("tenant", "other")])
def test_a_line_that_was_altered_is_refused(written: Path, name: str, value: object) -> None:
    first, *rest = lines(written)
    (written / ANCHOR_FILE).write_text("\n".join([json.dumps(json.loads(first) | {name: value}), *rest]), "ascii")
    with pytest.raises(AnchorsRefused, match=r"line 1 .* was not signed"):
        read(written)


def test_a_line_that_was_taken_out_is_missed(written: Path) -> None:
    kept = lines(written)
    (written / ANCHOR_FILE).write_text("\n".join([kept[0], kept[2]]), encoding="ascii")
    with pytest.raises(AnchorsRefused, match=r"line 2 .* does not follow"):
        read(written)


@pytest.mark.parametrize("text", ["{}", "no json", "[1]", '{"time": 1}', "\x00"])
def test_what_is_no_anchor_is_refused(written: Path, text: str) -> None:
    (written / ANCHOR_FILE).write_text(text + "\n", encoding="ascii")
    with pytest.raises(AnchorsRefused, match=r"line 1 .* is no anchor"):
        read(written)


def test_a_file_that_is_no_public_key_is_refused(written: Path) -> None:
    (written / PUBLIC_KEY_FILE).write_text("-----BEGIN PUBLIC KEY-----\n", encoding="ascii")
    with pytest.raises(AnchorsRefused, match="holds no Ed25519 public key"):
        read(written)

"""Signed heads survive processes, and whatever is done to their file is found without the private key."""

import json
import resource
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_line_that_a_crash_left_unfinished_is_cut_off_before_the_next(written: Path, left: int) -> None:
    """Glued to the next one it would make every chain's anchors unreadable for ever."""
    file = written / ANCHOR_FILE
    whole = file.read_bytes()
    AnchorFile.open(written).append([anchor(3)])
    file.write_bytes(whole + file.read_bytes()[len(whole) :][:left])
    AnchorFile.open(written).append([anchor(4)])
    assert read(written) == [anchor(1), anchor(1, "other"), anchor(2), anchor(4)]


def test_a_file_of_nothing_but_an_unfinished_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / ANCHOR_FILE).write_text('{"tenant":"ac', encoding="ascii")
    AnchorFile.open(tmp_path).append([anchor(1)])
    assert read(tmp_path) == [anchor(1)]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size in bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 100, 500])
def test_anchors_that_find_no_room_leave_nothing_behind(written: Path, room: int) -> None:
    file = AnchorFile.open(written)
    before = file.path.read_bytes()
    with files_of_at_most(len(before) + room), pytest.raises(OSError, match=r"too large|room for a part"):
        file.append([anchor(3), anchor(4)])
    assert file.path.read_bytes() == before
    file.append([anchor(3), anchor(4)])
    assert read(written)[-2:] == [anchor(3), anchor(4)]


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

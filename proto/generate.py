"""Generate the Python stubs and the descriptor image of the wire from proto/kedge/**/*.proto.

Everything is written into a fresh folder that then replaces proto/gen, so a message that was renamed or removed leaves
no stale module behind. `make proto` runs this; nothing in proto/gen is edited or committed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc_tools
from google.api import annotations_pb2

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "kedge"
TARGET = HERE / "gen"
IMAGE = "kedge.binpb"


def plugin(name: str) -> str:
    """Point protoc at a generator plugin that lies beside the running interpreter."""
    return f"--plugin=protoc-gen-{name}={Path(sys.executable).parent / f'protoc-gen-{name}'}"


def command(protos: list[Path], out: Path) -> list[str]:
    """Spell the one protoc call: messages, gRPC stubs, their typed stubs, and the image with comments and imports."""
    googleapis = Path(annotations_pb2.__file__).parents[2]
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    return [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={HERE}",
        f"--proto_path={googleapis}",
        f"--proto_path={well_known}",
        plugin("mypy"),
        plugin("mypy_grpc"),
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        f"--mypy_grpc_out=quiet,generate_concrete_servicer_stubs:{out}",
        f"--descriptor_set_out={out / IMAGE}",
        "--include_imports",
        "--include_source_info",
        *(str(proto.relative_to(HERE)) for proto in protos),
    ]


def make_packages(out: Path) -> None:
    """Turn the generated folders into regular packages that carry their types."""
    package = out / "kedge"
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__init__.py").touch()
    (package / "py.typed").touch()


def main() -> int:
    """Generate into a temporary folder beside the target and swap it in."""
    protos = sorted(SOURCES.rglob("*.proto"))
    if not protos:
        sys.stderr.write("there is no .proto file under proto/kedge\n")
        return 1
    with tempfile.TemporaryDirectory(dir=HERE, prefix=".gen-") as folder:
        out = Path(folder) / "gen"
        out.mkdir()
        done = subprocess.run(command(protos, out), cwd=HERE, check=False)
        if done.returncode:
            return done.returncode
        make_packages(out)
        shutil.rmtree(TARGET, ignore_errors=True)
        out.rename(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compile the test API and serve it: a real servicer behind the transcoder, called over ASGI."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.api import annotations_pb2
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from starlette.types import ASGIApp

from kedge_bandit.adapters.rest.transcode import build_app
from tests.bandit.adapters.rest.shelves import shelf_servicer

PROTO_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProto:
    """Hold generated modules and their descriptors with source info."""

    pb2: Any
    servicer_base: Any
    service: ServiceDescriptor
    descriptors: FileDescriptorSet


def compile_proto(name: str, out: Path) -> FileDescriptorSet:
    """Generate Python for a proto file and return its descriptors with comments."""
    google_protos = Path(annotations_pb2.__file__).parents[2]
    described = out / f"{name}.binpb"
    arguments = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTO_FOLDER}",
        f"-I{google_protos}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--descriptor_set_out={described}",
        "--include_imports",
        "--include_source_info",
        f"{name}.proto",
    ]
    subprocess.run(arguments, check=True)
    return FileDescriptorSet.FromString(described.read_bytes())


def import_from(folder: Path, *names: str) -> list[Any]:
    """Import generated modules."""
    sys.path.insert(0, str(folder))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> CompiledProto:
    out = tmp_path_factory.mktemp("shelf")
    descriptors = compile_proto("shelf", out)
    pb2, pb2_grpc = import_from(out, "shelf_pb2", "shelf_pb2_grpc")
    return CompiledProto(
        pb2=pb2,
        servicer_base=pb2_grpc.ShelfServiceServicer,
        service=pb2.DESCRIPTOR.services_by_name["ShelfService"],
        descriptors=descriptors,
    )


class Rest:
    """Call the application as an HTTP client does, without a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    def __call__(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, client=("203.0.113.7", 4711))
            async with httpx.AsyncClient(transport=transport, base_url="http://kedge.test") as client:
                return await client.request(method, url, **arguments)

        return asyncio.run(call())


@pytest.fixture
def servicer(shelf: CompiledProto) -> Any:
    return shelf_servicer(shelf.pb2, shelf.servicer_base)


@pytest.fixture
def make_rest(shelf: CompiledProto, servicer: Any) -> Callable[..., Rest]:
    def make(**options: Any) -> Rest:
        return Rest(build_app([(shelf.service, servicer)], title="Shelves", version="1.2.3", **options))

    return make


@pytest.fixture
def rest(make_rest: Callable[..., Rest]) -> Rest:
    return make_rest()

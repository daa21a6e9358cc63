"""Build and test the Java client offline with what Debian brings, and read what its tests said."""

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import ROOT

FOLDER = ROOT / "proto/clients/java"
BUILD = ROOT / "build/java"
REPOSITORY = Path("/usr/share/maven-repo")
SETTINGS = Path("/etc/maven/settings-debian.xml")
_TOOLS = ("javac", "mvn", "protoc", "grpc_java_plugin")
_FILES = ("include/google/protobuf/timestamp.proto", "lib/*/jni/libnetty-tcnative.so")
_ARTIFACTS = (
    "io/grpc/grpc-netty",
    "io/netty/netty-tcnative",
    "com/google/api/grpc/proto-google-common-protos",
    "com/google/code/gson/gson",
    "org/junit/jupiter/junit-jupiter",
    "org/apache/maven/plugins/maven-antrun-plugin",
    "org/codehaus/mojo/build-helper-maven-plugin",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One test of a JVM: its name, and what went wrong or why it was left out."""

    name: str
    failure: str
    skipped: bool


def missing() -> str:
    """Name what this machine lacks for the Java tests; empty where nothing is missing."""
    lacks = [tool for tool in _TOOLS if shutil.which(tool) is None]
    lacks += [name for name in _ARTIFACTS if not (REPOSITORY / name).is_dir()]
    lacks += [name for name in _FILES if not any(Path("/usr").glob(name))]
    return ", ".join(lacks)


def test_classes() -> list[str]:
    """List the JVM's test classes by their files."""
    sources = (FOLDER / "src/test/java").rglob("*Test.java")
    return sorted(
        str(path.relative_to(FOLDER / "src/test/java")).removesuffix(".java").replace("/", ".") for path in sources
    )


def command(*arguments: str) -> list[str]:
    """Spell a call of Maven, offline with what Debian has."""
    return ["mvn", "-o", "-B", "-q", "-Pdebian", "-s", str(SETTINGS), *arguments]


def maven(environment: Mapping[str, str], *arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run Maven once, offline."""
    shutil.rmtree(BUILD / "surefire-reports", ignore_errors=True)
    return subprocess.run(
        command(*arguments),
        cwd=FOLDER,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def results() -> dict[str, list[Result]]:
    """Read what every test class said last."""
    found: dict[str, list[Result]] = {}
    for path in (BUILD / "surefire-reports").glob("TEST-*.xml"):
        for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - our own run wrote it
            told = [each.get("message") or each.text or "" for each in case if each.tag in {"failure", "error"}]
            is_skipped = case.find("skipped") is not None
            found.setdefault(case.get("classname", ""), []).append(
                Result(case.get("name", ""), "\n".join(told), is_skipped)
            )
    return found

"""Read a policy from a TOML or JSON file: proto JSON names, snake_case or lowerCamelCase."""

import json
import tomllib
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from kedge.bandit.v1 import policy_pb2
from kedge_bandit.domain.errors import InvalidName
from kedge_bandit.domain.identifiers import parse_policy, policy_name, tenant_id


class FileRefused(Exception):
    """Say what is wrong with a file."""


def read_policy(path: Path, *, tenant: str = "") -> policy_pb2.Policy:
    """Read a policy.

    Args:
        path: ends in .toml or .json.
        tenant: whose policy it is; overrides the tenant in the file's `name`, which may then be the policy's own name.

    Raises:
        FileRefused: the file cannot be read, is no TOML or JSON, or has a field that a policy has not.
    """
    content = _content(path)
    schema = content.pop("$schema", None)
    if schema is not None and not isinstance(schema, str):
        raise FileRefused(f"{path}: $schema must be text")
    content["name"] = _name(path, content.get("name"), tenant)
    try:
        return ParseDict(content, policy_pb2.Policy())
    except ParseError as error:
        raise FileRefused(f"{path}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """Give what an error says before it lists what it knows."""
    return str(error).partition("\n")[0]


def _content(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{path} cannot be read: {error}") from error
    except ValueError as error:
        raise FileRefused(f"{path} is not {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}") from error
    if not isinstance(content, dict):
        raise FileRefused(f"{path} must hold one policy")
    return content


def _name(path: Path, name: object, tenant: str) -> str:
    if not isinstance(name, str) or not name:
        raise FileRefused(f"{path}: name is missing; write tenants/TENANT/policies/POLICY")
    try:
        own = parse_policy(name)[1] if "/" in name else policy_name(name)
        if tenant:
            return f"tenants/{tenant_id(tenant)}/policies/{own}"
    except InvalidName as error:
        raise FileRefused(f"{path}: {error}") from error
    if "/" not in name:
        raise FileRefused(
            f"{path}: name {name!r} names no tenant; write tenants/TENANT/policies/{own}, or pass --tenant"
        )
    return name

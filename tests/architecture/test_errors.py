"""Keep the error tree and the wire's list of reasons in step (ADR 0009)."""

import re

from kedge.bandit.v1 import error_reason_pb2
from kedge_bandit.domain import errors

PREFIX = "ERROR_REASON_"
WIRE_REASONS = {name.removeprefix(PREFIX) for name in error_reason_pb2.ErrorReason.DESCRIPTOR.values_by_name}


def tree(root: type[errors.KedgeError]) -> list[type[errors.KedgeError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in tree(child))]


def test_every_reason_is_on_the_wire() -> None:
    assert sorted({error.reason for error in tree(errors.KedgeError)} - WIRE_REASONS) == []


def test_reasons_are_upper_snake() -> None:
    assert [
        error.reason for error in tree(errors.KedgeError) if not re.fullmatch(r"[A-Z][A-Z0-9_]*", error.reason)
    ] == []


def test_no_error_carries_a_status_code() -> None:
    forbidden = {"code", "status", "status_code", "http_status", "grpc_code"}
    assert [error.__name__ for error in tree(errors.KedgeError) if forbidden & set(vars(error))] == []

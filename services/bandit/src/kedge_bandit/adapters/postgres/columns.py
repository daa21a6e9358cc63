"""Spell columns of tables by what they hold."""

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Double, Integer, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID


def string(name: str) -> Column[str]:
    """Name a column of text."""
    return Column(name, Text)


def strings(name: str) -> Column[object]:
    """Name a column of lists of texts."""
    return Column(name, ARRAY(Text))


def time(name: str) -> Column[object]:
    """Name a column of moments, which know their zone."""
    return Column(name, DateTime(timezone=True))


def integer(name: str) -> Column[int]:
    """Name a column of integers of 32 bits."""
    return Column(name, Integer)


def big(name: str) -> Column[int]:
    """Name a column of integers of 64 bits."""
    return Column(name, BigInteger)


def bigs(name: str) -> Column[object]:
    """Name a column of lists of integers of 64 bits."""
    return Column(name, ARRAY(BigInteger))


def real(name: str) -> Column[float]:
    """Name a column of numbers of double precision."""
    return Column(name, Double)


def reals(name: str) -> Column[object]:
    """Name a column of lists of numbers."""
    return Column(name, ARRAY(Double))


def flag(name: str) -> Column[bool]:
    """Name a column of truths."""
    return Column(name, Boolean)


def flags(name: str) -> Column[object]:
    """Name a column of lists of truths."""
    return Column(name, ARRAY(Boolean))


def json(name: str) -> Column[object]:
    """Name a column of JSON; None is no value, not JSON's null."""
    return Column(name, JSONB(none_as_null=True))


def uuid(name: str) -> Column[object]:
    """Name a column of UUIDs, read as text."""
    return Column(name, UUID(as_uuid=False))


def raw(name: str) -> Column[bytes]:
    """Name a column of bytes."""
    return Column(name, LargeBinary)


def made_by() -> tuple[Column[str], Column[str], Column[bool]]:
    """Name the three columns of who made a credential."""
    return string("made_by_issuer"), string("made_by_subject"), flag("made_by_operator")

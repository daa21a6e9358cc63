"""Put contexts into buckets as the server does; golden files fix cut points, missing and unknown values, Unicode."""

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kedge.bandit.v1.policy_pb2 import Feature as FeatureMessage
from kedge_client.errors import QuestionRefused

OTHER: Final = "~other"
MISSING: Final = "~missing"
MAX_FEATURES: Final = 64
MAX_VALUE_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Categorical:
    """A feature with a bounded set of values.

    Attributes:
        parts: `name=value` by value in NFC.
        other, missing: the part of a value that is not declared, and of none.
    """

    name: str
    parts: dict[str, str]
    other: str
    missing: str

    def part(self, categories: Mapping[str, str], _numbers: Mapping[str, float]) -> str:
        """Name the part of the bucket."""
        value = categories.get(self.name)
        if value is None:
            return self.missing
        if not value.isascii():
            value = unicodedata.normalize("NFC", value)
        return self.parts.get(value, self.other)


@dataclass(frozen=True, slots=True)
class Numeric:
    """A number cut into intervals; a value equal to a cut point belongs to the interval above it.

    Attributes:
        parts: `name=interval` of each interval, from 0.
        missing: the part of no number.
    """

    name: str
    cut_points: tuple[float, ...]
    parts: tuple[str, ...]
    missing: str

    def part(self, _categories: Mapping[str, str], numbers: Mapping[str, float]) -> str:
        """Name the part of the bucket."""
        value = numbers.get(self.name)
        return self.missing if value is None else self.parts[bisect_right(self.cut_points, value)]


Feature: TypeAlias = Categorical | Numeric


def feature_of(message: FeatureMessage) -> Feature:
    """Read a feature."""
    name = message.name
    missing = f"{name}={MISSING}"
    if message.WhichOneof("kind") == "numeric":
        points = tuple(message.numeric.cut_points)
        return Numeric(name, points, tuple(f"{name}={place}" for place in range(len(points) + 1)), missing)
    values = (unicodedata.normalize("NFC", value) for value in message.categorical.values)
    return Categorical(name, {value: f"{name}={_escape(value)}" for value in values}, f"{name}={OTHER}", missing)


def bucket(features: tuple[Feature, ...], categories: Mapping[str, str], numbers: Mapping[str, float]) -> str:
    """Name the bucket: `name=part` of each declared feature in declared order, joined by "|".

    >>> features = (
    ...     feature_of(FeatureMessage(name="task", categorical={"values": ["math"]})),
    ...     feature_of(FeatureMessage(name="words", numeric={"cut_points": [10.0, 20.0]})),
    ... )
    >>> bucket(features, {"task": "poetry"}, {"words": 20})
    'task=~other|words=2'
    """
    return "|".join([feature.part(categories, numbers) for feature in features])


def check_context(
    kinds: Mapping[str, type[Feature]], categories: Mapping[str, str], numbers: Mapping[str, float]
) -> None:
    """Refuse what the server would refuse.

    Args:
        kinds: kind of each declared feature by name.
        categories: categorical features of the turn.
        numbers: numeric features of the turn.

    Raises:
        QuestionRefused: UNDECLARED_FEATURE, CONTEXT_TOO_LARGE or INVALID_VALUE.
    """
    if len(categories) + len(numbers) > MAX_FEATURES:
        raise QuestionRefused("CONTEXT_TOO_LARGE")
    for name, value in categories.items():
        if kinds.get(name) is not Categorical:
            raise QuestionRefused("UNDECLARED_FEATURE")
        if len(value) > MAX_VALUE_BYTES // 4 and len(value.encode()) > MAX_VALUE_BYTES:
            raise QuestionRefused("CONTEXT_TOO_LARGE")
        if "\0" in value:
            raise QuestionRefused("INVALID_VALUE")
    for name, number in numbers.items():
        if kinds.get(name) is not Numeric:
            raise QuestionRefused("UNDECLARED_FEATURE")
        if not math.isfinite(number):
            raise QuestionRefused("INVALID_VALUE")


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("|", "%7C").replace("=", "%3D").replace("~", "%7E")

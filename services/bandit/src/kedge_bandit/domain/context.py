"""Turn the declared features of a turn into a bucket: bounded, stable, the same in every language."""

import bisect
import itertools
import math
import re
import unicodedata
from dataclasses import dataclass, field

from kedge_bandit.domain.errors import ContextTooLarge, InvalidPolicy, InvalidValue, UndeclaredFeature

MAX_FEATURES = 64
MAX_VALUE_BYTES = 256
MAX_BUCKET_BYTES = 1_500
"""Longest name of a bucket: it is a key in the store."""
OTHER = "~other"
MISSING = "~missing"

_FEATURE_NAME = re.compile(r"[a-z0-9_]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class Context:
    """Features known before the choice."""

    categories: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("|", "%7C").replace("=", "%3D").replace("~", "%7E")


@dataclass(frozen=True, slots=True)
class CategoricalFeature:
    """A feature with a bounded set of values; any other falls into "~other", an absent one into "~missing"."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse values that are too many or too long, and keep them in NFC."""
        if not 1 <= len(self.values) <= 256:
            raise InvalidPolicy(f"feature {self.name}: declare 1 to 256 values")
        if any(len(value.encode()) > MAX_VALUE_BYTES for value in self.values):
            raise InvalidPolicy(f"feature {self.name}: a value is over {MAX_VALUE_BYTES} bytes")
        object.__setattr__(self, "values", tuple(unicodedata.normalize("NFC", value) for value in self.values))

    def part(self, context: Context) -> str:
        """Name the part of the bucket key that the context falls into."""
        value = context.categories.get(self.name)
        if value is None:
            return MISSING
        if not value.isascii():
            value = unicodedata.normalize("NFC", value)
        return _escape(value) if value in self.values else OTHER


@dataclass(frozen=True, slots=True)
class NumericFeature:
    """A number cut into intervals; a value equal to a cut point belongs to the interval above it."""

    name: str
    cut_points: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse cut points that are not finite and strictly increasing."""
        points = self.cut_points
        if len(points) > MAX_FEATURES or not all(map(math.isfinite, points)):
            raise InvalidPolicy(f"feature {self.name}: give at most 64 finite cut points")
        if any(b <= a for a, b in itertools.pairwise(points)):
            raise InvalidPolicy(f"feature {self.name}: cut points must increase strictly")

    def part(self, context: Context) -> str:
        """Name the interval, from 0."""
        value = context.numbers.get(self.name)
        return MISSING if value is None else str(bisect.bisect_right(self.cut_points, value))


Feature = CategoricalFeature | NumericFeature


def _longest(feature: Feature) -> int:
    """Bytes of the longest part that a feature can have in a bucket's name, with its own name."""
    parts = [_escape(value) for value in feature.values] if isinstance(feature, CategoricalFeature) else ["00"]
    return len(feature.name) + 2 + max(len(part.encode()) for part in (*parts, MISSING))


def check_features(features: tuple[Feature, ...]) -> None:
    """Refuse a declaration with bad or repeated names, or with more than 16 features."""
    names = [feature.name for feature in features]
    if len(names) > 16 or len(set(names)) != len(names):
        raise InvalidPolicy("declare at most 16 features, each name once")
    longest = sum(map(_longest, features))
    if longest > MAX_BUCKET_BYTES:
        raise InvalidPolicy(
            f"a bucket's name could have {longest} bytes, at most {MAX_BUCKET_BYTES}: shorten the values"
        )
    for name in names:
        if not _FEATURE_NAME.match(name):
            raise InvalidPolicy(f"feature name {name[:80]!r}: use 1 to 64 characters of [a-z0-9_]")


def check_context(context: Context, features: tuple[Feature, ...]) -> None:
    """Refuse what cannot be bucketed or stored; -0.0 is 0.

    Raises:
        UndeclaredFeature: a feature the policy does not declare, or one of the other kind.
        ContextTooLarge: more than 64 features or a value over 256 bytes.
        InvalidValue: a number that is not finite.
    """
    if not context.categories and not context.numbers:
        return
    if len(context.categories) + len(context.numbers) > MAX_FEATURES:
        raise ContextTooLarge(f"{len(context.categories) + len(context.numbers)} features; send at most {MAX_FEATURES}")
    kinds = {feature.name: type(feature) for feature in features}
    for name, value in context.categories.items():
        if kinds.get(name) is not CategoricalFeature:
            raise UndeclaredFeature(name[:80], "categorical")
        if len(value) > MAX_VALUE_BYTES // 4 and len(value.encode()) > MAX_VALUE_BYTES:
            raise ContextTooLarge(f"feature {name}: the value is over {MAX_VALUE_BYTES} bytes; shorten or hash it")
        if "\0" in value:
            raise InvalidValue(f"feature {name}", "a zero character", "text without zero characters")
    for name, number in context.numbers.items():
        if kinds.get(name) is not NumericFeature:
            raise UndeclaredFeature(name[:80], "numeric")
        if not math.isfinite(number):
            raise InvalidValue(f"feature {name}", repr(number), "a finite number")


def bucket(context: Context, features: tuple[Feature, ...]) -> str:
    """Name the bucket: `name=part` of each declared feature in declared order, joined by "|"; "" without features.

    >>> task, words = CategoricalFeature("task", ("math", "code")), NumericFeature("words", (10.0, 20.0))
    >>> bucket(Context({"task": "math"}, {"words": 20}), (task, words))
    'task=math|words=2'
    >>> bucket(Context({"task": "poetry"}), (task, words))
    'task=~other|words=~missing'
    """
    return "|".join([f"{feature.name}={feature.part(context)}" for feature in features])

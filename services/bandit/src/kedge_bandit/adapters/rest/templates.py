"""Parse and match the path templates of google.api.http, such as ``/v1/{name=tenants/*/policies/*}:freeze``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

ONE = "*"
REST = "**"
_SLASH_OUTSIDE_BRACES = re.compile(r"/(?![^{]*\})")
_VARIABLE = re.compile(r"\{([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*)(?:=([^{}]+))?\}")
_SEGMENT = re.compile(r"\*\*?|[A-Za-z0-9._~-]+")
_VERB = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Bind a stretch of path segments to a field of the request.

    Attributes:
        field: names from the request message to the field, as the proto spells them.
        start: index of the first segment.
        stop: index after the last segment; None reaches to the end of the path.
        single: whether the pattern is one ``*``, whose value may hold an encoded slash.
    """

    field: tuple[str, ...]
    start: int
    stop: int | None
    single: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTemplate:
    """Recognise one shape of path and read its variables.

    Attributes:
        text: the template as the proto states it.
        segments: literals, ``*`` for one segment, a last ``**`` for any number of segments.
        variables: in the order of the path.
        verb: the custom verb after the colon, or "".
    """

    text: str
    segments: tuple[str, ...]
    variables: tuple[Variable, ...]
    verb: str

    @property
    def is_open(self) -> bool:
        """Whether the number of segments is not fixed."""
        return self.segments[-1] == REST

    def matches(self, segments: Sequence[str]) -> bool:
        """Say whether the decoded segments of a path, its verb taken off, have this shape."""
        expected = self.segments[:-1] if self.is_open else self.segments
        if len(segments) < len(expected) or (len(segments) > len(expected) and not self.is_open):
            return False
        pairs = zip(expected, segments, strict=False)
        return all(want == got or (want == ONE and got != "") for want, got in pairs)

    def values(self, segments: Sequence[str]) -> Iterator[tuple[Variable, str]]:
        """Read every variable from the decoded segments of a path that matches.

        A variable over several segments keeps a slash inside a segment encoded, so that a name never gains a level.
        """
        for variable in self.variables:
            stretch = segments[variable.start : variable.stop]
            if variable.single:
                yield variable, stretch[0]
            else:
                yield variable, "/".join(segment.replace("/", "%2F") for segment in stretch)


def parse_template(text: str) -> PathTemplate:
    """Read a template of google.api.http.

    Raises:
        ValueError: the text is outside the grammar, or ``**`` stands anywhere but at the end.

    >>> parsed = parse_template("/v1/{name=tenants/*/policies/*}:freeze")
    >>> parsed.segments, parsed.verb
    (('v1', 'tenants', '*', 'policies', '*'), 'freeze')
    >>> [(".".join(v.field), value) for v, value in parsed.values(["v1", "tenants", "a", "policies", "p"])]
    [('name', 'tenants/a/policies/p')]
    """
    head, colon, tail = text.rpartition(":")
    path, verb = (head, tail) if colon and "/" not in tail and "}" not in tail else (text, "")
    if not path.startswith("/") or (colon and path is head and not _VERB.fullmatch(verb)):
        raise ValueError(f"HTTP template {text!r}: expected '/segment/...' with an optional ':verb' at the end")
    segments: list[str] = []
    variables: list[Variable] = []
    for part in _SLASH_OUTSIDE_BRACES.split(path[1:]):
        if (found := _VARIABLE.fullmatch(part)) is None:
            segments.append(part)
            continue
        pattern = (found[2] or ONE).split("/")
        start = len(segments)
        segments.extend(pattern)
        stop = None if pattern[-1] == REST else len(segments)
        field = tuple(found[1].split("."))
        variables.append(Variable(field=field, start=start, stop=stop, single=pattern == [ONE]))
    if bad := [s for i, s in enumerate(segments) if not _SEGMENT.fullmatch(s) or (s == REST and i < len(segments) - 1)]:
        raise ValueError(f"HTTP template {text!r}: {bad[0]!r} is no segment, or '**' is not the last one")
    return PathTemplate(text=text, segments=tuple(segments), variables=tuple(variables), verb=verb)


def split_path(raw_path: str) -> tuple[str, ...] | None:
    """Split a percent-encoded path, taking a colon in the last segment for part of it.

    Returns:
        The decoded segments, or None when the path does not start with a slash or is no UTF-8.

    >>> split_path("/v1/episodes/a%2Fb")
    ('v1', 'episodes', 'a/b')
    """
    if not raw_path.startswith("/"):
        return None
    try:
        return tuple(unquote(segment, errors="strict") for segment in raw_path[1:].split("/"))
    except UnicodeDecodeError:
        return None


def split_verb(raw_path: str) -> tuple[str, str]:
    """Split a percent-encoded path into the path proper and its verb, "" without one.

    An encoded colon (``%3A``) is never a verb's, so any identifier can be addressed.

    >>> split_verb("/v1/policies/p:freeze")
    ('/v1/policies/p', 'freeze')
    """
    head, colon, tail = raw_path.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (raw_path, "")

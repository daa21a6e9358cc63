"""Compare two texts line by line, and word by word within a changed line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

from markupsafe import Markup, escape

from kedge_bandit.adapters.console.inert import inert

LONGEST_LINE: Final = 4000
"""Characters of a line up to which single words are compared; longer ones are marked whole."""
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Row:
    """A line on either side, None where one side has none; `changed` where they differ."""

    before: Markup | None
    after: Markup | None
    changed: bool


def rows(before: str, after: str) -> list[Row]:
    """Lay two texts side by side.

    >>> [(str(row.before), str(row.after), row.changed) for row in rows("Be brief.", "Be kind.")]
    [('Be <del>brief</del>.', 'Be <ins>kind</ins>.', True)]
    """
    left, right = before.splitlines(), after.splitlines()
    found: list[Row] = []
    for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [Row(_shown(line), _shown(line), changed=False) for line in left[i:j]]
        else:
            found += _paired(left[i:j], right[k:m])
    return found


def inline(found: Sequence[Row]) -> Iterator[tuple[str, Markup]]:
    r"""Put the lines of one side below those of the other: "same", "was" or "is", and the line.

    >>> [(kind, str(line)) for kind, line in inline(rows("one\ntwo", "one"))]
    [('same', 'one'), ('was', 'two')]
    """
    for row in found:
        if not row.changed and row.before is not None:
            yield "same", row.before
            continue
        if row.before is not None:
            yield "was", row.before
        if row.after is not None:
            yield "is", row.after


def summary(found: Sequence[Row]) -> str:
    r"""Say how much differs.

    >>> summary(rows("a\nb", "a\nc\nd"))
    '2 lines added, 1 removed, 1 the same'
    """
    added = sum(row.changed and row.after is not None for row in found)
    removed = sum(row.changed and row.before is not None for row in found)
    same = sum(not row.changed for row in found)
    return f"{added} line{'' if added == 1 else 's'} added, {removed} removed, {same} the same"


def _paired(left: Sequence[str], right: Sequence[str]) -> Iterator[Row]:
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            yield Row(_shown(one), _shown(other), changed=True)
        else:
            yield _compared(one, other)


def _compared(one: str, other: str) -> Row:
    if max(len(one), len(other)) > LONGEST_LINE:
        return Row(_shown(one), _shown(other), changed=True)
    left, right = _WORDS.findall(one), _WORDS.findall(other)
    before, after = Markup(), Markup()
    for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        was, now = escape(inert("".join(left[i:j]))), escape(inert("".join(right[k:m])))
        before += was if tag == "equal" or not was else Markup("<del>{}</del>").format(was)
        after += now if tag == "equal" or not now else Markup("<ins>{}</ins>").format(now)
    return Row(before, after, changed=True)


def _shown(line: str | None) -> Markup | None:
    return None if line is None else escape(inert(line))

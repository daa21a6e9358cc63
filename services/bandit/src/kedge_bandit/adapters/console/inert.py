"""Make visible what a browser would obey or hide: characters that turn text around, join it or take no room."""

import re
from typing import Any, Final

from markupsafe import Markup

_OBEYED: Final = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def inert(value: Any) -> Any:
    r"""Spell such characters as their escapes, in every text that is no markup of ours.

    >>> inert("prod" + chr(0x202E) + "tset")
    'prod\\u202etset'
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value

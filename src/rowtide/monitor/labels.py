"""Values of labels, without anything that a scrape must not disclose. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from rowtide.core.redaction import redact
from rowtide.databases.urls import NAMING

_NAMING = tuple((re.compile(pattern), replacement) for pattern, replacement in NAMING)
_MOST_KEPT = 1000
"""Each subscriber is named several times in each poll."""
_USER_PARAMETER = re.compile(r"(?<![\w-])user=(?:'[^']*'|[^&\s]*)[&\s]?")


@lru_cache(_MOST_KEPT)
def without_users(text: str) -> str:
    """Return a text, such as a subscriber's URL, in which URLs have no user, no secrets and no settings.

    A role that reads the views for monitors finds the same name in them.
    """
    named = redact(text)
    for pattern, replacement in _NAMING:
        named = pattern.sub(replacement, named)
    return _USER_PARAMETER.sub("", named)


_QUOTED_ERROR = re.compile(r"\b(RT-\d+|[A-Z]\w*(?:Error|Exception)): .*", re.DOTALL)


def without_row_values(text: str) -> str:
    """Return a message with the number of the error that it quotes: the error's text may have keys and values of rows.

    What follows in the message goes with it, since nothing says where the quotation ends.
    """
    return _QUOTED_ERROR.sub(r"\1", text)


def number_of(text: str) -> str | None:
    """Return the number, or the class, of the error with which a recorded text begins."""
    found = _QUOTED_ERROR.match(text)
    return found[1] if found is not None else None

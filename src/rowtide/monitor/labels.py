"""Values of labels that say no more than a scrape may know. Pure."""

from __future__ import annotations

import re

from rowtide.core.redaction import redact

_USER = re.compile(r"(?<=//)[^/@\s]*@")
_USER_PARAMETER = re.compile(r"(?<![\w-])user=(?:'[^']*'|[^&\s]*)[&\s]?")


def without_users(text: str) -> str:
    """Return a text, such as the name of a subscriber, in which URLs have no user and no secrets."""
    return _USER_PARAMETER.sub("", _USER.sub("", redact(text)))

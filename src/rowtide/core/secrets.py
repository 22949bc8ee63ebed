"""Passwords in text that people read. Pure."""

from __future__ import annotations

import re

MASK = "***"
SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""libpq's connection parameters that are secrets."""

_IN_USERINFO = re.compile(r"(?P<before>\w[\w+.-]*://[^\s:/?#@]*:)\S+@")
"""Greedy: a password in which @ or / was not escaped is covered whole."""
_IN_PARAMETER = re.compile(
    rf"(?P<before>\b(?:{'|'.join(sorted(SECRET_PARAMETERS))}|pgpassword|aws_secret_access_key)\s*=\s*)"
    r"(?:'(?:[^'\\]|\\.)*'?|[^\s&'\",;]+)",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return text with the passwords of URLs, of their parameters and of libpq's keyword strings replaced by `***`."""
    for pattern in (_IN_USERINFO, _IN_PARAMETER):
        text = pattern.sub(lambda found: found["before"] + MASK + "@" * found[0].endswith("@"), text)
    return text

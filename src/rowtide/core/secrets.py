"""Passwords, keys and tokens in text for people. Pure."""

from __future__ import annotations

import re

MASK = "***"
SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""libpq's connection parameters that are secrets."""

_IN_USERINFO = re.compile(r"(?P<before>\w[\w+.-]*://[^\s:/?#@]*:)\S+@")
"""Greedy, so that a password with an unescaped @ or / is masked entirely."""
_IN_PARAMETER = re.compile(
    rf"(?P<before>\b(?:{'|'.join(sorted(SECRET_PARAMETERS))}|pgpassword|aws_secret_access_key)\s*=\s*)"
    r"(?:'(?:[^'\\]|\\.)*'?|[^\s&'\",;]+)",
    re.IGNORECASE,
)


_OF_STORES = (
    r"[\w.-]*(?:secret[.-]?(?:access[.-])?key|account\.key|session[.-]token|sas\.(?:fixed\.)?token)[\w.-]*|accountkey"
)
"""Settings of object stores: Hadoop's (`fs.s3a.secret.key`, `fs.azure.account.key.NAME.dfs…`), and Azure's own."""
_IN_SETTING = re.compile(
    rf"(?P<before>\b(?:{_OF_STORES}|sig|x-amz-(?:signature|credential|security-token))[\"']?\s*[=:]\s*)"
    r"(?:'[^']*'?|\"[^\"]*\"?|[^\s&'\",;]+)",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Return text with `***` for passwords in URLs and libpq's keyword strings, and for keys of object stores."""
    if "=" not in text and ":" not in text:
        # What all patterns need: they take long for long words.
        return text
    for pattern in (_IN_USERINFO, _IN_PARAMETER, _IN_SETTING):
        text = pattern.sub(lambda found: found["before"] + MASK + "@" * found[0].endswith("@"), text)
    return text

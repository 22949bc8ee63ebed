"""What adds, changes and drops objects of a kind, by the methods of a database's handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.core.values import frozen
from rowtide.declared.state import DeclaredObject, State
from rowtide.handle import Database


@frozen
class DeclaredChange:
    """An object as it is and as it is to be, and the options that differ."""

    present: DeclaredObject
    wanted: DeclaredObject
    options: Sequence[str]

    def arguments(self) -> dict[str, Any]:
        """Return the options that differ as a method takes them, None for those without a value."""
        given = self.wanted.arguments()
        return {name: given.get(name, self._default(name)) for name in self.options}

    def _default(self, name: str) -> object:
        value, kind = self.wanted.value(name), self.wanted.kind
        return None if value is None else kind.keys[name].type.read(value)


@frozen
class Effects:
    """What is done with objects of one kind; `add` is given all that is declared."""

    add: Callable[[Database, DeclaredObject, State], object]
    change: Callable[[Database, DeclaredChange], object]
    drop: Callable[[Database, DeclaredObject], object]


def refuse(*_given: object) -> None:
    """Stand in for what no plan does with a kind of objects."""
    raise AssertionError("no plan does this")


def nothing(*_given: object) -> None:
    """Stand in for what needs no call of its own."""

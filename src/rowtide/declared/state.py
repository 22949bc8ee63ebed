"""Declared state: objects of some kinds with the options that are not their defaults, and what adds and drops them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from rowtide.core.values import frozen
from rowtide.declared.kinds import BY_NAME, KINDS, Kind
from rowtide.declared.values import Plain
from rowtide.handle import Database

ObjectName = tuple[str, tuple[str, ...]]
"""The kind of an object, its containers' names, and its own."""


@frozen
class DeclaredObject:
    """An object: its names, containers' first, and its options as TOML has them, without defaults.

    `implied` are values of options that are not there because they follow from others: a file may have them as well.
    `tolerated` are options that a file may leave out without a difference; `always` are the columns that are among the
    others even if they are not named.
    """

    kind: Kind
    names: tuple[str, ...]
    options: Mapping[str, Plain] = field(default_factory=dict)
    implied: Mapping[str, Plain] = field(default_factory=dict)
    tolerated: frozenset[str] = frozenset()
    always: frozenset[str] = frozenset()

    @property
    def name(self) -> ObjectName:
        """What identifies it among objects of its kind."""
        return self.kind.name, self.names

    @property
    def container(self) -> ObjectName | None:
        """The name of the object that contains it."""
        kind = self.kind.container
        return None if kind is None else (kind.name, self.names[:-1])

    @property
    def label(self) -> str:
        """Its name in sentences."""
        return f"{self.kind.name} {'.'.join(self.names)}".rstrip()

    def value(self, option: str) -> Plain | None:
        """Return an option's value, or its default."""
        return self.options.get(option, self.kind.default_of(self.names, option))

    def arguments(self) -> dict[str, Any]:
        """Return the values of its options as the methods take them; those that are not given are not there."""
        given = {name: self.kind.keys[name].type.read(value) for name, value in self.options.items()}
        return dict(zip(self.kind.named_by, self.names, strict=False)) | given


State = Mapping[ObjectName, DeclaredObject]


def describe(
    kind: Kind,
    names: Iterable[str],
    values: Mapping[str, Any],
    *,
    implied: Mapping[str, Any] | None = None,
    tolerated: Iterable[str] = (),
    always: Iterable[str] = (),
) -> DeclaredObject:
    """Return an object with the values that its options have; None and defaults are left out."""
    own = tuple(names)
    options = {name: value for name, value in _write(kind, values) if value != kind.default_of(own, name)}
    return DeclaredObject(
        kind, own, options, dict(_write(kind, implied or {})), frozenset(tolerated), frozenset(always)
    )


def as_state(objects: Iterable[DeclaredObject]) -> State:
    """Return objects by their names, in the order of a file."""
    order = {kind.name: index for index, kind in enumerate(KINDS)}
    listed = sorted(objects, key=lambda one: (order[one.kind.name], one.names))
    return {one.name: one for one in listed}


def list_of(state: State, kind: Kind) -> Iterator[DeclaredObject]:
    """Yield the objects of one kind."""
    return (one for one in state.values() if one.kind is kind)


def kind_of(name: ObjectName) -> Kind:
    """Return an object's kind."""
    return BY_NAME[name[0]]


def _write(kind: Kind, values: Mapping[str, Any]) -> Iterator[tuple[str, Plain]]:
    for name, value in values.items():
        if value is not None:
            yield name, kind.keys[name].type.write(value)


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

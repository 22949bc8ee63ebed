"""`dataclass` as Python has it, which compiles an `__init__` when it is first called, and nothing else.

Python's compiles six methods of a frozen class with slots as it makes it, 0.3 ms. A command makes up to 300 such
classes, and objects of few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_Methods = dict[str, Callable[..., Any]]


def _deferring(
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    repr: bool = True,  # noqa: A002  its name in Python's
    eq: bool = True,
) -> Callable[[type], type]:
    """Return the decorator; the parameters are those of `dataclasses.dataclass`."""

    def make(declared: type) -> type:
        own = declared.__dict__
        has_hash = own.get("__hash__", MISSING) is not MISSING and not (own["__hash__"] is None and "__eq__" in own)
        decorator: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        made: type[Any] = decorator(declared)
        found = fields(made)
        names = [field.name for field in found]
        methods = _initialising(made, found, is_frozen=frozen)
        if repr:
            methods |= _representing([field.name for field in found if field.repr])
        if eq:
            methods |= _comparing([field.name for field in found if field.compare])
        if eq and frozen and not has_hash:
            methods |= _hashing(
                [field.name for field in found if (field.compare if field.hash is None else field.hash)]
            )
        if frozen:
            methods |= _freezing(made, frozenset(names))
        if frozen and slots:
            methods |= _pickling(names)
        for name, method in methods.items():
            if name not in own or name == "__hash__":
                _set_method(made, name, method)
        if eq and not frozen and not has_hash:
            made.__hash__ = None  # type: ignore[assignment]
        return made

    return make


def _set_method(made: type[Any], name: str, method: Callable[..., Any]) -> None:
    method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
    setattr(made, name, method)


def _initialising(made: type[Any], found: Sequence[Field[Any]], *, is_frozen: bool) -> _Methods:
    def initialise(self: Any, *values: Any, **named: Any) -> None:
        compiled = _compile_init(found, is_frozen=is_frozen, goes_on=hasattr(made, "__post_init__"))
        _set_method(made, "__init__", compiled)
        compiled(self, *values, **named)

    return {"__init__": initialise}


def _compile_init(found: Sequence[Field[Any]], *, is_frozen: bool, goes_on: bool) -> Callable[..., None]:
    """Compile the function that sets all fields, as that of Python's dataclasses does."""
    known: dict[str, Any] = {"set_field": object.__setattr__, "MISSING": MISSING}
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for field in found:
        name = value = field.name
        default = ""
        if field.default is not MISSING:
            known[f"default_{name}"] = field.default
            default = f"=default_{name}"
            value = name if field.init else f"default_{name}"
        elif field.default_factory is not MISSING:
            known[f"make_{name}"] = field.default_factory
            default = "=MISSING"
            value = f"make_{name}() if {name} is MISSING else {name}" if field.init else f"make_{name}()"
        if field.init:
            (named if field.kw_only else positional).append(name + default)
        if field.init or default:
            lines.append(f"set_field(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if goes_on:
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    body = "\n ".join(lines or ["pass"])
    exec(f"def initialise({parameters}):\n {body}", known)  # noqa: S102  of fields' names
    compiled: Callable[..., None] = known["initialise"]
    return compiled


def _representing(names: Sequence[str]) -> _Methods:
    @recursive_repr()
    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return {"__repr__": represent}


def _comparing(names: Sequence[str]) -> _Methods:
    compared = _getter(names)

    def equals(self: Any, other: object) -> bool:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    return {"__eq__": equals}


def _hashing(names: Sequence[str]) -> _Methods:
    hashed = _getter(names)
    return {"__hash__": lambda self: hash(hashed(self))}


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what returns some fields of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _freezing(made: type[Any], names: frozenset[str]) -> _Methods:
    def refuse_to_set(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def refuse_to_delete(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    return {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}


def _pickling(names: Sequence[str]) -> _Methods:
    def read_state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def set_state(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": read_state, "__setstate__": set_state}


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _deferring

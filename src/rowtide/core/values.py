"""Values: frozen, slotted dataclasses whose methods are generated when one of them is first used.

`@dataclass` compiles six methods when a class is declared, which takes half a millisecond. A command imports hundreds
of such classes and uses a few dozen: compiling all methods took a fifth of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

Kind = TypeVar("Kind", bound=type)


@overload
def frozen(kind: Kind, /) -> Kind: ...
@overload
def frozen(*, slots: bool = True, kw_only: bool = False, order: bool = False) -> Callable[[Kind], Kind]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: Any = None, /, *, slots: bool = True, **parameters: bool) -> Any:
    """Make a frozen dataclass of a class; its objects have no `__dict__`, unless `slots` is false.

    `fields`, `replace`, `asdict`, `match` and `inspect` take it as any dataclass.
    """
    if kind is None:
        return lambda kind: _declare(kind, parameters, slots=slots)
    return _declare(kind, parameters, slots=slots)


def _declare(kind: Any, parameters: Mapping[str, bool], *, slots: bool) -> Any:
    """Return a new class, since slots can only be added at creation, with placeholders for the methods of a
    dataclass.
    """
    body = {name: member for name, member in vars(kind).items() if name not in ("__dict__", "__weakref__")}
    made = (*_MEMBERS, *_COMPARISONS) if parameters.get("order") else _MEMBERS
    # Python sets `__hash__` to None in a class that defines only `__eq__`.
    deferred = {name: _Deferred(name, body, parameters) for name in made if body.get(name) is None}
    namespace = {**body, **_FROZEN, **deferred}
    if slots:
        names = [name for name, annotation in body.get("__annotations__", {}).items() if _is_field(annotation)]
        # In a class with slots, default values would conflict with the slots of the same names.
        namespace = {name: member for name, member in namespace.items() if name not in names}
        namespace["__slots__"] = tuple(names)
    declared = type(kind)(kind.__name__, kind.__bases__, namespace)
    declared.__qualname__ = kind.__qualname__
    return declared


def _is_field(annotation: str) -> bool:
    return annotation.partition("[")[0].rpartition(".")[2] not in ("ClassVar", "KW_ONLY")


class _Deferred:
    """Placeholder for a member that `dataclass` generates. The first use of any placeholder generates all members."""

    def __init__(self, name: str, body: Mapping[str, Any], parameters: Mapping[str, bool]) -> None:
        self._name, self._body, self._parameters = name, body, parameters

    def __set_name__(self, owner: Any, _name: str) -> None:
        self._owner = owner

    def __get__(self, instance: object, kind: type) -> Any:
        self._make()
        member = vars(self._owner)[self._name]
        return member.__get__(instance, kind) if hasattr(member, "__get__") else member

    def _make(self) -> None:
        """Generate a dataclass from the class's declaration, and copy its members.

        Threads that do so concurrently copy equal members. There is no lock because another thread could hold it during
        a fork.
        """
        owner = self._owner
        made = type(owner)(owner.__name__, owner.__bases__, dict(self._body))
        made = dataclass(frozen=True, **self._parameters)(made)
        for name, stand_in in [*vars(owner).items()]:
            if isinstance(stand_in, _Deferred):
                setattr(owner, name, vars(made)[name])


def _refuse_to_set(value: object, name: str, _given: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r} of {type(value).__name__}")


def _refuse_to_delete(value: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r} of {type(value).__name__}")


def _get_state(value: Any) -> list[Any]:
    return [getattr(value, each.name) for each in fields(value)]


def _set_state(value: Any, state: list[Any]) -> None:
    for each, state_value in zip(fields(value), state, strict=True):
        object.__setattr__(value, each.name, state_value)


_MEMBERS = (
    *("__init__", "__repr__", "__eq__", "__hash__"),
    *("__match_args__", "__dataclass_fields__", "__dataclass_params__"),
)
_COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
_FROZEN = {
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}

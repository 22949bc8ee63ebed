"""The project's `dataclass` makes what Python's makes, without compiling its methods."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from rowtide.core import values

_Item = TypeVar("_Item")


@values.dataclass(frozen=True, slots=True)
class Place:
    """A value that is pickled."""

    table: str
    columns: tuple[str, ...] = ()


def declare(decorator: Callable[..., Any], **options: bool) -> Any:
    @decorator(**options)
    class Declared(Generic[_Item]):
        count: int
        item: _Item | None = None
        names: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="x", repr=False)
        total: int = field(default=3, init=False)
        kind: ClassVar[str] = "declared"
        last: int = field(default=0, kw_only=True)

    return Declared


SHAPES = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"frozen": True, "slots": True, "kw_only": True},
]


def describe(make: Callable[[], Any]) -> Any:
    try:
        made = make()
    except TypeError:
        return TypeError
    return [(each.name, getattr(made, each.name)) for each in fields(made)]


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_objects_are_as_those_of_python(options: dict[str, bool]) -> None:
    ours, theirs = declare(values.dataclass, **options), declare(dataclasses.dataclass, **options)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}),
        ((1, "a", ["b"], "c"), {"last": 5}),
        ((), {"count": 1, "names": ["b"]}),
        ((), {}),
        ((1, 2, 3, 4, 5), {}),
        ((1,), {"count": 1}),
        ((1,), {"unknown": 1}),
        ((1,), {"total": 1}),
    ]
    for positional, named in calls:
        expected = describe(lambda p=positional, n=named: theirs(*p, **n))  # type: ignore[misc]
        assert describe(lambda p=positional, n=named: ours(*p, **n)) == expected  # type: ignore[misc]
    one, two = ours(count=1, names=["b"]), ours(count=1)
    assert (one == two, one == ours(count=2), one == 1) == (options.get("eq", True), False, False)
    assert ours.__match_args__ == theirs.__match_args__
    is_hashed = options.get("frozen", False) or not options.get("eq", True)
    assert (ours.__hash__ is not None) == (theirs.__hash__ is not None) == is_hashed
    if options.get("repr", True):
        assert repr(one) == repr(theirs(count=1, names=["b"]))
    assert ours(count=1).names is not ours(count=1).names
    assert dataclasses.replace(one, count=4) == ours(count=4) or not options.get("eq", True)
    assert dataclasses.asdict(one) == dataclasses.asdict(theirs(count=1, names=["b"]))
    assert hasattr(one, "__dict__") != options.get("slots", False)


def test_a_frozen_value_is_neither_changed_nor_emptied() -> None:
    place = Place("orders")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'table'"):
        place.table = "items"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'table'"):
        del place.table
    with pytest.raises(FrozenInstanceError, match="cannot assign"):
        place.other = 1  # type: ignore[attr-defined]

    assert place == Place(table="orders")
    assert len({place, Place("orders"), Place("items")}) == 2


def test_values_are_pickled_and_copied() -> None:
    place = Place("orders", ("id",))

    assert pickle.loads(pickle.dumps(place)) == copy.deepcopy(place) == copy.copy(place) == place


def test_a_derived_class_has_the_fields_of_both() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Column(Place):
        number: int = 0

        def __post_init__(self) -> None:
            object.__setattr__(self, "number", self.number + 1)

    assert Column("orders", ("id",), 2) == Column("orders", ("id",), number=2) != Place("orders", ("id",))
    assert (Column("orders").number, repr(Place("orders"))) == (1, "Place(table='orders', columns=())")


def test_methods_of_the_class_itself_stay() -> None:
    @values.dataclass(frozen=True, slots=True)
    class Own:
        value: int

        def __init__(self) -> None:
            object.__setattr__(self, "value", 7)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    assert (Own().value, repr(Own()), Own() == 1, hash(Own())) == (7, "own", True, 5)


def test_a_class_that_refers_to_itself_has_a_text() -> None:
    @values.dataclass(slots=True)
    class Node:
        next: Any = None

    node = Node()
    node.next = node

    assert repr(node).endswith("Node(next=...)")


def test_a_method_that_is_compiled_later_has_its_name() -> None:
    Place("orders")

    assert Place.__init__.__qualname__ == "Place.__init__"

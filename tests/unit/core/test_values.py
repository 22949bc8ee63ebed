"""A frozen class is what `@dataclass(frozen=True, slots=True)` makes, only later."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from threading import Barrier
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_type_hints

import pytest

from rowtide.core.values import frozen

Item = TypeVar("Item")


@frozen
class Point:
    """A place."""

    dimensions: ClassVar[int] = 2
    x: int
    y: int = 0
    names: tuple[str, ...] = field(default_factory=tuple)
    _: KW_ONLY
    is_known: bool = True

    @property
    def total(self) -> int:
        return self.x + self.y


@frozen
class Named(Point):
    label: str = "none"


@frozen(order=True)
class Version:
    major: int
    minor: int


@frozen(slots=False)
class Text:
    text: str

    @cached_property
    def length(self) -> int:
        return len(self.text)


@frozen
class Pair(Generic[Item]):
    one: Item
    other: Item


@frozen
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


@frozen(kw_only=True)
class Size:
    width: int


@frozen
class Own:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


class Measured(Protocol):
    @property
    def total(self) -> int: ...


def declare() -> Any:
    """Return a class of which nothing has been used yet."""

    @frozen
    class Fresh:
        number: int
        text: str = "text"

    return Fresh


def make_unused(kind: Any, *values: object) -> Any:
    """Return an object whose class's `__init__` was not called: it is unpickled so."""
    made = object.__new__(kind)
    for name, value in zip(kind.__slots__, values, strict=True):
        object.__setattr__(made, name, value)
    return made


def test_fields_are_set_by_place_name_and_default() -> None:
    assert Point(1) == Point(x=1, y=0, names=(), is_known=True)
    assert (Point(1, 2).total, Point(1).names, Point.dimensions) == (3, (), 2)
    with pytest.raises(TypeError):
        Point(1, 2, (), False)  # type: ignore[call-arg]  # noqa: FBT003
    with pytest.raises(TypeError):
        Size(1)  # type: ignore[call-arg]
    assert Size(width=1).width == 1


def test_nothing_can_be_assigned_or_deleted() -> None:
    point, text = Point(1), Text("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'text'"):
        text.text = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert (point, text, hasattr(point, "__dict__")) == (Point(1), Text("a"), False)


def test_values_are_equal_by_class_and_fields() -> None:
    assert (Point(1) == Point(1), Point(1) != Point(2), Point(1) != Named(1)) == (True, True, True)
    assert len({Point(1), Point(1), Point(2), Named(1)}) == 3
    assert hash(Point(1)) == hash(Point(1))


def test_values_are_printed_with_their_fields() -> None:
    assert repr(Named(1, label="a")) == "Named(x=1, y=0, names=(), is_known=True, label='a')"
    assert repr(declare()(1)) == "declare.<locals>.Fresh(number=1, text='text')"


def test_only_ordered_values_are_compared() -> None:
    assert sorted([Version(2, 0), Version(1, 9)]) == [Version(1, 9), Version(2, 0)]
    assert Version(1, 0) >= Version(1, 0) > Version(0, 9)
    with pytest.raises(TypeError):
        sorted([Point(1), Point(2)])  # type: ignore[type-var]


def test_what_a_class_defines_itself_stays() -> None:
    assert (Own(1) == Own(2), hash(Own(1)), repr(Own(1))) == (True, 7, "own")
    with pytest.raises(ValueError, match="odd"):
        Even(1)


@pytest.mark.parametrize(
    "use",
    [
        lambda kind: kind(1),
        lambda kind: kind.__match_args__,
        lambda kind: make_unused(kind, 1, "text") == make_unused(kind, 1, "text"),
        lambda kind: hash(make_unused(kind, 1, "text")),
        lambda kind: repr(make_unused(kind, 1, "text")),
        lambda kind: replace(make_unused(kind, 1, "text"), number=2),
        is_dataclass,
        fields,
        lambda kind: asdict(make_unused(kind, 1, "text")),
        lambda kind: copy.copy(make_unused(kind, 1, "text")),
    ],
)
def test_any_use_may_be_the_first(use: Callable[[Any], object]) -> None:
    kind = declare()

    use(kind)

    assert (kind(1), repr(replace(kind(1), text="a"))) == (kind(1), "declare.<locals>.Fresh(number=1, text='a')")


def test_methods_are_made_at_the_first_use() -> None:
    kind = declare()
    assert not inspect.isfunction(vars(kind)["__init__"])

    kind(1)

    assert inspect.isfunction(vars(kind)["__init__"])


def test_the_standard_library_takes_it_as_a_dataclass() -> None:
    assert [each.name for each in fields(Named)] == ["x", "y", "names", "is_known", "label"]
    assert asdict(Pair(Version(1, 2), Version(3, 4))) == {
        "one": {"major": 1, "minor": 2},
        "other": {"major": 3, "minor": 4},
    }
    assert [*inspect.signature(declare()).parameters] == ["number", "text"]
    assert get_type_hints(Version) == {"major": int, "minor": int}
    assert (Point.__doc__, Point.__module__, Point.__qualname__) == ("A place.", __name__, "Point")
    match Point(1, 2):
        case Point(x, 2):
            assert x == 1
        case _:
            raise AssertionError


def test_a_value_is_pickled_and_copied() -> None:
    for value in (Named(1, names=("a",)), Text("a"), Pair(1, 2)):
        assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == copy.copy(value) == value


def test_a_process_unpickles_what_it_has_not_made() -> None:
    """As Spark's workers do: there the methods are made for the first object that is compared."""
    kind = declare()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        one, other = make_unused(kind, 1, "a"), make_unused(kind, 1, "a")
        os.write(writing, b"equal" if one == other and hash(one) == hash(other) else b"other")
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reading, 5) == b"equal"


def test_a_value_has_a_cached_property_without_slots() -> None:
    text = Text("abc")

    assert (text.length, text.length, vars(text)["length"]) == (3, 3, 3)
    assert pickle.loads(pickle.dumps(text)) == text


def test_a_class_that_is_not_declared_so_inherits() -> None:
    class Plain(Point):
        def __repr__(self) -> str:
            return f"plain {super().__repr__()}"

    assert repr(Plain(1)).startswith("plain ")
    assert (Plain(1) == Plain(1), Plain(1) == Point(1)) == (True, False)


def test_it_is_a_protocols_and_extends_a_dataclass() -> None:
    @dataclass(frozen=True)
    class Base:
        number: int

    @frozen
    class Derived(Base):
        text: str

    measured: Measured = Point(1, 2)
    assert (measured.total, Derived(1, "a"), Pair[int](1, 2).other) == (3, Derived(1, "a"), 2)


def test_threads_may_use_it_first_at_the_same_time() -> None:
    for _ in range(50):
        kind, barrier = declare(), Barrier(4)

        def use(number: int, kind: Any = kind, barrier: Barrier = barrier) -> Any:
            barrier.wait()
            return kind(number)

        with ThreadPoolExecutor(4) as threads:
            made = [*threads.map(use, range(4))]
        assert made == [kind(number) for number in range(4)]

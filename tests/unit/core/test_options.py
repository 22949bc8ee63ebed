"""A method that takes options has their fields as keywords, or the object."""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

import pytest

from rowtide.core.options import Argument, Option, takes


@dataclass(frozen=True, slots=True)
class NewThing:
    """A thing as it is added."""

    name: Annotated[str, Argument(help="its name")]
    _: KW_ONLY
    size: Annotated[int | None, Option(help="How large it is.")] = None
    role_name: Annotated[str, Option("--role, --group", help="Who may see it.")] = "all"


class Things:
    @takes(NewThing)
    def add(self, thing: NewThing) -> NewThing:
        """Add it."""
        return thing


@pytest.mark.parametrize(
    "added",
    [
        Things().add("a", size=2),
        Things().add(size=2, name="a"),
        Things().add(NewThing("a", size=2)),
    ],
)
def test_options_are_one_object_or_its_fields(added: NewThing) -> None:
    assert added == NewThing("a", size=2)


def test_help_shows_the_fields_with_plain_types() -> None:
    signature = inspect.signature(Things().add)

    assert list(signature.parameters) == ["name", "size", "role_name"]
    assert signature.parameters["size"].annotation == int | None
    assert inspect.getdoc(Things.add) == "Add it."


def test_a_keyword_may_be_named_as_on_the_command_line() -> None:
    assert Things().add("a", role="few") == NewThing("a", role_name="few")  # type: ignore[call-overload]


def test_what_is_given_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="role_name is given twice"):
        Things().add("a", role="few", role_name="few")  # type: ignore[call-overload]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Things().add("a", colour="red")  # type: ignore[call-overload]

"""Every error of the package: it prints, it is numbered, it crosses processes."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

import rowtide
from rowtide import errors
from rowtide.core.anchors import Anchor
from rowtide.core.errors import (
    AlreadyExists,
    DataLoss,
    Denied,
    ExtraMissing,
    Invalid,
    InvalidLsn,
    NotFound,
    Remedy,
    Retryable,
    RowtideError,
)
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.errors import HistoryDiverged
from rowtide.tracking.errors import NotTracked

SHARED_NUMBERS = {313: 5, 22022: 3}
"""SQL Server answers ranges and times outside the interval, ranges over a gap, and unknown options with one number; and
whatever its agent cannot do about a job with another."""


KINDS_OF_FAILURE = (NotFound, AlreadyExists, Invalid, Denied, Retryable, DataLoss)


def error_classes() -> list[type[RowtideError]]:
    """Return every error class of the package, by name."""
    for module in pkgutil.walk_packages(rowtide.__path__, "rowtide."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(_subclasses(RowtideError), key=lambda error: (error.__name__, error.__module__))


def _subclasses(base: type[RowtideError]) -> Iterator[type[RowtideError]]:
    for error in base.__subclasses__():
        # Neither those that tests declare, nor bases.
        if error.__module__.startswith("rowtide.") and "number" in vars(error):
            yield error
        yield from _subclasses(error)


def placeholders(error: type[RowtideError]) -> dict[str, object]:
    """Return a value of its own for each field of an error."""
    kinds = get_type_hints(error)
    return {name: _placeholder(kinds[name], at) for at, name in enumerate(error.field_names, 41)}


def _placeholder(kind: object, at: int) -> object:
    if kind is int:
        return at
    if kind is float:
        return at + 0.5
    if kind is Position:
        return Position.of(1, at)
    if kind is CommitLsn:
        return CommitLsn.of(1, at)
    if kind is Anchor:
        return Anchor(at, f"{at:032x}")
    assert kind is str, f"no placeholder for {kind}"
    return f'<"value" {at} {{of}} 100%>'


ERRORS = error_classes()
every_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)


@every_error
def test_an_error_prints_its_number_and_every_field_once_filled(error: type[RowtideError]) -> None:
    values = placeholders(error)
    text = str(error(**values))

    assert text.startswith(f"RT-{error.number}: ")
    assert [name for name, value in values.items() if str(value) not in text] == []
    assert text == " ".join(text.split())


@every_error
def test_an_error_shows_no_password_of_a_url_that_it_names(error: type[RowtideError]) -> None:
    kinds = get_type_hints(error)
    given = "postgresql://me:s3cr3t@host/shop?sslpassword=s3cr3t"
    raised = error(**{name: given if kinds[name] is str else value for name, value in placeholders(error).items()})

    for shown in (str(raised), repr(raised), *traceback.format_exception(raised)):
        assert "s3cr3t" not in shown


@every_error
def test_an_error_is_sentences_on_one_line_that_end_once(error: type[RowtideError]) -> None:
    kinds = get_type_hints(error)
    for reason in ("it is so.", "is it so?", "it\nis  so"):
        raised = error(**{name: reason if kinds[name] is str else value for name, value in placeholders(error).items()})

        assert not re.search(r"[.?!]\.(?!\.)|\n", str(raised).replace("...", "…")), str(raised)


@every_error
def test_every_error_has_a_valid_number_fact_remedy_and_hint(error: type[RowtideError]) -> None:
    assert error.number in (208, 229, 313) or 1000 <= error.number <= 29999
    assert {"number", "fact", "hint"} <= vars(error).keys()
    assert isinstance(error.remedy, Remedy)
    assert not error.fact.endswith(".")
    assert error.hint.removesuffix("{gap}").removesuffix("{before}").endswith(".")


@every_error
def test_an_error_is_of_at_most_one_kind(error: type[RowtideError]) -> None:
    kinds = [kind for kind in KINDS_OF_FAILURE if issubclass(error, kind)]

    assert len(kinds) <= 1
    assert (kinds == [Retryable]) == (error.remedy is Remedy.RETRY)


@every_error
def test_an_error_comes_out_of_a_pickle_as_it_went_in(error: type[RowtideError]) -> None:
    raised = error(**placeholders(error))
    arrived = pickle.loads(pickle.dumps(raised))

    assert type(arrived) is error
    assert str(arrived) == str(raised)
    assert arrived._values() == raised._values()


def test_a_number_means_one_thing() -> None:
    used = Counter(error.number for error in ERRORS)

    assert {number: count for number, count in used.items() if count > 1} == SHARED_NUMBERS


def test_a_name_means_one_thing() -> None:
    used = Counter(error.__name__ for error in ERRORS)

    assert [name for name, count in used.items() if count > 1] == []


def test_an_error_that_a_method_raises_is_in_one_module() -> None:
    """Those of the command line and of the demonstration are raised by commands alone."""
    raised = {error for error in ERRORS if not error.__module__.startswith(("rowtide.cli.", "rowtide.demo."))}

    public = {getattr(errors, name) for name in dir(errors)}

    assert {error for error in public if "number" in vars(error)} == raised
    assert public >= {RowtideError, *KINDS_OF_FAILURE}


def test_errors_compare_by_identity_and_are_hashable() -> None:
    first, second = InvalidLsn("x"), InvalidLsn("x")

    assert first != second
    assert len({first, second}) == 2


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), (("postgres",), {}), (("a", "b", "c"), {}), (("a", "b"), {"extra": "c"}), (("a",), {"no": 1})],
)
def test_an_error_takes_exactly_its_fields(values: tuple[str, ...], named: dict[str, object]) -> None:
    make: Any = ExtraMissing
    with pytest.raises(TypeError, match="ExtraMissing has the fields"):
        make(*values, **named)


def test_a_field_has_its_default() -> None:
    assert HistoryDiverged("of timelines", "0/1").way.endswith("stays queryable")


def test_a_name_in_a_hints_command_is_as_the_shell_takes_it() -> None:
    error = NotTracked('Big "T$x')
    assert str(error).startswith('RT-22105: table Big "T$x is not tracked. ')
    assert str(error).endswith("Run `rowtide tracking enable 'Big \"T$x'`.")
    assert str(NotTracked("public.t")).endswith("Run `rowtide tracking enable public.t`.")


def test_a_fields_braces_and_percent_signs_are_text() -> None:
    assert str(InvalidLsn("{text} %s {0}")).startswith('RT-1001: "{text} %s {0}" is not an LSN. Write it as')


KINDS = {"Exists": AlreadyExists, "Taken": AlreadyExists, "Denied": Denied, "Invalid": Invalid}
"""The kind of an error by how its name ends."""


@every_error
def test_an_errors_name_says_its_kind(error: type[RowtideError]) -> None:
    kinds = [kind for ending, kind in KINDS.items() if error.__name__.endswith(ending)]

    assert all(issubclass(error, kind) for kind in kinds)

"""Commands that list objects of a dataclass: each is a function that returns the class and the objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import ListingFormat, Wide
from rowtide.cli.output.rows import OutputFormat, print_listed

Listed = tuple[type[Any], Iterable[object]]
Parameters = ParamSpec("Parameters")


def listing(
    app: CommandTable, *, epilog: str, columns: str = "", json_texts: Collection[str] = ()
) -> Callable[[Callable[Parameters, Listed]], Callable[Parameters, Listed]]:
    """Make a command of a function: it has `--format`, too, and `--wide` unless a table has all fields.

    `columns` are the fields in a table, with commas, and their headings where those differ: `duration as seconds`.
    `json_texts` as for `print_listed`.
    """
    brief = _parse_columns(columns)

    def add(function: Callable[Parameters, Listed]) -> Callable[Parameters, Listed]:
        @wraps(function)
        def command(*, form: OutputFormat, wide: bool = False, **values: Any) -> None:
            kind, listed = function(**values)  # type: ignore[call-arg]
            print_listed(kind, listed, form, brief or None, wide=wide, json_texts=json_texts)

        added = {"form": (ListingFormat, OutputFormat.TABLE)} | ({"wide": (Wide, False)} if brief else {})
        parameters = inspect.signature(function).parameters.values()
        own = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, (_, default) in added.items()
        ]
        command.__signature__ = inspect.Signature([*parameters, *own])  # type: ignore[attr-defined]
        kinds = {name: kind for name, (kind, _) in added.items()}
        command.__annotations__ = {**function.__annotations__, **kinds, "return": None}
        app.command(epilog=epilog)(command)
        return function

    return add


def _parse_columns(columns: str) -> Mapping[str, str]:
    """Return fields by their headings."""
    pairs = (column.strip().partition(" as ") for column in columns.split(",") if column)
    return {heading or field: field for field, _, heading in pairs}

"""Prints docs/reference/log-events.md from the catalogue of events, as `make log-reference` keeps it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.events import catalogue
from rowtide.events.event import Event

HEAD = """# Events in logs

What commands that run on write with `--log-format`, one event a line ([options and forms](output.md#logs)). Every event
has `time`, `level`, `event`, `database`, `job`, and the fields of this page, in this order. `job` is what emits:
`agent`, `capture`, `cleanup`, `targets`, `replication`, `to SUBSCRIBER`, `log reader`, `snapshots`, `upkeep`,
`joining`, `follow`, `merge`, `monitor`.

An error is two fields: `number`, its number in [the list of errors](errors.md), absent for one that is not rowtide's,
and `error`, its text. No event has keys or values of rows; texts that may quote them become `***` but for beginnings
that are known to quote none.

This page is made from the code by `scripts/log_reference.py`.

| event | level | what has happened | fields |
|---|---|---|---|"""
_NAMES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    CommitLsn: "LSN",
    Position: "LSN",
    RowtideError: "error",
    Exception: "error",
}


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *map(_row, sorted(_events(), key=lambda event: event.name))]) + "\n"


def _events() -> Iterator[type[Event]]:
    for each in vars(catalogue).values():
        if isinstance(each, type) and issubclass(each, Event) and each is not Event:
            yield each


def _row(event: type[Event]) -> str:
    meaning = " ".join((inspect.getdoc(event) or "").split()).replace("|", "\\|")
    hints = get_type_hints(event, include_extras=True)
    described = ", ".join(f"`{each.name}` {_describe(hints[each.name])}" for each in fields(event))  # type: ignore[arg-type]
    return f"| `{event.name}` | {event.level} | {meaning} | {described} |"


def _describe(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        base, unit = get_args(kind)
        return str(unit) if unit != "count" else _describe(base)
    if isinstance(kind, UnionType) or NoneType in get_args(kind):
        (inner,) = (one for one in get_args(kind) if one is not NoneType)
        return f"{_describe(inner)} or null"
    if get_origin(kind) is tuple:
        return "list of texts"
    return _NAMES[kind]


if __name__ == "__main__":
    sys.stdout.write(page())

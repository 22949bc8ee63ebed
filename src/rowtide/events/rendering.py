"""Events as lines: logfmt for people, JSON for programs. Pure.

Neither has keys or values of rows, with or without `--hide-keys`: errors are written without the fields that may hold
them, errors that are not rowtide's by their kind alone, and fields of the types `RowKey` and `Said` as in errors. Names
come from others: what a terminal or a reader of lines could take for more than a character is escaped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.redaction import KINDS, redact, without_row
from rowtide.events.event import Emitted, Event


def record_of(emitted: Emitted) -> dict[str, Any]:
    """Return an event as JSON values by name, in their order."""
    return {
        "time": format_time(emitted.time),
        "level": str(emitted.event.level),
        "event": emitted.event.name,
        "database": emitted.scope.database,
        "job": emitted.scope.job,
        **fields_of(emitted.event),
    }


def write_text(record: Mapping[str, Any]) -> str:
    """Return a record as a line: time, level and event, then what is not empty as name=value."""
    return f"{record['time']} {record['level']} {write_message(record)}"


def write_message(record: Mapping[str, Any]) -> str:
    """Return a record as the message of Python's `logging`, which knows time and level."""
    named = [(name, value) for name, value in record.items() if name not in ("time", "level", "event")]
    words = [f"{name}={_as_word(value)}" for name, value in named if value not in (None, "", [])]
    return " ".join([record["event"], *words])


def fields_of(event: Event) -> dict[str, Any]:
    """Return an event's own fields as JSON values. An error becomes `number`, if it is rowtide's, and `error`."""
    found: dict[str, Any] = {}
    for each in fields(event):  # type: ignore[arg-type]
        value = getattr(event, each.name)
        if isinstance(value, BaseException):
            if isinstance(value, RowtideError):
                found["number"] = value.number
            found[each.name] = describe_without_row(value)
        else:
            kind = str(each.type).removesuffix(" | None")
            found[each.name] = _plain(without_row(kind, value) if kind in KINDS and value is not None else value)
    return found


def describe_without_row(error: BaseException) -> str:
    """Return what an error says without keys and values of rows; of one that is not rowtide's its kind alone."""
    return error.without_row if isinstance(error, RowtideError) else type(error).__name__


def format_time(time: datetime) -> str:
    """Return a time as RFC 3339 has it, in UTC, with six digits of a second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def write_json(values: Mapping[str, Any]) -> str:
    """Return JSON in which every character that is not printable is escaped."""
    return _escape(json.dumps(values, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers exact, LSNs and times as texts, infinities and NaN as texts."""
    match value:
        case CommitLsn() | Position() | Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case datetime():
            return format_time(value)
        case tuple() | list() | frozenset():
            return [_plain(item) for item in value]
        case str():
            return redact(str(value))
        case _:
            return value


def _as_word(value: object) -> str:
    """Return a value of logfmt: bare where nothing in it needs quotes."""
    if isinstance(value, list) and all(isinstance(item, str) and "," not in item for item in value):
        value = ",".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    is_bare = text.isprintable() and not any(character in ' "=\\' for character in text)
    return text if is_bare else _escape(json.dumps(text, ensure_ascii=False))


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape_one(one) for one in text)


def _escape_one(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))

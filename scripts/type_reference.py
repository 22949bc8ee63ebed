"""Prints docs/reference/types.md from the tests' catalogue of types, as `make type-reference` keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from builders.values.type_catalogue import CATALOGUE, TypeSamples
from rowtide.databases.postgres.values import lake_type

HEAD = """# Types

How a column of each PostgreSQL type is held in a change table. No value is rounded, cut or lost on the way: it is held
in a Spark type that has room for it, or as the source's text; a value that its column's type cannot hold is null there
and stands with its exact text in `__$exact`, by the column's ordinal. This page is made by `scripts/type_reference.py`
from the catalogue with which the tests write every type on PostgreSQL 16 and 18 and let the server itself read back
what the lake has; a built-in type that the catalogue lacks fails them.

**Text** is what the server prints for a session with these settings, which rowtide pins, whatever roles, databases and
environment say: `DateStyle` ISO, `IntervalStyle` iso_8601, `TimeZone` UTC, `extra_float_digits` 3, `bytea_output` hex,
`lc_monetary` C, `search_path` pg_catalog, `quote_all_identifiers` off, encoding UTF-8. Cast to its type under these, it
is the same value to the byte. What is not valid UTF-8, in a database whose encoding is SQL_ASCII, is `\\0x` (a NUL and
an x) and its bytes in hexadecimal.

**Null** in a change table is null in the source, but for values that stand in `__$exact`, for those that
`__$absent_mask` marks, and for generated columns, which are null as in SQL Server.

**`rowtide cdc changes`** prints decimals, dates, timestamps and what stands in `__$exact` as text, binary values in
hexadecimal digits; in JSON also infinities and NaN, which its numbers lack, are text. In CSV null
is an empty field and an empty text is `""`: what PostgreSQL's `copy` reads. Parquet is typed, with `__$exact` beside.

Python's own dates end with the year 9999, its timestamps have not all of year 1: collect columns that may go beyond as
text, `cast(day as string)`."""

_TABLE = """
| PostgreSQL | lake | in `__$exact` | |
|---|---|---|---|"""

TAIL = """
`smallserial`, `serial`, `bigserial` and identity columns are smallint, integer and bigint. Every other type is held
as text too: `xml` (which the tests' servers are built without), arrays, enums, ranges, composite types, and what
extensions bring. A domain is held as the type that it is over, however many domains lie between."""


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    for group, types in CATALOGUE.items():
        parts += [f"\n## {group}", _TABLE, *_rows(types)]
    return "\n".join([*parts, TAIL]) + "\n"


def _rows(types: Sequence[TypeSamples]) -> Iterator[str]:
    for samples in types:
        held = lake_type(samples.value_type_text).name
        over = f"over {samples.base}" if samples.base else ""
        notes = "; ".join(filter(None, (over, samples.note)))
        yield f"| {samples.type_text.removeprefix('public.')} | {held} | {', '.join(samples.misfits)} | {notes} |"


if __name__ == "__main__":
    sys.stdout.write(page())

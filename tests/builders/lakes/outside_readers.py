"""Readers that know nothing of rowtide: the functions of the page about them, and what it says that they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from builders.lakes.delta_tables import own

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "read-a-lake.md"
READS = "yes"
_OWN_NAMES = ("large_", "_view")
"""Arrow has several types for the same text and the same bytes."""

Read = Callable[[str], pa.Table]


def list_blocks(language: str) -> list[str]:
    """Return the page's pieces of code in a language, in order."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def load_functions(**given: Any) -> dict[str, Any]:
    """Run the page's pieces of Python that define functions; return what they define. `given` is there before."""
    found = dict(given)
    for block in list_blocks("python"):
        if re.search(r"^def ", block, re.MULTILINE):
            exec(block, found)
    return found


def read_matrix() -> dict[str, dict[str, str]]:
    """Return what the page says of each of its functions, by feature: that it reads, words of its refusal, or both."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `read_with_")]
    heading = next(
        _cells(line) for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| reader")
    )
    matrix = {}
    for row in rows:
        name, *said = _cells(row)
        matrix[name.strip("`").removesuffix("(table)")] = dict(zip(heading[1:], said, strict=True))
    return matrix


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def find_differences(
    tables: Mapping[str, tuple[Path, str]],
    names: Sequence[str],
    read_wanted: Callable[[Path], pa.Table] = lambda path: own(path).read(),
) -> list[str]:
    """Read tables, given with the feature that they are examples of, by functions of the page; return what is other
    than the page says, or than rowtide's own reader, or another, finds.
    """
    functions, matrix = load_functions(), read_matrix()
    return [
        f"{name} of {title}: {found}"
        for title, (path, feature) in tables.items()
        for name in names
        if (found := _try(functions[name], matrix[name][feature], path, read_wanted)) is not None
    ]


def _try(read: Read, said: str, path: Path, read_wanted: Callable[[Path], pa.Table]) -> str | None:
    try:
        rows = as_arrow(read(str(path)))
    except Exception as error:  # noqa: BLE001 - whatever another program raises is a refusal
        is_said = any(words in str(error) for words in re.findall("`(.+?)`", said))
        return None if is_said else f"{type(error).__name__}: {error}"
    may_read = said.startswith(READS)
    return compare(rows, read_wanted(path)) if may_read else f"is not refused: {rows.slice(0, 2).to_pylist()}"


def as_arrow(rows: Any) -> pa.Table:
    """Return what a reader returned as Arrow."""
    if isinstance(rows, pa.Table):
        return rows
    found: pa.Table = rows.to_arrow() if hasattr(rows, "to_arrow") else rows.toArrow()
    return found


def compare(found: pa.Table, wanted: pa.Table) -> str | None:
    """Return how rows or types differ; None if they do not."""
    if describe_types(found) != describe_types(wanted):
        return f"{describe_types(found)} for {describe_types(wanted)}"
    rows, own_rows = sorted_rows(found), sorted_rows(wanted)
    return None if rows == own_rows else f"{rows} for {own_rows}"


def describe_types(rows: pa.Table) -> dict[str, str]:
    """Return columns and types, without Arrow's own differences."""
    described = {}
    for field in rows.schema:
        kind = re.sub(r"tz=[\w/]+", "tz=UTC", str(field.type))
        for other in _OWN_NAMES:
            kind = kind.replace(other, "")
        described[field.name] = kind
    return described


def sorted_rows(rows: pa.Table) -> list[str]:
    """Return rows as texts, sorted; times in UTC."""
    zones = [
        pa.field(field.name, pa.timestamp(field.type.unit, "UTC"))
        if isinstance(field.type, pa.TimestampType) and field.type.tz is not None
        else field
        for field in rows.schema
    ]
    return sorted(str(row) for row in rows.cast(pa.schema(zones)).to_pylist())

"""Options of the Spark source, as users write them, and the shape of the rows that they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import ROW_FILTERS, TRUNCATE, shown_columns
from rowtide.cdc.errors.querying import SourceOptionInvalid, StreamColumnsChanged
from rowtide.cdc.following.row_events import RowValues, find_absent, make_partial_images
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import kernels
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart
from rowtide.cdc.lake_readers.ordering import ORDER, OrderedRows, gather, merge
from rowtide.cdc.lake_readers.presentation import as_json, as_united, pieces, present_values
from rowtide.cdc.queries.lsn_times import Bound
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.queries.united_instances import INSTANCE_COLUMN, unite
from rowtide.cdc.queries.windows import choose_option
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import arrow_schema
from rowtide.storage.places import absolute_lake

LATEST: Final = "latest"
"""A stream begins behind what is published when it is started first."""

_NAMES = (
    "path",
    "instance",
    "instances",
    "startingLsn",
    "startingTime",
    "endingLsn",
    "endingTime",
    "rowFilterOption",
    "changes",
    "maxTransactionsPerTrigger",
)
_ALL, _NET = "all", "net"


@frozen
class SourceOptions:
    """What is read: `start` and `end` are None where the option is omitted.

    With `are_several` rows name their instance, however many there are.
    """

    lake: str
    instances: tuple[str, ...]
    are_several: bool = False
    start: Bound | Literal["latest"] | None = None
    end: Bound | None = None
    row_filter_option: str = "all"
    is_net: bool = False
    max_transactions: int | None = None

    @property
    def operations(self) -> tuple[int, ...]:
        """The operations that all changes are to have."""
        return ROW_FILTERS[self.row_filter_option]

    def require_streamable(self) -> None:
        """Raise `SourceOptionInvalid` for an option that only batches have."""
        if self.is_net:
            raise SourceOptionInvalid("changes", "is net in a stream", "Reduce each batch in foreachBatch instead")
        if isinstance(self.end, datetime):
            raise SourceOptionInvalid("endingTime", "is given to a stream", "Use endingLsn")

    def require_batch(self) -> None:
        """Raise `SourceOptionInvalid` for an option that only streams have."""
        if self.max_transactions is not None:
            name = "maxTransactionsPerTrigger"
            raise SourceOptionInvalid(name, "is given to a batch", "Use endingLsn, or spark.readStream")
        if self.start == LATEST:
            raise SourceOptionInvalid("startingLsn", "is latest in a batch", "Leave it out, or name an LSN")


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse options, whose names differ from each other in more than case.

    Raises `SourceOptionInvalid`, `InvalidLsn`, `UnknownRowFilter`, `PlaceUnnamed`, `StorageUrlMalformed`,
    `StorageSchemeUnsupported`.
    """
    by_name = {name.lower(): name for name in _NAMES}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in by_name:
            raise SourceOptionInvalid(name, "is unknown", f"Options are {', '.join(_NAMES)}")
        found[by_name[name.lower()]] = value
    if not found.get("path", "").strip():
        raise SourceOptionInvalid("path", "is missing", "Name the lake: .load(lake)")
    is_net = _parse_changes(found.get("changes", _ALL))
    filters = NET_ROW_FILTERS if is_net else tuple(ROW_FILTERS)
    options = SourceOptions(
        lake=absolute_lake(found["path"]),
        instances=_parse_instances(found),
        are_several="instances" in found,
        start=_parse_bound(found, "starting"),
        end=_parse_end(found),
        row_filter_option=choose_option(found.get("rowFilterOption", "all"), filters),
        is_net=is_net,
        max_transactions=_parse_count(found, "maxTransactionsPerTrigger"),
    )
    if is_net and options.are_several:
        raise SourceOptionInvalid("changes", "is net for several instances", "Read one with the option instance")
    return options


def _parse_instances(found: Mapping[str, str]) -> tuple[str, ...]:
    given = [name for name in ("instance", "instances") if name in found]
    advice = "Name one instance with instance, or several, separated by commas, with instances"
    if len(given) != 1:
        raise SourceOptionInvalid("instance", "is given beside instances" if given else "is missing", advice)
    (option,) = given
    names = [name.strip() for name in found[option].split(",")]
    if not all(names) or (option == "instance" and len(names) > 1):
        raise SourceOptionInvalid(option, f'is "{found[option]}"', advice)
    return tuple(dict.fromkeys(names))


def _parse_changes(text: str) -> bool:
    """Return whether net changes are asked for."""
    chosen = text.strip().lower()
    if chosen not in (_ALL, _NET):
        raise SourceOptionInvalid("changes", f'is "{text}"', f"Use {_ALL} or {_NET}")
    return chosen == _NET


def _parse_bound(found: Mapping[str, str], which: str) -> Bound | Literal["latest"] | None:
    lsn, time = found.get(f"{which}Lsn"), found.get(f"{which}Time")
    if lsn is not None and time is not None:
        raise SourceOptionInvalid(f"{which}Time", f"is given beside {which}Lsn", "Use one of them")
    if lsn is not None:
        return LATEST if lsn.strip().lower() == LATEST else CommitLsn.parse(lsn)
    return _parse_time(f"{which}Time", time) if time is not None else None


def _parse_end(found: Mapping[str, str]) -> Bound | None:
    end = _parse_bound(found, "ending")
    if end == LATEST:
        raise SourceOptionInvalid("endingLsn", "is latest", "Leave it out for everything that is published")
    return end if isinstance(end, (CommitLsn, datetime)) else None


def _parse_time(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        advice = "Write a time as 2026-01-31T08:00:00+01:00, without zone in UTC"
        raise SourceOptionInvalid(name, f'is "{text}"', advice) from None


def _parse_count(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise SourceOptionInvalid(name, f'is "{text}"', "Give a number from 1 on")
    return int(text)


# What rows of the source look like: the columns of one instance, of a table's instances, or values as JSON. Spark
# fixes a stream's columns when the query starts. Rows of several tables have their values in one JSON object, which
# depends on which tables are named, never on whether their columns happen to agree: `id` may be a number in one table
# and a text in another, so a union by name has no type. PySpark 4.1 builds no variant in Python; `parse_json` makes
# one of the column. Slices of change tables: what a Spark task reads of them, and reading it.

VALUES_COLUMN = "__$values"

Columns = list[tuple[str, str]]
"""Names and types in the lake."""


class SourceShape(Protocol):
    """The columns of the source's rows, and how an instance's change rows come to have them."""

    @property
    def columns(self) -> Columns:
        """The columns."""
        ...

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return an instance's change rows with these columns."""
        ...


@frozen
class OwnColumns:
    """An instance's own columns."""

    instance: Instance

    @property
    def columns(self) -> Columns:
        """The columns, as `get_all_changes` has them."""
        return shown_columns(self.instance)

    def present(self, rows: pa.RecordBatch, _instance: Instance) -> pa.RecordBatch:
        """Return the rows."""
        return rows


@frozen
class UnitedColumns:
    """The columns of all instances of a table, and the instance's name."""

    united: Instance

    @property
    def columns(self) -> Columns:
        """The columns, as `get_table_changes` has them."""
        return [*shown_columns(self.united), (INSTANCE_COLUMN, "string")]

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return the rows with the united columns."""
        return as_united(rows, instance, self.united)


@frozen
class JsonValues:
    """One set of columns for the instances of any tables: the captured values are a JSON object."""

    @property
    def columns(self) -> Columns:
        """The columns."""
        masks = [("__$update_mask", "binary"), ("__$absent_mask", "binary")]
        position = zip(ORDER, ("bigint", "bigint", "int"), strict=True)
        return [*position, *masks, (INSTANCE_COLUMN, "string"), (VALUES_COLUMN, "string")]

    def present(self, rows: pa.RecordBatch, instance: Instance) -> pa.RecordBatch:
        """Return the rows with their values as JSON: null for a truncate; absent values are omitted."""
        schema = arrow_schema(self.columns)
        values: Any = pa.chunked_array([_as_objects(piece, instance) for piece in pieces(rows)], pa.string())
        found = {
            **{name: rows.column(name) for name in schema.names if name in rows.schema.names},
            INSTANCE_COLUMN: pa.repeat(instance.capture_instance, rows.num_rows),
            VALUES_COLUMN: values.combine_chunks(),
        }
        return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def choose_shape(instances: Sequence[Instance], *, are_several: bool) -> SourceShape:
    """Return the shape of the rows of instances, as readers know them; of one table's, the older comes first."""
    if not are_several:
        return OwnColumns(instances[0])
    if len({instance.source_id for instance in instances}) == 1:
        return UnitedColumns(unite(instances))
    return JsonValues()


def require_columns(expected: Columns, found: Columns) -> None:
    """Raise `StreamColumnsChanged` unless columns are those that a query expects."""
    if expected == found:
        return
    before, now = dict(expected), dict(found)
    said = [
        *(f"{name} ({kind}) is new" for name, kind in now.items() if name not in before),
        *(f"{name} is gone" for name in before if name not in now),
        *(f"{name} is {now[name]}, not {kind}" for name, kind in expected if now.get(name, kind) != kind),
    ]
    raise StreamColumnsChanged("; ".join(said) or "their order is another one")


def _as_objects(rows: pa.RecordBatch, instance: Instance) -> Any:
    columns = present_values(rows, instance)
    values = RowValues(columns, find_absent(rows, len(columns)))
    objects = make_partial_images([column.name for column in columns], [as_json(column) for column in columns], values)
    is_truncate = pa.array(np.asarray(rows.column(ORDER[2]).to_numpy() == TRUNCATE))
    return kernels.if_else(is_truncate, pa.scalar(None, pa.string()), objects)


_TASK_BYTES = 32 * 1024 * 1024
"""The size of the files that one task reads: some seconds' work."""


@frozen
class FileSelection:
    """Some files of an instance's change table, and the rows that are read of them."""

    instance: Instance
    table: ChangeTable
    part: ChangeTablePart

    def read(self, shape: SourceShape) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order. Raises as `ChangeTable.stream`."""
        columns = [name for name, _ in shown_columns(self.instance)]
        return (shape.present(rows, self.instance) for rows in self.table.stream(self.part, columns))


@frozen
class Planned:
    """What is read: slices by task, and what their rows look like."""

    shape: SourceShape
    tasks: list[tuple[FileSelection, ...]]


def cut(slices: Iterable[FileSelection]) -> list[tuple[FileSelection, ...]]:
    """Divide slices into the tasks that read them: a large one among several, small ones together."""
    tasks: list[tuple[FileSelection, ...]] = []
    files: list[FileSelection] = []
    file_bytes = 0
    for whole in slices:
        for table, size in whole.table.cut(whole.part, _TASK_BYTES):
            if files and file_bytes + size > _TASK_BYTES:
                tasks.append(tuple(files))
                files, file_bytes = [], 0
            files.append(FileSelection(whole.instance, table, whole.part))
            file_bytes += size
    return [*tasks, tuple(files)] if files else tasks


def read_slices(slices: Iterable[FileSelection], shape: SourceShape) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's slices in one order over all of them, in batches of some megabytes."""
    schema = arrow_schema(shape.columns)
    sources = [OrderedRows(one.part.low.value, one.part.high.value, partial(one.read, shape)) for one in slices]
    for rows in gather(merge(sources)):
        columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)

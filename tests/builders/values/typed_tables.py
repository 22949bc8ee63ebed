"""A table with a column of every type: written, and compared with what came out elsewhere, by the server itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

from builders.values.type_catalogue import SAMPLES, SETUP, TypeSamples
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.session_settings import STREAM_SETTINGS

TABLE = "everything"
COLUMNS = {f"c{number}": samples for number, samples in enumerate(SAMPLES, 1)}
VERSION_OF = {2: 0, 3: 0, 4: 1, 1: 1}
"""Which rows in `kept` a change row shows, by its operation: those before, or after, the one update."""

Session = psycopg.Connection[tuple[Any, ...]]
Texts = Sequence[str | None]
Rows = Mapping[tuple[int, int], Texts]
"""Values of `COLUMNS` by version and id."""


def create_typed_table(session: Session) -> None:
    """Create the types, the table, and `kept`, where its rows stay."""
    session.execute(SETUP)
    columns = ", ".join(f"{name} {samples.type_text}" for name, samples in COLUMNS.items())
    session.execute(f"create table kept (version int, id int, {columns})")
    session.execute(f"create table {TABLE} (id int primary key, {columns})")


def write_typed_table(session: Session) -> None:
    """Insert a row for each value and one of nulls, update each row to the next, delete all."""
    rows = list(_rows(session.info.server_version // 10000))
    casts = ", ".join(f"%s::{samples.type_text}" for samples in SAMPLES)
    session.cursor().executemany(f"insert into {TABLE} values (%s, {casts})", [(i, *row) for i, row in enumerate(rows)])
    session.execute(f"insert into kept select 0, * from {TABLE}")
    names = ", ".join(COLUMNS)
    following = f"select {names} from kept where version = 0 and kept.id = ({TABLE}.id + 1) % {len(rows)}"
    session.execute(f"update {TABLE} set ({names}) = ({following})")
    session.execute(f"insert into kept select 1, * from {TABLE}")
    session.execute(f"delete from {TABLE}")


def input_of(samples: TypeSamples, row: int, version: int) -> str | None:
    """Return what was inserted into the row of this id, None in the last one."""
    values = samples.for_server(version)
    return None if row == _count(version) else values[row % len(values)]


def pinned_session(url: str) -> Session:
    """Return a session in which values have the text form that the log is to have."""
    return open_url(url, settings=STREAM_SETTINGS)


def read_texts(url: str, table: str, columns: Iterable[str]) -> list[Texts]:
    """Return what the server's output functions print of a table outside the pinned search path, in order."""
    printed = ", ".join(f"case when num_nonnulls({name}) = 1 then format('%s', {name}) end" for name in columns)
    with pinned_session(url) as session:
        return list(session.execute(f"select {printed} from public.{table} order by 1, 2"))


def read_kept(url: str) -> Rows:
    """Return the texts that the server prints of the rows in `kept`."""
    rows = read_texts(url, "kept", ("version", "id", *COLUMNS))
    return {(int(version or 0), int(number or 0)): values for version, number, *values in rows}


def find_altered(url: str, rows: Rows) -> list[tuple[Any, ...]]:
    """Let the server read texts as values of their types; return those that are not, byte for byte, what was kept."""
    with pinned_session(url) as session:
        session.execute("create temp table seen as select * from public.kept with no data")
        with session.cursor().copy("copy seen from stdin") as copy:
            for key, texts in rows.items():
                copy.write_row((*key, *texts))
        compared = (
            f"select '{name}', '{samples.type_text}', version, id, format('%s', seen.{name}) "
            f"from seen full join public.kept using (version, id) "
            f"where record_image_eq(row(seen.{name}), row(kept.{name})) is not true"
            for name, samples in COLUMNS.items()
        )
        return session.execute(" union all ".join(compared)).fetchall()


def read_csv(url: str, content: str, columns: Sequence[str]) -> list[Texts]:
    """Let the server read CSV with a header of these columns; return its values."""
    with pinned_session(url) as session:
        listed = ", ".join(f'"{name}" text' for name in columns)
        session.execute(f"create temp table printed (line bigint generated always as identity, {listed})")
        quoted = ", ".join(f'"{name}"' for name in columns)
        with session.cursor().copy(f"copy printed ({quoted}) from stdin (format csv, header match)") as copy:
            copy.write(content)
        return list(session.execute(f"select {quoted} from printed order by line"))


def arrow_texts(column: pa.ChunkedArray[Any]) -> Texts:
    """Return the values of an Arrow column as texts that the server reads, made without Spark and without rowtide."""
    return [None if value is None else _arrow_text(value, column.type) for value in _plain(column).to_pylist()]


def _plain(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    """Python has no times after the year 9999: they come as numbers."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def _arrow_text(value: Any, arrow_type: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow_type):
        return str(np.datetime64(value, "us"))
    if pa.types.is_date32(arrow_type):
        return str(np.datetime64(value, "D"))
    if pa.types.is_float32(arrow_type):
        return str(np.float32(value))
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)


def _rows(version: int) -> Iterable[Texts]:
    for row in range(_count(version) + 1):
        yield [input_of(samples, row, version) for samples in SAMPLES]


def _count(version: int) -> int:
    return max(len(samples.for_server(version)) for samples in SAMPLES)

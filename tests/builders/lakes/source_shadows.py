"""Tables of a source that change at random, and what each had after each transaction: what lakes are compared with."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.errors import LockNotAvailable

from builders.values.type_catalogue import SAMPLES, SETUP, TypeSamples
from builders.values.typed_tables import arrow_texts, pinned_session
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages

EXTRA = "extra_"
"""How the names of columns begin that are added, and are not captured by the instances that are there."""
_KEYS = 24
_SAMPLES = tuple(samples for samples in SAMPLES if samples.values and not samples.type_text.startswith("reg"))
"""Names in values are read by a search path."""
Row = tuple[str | None, ...]
Session = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class State:
    """A table's columns and rows, as the server prints them, above a log position; `gone` were dropped by then."""

    above: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    gone: frozenset[str] = frozenset()


@dataclass
class ShadowedTable:
    """A table, by name; its first columns are its key, if it has one."""

    name: str
    key: tuple[str, ...]
    types: dict[str, str]
    odd: dict[str, TypeSamples]
    images: BeforeImages
    states: list[State] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    key_lost_above: int | None = None

    @property
    def instance(self) -> str:
        return f"public_{self.name}"

    def at(self, lsn: CommitLsn) -> State:
        """Return what it had when all transactions up to an LSN had committed."""
        return self.states[bisect_right(self.states, lsn.value - 1, key=lambda state: state.above) - 1]


class SourceShadow:
    """The tables of a source database, which change by this session alone."""

    def __init__(self, chosen: random.Random, url: str, *, odd_columns: int, all_images: bool) -> None:
        """With `all_images` the log has the whole row of each change: no value is unknown."""
        with psycopg.connect(url) as session:
            session.execute(SETUP)
        self._chosen = chosen
        self.session: Session = pinned_session(url)
        # A copy may hold a table until the thread that waits here continues with it.
        self._execute("set lock_timeout = '5s'")
        self.epoch = 0
        full = BeforeImages.FULL
        either = full if all_images else chosen.choice(list(BeforeImages))
        self.tables = [
            self._create("keyed", ("id",), odd_columns, either),
            self._create("pairs", ("id", "part"), odd_columns, full),
            self._create("bag", (), odd_columns, full),
        ]

    def close(self) -> None:
        self.session.close()

    def transact(self, most: int = 5) -> None:
        """Commit a transaction of some changes of one table, or of all; none if a copy holds a table."""
        touched = self._chosen.choice([*([table] for table in self.tables), self.tables])
        above = self._log_end()
        with suppress(LockNotAvailable):
            with self.session.transaction():
                for table in touched:
                    self._change(table, self._chosen.randint(1, most))
            self._record(touched, above)

    def _change(self, table: ShadowedTable, times: int) -> None:
        for _ in range(times):
            self._execute(self._statement(table))

    def alter(self, *, widens: bool = False) -> str:
        """Add, drop or widen a column of a table, or have its values computed again, unless a copy holds the table.

        In a transaction with changes before it, perhaps. Return the statement. With `widens` it gives a column another
        type, if one is left to be widened.
        """
        table, number = self._chosen.choice(self.tables), len(self.tables[0].states)
        kinds = [f"add column {EXTRA}{number} int default {number}"]
        droppable = [name for name in table.types if name.startswith("odd") and name not in table.gone]
        # Another column, which is not captured.
        kinds += [f"add column {name} int default {number}" for name in sorted(table.gone - set(table.types))]
        if droppable:
            kinds.append(f"drop column {self._chosen.choice(droppable)}")
        if table.types["code"] != "text":
            kinds.append("alter code type text")
        wider = {"numeric(8,2)": "numeric(12,2)", "numeric(12,2)": "numeric(20,2)"}.get(table.types["amount"])
        if wider is not None:
            kinds.append(f"alter amount type {wider}")
        if table.types["ratio"] == "real":
            kinds.append("alter ratio type double precision")
        if table.types["total"] == "int":
            kinds += ["alter total type bigint", "alter total type bigint using total"]
        chosen = self._chosen.choice([kind for kind in kinds if not widens or kind.startswith("alter")] or kinds)
        above = self._log_end()
        try:
            with self.session.transaction():
                self._change(table, self._chosen.randrange(3))
                self._execute(f"alter table public.{table.name} {chosen}")
        except LockNotAvailable:
            return f"{table.name}: it is held"
        match chosen.split():
            case ["drop", _, column]:
                del table.types[column]
                table.gone.add(column)
            case ["add", _, column, *_]:
                table.types[column] = "int"
            case ["alter", column, "type", widened, *_]:
                table.types[column] = widened
        self._record([table], above)
        return f"{table.name}: {chosen}"

    def lose_key(self) -> str:
        """Let a table lose its key, unless a copy holds it. Return the statement."""
        [table] = [table for table in self.tables if table.name == "pairs"]
        drop = "drop constraint pairs_pkey"
        chosen = self._chosen.choice([drop, f"{drop}, add primary key (id, part) deferrable"])
        above = self._log_end()
        if table.key_lost_above is not None:
            return f"{table.name}: it has none"
        try:
            self._execute(f"alter table public.{table.name} {chosen}")
        except LockNotAvailable:
            return f"{table.name}: it is held"
        table.key_lost_above = above
        self._record([table], above)
        return f"{table.name}: {chosen}"

    def differences(self, table: ShadowedTable, found: pa.Table, lsn: CommitLsn) -> tuple[list[Row], list[Row]]:
        """Return the rows that only the lake's, and only the source's table has at an LSN; none of unknown values."""
        state = table.at(lsn)
        columns = [name for name in state.columns if name in found.schema.names and name not in state.gone]
        for name in sorted(state.gone & set(found.schema.names)):
            assert found.column(name).null_count == found.num_rows, f"{name} was dropped"
        texts = [self._canonical(table, name, arrow_texts(_as_double(found.column(name)))) for name in columns]
        rows = list(zip(*texts, strict=True)) if found.num_rows else []
        places = [state.columns.index(name) for name in columns]
        wanted = [tuple(row[place] for place in places) for row in state.rows]
        unknown = _find_unknown(found, columns)
        if any(unknown):
            # Such rows are by key, which is always known.
            assert table.images is BeforeImages.KEY
            known = {row[: len(table.key)]: lacking for row, lacking in zip(rows, unknown, strict=True)}
            rows = [_without(row, known.get(row[: len(table.key)], set())) for row in rows]
            wanted = [_without(row, known.get(row[: len(table.key)], set())) for row in wanted]
        return _minus(rows, wanted), _minus(wanted, rows)

    def _canonical(self, table: ShadowedTable, column: str, texts: Sequence[str | None]) -> list[str | None]:
        """Return values as the server prints them."""
        if column not in table.odd:
            return list(texts)
        cast = f"text::{table.odd[column].type_text}"
        query = (
            f"select case when text is not null then format('%%s', {cast}) end "
            "from unnest(%s::text[]) with ordinality as given (text, place) order by place"
        )
        return [text for (text,) in self.session.execute(query.encode(), [list(texts)])]

    def _create(self, name: str, key: tuple[str, ...], odd_columns: int, images: BeforeImages) -> ShadowedTable:
        odd = {f"odd{place}": self._chosen.choice(_SAMPLES) for place in range(odd_columns)}
        types = {"id": "int", "part": "text", "total": "int", "code": "varchar(20)", "amount": "numeric(8,2)"}
        types |= {"ratio": "real", "document": "text"} | {column: samples.type_text for column, samples in odd.items()}
        columns = ", ".join(f"{column} {kind}" for column, kind in types.items())
        primary = f", primary key ({', '.join(key)})" if key else ""
        self._execute(f"create table public.{name} ({columns}{primary})")
        self._execute(f"alter table public.{name} alter document set storage external")
        table = ShadowedTable(name, key, types, odd, images)
        for place in range(_KEYS // 2):
            self._execute(self._insert(table, place))
        self._record([table], -1)
        return table

    def _record(self, tables: Sequence[ShadowedTable], above: int) -> None:
        for table in tables:
            columns = tuple(table.types)
            printed = ", ".join(f"case when num_nonnulls({name}) = 1 then {_printed(name)} end" for name in columns)
            rows = self.session.execute(f"select {printed} from public.{table.name}".encode()).fetchall()
            table.states.append(State(above, columns, tuple(rows), frozenset(table.gone)))

    def _statement(self, table: ShadowedTable) -> str:
        chance, some = self._chosen, self._chosen.randrange(_KEYS)
        target = f"update public.{table.name} set"
        row = f"where id = {some}"
        if not table.key and chance.random() < 0.7:
            row = f"where ctid = (select ctid from public.{table.name} {row} limit 1)"
        column = chance.choice([name for name in table.types if name not in ("id", "part") and name not in table.gone])
        free, above = self._chosen.randrange(_KEYS), some + 1000
        of = f"public.{table.name}"
        return chance.choice(
            [
                *[self._insert(table, some)] * 4,
                f"delete from {of} where id = {some}; {target} id = {some} where id = {free}",
                (
                    f"{target} id = 2000 {row}; {target} id = {some} where id = {free}; "
                    f"{target} id = {free} where id = 2000"
                ),
                *[f"{target} {column} = {self._value(table, column)} {row}"] * 4,
                f"{target} total = total + 1 where id % 3 = {some % 3}",
                f"{target} total = total {row}",
                f"{target} id = {free} {row} and not exists (select from public.{table.name} where id = {free})",
                f"{target} id = {above} {row} and not exists (select from public.{table.name} where id = {above})",
                f"delete from public.{table.name} {row}",
                f"delete from public.{table.name} {row}",
                f"delete from public.{table.name} where id >= 1000",
                f"truncate public.{table.name}" if chance.random() < 0.2 else f"delete from public.{table.name} {row}",
            ]
        )

    def _insert(self, table: ShadowedTable, some: int) -> str:
        columns = [name for name in table.types if name not in table.gone]
        values = ", ".join(str(some) if column == "id" else self._value(table, column) for column in columns)
        ignored = " on conflict do nothing" if table.key and table.key_lost_above is None else ""
        return f"insert into public.{table.name} ({', '.join(columns)}) values ({values}){ignored}"

    def _value(self, table: ShadowedTable, column: str) -> str:
        chance = self._chosen
        if column in table.odd:
            if chance.random() < 0.2:
                return "null"
            samples = table.odd[column]
            return f"{_literal(chance.choice(samples.values))}::{samples.type_text}"
        if column.startswith(EXTRA):
            return chance.choice(["null", str(chance.randint(-9, 9))])
        match column:
            case "part":
                return _literal(chance.choice(["a", "b", "", "ß, \"'"]))
            case "total":
                return str(chance.randint(-2, 2))
            case "code":
                return chance.choice(["null", "''", "'code'", "'NaN'"])
            case "ratio":
                return chance.choice(["null", "0.1", "1.1", "-2.7"])
            case "amount":
                return f"{chance.randint(-999, 999)}.{chance.randint(10, 99)}"
        return f"repeat('{chance.choice('xyz')}', {chance.choice([3, 3000])})"

    def _log_end(self) -> int:
        [(end,)] = self.session.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return CommitLsn.of(self.epoch, int(end)).value

    def _execute(self, statement: str) -> None:
        self.session.execute(statement.encode())


def _printed(column: str) -> str:
    """Return the text of a column's value; of a real the double that it becomes in the lake once it is widened."""
    return f"format('%s', {column}{'::double precision' if column == 'ratio' else ''})"


def _as_double(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    return column.cast(pa.float64()) if pa.types.is_float32(column.type) else column


def _literal(text: str) -> str:
    return "e'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _find_unknown(found: pa.Table, columns: Sequence[str]) -> list[set[int]]:
    """Return the places in `columns` of each row's values that the log has not had."""
    captured = [name for name in found.schema.names if not name.startswith("__$")]
    places = [captured.index(name) for name in columns]
    if "__$absent_mask" not in found.schema.names:
        return []
    masks = found.column("__$absent_mask").to_pylist()
    return [
        {at for at, place in enumerate(places) if mask is not None and mask[-1 - place // 8] >> place % 8 & 1}
        for mask in masks
    ]


def _without(row: Row, places: set[int]) -> Row:
    return tuple(None if place in places else text for place, text in enumerate(row))


def _minus(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    left = list(others)
    remaining = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            remaining.append(row)
    return remaining

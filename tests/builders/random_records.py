"""Random capture instances, shapes of their tables, and the log records that a server could send of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from builders.capture_instances import instance, source_table
from builders.odd_texts import ODD_TEXTS
from builders.random_values import MAKERS
from rowtide.cdc.definitions import Instance
from rowtide.cdc.rows.column_places import key_places
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, TableShape
from rowtide.databases.source_table import TableKind

TYPES = tuple(ODD_TEXTS)
_KEY_TYPES = ("integer", "text", "uuid")
_COUNTS = (1, 2, 3, 7, 8, 9, 12, 17, 20)
_IDENTITIES = {BeforeImages.FULL: ImageKind.FULL, BeforeImages.KEY: ImageKind.KEY}
_TIME = datetime(2026, 1, 1, tzinfo=UTC)

Image = list[str | None]


@dataclass(frozen=True)
class Logged:
    """A table as captured and as logged; `types` are the types of the shape's columns."""

    instance: Instance
    shape: TableShape
    types: tuple[str, ...]


def random_table(chosen: random.Random, member_id: str = "m1") -> Logged:
    """Return an instance and a shape, with columns dropped, renamed, added and generated since."""
    count = chosen.choice(_COUNTS)
    keys = chosen.sample(range(count), chosen.choice([1, 1, 1, min(2, count)]))
    types = [chosen.choice(_KEY_TYPES if place in keys else TYPES) for place in range(count)]
    table = source_table(
        [(f"c{place}", type_text) for place, type_text in enumerate(types)],
        key=[f"c{place}" for place in sorted(keys)],
        kind=chosen.choice([TableKind.ORDINARY, TableKind.ORDINARY, TableKind.PARTITIONED]),
    )
    before_images = chosen.choice(list(BeforeImages))
    made = instance(member_id, table=table, before_images=before_images)
    if chosen.random() < 0.2:
        generated = chosen.randrange(count)
        columns = [
            replace(one, is_computed=place == generated and place not in keys) for place, one in enumerate(made.columns)
        ]
        made = replace(made, columns=tuple(columns))
    has_numbers = chosen.random() < 0.8
    kept: list[tuple[ColumnShape, str]] = []
    for place, type_text in enumerate(types):
        if chosen.random() < 0.1 and (place not in keys or before_images is BeforeImages.FULL):
            continue
        name = f"renamed{place}" if has_numbers and chosen.random() < 0.1 else f"c{place}"
        kept.append(
            (ColumnShape(name, 25, -1, is_key=place in keys, number=place + 1 if has_numbers else None), type_text)
        )
        if chosen.random() < 0.1:
            kept.append((_other_column(f"added{place}", 1000 + place if has_numbers else None), "text"))
    if not kept:
        kept.append((_other_column("other", 2000), "text"))
    identity = chosen.choice([_IDENTITIES[before_images], ImageKind.FULL])
    shape = TableShape(table.source_id, "public", "t1", identity, tuple(column for column, _ in kept))
    return Logged(made, shape, tuple(type_text for _, type_text in kept))


def _other_column(name: str, number: int | None) -> ColumnShape:
    return ColumnShape(name, 25, -1, is_key=False, number=number)


def random_records(chosen: random.Random, logged: Logged, count: int, table_id: int = 1) -> pa.Table:
    """Return records of a table in several transactions, as `core.records.RECORD`."""
    rows = []
    for seqval in range(1, count + 1):
        operation, image, before, after, absent = _random_change(chosen, logged)
        rows.append(
            (100 + seqval // 50, _TIME, 7, None, seqval, operation, table_id, image, before, after, absent, None)
        )
    columns: list[list[Any]] = [list(values) for values in zip(*rows, strict=True)]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, RECORD, strict=True)], schema=RECORD
    )


def _random_change(
    chosen: random.Random, logged: Logged
) -> tuple[Operation, ImageKind, Image | None, Image | None, bytes | None]:
    places = range(len(logged.types))
    keys = set(key_places(logged.instance, logged.shape))
    is_partial = logged.instance.is_partitioned or logged.shape.identity is not ImageKind.FULL
    operation = chosen.choice([Operation.INSERT, *[Operation.UPDATE] * 4, *[Operation.DELETE] * 2, *_rare(chosen)])
    old = [random_text(chosen, one, is_key=place in keys and is_partial) for place, one in enumerate(logged.types)]
    if operation is Operation.INSERT:
        return operation, ImageKind.NONE, None, old, None
    if operation not in (Operation.UPDATE, Operation.DELETE):
        return operation, ImageKind.NONE, None, None, None
    image = chosen.choice(list(ImageKind)) if is_partial else ImageKind.FULL
    before: Image | None = {
        ImageKind.FULL: old,
        ImageKind.KEY: [text if place in keys else None for place, text in enumerate(old)],
    }.get(image)
    if operation is Operation.DELETE:
        return operation, image, before, None, None
    is_kept = chosen.choice([0.2, 0.9])
    new = [
        old[place]
        if chosen.random() < is_kept or (image is ImageKind.NONE and place in keys)
        else random_text(chosen, one, is_key=place in keys and is_partial)
        for place, one in enumerate(logged.types)
    ]
    unsent = [place for place in places if chosen.random() < 0.2] if chosen.random() < 0.4 else []
    bits = sum(1 << place for place in unsent)
    absent = bits.to_bytes((len(places) + 7) // 8, "little") if unsent else None
    return operation, image, before, [None if place in unsent else text for place, text in enumerate(new)], absent


def _rare(chosen: random.Random) -> Iterator[Operation]:
    if chosen.random() < 0.2:
        yield from (Operation.TRUNCATE, Operation.DDL)


def random_text(chosen: random.Random, type_text: str, *, is_key: bool) -> str | None:
    """Return a text of a type: as a server prints it, or odd; now and then null, unless it is of a key."""
    if is_key or type_text == "text":
        return chosen.choice(["1", "2", "3"]) if is_key else chosen.choice([None, "", "x", "y"])
    kind = chosen.random()
    if kind < 0.1:
        return None
    if kind < 0.6 and type_text in MAKERS:
        return MAKERS[type_text](chosen)
    return chosen.choice(ODD_TEXTS[type_text])


def records_of_texts(columns: Sequence[Sequence[str | None]]) -> pa.Table:
    """Return an insert for each row of columns of texts."""
    rows = list(zip(*columns, strict=True))
    after = pa.array([list(row) for row in rows], RECORD.field("after").type)
    count = len(rows)
    constant = {"commit_lsn": 100, "commit_time": _TIME, "xid": 7, "operation": 1, "table_id": 1, "image": 0}
    given = {"seqval": pa.array(range(1, count + 1), pa.int64()), "after": after}
    arrays = [given.get(field.name, pa.array([constant.get(field.name)] * count, field.type)) for field in RECORD]
    return pa.table(arrays, schema=RECORD)

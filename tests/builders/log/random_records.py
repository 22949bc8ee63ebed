"""Random capture instances, shapes of their tables, and the log records that a server could send of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from builders.capture.capture_instances import instance, source_table
from builders.log.log_records import Change, Image, insert, log_records
from builders.values.odd_texts import ODD_TEXTS
from builders.values.random_values import MAKERS
from rowtide.cdc.change_columns import key_indexes
from rowtide.cdc.instances import Instance
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, TableShape
from rowtide.databases.source_table import TableKind

TYPES = tuple(ODD_TEXTS)
_KEY_TYPES = ("integer", "text", "uuid")
_COUNTS = (1, 2, 3, 7, 8, 9, 12, 17, 20)
_IDENTITIES = {BeforeImages.FULL: ImageKind.FULL, BeforeImages.KEY: ImageKind.KEY}


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
    changes = [random_change(chosen, logged) for _ in range(count)]
    return log_records(changes, table_id=table_id, lsns=[100 + seqval // 50 for seqval in range(1, count + 1)])


def random_change(chosen: random.Random, logged: Logged) -> Change:
    """Return a change of a table, or now and then a truncate or a statement."""
    places = range(len(logged.types))
    keys = set(key_indexes(logged.instance, logged.shape))
    is_partial = logged.instance.is_partitioned or logged.shape.identity is not ImageKind.FULL
    operation = chosen.choice([Operation.INSERT, *[Operation.UPDATE] * 4, *[Operation.DELETE] * 2, *_rare(chosen)])
    old = [random_text(chosen, one, is_key=place in keys and is_partial) for place, one in enumerate(logged.types)]
    if operation is Operation.INSERT:
        return Change(operation, after=old)
    if operation not in (Operation.UPDATE, Operation.DELETE):
        return Change(operation)
    image = chosen.choice(list(ImageKind)) if is_partial else ImageKind.FULL
    before: Image | None = {
        ImageKind.FULL: old,
        ImageKind.KEY: [text if place in keys else None for place, text in enumerate(old)],
    }.get(image)
    if operation is Operation.DELETE:
        return Change(operation, image, before)
    is_kept = chosen.choice([0.2, 0.9])
    new = [
        old[place]
        if chosen.random() < is_kept or (image is ImageKind.NONE and place in keys)
        else random_text(chosen, one, is_key=place in keys and is_partial)
        for place, one in enumerate(logged.types)
    ]
    unsent = [place for place in places if chosen.random() < 0.2] if chosen.random() < 0.4 else []
    return Change(
        operation, image, before, [None if place in unsent else text for place, text in enumerate(new)], unsent
    )


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
    return log_records([insert(*row) for row in zip(*columns, strict=True)])

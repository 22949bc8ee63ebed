"""Net changes against the specification's vectors, and against its algorithm, row by row, on random histories."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.change_columns import change_columns, full_mask, pack_mask
from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.spark_changes import reduce_changes
from rowtide.core.tables import BeforeImages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDER = ("`__$start_lsn`", "`__$seqval`", "`__$operation`")
COLUMNS = [("id", "integer"), ("name", "text"), *((f"c{number}", "text") for number in range(3, 61))]
"""60 columns: the mask is eight bytes, more than one number holds."""

FULL = full_mask(len(COLUMNS))


@dataclass(frozen=True)
class Change:
    """A change row: `name` tells versions of a row apart."""

    lsn: int
    seqval: int
    operation: int
    key: int | None
    name: str | None
    mask: bytes | None


Net = tuple[int, int, int | None, str | None, bytes | None]
"""LSN, operation, key, name, mask."""


def made_instance() -> Instance:
    return instance(table=source_table(COLUMNS))


def as_rows(spark: SparkSession, made: Instance, changes: Sequence[Change]) -> DataFrame:
    columns = [(column.name, column.type_name) for column in change_columns(made)]
    schema = ", ".join(f"`{name}` {type_name}" for name, type_name in columns)
    rows = []
    for change in changes:
        values = {
            "__$start_lsn": change.lsn,
            "__$seqval": change.seqval,
            "__$operation": change.operation,
            "__$update_mask": change.mask,
            "id": change.key,
            "name": change.name,
        }
        rows.append(tuple(values.get(name) for name, _ in columns))
    return spark.createDataFrame(rows, schema)


def reduce_by_spark(
    spark: SparkSession, changes: Sequence[Change], option: str, *, may_truncate: bool = True
) -> list[Net]:
    made = made_instance()
    net = reduce_changes(as_rows(spark, made, changes), made, option, may_truncate=may_truncate)
    rows = net.orderBy(*ORDER).collect()
    return [
        (row["__$start_lsn"], row["__$operation"], row["id"], row["name"], _bytes(row["__$update_mask"]))
        for row in rows
    ]


def _bytes(mask: Any) -> bytes | None:
    return bytes(mask) if mask is not None else None


def history(key: int, operations: str) -> Iterator[Change]:
    """Write a key's history, a transaction per letter; `C` is a truncate."""
    for lsn, letter in enumerate(operations, 100):
        match letter:
            case "I":
                yield Change(lsn, 1, 2, key, f"v{lsn}", FULL)
            case "D":
                yield Change(lsn, 1, 1, key, f"v{lsn - 1}", FULL)
            case "C":
                yield Change(lsn, 1, 6, None, None, None)
            case _:
                mask = pack_mask([2, lsn - 90], len(COLUMNS))
                yield Change(lsn, 1, 3, key, f"v{lsn - 1}", mask)
                yield Change(lsn, 1, 4, key, f"v{lsn}", mask)


VECTORS: dict[str, tuple[int | None, int | None]] = {
    "I": (2, 5),
    "U": (4, 5),
    "D": (1, 1),
    "IU": (2, 5),
    "ID": (None, None),
    "UU": (4, 5),
    "UD": (1, 1),
    "DI": (4, 5),
    "DIU": (4, 5),
    "DID": (1, 1),
    "IDI": (2, 5),
    "IDID": (None, None),
    "UDI": (4, 5),
}
"""The specification's histories of one key: operation with `all`, and with `all with merge`; None: nothing."""


def test_net_changes_of_each_specified_history_are_as_specified(spark: SparkSession) -> None:
    keys = dict(enumerate(VECTORS))
    changes = [change for key, operations in keys.items() for change in history(key, operations)]
    for place, option in ((0, "all"), (1, "all with merge")):
        expected = {key: VECTORS[operations][place] for key, operations in keys.items()}
        found = reduce_by_spark(spark, changes, option)
        assert {key: operation for _, operation, key, _, _ in found} == {
            key: operation for key, operation in expected.items() if operation is not None
        }
        assert all(name == f"v{lsn - (operation == 1)}" for lsn, operation, _, name, _ in found)
        assert {mask for *_, mask in found} == {None}
        assert [lsn for lsn, *_ in found] == sorted(lsn for lsn, *_ in found)


def test_a_mask_has_the_columns_of_every_update_of_the_key(spark: SparkSession) -> None:
    keys = dict(enumerate(("UU", "DI", "UDI", "I", "D", "IU", "UUU")))
    changes = [change for key, operations in keys.items() for change in history(key, operations)]
    found = {key: mask for _, _, key, _, mask in reduce_by_spark(spark, changes, "all with mask")}
    assert found == {
        0: pack_mask([2, 10, 11], len(COLUMNS)),
        1: FULL,
        2: FULL,
        3: None,
        4: None,
        5: None,
        6: pack_mask([2, 10, 11, 12], len(COLUMNS)),
    }


def test_a_key_that_moves_and_comes_back(spark: SparkSession) -> None:
    """An update of the key is 1 and 2 of one seqval: k1 → k2, and k3 → k4 → k3."""
    moved = [Change(100, 1, 1, 1, "a", FULL), Change(100, 1, 2, 2, "a", FULL)]
    back = [
        Change(101, 1, 1, 3, "b", FULL),
        Change(101, 1, 2, 4, "b", FULL),
        Change(101, 2, 1, 4, "b", FULL),
        Change(101, 2, 2, 3, "c", FULL),
    ]
    assert sorted(reduce_by_spark(spark, [*moved, *back], "all")) == [
        (100, 1, 1, "a", None),
        (100, 2, 2, "a", None),
        (101, 4, 3, "c", None),
    ]


def test_a_truncate_comes_first_and_takes_all_before_it_away(spark: SparkSession) -> None:
    changes = [*history(1, "IUCIU"), *history(2, "UUCCI"), *history(3, "DI")]
    assert reduce_by_spark(spark, changes, "all with mask") == [
        (103, 6, None, None, None),
        (104, 2, 2, "v104", None),
        (104, 4, 1, "v104", pack_mask([2, 14], len(COLUMNS))),
    ]


def test_keys_their_type_cannot_hold_differ_by_exact_text(spark: SparkSession) -> None:
    table = source_table([("at", "date"), ("name", "text")], key=("at",))
    made = instance(table=table)
    rows = [
        (100 + number, None, 1, 2, full_mask(2), None, f"v{number}", None, {1: text})
        for number, text in enumerate(("infinity", "-infinity", "infinity"))
    ]
    schema = ", ".join(f"`{column.name}` {column.type_name}" for column in change_columns(made))
    found = reduce_changes(spark.createDataFrame(rows, schema), made, "all").orderBy(*ORDER).collect()
    assert [(row["__$exact"], row["name"]) for row in found] == [({1: "-infinity"}, "v1"), ({1: "infinity"}, "v2")]


def reduce_by_specification(changes: Sequence[Change], option: str) -> list[Net]:
    """The algorithm of the specification, word by word: first, last and number of each key's rows."""
    truncates = [change for change in changes if change.operation == 6]
    after = max(((change.lsn, change.seqval) for change in truncates), default=(0, 0))
    by_key: dict[int | None, list[Change]] = defaultdict(list)
    for change in sorted(changes, key=lambda change: (change.lsn, change.seqval, change.operation)):
        if change.operation != 6 and (change.lsn, change.seqval) > after:
            by_key[change.key].append(change)
    net: list[Net] = [(after[0], 6, None, None, None)] if truncates else []
    for rows in by_key.values():
        net += _reduce_key(rows, option)
    return net


def _reduce_key(rows: Sequence[Change], option: str) -> Iterable[Net]:
    told = [row for row in rows if row.operation != 3]
    first, last = told[0].operation, told[-1]
    if last.operation == 1 and first == 2:
        return
    if option == "all with merge":
        operation = 1 if last.operation == 1 else 5
    elif len(rows) == 1:
        operation = last.operation
    elif first == 2:
        operation = 2
    elif first == 4:
        operation = 1 if last.operation == 1 else 4
    else:
        operation = 4 if last.operation in (2, 4) else 1
    mask = None
    if option == "all with mask" and last.operation != 1 and first != 2:
        bits = 0
        for row in rows:
            bits |= int.from_bytes(row.mask or b"", "big")
        mask = bits.to_bytes(len(FULL), "big")
    yield last.lsn, operation, last.key, last.name, mask


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 20))])
def test_net_is_the_reduction_of_all_for_every_window(spark: SparkSession, seed: int) -> None:
    chosen = random.Random(seed)
    changes = list(random_history(chosen))
    lsns = sorted({change.lsn for change in changes})
    for option in NET_ROW_FILTERS:
        low, high = sorted(chosen.sample(lsns, 2))
        window = [change for change in changes if low <= change.lsn <= high]
        shuffled = chosen.sample(window, len(window))
        expected = sorted(reduce_by_specification(window, option), key=repr)
        for may_truncate in {True, any(change.operation == 6 for change in window)}:
            found = reduce_by_spark(spark, shuffled, option, may_truncate=may_truncate)
            assert sorted(found, key=repr) == expected


def random_history(chosen: random.Random) -> Iterator[Change]:
    """Transactions of several changes over a few keys, which move, vanish and return; now and then a truncate."""
    present: dict[int, Change] = {}
    for lsn in range(100, 160):
        for seqval in range(1, chosen.randint(2, 8)):
            key, name = chosen.randrange(12), f"{lsn}.{seqval}"
            row = present.get(key)
            if row is None:
                present[key] = Change(lsn, seqval, 2, key, name, FULL)
                yield present[key]
            elif chosen.random() < 0.02:
                present.clear()
                yield Change(lsn, seqval, 6, None, None, None)
            elif chosen.random() < 0.4:
                del present[key]
                yield replace(row, lsn=lsn, seqval=seqval, operation=1, mask=FULL)
            elif (target := chosen.randrange(12)) not in present:
                del present[key]
                yield replace(row, lsn=lsn, seqval=seqval, operation=1, mask=FULL)
                present[target] = replace(row, lsn=lsn, seqval=seqval, operation=2, key=target, mask=FULL)
                yield present[target]
            else:
                mask = pack_mask(chosen.sample(range(1, len(COLUMNS) + 1), 3), len(COLUMNS))
                yield replace(row, lsn=lsn, seqval=seqval, operation=3, mask=mask)
                present[key] = Change(lsn, seqval, 4, key, name, mask)
                yield present[key]


def test_absent_value_is_that_of_the_last_row_that_carried_it(spark: SparkSession) -> None:
    columns = [("id", "integer"), ("name", "text"), ("at", "date")]
    made = instance(table=source_table(columns), before_images=BeforeImages.KEY)
    absent = pack_mask([2, 3], 3)
    exact = {3: "infinity"}
    rows = [
        # An update that carried all, then one that did not, then a delete that carried the key.
        *[(1, 100, 4, "a", exact, None), (1, 101, 4, None, None, absent)],
        *[(2, 100, 4, "b", exact, None), (2, 101, 1, None, None, absent)],
        # Nothing carried it; and a key whose row is another one: moved there, its values unsent.
        (3, 100, 4, None, None, absent),
        *[(4, 100, 4, "c", exact, None), (4, 101, 1, None, None, absent), (4, 102, 2, None, None, absent)],
        # Carried again later.
        *[(5, 100, 4, None, None, absent), (5, 101, 4, "d", None, pack_mask([3], 3))],
    ]
    schema = ", ".join(f"`{column.name}` {column.type_name}" for column in change_columns(made))
    changes = [
        (lsn, None, 1, operation, full_mask(3), key, name, None, lacking, exact_text)
        for key, lsn, operation, name, exact_text, lacking in rows
    ]
    found = reduce_changes(spark.createDataFrame(changes, schema), made, "all").collect()
    assert {row["id"]: (row["name"], row["__$exact"], _bytes(row["__$absent_mask"])) for row in found} == {
        1: ("a", exact, None),
        2: ("b", exact, None),
        3: (None, None, absent),
        4: (None, None, absent),
        5: ("d", None, pack_mask([3], 3)),
    }

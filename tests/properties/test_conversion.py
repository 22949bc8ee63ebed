"""Log records become the same change rows in Arrow as in Spark SQL, with the same schema, row for row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from builders.capture_instances import instance, shape_of, source_table
from builders.conversion_oracle import as_change_rows
from builders.odd_texts import LENIENT_TEXTS, ODD_TEXTS
from builders.random_records import random_records, random_table, records_of_texts
from builders.type_catalogue import SAMPLES, SETUP
from rowtide.cdc.definitions import Instance
from rowtide.cdc.rows.conversion import LsnRange, Wanted, change_schema, convert_records, convert_segment
from rowtide.core.mask import pack_mask
from rowtide.core.records import RECORD
from rowtide.core.tables import TableShape, TableVersion
from rowtide.databases.postgres.connect import PINNED_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = LsnRange(0, 1 << 62)
LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 60)]


@pytest.mark.parametrize("seed", [0, *LONG])
def test_random_histories_are_converted_alike(spark: SparkSession, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(6):
        logged = random_table(chosen)
        records = random_records(chosen, logged, 150)
        found = convert_records(records, logged.instance, logged.shape, EVERYTHING)
        assert_same(found, by_spark(spark, records, logged.instance, logged.shape))


@pytest.mark.parametrize("seed", [0, *LONG[:5]])
def test_texts_are_cast_alike_in_any_company(spark: SparkSession, seed: int) -> None:
    """Alone, among odd neighbours, and in columns that are long enough to be cast in pieces."""
    chosen = random.Random(seed)
    longest = max(map(len, ODD_TEXTS.values()))
    plain = [[*texts, *[None] * (longest - len(texts))] for texts in ODD_TEXTS.values()]
    columns = [[*texts, *chosen.choices(texts[:3], k=2000), *chosen.choices(texts, k=1000)] for texts in plain]
    made, shape = typed_table(*ODD_TEXTS)
    records = records_of_texts(columns)
    found = convert_records(records, made, shape, EVERYTHING)
    assert_same(found, by_spark(spark, records, made, shape))
    for place, (type_text, texts) in enumerate(ODD_TEXTS.items()):
        made, shape = typed_table(type_text)
        for row, text in enumerate(texts):
            alone = convert_records(records_of_texts([[text]]), made, shape, EVERYTHING)
            assert as_bits(alone["c0"]).equals(as_bits(found.slice(row, 1)[f"c{place}"])), (type_text, text)


@pytest.mark.parametrize("type_text", LENIENT_TEXTS)
def test_text_that_no_server_prints_is_kept_as_text(type_text: str) -> None:
    made, shape = typed_table(type_text)
    texts = LENIENT_TEXTS[type_text]

    for company in (texts, *((text,) for text in texts)):
        rows = convert_records(records_of_texts([company]), made, shape, EVERYTHING)
        assert rows["c0"].to_pylist() == [None] * len(company)
        assert rows["__$exact"].to_pylist() == [[(1, text)] for text in company]


def test_values_of_the_catalogue_are_converted_alike(spark: SparkSession, database: str) -> None:
    printed = print_catalogue(database)
    longest = max(map(len, printed))
    columns = [[*texts, *[None] * (longest - len(texts))] for texts in printed]
    table = source_table([(f"c{place}", samples.value_type_text) for place, samples in enumerate(SAMPLES)], key=())
    made, shape, records = instance(table=table), shape_of(table), records_of_texts(columns)

    found = convert_records(records, made, shape, EVERYTHING)

    assert_same(found, by_spark(spark, records, made, shape))
    for samples, texts, typed in zip(SAMPLES, printed, found.columns[5:], strict=False):
        is_typed = typed.is_valid().to_pylist()[: len(texts)]
        misfits = len(samples.all_misfits)
        assert is_typed == [True] * (len(texts) - misfits) + [False] * misfits, samples.type_text


@pytest.mark.parametrize("seed", [0, *LONG[:5]])
def test_segment_is_converted_as_its_tables_are(seed: int) -> None:
    chosen = random.Random(seed)
    logged = [random_table(chosen, f"m{number}") for number in range(8)]
    parts = [random_records(chosen, one, 120, table_id=number) for number, one in enumerate(logged)]
    lsns = LsnRange(101, 102)
    wanted = [Wanted(one.instance, TableVersion(number, one.shape), lsns) for number, one in enumerate(logged)]
    in_order, mixed = pa.concat_tables(parts), pa.concat_tables(parts[::-1])

    for records in (in_order, mixed):
        found = convert_segment(records, wanted[1:])
        assert list(found) == [f"m{number}" for number in range(1, 8)]
        for one, part in zip(logged[1:], parts[1:], strict=True):
            alone = convert_records(part, one.instance, one.shape, lsns)
            assert set(alone["__$start_lsn"].to_pylist()) == {101}
            assert_same(found[one.instance.member_id], alone)


@pytest.mark.parametrize("count", [1, 8, 9, 1024, 1600])
def test_update_mask_has_a_bit_for_each_of_many_columns(count: int) -> None:
    made, shape = typed_table(*["text"] * count)
    old = ["x"] * count
    changed = sorted({1, count // 2 + 1, count})
    new = ["y" if ordinal in changed else "x" for ordinal in range(1, count + 1)]
    given = {"operation": 2, "image": 2, "before": old, "after": new}
    record = pa.Table.from_pylist([records_of_texts([["x"]]).to_pylist()[0] | given], RECORD)

    rows = convert_records(record, made, shape, EVERYTHING)

    assert rows["__$update_mask"].to_pylist() == [pack_mask(changed, count)] * 2
    assert rows["__$operation"].to_pylist() == [3, 4]


def test_range_without_records_gives_no_rows() -> None:
    logged = random_table(random.Random(0))
    records = random_records(random.Random(0), logged, 10)

    for given in (records, records.slice(0, 0)):
        rows = convert_records(given, logged.instance, logged.shape, LsnRange(1, 2))
        assert rows.num_rows == 0
        assert rows.schema == change_schema(logged.instance)


def test_image_of_another_number_of_values_is_refused() -> None:
    made, shape = typed_table("text")

    with pytest.raises(ValueError, match="a row image has not 1 values"):
        convert_records(records_of_texts([["x"], ["y"]]), made, shape, EVERYTHING)


def typed_table(*types: str) -> tuple[Instance, TableShape]:
    table = source_table([(f"c{place}", type_text) for place, type_text in enumerate(types)], key=())
    return instance(table=table), shape_of(table)


def print_catalogue(database: str) -> list[list[str]]:
    """Return the values of each type of the catalogue, as the server prints them under the pinned settings."""
    escaped_space = "\\ "
    options = " ".join(f"-c {name}={value.replace(' ', escaped_space)}" for name, value in PINNED_SETTINGS.items())
    with psycopg.connect(database, options=options) as connection:
        connection.execute(SETUP + "create table kept ()")
        return [
            [show(connection, value, samples.type_text) for value in (*samples.values, *samples.all_misfits)]
            for samples in SAMPLES
        ]


def show(connection: psycopg.Connection[tuple[str]], value: str, type_text: str) -> str:
    row = connection.execute(sql.SQL("select format('%%s', %s::" + type_text + ")"), [value]).fetchone()
    assert row is not None
    return row[0]


def by_spark(spark: SparkSession, records: pa.Table, made: Instance, shape: TableShape) -> pa.Table:
    return as_change_rows(spark.createDataFrame(records), made, shape).toArrow()


def assert_same(found: pa.Table, expected: pa.Table, hint: object = None) -> None:
    """Compare names, types and values, floating point numbers bit by bit; rows by LSN, seqval and operation."""
    found, expected = in_order(found), in_order(expected)
    assert [(field.name, field.type) for field in found.schema] == [
        (field.name, field.type) for field in expected.schema
    ]
    for name in found.column_names:
        one, other = as_bits(found[name]), as_bits(expected[name])
        assert one.equals(other), (name, hint, *difference(one, other))


def in_order(rows: pa.Table) -> pa.Table:
    keys = [name for name in ("__$start_lsn", "__$seqval", "__$operation") if name in rows.column_names]
    return rows.sort_by([(name, "ascending") for name in keys]).combine_chunks()


def as_bits(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    whole = column.combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    integers = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(whole.type)
    return whole.view(integers) if integers else whole


def difference(one: pa.Array[Any], other: pa.Array[Any]) -> Sequence[object]:
    """Return the first rows that differ; as Arrow's scalars, since Python's dates end with the year 9999."""
    return [(row, left, right) for row, (left, right) in enumerate(zip(one, other, strict=True)) if left != right][:5]

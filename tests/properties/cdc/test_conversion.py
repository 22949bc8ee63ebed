"""Log records become the same change rows in Arrow as in Spark SQL, with the same schema, row for row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from builders.capture.capture_instances import instance, shape_of, source_table
from builders.lakes.conversion_oracle import as_change_rows
from builders.log.random_records import random_records, random_table, records_of_texts
from builders.values.arrow_rows import as_bits, assert_same_rows
from builders.values.odd_texts import LENIENT_TEXTS, ODD_TEXTS
from builders.values.type_catalogue import SAMPLES, SETUP
from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.conversion import LsnRange, convert_records
from rowtide.core.tables import TableShape
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS

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
        assert_same_rows(found, by_spark(spark, records, logged.instance, logged.shape))


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
    assert_same_rows(found, by_spark(spark, records, made, shape))
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

    assert_same_rows(found, by_spark(spark, records, made, shape))
    for samples, texts, typed in zip(SAMPLES, printed, found.columns[5:], strict=False):
        is_typed = typed.is_valid().to_pylist()[: len(texts)]
        misfits = len(samples.all_misfits)
        assert is_typed == [True] * (len(texts) - misfits) + [False] * misfits, samples.type_text


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
    """The oracle's change rows, in the records' order."""
    rows = as_change_rows(spark.createDataFrame(records), made, shape).toArrow()
    return rows.sort_by([(name, "ascending") for name in ("__$start_lsn", "__$seqval", "__$operation")])

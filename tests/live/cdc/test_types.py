"""Every value of every type, through the lake: typed, or its exact text; the server itself reads it back.

One table with a column of each type is captured once per server; each test reads it in its own form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.capture.captured_databases import FINDS_EVERYTHING, CapturedDatabase
from builders.lakes.spark_presentation import present_by_spark
from builders.values.type_catalogue import SAMPLES
from builders.values.typed_tables import (
    COLUMNS,
    TABLE,
    VERSION_OF,
    Rows,
    Texts,
    arrow_texts,
    create_typed_table,
    find_altered,
    input_of,
    read_csv,
    write_typed_table,
)
from fixtures.captured import open_captured
from rowtide.cdc.lake_readers.presentation import present, write_parquet
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cli.output.rows import OutputFormat, print_rows
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.values import lake_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTANCE = f"public_{TABLE}"
LAKE_TYPES = [lake_type(samples.value_type_text) for samples in SAMPLES]
Changes = Sequence[tuple[int, int, Texts]]
"""Operation, id and values of `COLUMNS`."""


@pytest.fixture(scope="module", params=[16, 18])
def captured_types(
    request: pytest.FixtureRequest,
    server: EmbeddedServer,
    server_16: EmbeddedServer,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CapturedDatabase]:
    """The table of all types on each server, inserted, updated, deleted and captured."""
    chosen = {16: server_16, 18: server}[request.param]
    with open_captured(chosen, tmp_path_factory.mktemp("types") / "lake", spark) as opened:
        create_typed_table(opened.session)
        opened.enable(TABLE)
        write_typed_table(opened.session)
        opened.capture()
        yield opened


@pytest.fixture(scope="module")
def lake_rows(captured_types: CapturedDatabase, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The change rows as `cdc changes --format parquet` writes them, typed, read without Spark."""
    file = tmp_path_factory.mktemp("parquet") / "changes.parquet"
    write_parquet(captured_types.cdc.stream_changes(INSTANCE, row_filter_option=FINDS_EVERYTHING), file)
    return pq.read_table(file)


@pytest.fixture(scope="module")
def presented(captured_types: CapturedDatabase) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Names and values as `cdc changes` prints them in other formats."""
    presented = present(captured_types.cdc.stream_changes(INSTANCE, row_filter_option=FINDS_EVERYTHING))
    return presented.names, list(presented.rows())


def test_values_are_presented_as_by_spark(
    captured_types: CapturedDatabase, presented: tuple[Sequence[str], list[tuple[object, ...]]]
) -> None:
    spark = captured_types.cdc.get_all_changes(INSTANCE, row_filter_option=FINDS_EVERYTHING, spark=captured_types.spark)
    instance = PublishedLake(str(captured_types.lake)).get_recorded_instance(INSTANCE).instance
    names, rows = present_by_spark(spark, instance)
    assert presented[0] == names
    for own, expected in zip(presented[1], rows, strict=True):
        assert own == expected


def test_the_lake_has_every_value_typed_or_in_exact_text(captured_types: CapturedDatabase, lake_rows: pa.Table) -> None:
    assert_all_are_as_kept(captured_types, lake_changes(lake_rows))


def test_exact_text_is_kept_for_just_the_values_that_do_not_fit(
    captured_types: CapturedDatabase, lake_rows: pa.Table
) -> None:
    version = captured_types.session.info.server_version // 10000
    inserted = [row for row in exact_of(lake_rows) if row[0] == 2]
    for _, number, exact in inserted:
        misfits = {
            ordinal
            for ordinal, samples in enumerate(SAMPLES, 2)
            if input_of(samples, number, version) in samples.all_misfits
        }
        assert exact.keys() == misfits, number


def test_columns_have_the_types_that_the_page_names(captured_types: CapturedDatabase) -> None:
    fields = dict(captured_types.cdc.get_all_changes(INSTANCE, spark=captured_types.spark).dtypes)
    assert [fields[name] for name in COLUMNS] == [held.name for held in LAKE_TYPES]


def test_json_lines_have_every_value(
    captured_types: CapturedDatabase, presented: tuple[Sequence[str], list[tuple[object, ...]]]
) -> None:
    out = StringIO()
    print_rows(*presented, OutputFormat.JSONL, out)
    # Numbers as they are written: Python's would hide what a decimal point or a digit more would change.
    rows = [json.loads(line, parse_int=str, parse_float=str) for line in out.getvalue().split("\n")[:-1]]
    changes = [(int(row["__$operation"]), int(row["id"]), [_json_text(row[name]) for name in COLUMNS]) for row in rows]
    assert_all_are_as_kept(captured_types, prefix_binary(changes))


def test_csv_has_every_value_and_tells_null_from_an_empty_text(
    captured_types: CapturedDatabase, presented: tuple[Sequence[str], list[tuple[object, ...]]]
) -> None:
    out = StringIO()
    print_rows(*presented, OutputFormat.CSV, out)
    names, rows = presented[0], read_csv(captured_types.url, out.getvalue(), presented[0])
    operation, number, first = (names.index(name) for name in ("__$operation", "id", "c1"))
    changes = [(int(row[operation] or 0), int(row[number] or 0), row[first:]) for row in rows]
    assert_all_are_as_kept(captured_types, prefix_binary(changes))


def assert_all_are_as_kept(database: CapturedDatabase, changes: Changes) -> None:
    for operation, version in VERSION_OF.items():
        rows: Rows = {(version, number): texts for change, number, texts in changes if change == operation}
        altered = [found for found in find_altered(database.url, rows) if found[2] == version]
        assert altered == [], operation


def prefix_binary(changes: Changes) -> Changes:
    """Binary values are printed without the two characters that tell the server that they are hexadecimal."""
    return [
        (
            operation,
            number,
            [
                f"\\x{text}" if text is not None and held.name == "binary" else text
                for text, held in zip(texts, LAKE_TYPES, strict=True)
            ],
        )
        for operation, number, texts in changes
    ]


def lake_changes(rows: pa.Table) -> Changes:
    columns = [arrow_texts(rows[name]) for name in COLUMNS]
    typed = zip(*columns, strict=True)
    return [
        (operation, number, [exact.get(ordinal, text) for ordinal, text in enumerate(texts, 2)])
        for (operation, number, exact), texts in zip(exact_of(rows), typed, strict=True)
    ]


def exact_of(changes: pa.Table) -> list[tuple[int, int, dict[int, str]]]:
    """Return operation, id and exact texts, by ordinal; the id's is 1."""
    rows: list[dict[str, Any]] = changes.select(["__$operation", "id", "__$exact"]).to_pylist()
    return [(row["__$operation"], row["id"], dict(row["__$exact"] or ())) for row in rows]


def _json_text(value: Any) -> str | None:
    return value if value is None else str(value)

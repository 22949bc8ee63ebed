"""Every value of every type comes out of a change table as the text that the source shows, or as the number it is."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from psycopg import sql

from builders.capture.captured_databases import CapturedDatabase
from builders.values.random_values import RANDOM_SAMPLES, choose
from builders.values.type_catalogue import SETUP
from rowtide.cdc.lake_readers.presentation import present
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS

ROWS = 400
CHANGES_PER_ROW = (2, 1)
TYPES = [samples.type_text for samples in RANDOM_SAMPLES]
COLUMNS = [f"c{number}" for number in range(len(RANDOM_SAMPLES))]
_numbers = itertools.count(1)


def _number(text: str) -> object:
    return float(text) if math.isfinite(float(text)) else text


def _single(text: str) -> object:
    return float(np.float32(text)) if math.isfinite(float(text)) else text


AS_PRESENTED: Mapping[str, Callable[[str], object]] = {
    "smallint": int,
    "integer": int,
    "bigint": int,
    "oid": int,
    "real": _single,
    "double precision": _number,
    "boolean": lambda text: text == "t",
    "bytea": lambda text: text.removeprefix("\\x"),
}
"""How a value is presented that is not presented as the source's text."""


@pytest.fixture(scope="module")
def typed(shared: CapturedDatabase) -> CapturedDatabase:
    shared.execute(SETUP)
    shared.enable()
    return shared


@settings(max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_values_of_all_types_come_out_as_they_went_in(typed: CapturedDatabase, seed: int) -> None:
    table = f"values_{next(_numbers)}"
    columns = ", ".join(f"{name} {type_text}" for name, type_text in zip(COLUMNS, TYPES, strict=True))
    typed.execute(f"create table {table} (id int primary key, {columns})")
    typed.cdc.enable_table(table)
    insert_random(typed, table, random.Random(seed))
    expected = read_texts(typed, table)
    typed.execute(f"delete from {table}")
    typed.capture()
    presented = present(typed.cdc.stream_changes(f"public_{table}"))
    operation, number, first = (presented.names.index(name) for name in ("__$operation", "id", "c0"))
    found = {(row[operation], row[number]): row[first:] for row in presented.rows()}
    assert len(found) == len(expected) * len(CHANGES_PER_ROW)
    for operation in CHANGES_PER_ROW:
        for number, texts in expected.items():
            for type_text, text, value in zip(TYPES, texts, found[operation, number], strict=True):
                assert is_presented(value, text, type_text), (type_text, text, value)


def insert_random(database: CapturedDatabase, table: str, chosen: random.Random) -> None:
    casts = sql.SQL(", ").join(sql.SQL("%s::" + type_text) for type_text in TYPES)
    statement = sql.SQL("insert into {} values (%s, {})").format(sql.Identifier(table), casts)
    with database.transaction() as connection:
        for number in range(ROWS):
            connection.execute(statement, [number, *(choose(samples, chosen) for samples in RANDOM_SAMPLES)])


def read_texts(database: CapturedDatabase, table: str) -> dict[int, tuple[str | None, ...]]:
    """Return what the server's output functions print under the pinned settings."""
    escaped_space = "\\ "
    options = " ".join(f"-c {name}={value.replace(' ', escaped_space)}" for name, value in PINNED_SETTINGS.items())
    printed = sql.SQL(", ").join(
        sql.SQL("case when {0} is not null then format('%s', {0}) end").format(sql.Identifier(name)) for name in COLUMNS
    )
    query = sql.SQL("select id, {} from {}").format(printed, sql.Identifier(table))
    with psycopg.connect(database.url, options=options) as connection:
        return {row[0]: row[1:] for row in connection.execute(query)}


def is_presented(value: object, text: str | None, type_text: str) -> bool:
    if text is None or value is None:
        return text is value
    wanted = AS_PRESENTED.get(type_text, str)(text)
    return value == wanted and type(value) is type(wanted)

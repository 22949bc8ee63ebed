"""SQL Server's query functions in Spark SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from operator import itemgetter
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rowtide
from builders.capture.captured_databases import CapturedDatabase
from builders.faults.cuts import Cut, cut_at
from rowtide.cdc.ddl import retyping
from rowtide.cdc.errors.querying import UnknownTimeOperator
from rowtide.cdc.queries.as_of.function import IS_CARRIED
from rowtide.core.lsn import CommitLsn
from rowtide.databases.lake_types import can_widen
from rowtide.lake.session import pinned

ALL = "fn_cdc_get_all_changes_public_item"
NET = "fn_cdc_get_net_changes_public_item"
WHOLE = "(select fn_cdc_get_min_lsn('public_item')), (select fn_cdc_get_max_lsn())"


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """Insert, update, truncate, insert; a table whose columns have the names of arguments; one without key."""
    shared.execute(
        "create table item (id int primary key, name text)",
        'create table odd (from_lsn int primary key, "to_lsn" int, "a b" text)',
        "create table keyless (id int)",
    )
    shared.enable("item", "odd", "keyless")
    shared.execute(
        "insert into item values (1, 'a')",
        "update item set name = 'b'",
        "truncate item",
        "insert into item values (2, 'c')",
        "insert into odd values (1, 2, 'x')",
    )
    shared.capture()
    shared.spark = pinned(shared.spark)
    rowtide.register(shared.spark, str(shared.lake))
    return shared


def ask(database: CapturedDatabase, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.spark.sql(query).collect()]


def lsns(database: CapturedDatabase) -> list[int]:
    return [row["__$start_lsn"] for row in database.changes("public_item", "all")]


@pytest.mark.exhaustive
def test_the_functions_of_every_instance_are_there(written: CapturedDatabase) -> None:
    names = rowtide.register(written.spark, str(written.lake))
    assert {ALL, NET, "fn_cdc_get_all_changes_public_keyless", "fn_cdc_get_max_lsn"} <= set(names)
    assert "fn_cdc_get_net_changes_public_keyless" not in names


@pytest.mark.exhaustive
def test_all_changes_are_those_of_the_dataframe(written: CapturedDatabase) -> None:
    for option in ("all", "ALL update old "):
        rows = ask(written, f"select * from {ALL}({WHOLE}, '{option}') order by 1, 2, 3")
        assert rows == [tuple(row) for row in written.changes("public_item", option)]
    assert ask(written, f"select id from {ALL}({WHOLE}, 'all') where `__$operation` = 2 order by id") == [(1,), (2,)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("option", "low", "high"), [("all", 0, 1), ("all with mask", 1, 1), ("all with merge", 1, -1)])
def test_net_changes_are_those_of_the_dataframe(written: CapturedDatabase, option: str, low: int, high: int) -> None:
    from_lsn, to_lsn = (lsns(written)[place] for place in (low, high))
    rows = ask(written, f"select * from {NET}({from_lsn}, {to_lsn}, '{option}') order by 1")
    window = CommitLsn(from_lsn), CommitLsn(to_lsn)
    frame = written.cdc.get_net_changes("public_item", *window, option, spark=written.spark)
    assert rows == sorted((tuple(row) for row in frame.collect()), key=itemgetter(0))
    assert rows


@pytest.mark.exhaustive
def test_captured_columns_may_have_the_names_of_arguments(written: CapturedDatabase) -> None:
    whole = "(select fn_cdc_get_min_lsn('public_odd')), (select fn_cdc_get_max_lsn())"
    for function in ("all", "net"):
        rows = ask(
            written, f"select from_lsn, to_lsn, `a b` from fn_cdc_get_{function}_changes_public_odd({whole}, 'all')"
        )
        assert rows == [(1, 2, "x")]


@pytest.mark.parametrize("function", [ALL, NET])
@pytest.mark.parametrize(
    "arguments",
    [
        "1, {high}, 'all'",
        "{high}, {high} + 1, 'all'",
        "{high}, {low}, 'all'",
        "{high} + 2, {high} + 9, 'all'",
        "{low}, {high}, 'all of it'",
        "null, {high}, 'all'",
        "{low}, null, 'all'",
        "{low}, {high}, null",
    ],
)
def test_what_may_not_be_asked_raises(written: CapturedDatabase, function: str, arguments: str) -> None:
    ((low, high),) = ask(written, "select fn_cdc_get_min_lsn('public_item'), fn_cdc_get_max_lsn()")
    call = f"{function}({arguments.format(low=low, high=high)})"
    # No row passes this filter, and the limit would be content with none.
    with pytest.raises(PySparkException, match="RT-313"):
        ask(written, f"select id from {call} where id > 7 limit 1")


@pytest.mark.parametrize("function", [ALL, NET])
@pytest.mark.parametrize("query", ["select * from {}", "select count(*) from {}", "select 1 from {} where id = 1"])
def test_it_raises_whatever_is_made_of_the_rows(written: CapturedDatabase, function: str, query: str) -> None:
    with pytest.raises(PySparkException, match="RT-313: LSN range 1 to 2 is outside .* public_item"):
        ask(written, query.format(f"{function}(1, 2, 'all')"))


@pytest.mark.exhaustive
def test_the_window_after_the_last_one_is_empty(written: CapturedDatabase) -> None:
    ((high,),) = ask(written, "select fn_cdc_get_max_lsn()")
    for function in (ALL, NET):
        assert (
            ask(written, f"select * from {function}(fn.after, fn.after, 'all')".replace("fn.after", f"{high + 1}"))
            == []
        )
        assert ask(written, f"select * from {function}({high + 1}, {high}, 'all')") == []


class InPython:
    """The functions as methods of the database's handle; LSNs as integers, truths as 1 and 0."""

    def __init__(self, database: CapturedDatabase) -> None:
        self._cdc = database.cdc
        self._spark = database.spark

    def map_time_to_lsn(self, operator: str, time: datetime) -> int | None:
        lsn = self._cdc.map_time_to_lsn(operator, time)
        return lsn.value if lsn is not None else None

    def map_lsn_to_time(self, lsn: int) -> datetime | None:
        return self._cdc.map_lsn_to_time(CommitLsn(lsn))

    def get_column_ordinal(self, instance: str, column: str) -> int | None:
        return self._cdc.get_column_ordinal(instance, column)

    def is_bit_set(self, position: int | None, mask: bytes | None) -> int:
        return int(self._cdc.is_bit_set(position, mask))

    def has_column_changed(self, instance: str, column: str, mask: bytes | None) -> int:
        return int(self._cdc.has_column_changed(instance, column, mask))


class InSql:
    """The functions of the Spark session, one at a time."""

    def __init__(self, database: CapturedDatabase) -> None:
        self._spark = database.spark

    def map_time_to_lsn(self, operator: str, time: datetime) -> Any:
        return self._call("map_time_to_lsn", operator, time)

    def map_lsn_to_time(self, lsn: int) -> datetime | None:
        micros = self._spark.sql(f"select unix_micros(fn_cdc_map_lsn_to_time({lsn}))").collect()[0][0]
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) if micros is not None else None

    def get_column_ordinal(self, instance: str, column: str) -> Any:
        return self._call("get_column_ordinal", instance, column)

    def is_bit_set(self, position: int | None, mask: bytes | None) -> Any:
        return self._call("is_bit_set", position, mask)

    def has_column_changed(self, instance: str, column: str, mask: bytes | None) -> Any:
        return self._call("has_column_changed", instance, column, mask)

    def _call(self, function: str, *arguments: object) -> Any:
        return self._spark.sql(f"select fn_cdc_{function}({', '.join(map(_literal, arguments))})").collect()[0][0]


def _literal(value: object) -> str:
    match value:
        case None:
            return "null"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"timestamp'{value.isoformat()}'"
        case str():
            return f"'{value}'"
        case _:
            return str(value)


Functions = InPython | InSql


@pytest.fixture(params=[InPython, InSql])
def functions(written: CapturedDatabase, request: pytest.FixtureRequest) -> Functions:
    """The same functions in Python and in Spark SQL: what is asked of one is asked of the other."""
    made: Functions = request.param(written)
    return made


def test_the_ends_of_the_interval_and_neighbours(written: CapturedDatabase) -> None:
    interval = written.cdc.get_validity_interval("public_item")
    low, high = interval.low.value, interval.high.value
    assert ask(written, "select fn_cdc_get_min_lsn('public_item'), fn_cdc_get_max_lsn()") == [(low, high)]
    assert ask(written, "select fn_cdc_get_min_lsn('nobody')") == [(0,)]
    assert ask(written, f"select fn_cdc_increment_lsn({low}), fn_cdc_decrement_lsn({low})") == [(low + 1, low - 1)]


@pytest.mark.exhaustive
def test_lsns_and_times(written: CapturedDatabase, functions: Functions) -> None:
    first, second, third, fourth = lsns(written)
    time = functions.map_lsn_to_time(second)
    assert time is not None
    assert functions.map_lsn_to_time(second + 1) is None
    expected = {
        "largest less than": first,
        " largest less than or equal": second,
        "smallest greater than": third,
        "Smallest greater than or equal": second,
    }
    for operator, lsn in expected.items():
        assert functions.map_time_to_lsn(operator, time) == lsn
    zone = timezone(timedelta(hours=5, minutes=30))
    assert functions.map_time_to_lsn("largest less than or equal", time.astimezone(zone)) == second
    assert functions.map_time_to_lsn("smallest greater than", time + timedelta(days=1)) is None
    assert functions.map_time_to_lsn("largest less than", time - timedelta(days=1)) is None
    with pytest.raises((PySparkException, UnknownTimeOperator), match="RT-313"):
        functions.map_time_to_lsn("nearest", time)
    assert fourth < written.cdc.get_validity_interval("public_item").high.value


def test_columns_are_found_by_their_names_in_the_source(functions: Functions) -> None:
    assert functions.get_column_ordinal("public_odd", "a b") == 3
    for instance, column in (("public_odd", "nothing"), ("public_odd", "A B"), ("nobody", "id")):
        assert functions.get_column_ordinal(instance, column) is None


def test_bits_are_counted_from_the_end_of_the_mask(functions: Functions) -> None:
    mask = bytes.fromhex("0281")
    assert [functions.is_bit_set(position, mask) for position in (1, 2, 8, 9, 10, 16, 17, 0, -1)] == [
        *(1, 0, 1, 0, 1, 0),
        *(0, 0, 0),
    ]
    assert (functions.is_bit_set(1, b""), functions.is_bit_set(1, None), functions.is_bit_set(None, mask)) == (0, 0, 0)


def test_a_column_that_an_update_changed_is_reported(written: CapturedDatabase, functions: Functions) -> None:
    (mask,) = [row["__$update_mask"] for row in written.changes("public_item", "all") if row["__$operation"] == 4]
    for column, changed in (("id", 0), ("name", 1), ("nothing", 0)):
        assert functions.has_column_changed("public_item", column, bytes(mask)) == changed
    assert functions.has_column_changed("nobody", "name", bytes(mask)) == 0


@pytest.mark.exhaustive
def test_times_are_moments_whatever_a_session_calls_timestamps(written: CapturedDatabase) -> None:
    session = written.spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    rowtide.register(session, str(written.lake))
    last = "fn_cdc_map_lsn_to_time((select fn_cdc_get_max_lsn()))"
    of_time = f"fn_cdc_map_time_to_lsn('largest less than or equal', (select {last}))"
    found = session.sql(f"select unix_micros({last}) is not null, {of_time} = (select fn_cdc_get_max_lsn())").collect()
    assert [tuple(row) for row in found] == [(True, True)]


HALF_CARRIED = {
    "total type numeric(12, 3), alter price type double precision": None,
    "total type text, alter tax type real, alter placed type date": "total, tax, placed",
}
"""Alterations, and the columns whose values are not the same in both types."""


@pytest.mark.parametrize("alteration", HALF_CARRIED)
def test_half_carried_types_are_read_if_wider(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, alteration: str
) -> None:
    captured.execute(
        "create table orders (id int primary key, total numeric(10, 2), price real, tax float8, placed timestamp)",
        "insert into orders values (1, 2.25, 0.5, 0.25, '2024-01-01'), (2, -3.5, 1e30, 2.5, null)",
    )
    captured.enable("orders", snapshot=True)
    captured.copy_tables()
    captured.execute("update orders set total = 4.75 where id = 2")
    captured.capture()
    lsn, session = captured.cdc.get_max_lsn(), pinned(captured.spark)
    assert lsn is not None

    def ask() -> list[tuple[Any, ...]]:
        rowtide.register(session, str(captured.lake))
        query = f"select id, total, price, tax, placed from fn_cdc_get_table_as_of_public_orders({lsn.value}L)"
        return sorted(tuple(row) for row in session.sql(query).collect())

    expected = ask()
    captured.execute(f"alter table orders alter {alteration}")
    captured.read_log()
    with monkeypatch.context() as patched:
        patched.setattr(retyping, "failpoint", cut_at("types_carried.after"))
        with pytest.raises(Cut):
            captured.capture_log()
    if (differing := HALF_CARRIED[alteration]) is None:
        assert ask() == expected
        return
    with pytest.raises(PySparkException, match=f"RT-2217: .*public_orders .* other types of {differing}\\b"):
        ask()
    captured.capture()
    assert len(ask()) == len(expected)


def test_types_are_wider_in_sql_as_in_python(spark: SparkSession) -> None:
    decimals = [f"decimal({precision},{scale})" for precision in (4, 9, 10, 12, 20, 38) for scale in (0, 1, 3)]
    names = ["smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz", "string", *decimals]
    pairs = [(old, new) for old in names for new in names]
    found = spark.createDataFrame(pairs, "old string, new string").selectExpr("struct(old, new) as each")
    rows = found.selectExpr("each.old", "each.new", IS_CARRIED).collect()
    expected = [(old, new, old == new or can_widen(old, new)) for old, new in pairs]
    assert list(map(tuple, rows)) == expected

"""Changes between two times: of the handle, and of the wrapper functions whose scripts it prints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pyspark.errors import PySparkException

import rowtide
from builders.captured_databases import CapturedDatabase
from rowtide.cdc.errors import LsnOutOfRange, TimeOutOfRange
from rowtide.cdc.lsn_times import Bound
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import pinned

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
HISTORY = (
    "insert into item values (1, 'a', 10)",
    "update item set name = 'b'",
    "insert into item values (2, 'c', 20)",
    "delete from item where id = 1",
)


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """Four transactions; the wrapper functions are made by the scripts as they are printed."""
    shared.execute("create table item (id int primary key, name text, price int)", "create table keyless (id int)")
    shared.enable("item", "keyless")
    shared.execute(*HISTORY)
    shared.capture()
    shared.spark = pinned(shared.spark)
    rowtide.register(shared.spark, str(shared.lake))
    for wrapper in shared.cdc.generate_wrapper("public_item", update_flag_list=("name", "price"), spark=shared.spark):
        shared.spark.sql(wrapper.create_script)
    return shared


@pytest.fixture(scope="module")
def times(written: CapturedDatabase) -> list[datetime]:
    """When each transaction ended."""
    found = [
        written.cdc.map_lsn_to_time(CommitLsn(row["__$start_lsn"]), spark=written.spark)
        for row in written.changes("public_item", "all")
    ]
    return [time for time in found if time is not None]


Window = Callable[[datetime | None, datetime | None], list[int]]
"""Ask for a window; get the transactions' numbers in `HISTORY`."""


def number(written: CapturedDatabase, lsns: list[int]) -> list[int]:
    known = [row["__$start_lsn"] for row in written.changes("public_item", "all")]
    return [known.index(lsn) for lsn in lsns]


@pytest.fixture(params=["python", "wrapper"])
def window(written: CapturedDatabase, request: pytest.FixtureRequest) -> Window:
    def ask_python(start: datetime | None, end: datetime | None) -> list[int]:
        rows = written.changes("public_item", "all", start, end)
        return number(written, [row["__$start_lsn"] for row in rows])

    def ask_wrapper(start: datetime | None, end: datetime | None) -> list[int]:
        rows = call(written, f"fn_all_changes_public_item({literal(start)}, {literal(end)}, 'all')")
        return number(written, sorted(row["__CDC_STARTLSN"] for row in rows))

    return ask_python if request.param == "python" else ask_wrapper


def call(written: CapturedDatabase, function: str, order: str = "1") -> list[Any]:
    return written.spark.sql(f"select * from {function} order by {order}").collect()


def literal(time: datetime | None) -> str:
    return f"timestamp'{time.isoformat()}'" if time is not None else "null"


def test_the_start_is_left_out_and_the_end_is_in(window: Window, times: list[datetime]) -> None:
    assert window(times[0], times[2]) == [1, 2]
    assert window(times[0] - timedelta(microseconds=1), times[0]) == [0]


def test_a_missing_end_is_that_of_the_validity_interval(window: Window, times: list[datetime]) -> None:
    assert window(None, None) == [0, 1, 2, 3]
    assert window(None, times[1]) == [0, 1]
    assert window(times[1], None) == [2, 3]


def test_a_window_without_transactions_is_empty(window: Window, times: list[datetime]) -> None:
    assert window(times[1], times[1]) == []
    assert window(times[3], None) == []
    assert window(times[3], times[3]) == []


def test_windows_that_follow_on_each_other_have_every_change_once(window: Window, times: list[datetime]) -> None:
    ends = [None, times[0], times[1], times[1], times[3], None]
    assert [number for start, end in pairwise(ends) for number in window(start, end)] == [0, 1, 2, 3]


@pytest.mark.parametrize("bounds", [(LONG_AGO, None), (None, LONG_AGO), ("later", None), (None, "later")])
def test_a_time_outside_the_validity_interval_is_refused(
    window: Window, times: list[datetime], bounds: tuple[datetime | str | None, datetime | str | None]
) -> None:
    start, end = (times[-1] + timedelta(days=1) if bound == "later" else bound for bound in bounds)
    with pytest.raises((PySparkException, TimeOutOfRange), match="RT-313: .*outside the validity interval"):
        window(start, end)  # type: ignore[arg-type]


def test_a_window_that_ends_before_it_starts_is_refused(window: Window, times: list[datetime]) -> None:
    with pytest.raises((PySparkException, LsnOutOfRange), match="RT-313"):
        window(times[2], times[0])


def test_an_lsn_and_a_time_bound_a_window_together(written: CapturedDatabase, times: list[datetime]) -> None:
    lsns = [CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all")]

    def between(start: Bound, end: Bound) -> list[int]:
        return number(written, [row["__$start_lsn"] for row in written.changes("public_item", "all", start, end)])

    assert between(lsns[1], times[2]) == [1, 2]
    assert between(times[1], lsns[2]) == [2]
    assert between(lsns[1].increment(), times[1]) == []


def test_all_changes_have_letters_and_flags_of_updates(written: CapturedDatabase) -> None:
    rows = call(
        written, "fn_all_changes_public_item(row_filter_option => 'all update old')", "1, 2, `__CDC_OPERATION` desc"
    )
    assert rows[0].asDict().keys() == {
        *("__CDC_STARTLSN", "__CDC_SEQVAL", "id", "name", "price", "__CDC_OPERATION", "name_uflag", "price_uflag")
    }
    assert [tuple(row)[2:] for row in rows] == [
        (1, "a", 10, "I", None, None),
        (1, "a", 10, "UO", None, None),
        (1, "b", 10, "UN", 1, 0),
        (2, "c", 20, "I", None, None),
        (1, "b", 10, "D", None, None),
    ]


def test_net_changes_have_letters_and_flags_with_the_mask_only(
    written: CapturedDatabase, times: list[datetime]
) -> None:
    def ask(start: datetime | None, end: datetime | None, option: str) -> list[tuple[object, ...]]:
        rows = call(written, f"fn_net_changes_public_item({literal(start)}, {literal(end)}, '{option}')")
        return [tuple(row) for row in rows]

    assert ask(None, None, "all") == [(2, "c", 20, "I", None, None)]
    assert ask(times[0], times[2], "all") == [(1, "b", 10, "UN", None, None), (2, "c", 20, "I", None, None)]
    assert ask(times[0], times[1], "all with mask") == [(1, "b", 10, "UN", 1, 0)]
    assert ask(times[0], times[2], "all with merge") == [(1, "b", 10, "M", None, None), (2, "c", 20, "M", None, None)]
    assert ask(times[2], None, "all with merge") == [(1, "b", 10, "D", None, None)]
    for start, option in ((LONG_AGO, "all"), (None, "all of it")):
        with pytest.raises(PySparkException, match="RT-313"):
            ask(start, None, option)


def test_an_open_high_end_leaves_the_end_out(written: CapturedDatabase, times: list[datetime]) -> None:
    (script, _) = written.cdc.generate_wrapper(
        "public_item", closed_high_end_point=False, column_list=("name",), spark=written.spark
    )
    written.spark.sql(script.create_script.replace("fn_all_changes_public_item", "fn_open_item"))
    rows = call(written, f"fn_open_item({literal(times[0])}, {literal(times[2])})")
    assert [tuple(row)[2:] for row in rows] == [("b", "UN")]


def test_wrappers_of_every_instance_are_printed(written: CapturedDatabase) -> None:
    wrappers = written.cdc.generate_wrapper(spark=written.spark)
    assert [wrapper.function_name for wrapper in wrappers] == [
        "fn_all_changes_public_item",
        "fn_net_changes_public_item",
        "fn_all_changes_public_keyless",
    ]

"""Changes between two times: of the handle, and of the wrapper functions whose scripts it prints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import rowtide
from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.errors.querying import LsnOutOfRange, TimeOutOfRange
from rowtide.cdc.queries.lsn_times import Bound
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import pinned

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What Spark raises; the latter where several of a query's stages fail."""
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
    for wrapper in shared.cdc.generate_wrapper("public_item", update_flag_list=("name", "price")):
        shared.spark.sql(wrapper.create_script)
    return shared


@pytest.fixture(scope="module")
def lsns(written: CapturedDatabase) -> list[CommitLsn]:
    """Where each transaction of `HISTORY` committed."""
    return [CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all")]


@pytest.fixture(scope="module")
def times(written: CapturedDatabase, lsns: list[CommitLsn]) -> list[datetime]:
    """When each transaction ended."""
    found = [written.cdc.map_lsn_to_time(lsn) for lsn in lsns]
    return [time for time in found if time is not None]


Window = Callable[[datetime | None, datetime | None], list[int]]
"""Ask for a window; get the transactions' numbers in `HISTORY`."""


@pytest.fixture(params=["python", "wrapper"])
def window(written: CapturedDatabase, lsns: list[CommitLsn], request: pytest.FixtureRequest) -> Window:
    def ask_python(start: datetime | None, end: datetime | None) -> list[int]:
        rows = written.changes("public_item", "all", start, end)
        return [lsns.index(CommitLsn(row["__$start_lsn"])) for row in rows]

    def ask_wrapper(start: datetime | None, end: datetime | None) -> list[int]:
        rows = call(written, f"fn_all_changes_public_item({literal(start)}, {literal(end)}, 'all')")
        return [lsns.index(CommitLsn(row["__CDC_STARTLSN"])) for row in rows]

    return ask_python if request.param == "python" else ask_wrapper


def call(written: CapturedDatabase, function: str, order: str = "1") -> list[Any]:
    return written.spark.sql(f"select * from {function} order by {order}").collect()


def literal(time: datetime | None) -> str:
    return f"timestamp'{time.isoformat()}'" if time is not None else "null"


@pytest.mark.exhaustive
def test_consecutive_windows_have_every_change_once(window: Window, times: list[datetime]) -> None:
    """The first and the last have the validity interval's ends; the one between begins where it ends."""
    ends = [None, times[0], times[0], None]
    assert [window(start, end) for start, end in pairwise(ends)] == [[0], [], [1, 2, 3]]


@pytest.mark.exhaustive
def test_a_time_outside_the_validity_interval_is_refused(window: Window, times: list[datetime]) -> None:
    for start, end in ((LONG_AGO, None), (None, times[-1] + timedelta(days=1))):
        with pytest.raises((*SPARK_ERRORS, TimeOutOfRange), match="RT-313: .*outside the validity interval"):
            window(start, end)


@pytest.mark.exhaustive
def test_a_window_that_ends_before_it_starts_is_refused(window: Window, times: list[datetime]) -> None:
    with pytest.raises((*SPARK_ERRORS, LsnOutOfRange), match="RT-313"):
        window(times[2], times[0])


def test_an_lsn_and_a_time_bound_a_window_together(
    written: CapturedDatabase, lsns: list[CommitLsn], times: list[datetime]
) -> None:
    def between(start: Bound, end: Bound) -> list[CommitLsn]:
        return [CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all", start, end)]

    assert between(lsns[1], times[2]) == lsns[1:3]
    assert between(times[1], lsns[2]) == lsns[2:3]
    assert between(lsns[1].increment(), times[1]) == []


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
def test_net_changes_have_letters_and_flags_with_the_mask_only(
    written: CapturedDatabase, times: list[datetime]
) -> None:
    def ask(start: datetime | None, end: datetime | None, option: str) -> list[tuple[object, ...]]:
        rows = call(written, f"fn_net_changes_public_item({literal(start)}, {literal(end)}, '{option}')")
        return [tuple(row) for row in rows]

    updated, inserted = (1, "b", 10), (2, "c", 20, "I", None, None)
    assert ask(times[0], times[2], "all with mask") == [(*updated, "UN", 1, 0), inserted]
    assert ask(times[1], None, "all with merge") == [(*updated, "D", None, None), (*inserted[:3], "M", None, None)]
    with pytest.raises(SPARK_ERRORS, match="RT-313"):
        ask(None, None, "all of it")


@pytest.mark.exhaustive
def test_an_open_high_end_leaves_the_end_out(written: CapturedDatabase, times: list[datetime]) -> None:
    (script, _) = written.cdc.generate_wrapper("public_item", closed_high_end_point=False, column_list=("name",))
    written.spark.sql(script.create_script.replace("fn_all_changes_public_item", "fn_open_item"))
    rows = call(written, f"fn_open_item({literal(times[0])}, {literal(times[2])})")
    assert [tuple(row)[2:] for row in rows] == [("b", "UN")]


def test_wrappers_of_every_instance_are_printed(written: CapturedDatabase) -> None:
    wrappers = written.cdc.generate_wrapper()
    assert [wrapper.function_name for wrapper in wrappers] == [
        "fn_all_changes_public_item",
        "fn_net_changes_public_item",
        "fn_all_changes_public_keyless",
    ]

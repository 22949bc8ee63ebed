"""What health says of each part of a PostgreSQL database: none of them is passed over."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import GIBIBYTE, TRACKED, capture, place, server, tracking
from builders.log.log_stores import open_state
from rowtide.cdc.consumers.consumers import ListedConsumer
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import RightMissing, ServerIsStandby
from rowtide.diagnosis import Area, CheckResult, State
from rowtide.diagnosis.capture import ReadingFacts
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.places import ObjectPlace
from rowtide.diagnosis.postgres.health import check_work
from rowtide.diagnosis.postgres.reading import LogFacts, PostgresWorkFacts
from rowtide.diagnosis.postgres.table_facts import MemberFacts
from rowtide.diagnosis.postgres.tracking_facts import Readers, TrackedTableFacts
from rowtide.diagnosis.result import Unread
from rowtide.diagnosis.tracked_tables import NO_TOMBSTONES, TrackedFacts, TrackingLoss
from rowtide.log.errors import DatabaseCopied, LogStoreNotWritable, SlotMissing
from rowtide.log.postgres.backlog import ReadingStatus
from rowtide.replication.articles.articles import FEATURE
from rowtide.replication.status import ArticlesStatus

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
UNREAD = Unread(RightMissing("permission denied for schema cdc"))
COPIED = DatabaseCopied("copy", 'database "shop" of this server', "/lake")
FORBIDDEN = LogStoreNotWritable("/lake/log", os.strerror(errno.EACCES))
CONSUMER = ListedConsumer("billing", ("public_t1",), None, None, None, 60.0, 72, 71.0, False, None)  # noqa: FBT003
SWAPPED = MemberFacts("cdc", "public_t1", "public", "t1", source_table(name="t1_old"), has_namesake=True)
TRACKED_TABLE = TrackedTableFacts(TrackedFacts(TRACKED, None, NO_TOMBSTONES), source_table(), (), None, Readers())


def log(*, of_capture: dict[str, Any] | None = None, **changes: Any) -> LogFacts:
    """Return a log that is read to its end, for nothing."""
    usual = LogFacts(
        capture=capture(**(of_capture or {})),
        reading=ReadingFacts(ReadingStatus(NOW, None, NOW, 0, None)),
        capturing=None,
        cleanup=None,
        delivery=None,
        articles=ArticlesStatus((), (), ()),
        places=(),
    )
    return replace(usual, **changes)


def checked(**changes: Any) -> tuple[CheckResult, ...]:
    """Judge a database in which nothing else is there than what is given."""
    usual = PostgresWorkFacts(server=server(), log=None, merge=None, tracking=tracking(), delivered_here=())
    return tuple(check_work(replace(usual, **changes)))


def checked_log(subject: str, **changes: Any) -> list[CheckResult]:
    """Return what is said of a subject, or of what its name begins with, in a log that is well but for the changes."""
    return [result for result in checked(log=log(**changes)) if result.subject.startswith(subject)]


def test_a_log_in_which_nothing_is_wrong_is_well() -> None:
    read = {"state": open_state(), "is_enabled": False}
    said = checked(log=log(of_capture=read, places=(place(),)))
    assert {result.state for result in said} == {State.HEALTHY}
    expected = ["log reader", "slot rowtide_5", "publication rowtide_5", "lake"]
    assert [result.subject for result in said] == expected


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"log": UNREAD}, "log, capture and publications"),
        ({"merge": UNREAD}, "merge"),
        ({"tracking": UNREAD}, "tracking"),
        ({"tracking": tracking(is_readable=False)}, "tracking"),
        ({"delivered_here": UNREAD}, "deliveries into this database"),
        ({"log": log(), "server": server(in_recovery=True)}, "log, capture and publications"),
    ],
)
def test_an_area_that_cannot_be_read_is_said_not_to_be_looked_at(given: dict[str, Any], subject: str) -> None:
    """Nor is it said that nothing is enabled."""
    (only,) = checked(**given)
    assert (only.subject, only.state) == (subject, State.UNKNOWN)


@pytest.mark.parametrize(
    ("part", "subject"),
    [
        ("reading", "log reader"),
        ("capturing", "capture"),
        ("cleanup", "cleanup"),
        ("delivery", "subscriptions"),
        ("articles", "articles"),
    ],
)
def test_unreadable_part_of_the_log_is_reported_as_not_looked_at(part: str, subject: str) -> None:
    (said,) = checked_log(subject, **{part: UNREAD})
    assert (said.state, said.message) == (State.UNKNOWN, UNREAD.error.filled_fact)


def test_a_standby_is_reported_as_one() -> None:
    (only,) = checked(log=log(), server=server(in_recovery=True))
    assert only.message == ServerIsStandby.fact


def test_a_copied_database_fails_and_can_be_adopted() -> None:
    (only,) = checked(log=Unread(COPIED))
    assert (only.area, only.state) == (Area.DATABASE, State.FAILING)
    assert "rowtide adopt" in str(only.remediation)


def test_a_log_that_has_no_slot_is_read_no_further() -> None:
    slot_missing: tuple[RowtideError, ...] = (SlotMissing("rowtide_5"),)
    lost = {"slot": None, "blockers": slot_missing}
    (reader,) = checked_log("log reader", of_capture=lost)
    assert (reader.state, reader.message) == (
        State.FAILING,
        "it does not run and cannot continue; all of the log is read",
    )
    (slot,) = checked_log("slot", of_capture=lost)
    assert slot.state is State.FAILING


def test_a_log_store_that_others_write_says_nothing_of_the_log() -> None:
    said = checked(log=log(of_capture={"blockers": (FORBIDDEN,)}))
    assert {result.subject: result.state for result in said} == {
        "log store": State.UNKNOWN,
        "log reader": State.UNKNOWN,
        "capture": State.UNKNOWN,
        "slot rowtide_5": State.HEALTHY,
        "publication rowtide_5": State.HEALTHY,
    }
    read_only = LogStoreNotWritable("/lake/log", os.strerror(errno.EROFS))
    assert State.FAILING in {each.state for each in checked(log=log(of_capture={"blockers": (read_only,)}))}


def test_a_consumer_that_cleanup_will_pass_is_warned_of() -> None:
    (well,) = checked_log("consumers", of_capture={"consumers": (CONSUMER,)})
    assert (well.state, well.message) == (State.HEALTHY, "1 have time before cleanup passes them")
    (risky,) = checked_log("consumer", of_capture={"consumers": (replace(CONSUMER, is_at_risk=True),)})
    assert (risky.subject, risky.state) == ("consumer billing", State.WARNING)


def test_a_captured_name_that_another_table_has_is_warned_of() -> None:
    (swapped,) = checked_log("instance", of_capture={"members": (SWAPPED,)})
    assert (swapped.area, swapped.state) == (Area.CAPTURE, State.WARNING)


def test_a_published_name_that_another_table_has_is_warned_of() -> None:
    published = replace(SWAPPED, feature=FEATURE, name="shop/t1")
    (swapped,) = checked_log("article shop/t1", of_capture={"members": (published,)})
    assert (swapped.area, swapped.state) == (Area.REPLICATION, State.WARNING)


def test_a_published_table_that_was_dropped_is_warned_of() -> None:
    (dropped,) = checked_log("articles", articles=ArticlesStatus((), ("public.t1",), ()))
    assert dropped.state is State.WARNING
    assert dropped.message == "public.t1 is published and was dropped: nothing of it is delivered any more"


def test_a_published_column_that_is_no_longer_generated_is_said() -> None:
    (stored,) = checked_log("articles", articles=ArticlesStatus((), (), ("public.t1.total",)))
    assert stored.state is State.WARNING
    assert stored.message.startswith("public.t1.total was generated when its table was published")


def test_a_dropped_column_that_is_kept_is_named() -> None:
    (kept,) = checked_log("articles", articles=ArticlesStatus((), (), (), (), ("public.t1.more to x: y",)))
    fact = "a column was dropped from a published table, and a subscriber keeps it: public.t1.more to x: y"
    assert (kept.state, kept.message) == (State.WARNING, fact)


def test_an_added_column_that_is_left_out_is_named() -> None:
    (left_out,) = checked_log("articles", articles=ArticlesStatus((), (), (), ("public.t1.more to x: y",)))
    assert left_out.state is State.WARNING
    assert left_out.message == "a column is not delivered that was added to a published table: public.t1.more to x: y"


def test_unread_article_is_no_warning_while_its_reader_runs() -> None:
    unread = ArticlesStatus(("public.t1",), (), ())
    (warned,) = checked_log("articles", articles=unread)
    assert warned.state is State.WARNING
    assert checked_log("articles", articles=unread, of_capture={"log_reader": "host pid 1"}) == []


@pytest.mark.parametrize(
    ("where", "state", "fact"),
    [
        (place(), State.HEALTHY, "50 GiB of 100 GiB are free at /lake"),
        (place(free_bytes=4 * GIBIBYTE), State.WARNING, "4 GiB of 100 GiB are free at /lake"),
        (place(free_bytes=GIBIBYTE // 2, total_bytes=2 * GIBIBYTE), State.WARNING, "512 MiB of 2 GiB are free"),
        (place(is_missing=True), State.FAILING, "/lake is not on this machine"),
        (place(problem=os.strerror(errno.EROFS)), State.FAILING, "is not writable"),
        (place(problem=os.strerror(errno.EACCES)), State.UNKNOWN, "this user may not write at /lake"),
        (ObjectPlace("lake", "s3://bucket/lake", None), State.HEALTHY, "s3://bucket/lake can be listed"),
    ],
)
def test_the_disk_of_a_lake_is_judged(where: Any, state: State, fact: str) -> None:
    (said,) = checked_log("lake", places=(where,))
    assert (said.area, said.state) == (Area.DISK, state)
    assert fact in said.message


def test_a_table_whose_tracking_is_lost_fails() -> None:
    (well,) = checked(tracking=tracking(is_there=True, tables=(TRACKED_TABLE,)))
    assert (well.subject, well.state) == ("table public.t1", State.HEALTHY)
    lost = replace(
        TRACKED_TABLE, base=TrackedFacts(TRACKED, TrackingLoss("a trigger was dropped", None), NO_TOMBSTONES)
    )
    (failed,) = checked(tracking=tracking(is_there=True, tables=(lost,)))
    assert (failed.area, failed.state) == (Area.TRACKING, State.FAILING)


def test_a_merged_table_that_is_damaged_fails() -> None:
    (damaged,) = checked(merge=MergeFacts(NOW, (), (("t1", "its triggers are gone"),)))
    assert (damaged.area, damaged.state) == (Area.MERGE, State.FAILING)


def test_what_is_delivered_here_is_reported() -> None:
    (told,) = checked(delivered_here=("shop",))
    assert (told.subject, told.state) == ("subscriber", State.HEALTHY)


def test_what_delivery_left_prepared_is_named() -> None:
    _, told = checked(delivered_here=("shop",), left_prepared=("rowtide:4f0c:3:17:1",))
    assert (told.subject, told.state) == ("prepared transactions", State.WARNING)
    assert "rowtide:4f0c:3:17:1 more than a minute ago" in told.message


def test_where_nothing_is_enabled_that_is_warned_of() -> None:
    (only,) = checked()
    assert (only.area, only.state) == (Area.DATABASE, State.WARNING)

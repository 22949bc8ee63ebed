"""Delivery stops before what changed a published table, and before what is missing from the log; at nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from builders.articles import ANOTHER_ID, article, shape_of
from builders.capture_instances import alteration_of, enabled, instance, source_table
from builders.log_stores import NOW, open_state, opened, range_to
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, TableShape, TableVersion
from rowtide.databases.source_table import SourceTable
from rowtide.log.entries import Entry, TableGiven, TransactionSkipped
from rowtide.log.membership import Altered, Disabled, Event, Heartbeat, Reshaped
from rowtide.log.replay import apply
from rowtide.log.state import ManifestState
from rowtide.replication.articles import Article
from rowtide.replication.distribution.events import Blocker, describe_alteration, describe_shape, find_blocker
from rowtide.replication.errors import ChangesLost, SchemaChanged

COLUMNS = [("id", "integer"), ("name", "text"), ("price", "numeric(10,2)")]
TABLE = source_table(COLUMNS)
ELSEWHERE = source_table(COLUMNS, name="t2", source_id=16386)
ALL = article(TABLE)
CHOSEN = article(TABLE, columns=("id", "price"))
START, END = Position(100), Position(1000)


def without(table: SourceTable, name: str) -> SourceTable:
    return replace(table, columns=tuple(column for column in table.columns if column.name != name))


def with_column(table: SourceTable, name: str, /, **changes: Any) -> SourceTable:
    """Return the table with a column changed, which keeps its number."""
    changed = (replace(column, **changes) if column.name == name else column for column in table.columns)
    return replace(table, columns=tuple(changed))


def with_added(table: SourceTable, name: str, *, is_generated: bool = False) -> SourceTable:
    added = replace(table.columns[-1], number=9, name=name, is_generated=is_generated, key_ordinal=None)
    return replace(table, columns=(*table.columns, added))


def then(state: ManifestState, *entries: Entry) -> ManifestState:
    for entry in entries:
        state = apply(state, state.version + 1, entry)
    return state


def log_of(*events: Event, shapes: Sequence[TableShape] = (), end: int = END.value) -> ManifestState:
    """Return a log from 100 to `end` with events in it; the shapes are those of tables 2 and following."""
    state = then(open_state(), *(TableGiven(2, TableVersion(place, shape)) for place, shape in enumerate(shapes, 2)))
    return then(state, range_to(state, end, events=events))


def altered(lsn: int, table: SourceTable) -> Altered:
    return Altered(CommitLsn(lsn), alteration_of(table))


def found_in(state: ManifestState, *articles: Article, start: Position = START, end: Position = END) -> Blocker | None:
    return find_blocker(state, articles or (ALL,), start, end)


def told(blocker: Blocker | None) -> tuple[int, str]:
    """Return where a blocker is and what it says."""
    assert blocker is not None
    return blocker[0].value, blocker[1].filled_fact


@pytest.mark.parametrize(
    ("made", "now", "change"),
    [
        (ALL, replace(TABLE, name="t9"), "it was renamed to public.t9"),
        (ALL, replace(TABLE, schema="archive"), "it was renamed to archive.t1"),
        (ALL, without(TABLE, "name"), "column name was dropped"),
        (ALL, with_column(TABLE, "name", name="label"), "column name was renamed to label"),
        (ALL, with_column(TABLE, "price", type_text="numeric(12,2)"), "column price became numeric(12,2)"),
        (ALL, with_column(TABLE, "id", type_text="bigint"), "column id became bigint"),
        (ALL, with_added(TABLE, "more"), "column more was added"),
        (ALL, with_added(without(TABLE, "name"), "name"), "column name was dropped"),
        (CHOSEN, without(TABLE, "price"), "column price was dropped"),
        (CHOSEN, with_column(TABLE, "price", name="cost"), "column price was renamed to cost"),
        (CHOSEN, replace(TABLE, name="t9"), "it was renamed to public.t9"),
    ],
)
def test_a_statement_that_changes_what_is_published_is_reported(made: Article, now: SourceTable, change: str) -> None:
    assert describe_alteration(made, alteration_of(now)) == change


@pytest.mark.parametrize(
    ("made", "now"),
    [
        (ALL, TABLE),
        (ALL, replace(TABLE, columns=TABLE.columns[::-1])),
        (ALL, replace(TABLE, identity="f")),
        (ALL, with_column(TABLE, "name", is_nullable=False)),
        (ALL, with_added(TABLE, "total", is_generated=True)),
        (CHOSEN, with_added(TABLE, "more")),
        (CHOSEN, without(TABLE, "name")),
        (CHOSEN, with_column(TABLE, "name", name="label")),
        (CHOSEN, with_column(TABLE, "name", type_text="character varying(9)")),
    ],
    ids=[
        "nothing",
        "order",
        "replica identity",
        "not null",
        "generated added",
        "added to a choice",
        "unpublished dropped",
        "unpublished renamed",
        "unpublished retyped",
    ],
)
def test_ddl_outside_the_published_columns_is_no_blocker(made: Article, now: SourceTable) -> None:
    assert describe_alteration(made, alteration_of(now)) is None


@pytest.mark.parametrize(
    ("made", "now", "change"),
    [
        (ALL, without(TABLE, "name"), "column name is gone"),
        (ALL, with_column(TABLE, "name", name="label"), "column name is gone"),
        (ALL, with_column(TABLE, "id", type_code=20), "column id has another type"),
        (ALL, with_column(TABLE, "price", type_modifier=7), "column price has another type"),
        (ALL, with_added(TABLE, "more"), "column more was added"),
        (CHOSEN, without(TABLE, "price"), "column price is gone"),
    ],
)
def test_rows_of_another_shape_without_ddl_are_reported(made: Article, now: SourceTable, change: str) -> None:
    assert describe_shape(made, shape_of(now)) == change


def test_an_added_column_is_reported_if_others_read_it_or_not() -> None:
    more = ColumnShape("more", 25, -1, is_key=True)
    shape = shape_of(TABLE)
    assert describe_shape(ALL, replace(shape, others=(more,))) == "column more was added"
    assert describe_shape(ALL, replace(shape, columns=(*shape.columns, more))) == "column more was added"


@pytest.mark.parametrize(
    ("made", "now"),
    [
        (ALL, TABLE),
        (ALL, replace(TABLE, columns=TABLE.columns[::-1])),
        (CHOSEN, with_added(TABLE, "more")),
        (CHOSEN, without(TABLE, "name")),
        (CHOSEN, with_column(TABLE, "name", type_code=1043)),
    ],
)
def test_rows_that_have_what_is_published_are_nothing(made: Article, now: SourceTable) -> None:
    assert describe_shape(made, shape_of(now)) is None


def test_a_generated_column_in_the_log_was_not_added() -> None:
    """PostgreSQL 18 publishes stored ones: it refuses updates of a full identity otherwise."""
    generated = with_added(TABLE, "total", is_generated=True)
    made = article(generated)
    shape = shape_of(generated)
    assert describe_shape(made, shape) is None
    assert describe_shape(made, replace(shape, columns=shape.columns[:-1], others=shape.columns[-1:])) is None


def test_a_shape_whose_other_columns_were_not_noted_has_none() -> None:
    assert describe_shape(ALL, replace(shape_of(TABLE), others=None)) is None


@pytest.mark.parametrize(
    "made",
    [
        ALL,
        article(TABLE, before_images=BeforeImages.KEY),
        article(TABLE, update="NONE"),
        article(TABLE, update="NONE", delete="SQL"),
    ],
)
def test_lost_full_identity_is_no_blocker_if_keys_suffice(made: Article) -> None:
    assert describe_shape(made, shape_of(TABLE, ImageKind.KEY)) is None


@pytest.mark.parametrize(
    ("update", "delete"), [("CALL", "CALL"), ("MCALL", "CALL"), ("XCALL", "NONE"), ("SQL", "SQL"), ("NONE", "XCALL")]
)
@pytest.mark.parametrize("identity", [ImageKind.KEY, ImageKind.NONE])
def test_lost_full_identity_is_a_blocker_for_whole_row_calls(update: str, delete: str, identity: ImageKind) -> None:
    made = article(TABLE, update=update, delete=delete)
    assert describe_shape(made, shape_of(TABLE)) is None
    assert describe_shape(made, shape_of(TABLE, identity)) == "its replica identity is no longer full"


@pytest.mark.parametrize(
    "made", [ALL, article(TABLE, before_images=BeforeImages.KEY), article(TABLE, update="NONE"), CHOSEN]
)
def test_a_replica_identity_without_the_key_is_reported(made: Article) -> None:
    shape = shape_of(source_table(COLUMNS, key=("price",)), ImageKind.KEY)
    assert describe_shape(made, shape) == "its replica identity no longer has the key"


@pytest.mark.parametrize("identity", list(ImageKind))
def test_inserts_alone_need_no_replica_identity(identity: ImageKind) -> None:
    keyless = source_table(COLUMNS, key=())
    made = article(keyless, update="NONE", delete="NONE")
    assert describe_shape(made, shape_of(keyless, identity)) is None


def test_a_statement_is_a_blocker_at_its_commit() -> None:
    blocker = found_in(log_of(altered(500, with_added(TABLE, "more"))))
    assert told(blocker) == (
        500,
        "delivery stopped before LSN 0/1F4: column more was added in published table public.t1",
    )
    assert isinstance(blocker[1] if blocker else None, SchemaChanged)


def test_rows_of_another_shape_are_a_blocker_at_their_commit() -> None:
    state = log_of(Reshaped(CommitLsn(500), 2), shapes=[shape_of(without(TABLE, "name"))])
    assert told(found_in(state)) == (
        500,
        "delivery stopped before LSN 0/1F4: column name is gone in published table public.t1",
    )


def test_the_hint_says_what_to_do_about_a_schema_change() -> None:
    blocker = found_in(log_of(altered(500, without(TABLE, "name"))))
    assert blocker is not None
    assert str(blocker[1]) == (
        "RT-7116: delivery stopped before LSN 0/1F4: column name was dropped in published table public.t1. "
        "Drop the subscriptions and the article, and add them again: the snapshot creates the altered table."
    )


@pytest.mark.parametrize(
    "event",
    [
        altered(500, with_added(ELSEWHERE, "more")),
        altered(500, TABLE),
        Reshaped(CommitLsn(500), 2),
        Reshaped(CommitLsn(500), 3),
        enabled(500, instance(table=TABLE)),
        Disabled(CommitLsn(500), "m1"),
        Heartbeat(CommitLsn(500), NOW),
    ],
    ids=[
        "another table altered",
        "nothing published",
        "same shape",
        "another table",
        "enabled",
        "disabled",
        "heartbeat",
    ],
)
def test_what_changes_no_published_table_is_no_blocker(event: Event) -> None:
    assert found_in(log_of(event, shapes=[shape_of(TABLE), shape_of(without(ELSEWHERE, "name"))])) is None


def test_a_change_of_any_article_is_a_blocker() -> None:
    other = article(ELSEWHERE, article_id=ANOTHER_ID)
    state = log_of(altered(500, without(ELSEWHERE, "name")))
    assert told(found_in(state, ALL, other)) == (
        500,
        "delivery stopped before LSN 0/1F4: column name was dropped in published table public.t2",
    )
    assert found_in(state, ALL) is None


@pytest.mark.parametrize(
    ("start", "end", "is_found"),
    [(100, 1000, True), (500, 1000, True), (501, 1000, False), (100, 501, True), (100, 500, False)],
)
def test_only_what_lies_in_the_range_is_a_blocker(start: int, end: int, *, is_found: bool) -> None:
    state = log_of(altered(500, without(TABLE, "name")))
    assert (found_in(state, start=Position(start), end=Position(end)) is not None) == is_found


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        (
            altered(500, without(TABLE, "name")),
            altered(600, without(ELSEWHERE, "price")),
            "column name was dropped in published table public.t1",
        ),
        (
            altered(500, without(ELSEWHERE, "price")),
            altered(600, without(TABLE, "name")),
            "column price was dropped in published table public.t2",
        ),
    ],
)
def test_the_first_of_several_is_reported(first: Event, second: Event, change: str) -> None:
    blocker = found_in(log_of(first, second), ALL, article(ELSEWHERE, article_id=ANOTHER_ID))
    assert told(blocker) == (500, f"delivery stopped before LSN 0/1F4: {change}")


def test_ddl_is_reported_before_rows_of_the_same_transaction() -> None:
    now = with_column(TABLE, "name", name="label")
    state = log_of(altered(500, now), Reshaped(CommitLsn(500), 2), shapes=[shape_of(now)])
    assert told(found_in(state))[1].startswith("delivery stopped before LSN 0/1F4: column name was renamed to label")


def test_a_skipped_transaction_is_a_blocker_with_its_reason() -> None:
    state = then(log_of(end=500), TransactionSkipped(2, CommitLsn(500), "it is too large"))
    blocker = found_in(state)
    assert blocker is not None
    assert isinstance(blocker[1], ChangesLost)
    assert told(blocker) == (
        500,
        "delivery stopped at LSN 0/1F4, where changes are missing from the log: it is too large",
    )


def test_a_skipped_transaction_stops_delivery_of_every_article() -> None:
    state = then(log_of(end=500), TransactionSkipped(2, CommitLsn(500), "it is too large"))
    assert found_in(state, article(ELSEWHERE)) is not None


@pytest.mark.parametrize(("start", "end", "is_found"), [(500, 501, True), (501, 1000, False), (100, 500, False)])
def test_a_skipped_transaction_outside_the_range_is_no_blocker(start: int, end: int, *, is_found: bool) -> None:
    state = then(log_of(end=500), TransactionSkipped(2, CommitLsn(500), "it is too large"))
    assert (found_in(state, start=Position(start), end=Position(end)) is not None) == is_found


@pytest.mark.parametrize(("change_at", "skipped_at", "error"), [(300, 400, SchemaChanged), (600, 400, ChangesLost)])
def test_first_of_ddl_and_skipped_transaction_is_reported(
    change_at: int, skipped_at: int, error: type[SchemaChanged | ChangesLost]
) -> None:
    change = altered(change_at, without(TABLE, "name"))
    state = log_of(*([change] if change_at < skipped_at else []), end=skipped_at)
    state = then(state, TransactionSkipped(2, CommitLsn(skipped_at), "it is too large"))
    state = then(state, range_to(state, 1000, events=[change] if change_at > skipped_at else []))
    blocker = found_in(state)
    assert blocker is not None
    assert (blocker[0].value, type(blocker[1])) == (min(change_at, skipped_at), error)


def test_the_gap_between_two_epochs_is_no_skipped_transaction() -> None:
    state = then(log_of(), opened(1, 2000, "restored"))
    assert found_in(state, end=Position.of(1, 3000)) is None


def test_an_empty_log_has_free_way() -> None:
    assert found_in(open_state()) is None

"""What in the log alters published tables, differs from them, or is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders.capture.capture_instances import (
    alteration_of,
    enabled,
    instance,
    source_table,
    with_added,
    with_column,
    without,
)
from builders.log.log_stores import NOW, open_state, range_to
from builders.replication.articles import ANOTHER_ID, article, shape_of
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import BeforeImages, ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.databases.source_table import SourceTable
from rowtide.log.membership import Altered, ChangesOmitted, Disabled, Event, Heartbeat, Reshaped
from rowtide.log.store.entries import Entry, TableGiven, TransactionSkipped
from rowtide.log.store.replay import apply
from rowtide.log.store.state import ManifestState
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ColumnDropped
from rowtide.replication.distribution.altering_transactions import (
    AlterationLookups,
    AlteringTransaction,
    CopyNeeded,
    find_altering,
)
from rowtide.replication.distribution.log_events import find_difference, find_gap, find_lost_identity, list_added
from rowtide.replication.errors.delivery import SchemaChanged

COLUMNS = [("id", "integer"), ("name", "text"), ("price", "numeric(10,2)")]
TABLE = source_table(COLUMNS)
ELSEWHERE = source_table(COLUMNS, name="t2", source_id=16386)
ALL = article(TABLE)
CHOSEN = article(TABLE, columns=("id", "price"))
START, END = Position(100), Position(1000)


def then(state: ManifestState, *entries: Entry) -> ManifestState:
    for entry in entries:
        state = apply(state, state.version + 1, entry)
    return state


def log_of(*events: Event, shapes: Sequence[TableShape] = (), end: int = END.value) -> ManifestState:
    """Return a log from 100 to `end` with events in it; the shapes are those of tables 2 and following."""
    state = then(open_state(), *(TableGiven(2, LoggedTable(place, shape)) for place, shape in enumerate(shapes, 2)))
    return then(state, range_to(state, end, events=events))


def altered(lsn: int, table: SourceTable, *, seqval: int = 1) -> Altered:
    return Altered(CommitLsn(lsn), alteration_of(table), seqval=seqval)


def altering_in(state: ManifestState, *articles: Article, start: Position = START, end: Position = END) -> int | None:
    found = find_altering(state, articles or (ALL,), start, end)
    return None if found is None else found.value


def read_at(state: ManifestState, *articles: Article, lsn: int = 500) -> AlteringTransaction:
    return AlteringTransaction.read(state, articles or (ALL,), CommitLsn(lsn), replicates_ddl=True, refused={})


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
def test_what_changes_no_published_table_alters_nothing(event: Event) -> None:
    assert altering_in(log_of(event, shapes=[shape_of(TABLE), shape_of(without(ELSEWHERE, "name"))])) is None


@pytest.mark.parametrize(
    ("start", "end", "is_found"),
    [(100, 1000, True), (500, 1000, True), (501, 1000, False), (100, 501, True), (100, 500, False)],
)
def test_only_what_lies_in_the_range_is_found(start: int, end: int, *, is_found: bool) -> None:
    state = log_of(altered(500, without(TABLE, "name")))
    assert (altering_in(state, start=Position(start), end=Position(end)) == 500) == is_found


def test_the_first_of_several_articles_is_found() -> None:
    other = article(ELSEWHERE, article_id=ANOTHER_ID)
    state = log_of(altered(500, without(ELSEWHERE, "price")), altered(600, without(TABLE, "name")))
    assert altering_in(state, ALL, other) == 500
    assert altering_in(state, ALL) == 600


def test_what_an_article_was_defined_with_alters_nothing() -> None:
    state = log_of(altered(500, with_added(TABLE, "more")))
    assert altering_in(state, replace(ALL, defined_at=501)) is None


ONCE, TWICE = without(TABLE, "name"), with_column(without(TABLE, "name"), "price", name="cost")


def columns_by_stage(transaction: AlteringTransaction, place: int = 0) -> list[tuple[int, list[str]]]:
    """Return from which row on which columns an article has."""
    stages = ((since, articles[place]) for since, articles in transaction.stages())
    return [(since, [column.name for column in made.columns]) for since, made in stages]


def test_rows_are_of_the_article_as_it_was_altered_before_them() -> None:
    transaction = read_at(log_of(altered(500, ONCE, seqval=3), altered(500, TWICE, seqval=7)))
    assert columns_by_stage(transaction) == [(0, ["id", "name", "price"]), (3, ["id", "price"]), (7, ["id", "cost"])]
    assert [(step.seqval, len(step.followed.changes)) for step in transaction.steps] == [(3, 1), (7, 1)]
    assert transaction.articles()[0].defined_at == 501


def test_tables_are_altered_in_the_order_of_the_log() -> None:
    other = article(ELSEWHERE, article_id=ANOTHER_ID)
    state = log_of(
        altered(500, without(ELSEWHERE, "price"), seqval=3),
        altered(500, ONCE, seqval=3),
        altered(500, without(without(ELSEWHERE, "price"), "name"), seqval=5),
    )
    transaction = read_at(state, ALL, other)
    found = [(step.seqval, step.followed.article.article_id) for step in transaction.steps]
    assert found == [(3, ANOTHER_ID), (3, ALL.article_id), (5, ANOTHER_ID)]
    assert [since for since, _ in columns_by_stage(transaction)] == [0, 3, 5]
    assert [len(columns) for _, columns in columns_by_stage(transaction, 1)] == [3, 2, 1]


@pytest.mark.parametrize(("late", "places"), [((), [5, 8]), ((ALL.article_id,), [6, 8]), ((ANOTHER_ID,), [5, 8])])
def test_without_a_known_place_it_is_between_rows(late: Sequence[str], places: Sequence[int]) -> None:
    once, twice = (
        Altered(CommitLsn(500), replace(alteration_of(table), is_inferred=True), seqval=9) for table in (ONCE, TWICE)
    )
    state = log_of(
        once,
        Reshaped(CommitLsn(500), 3),
        twice,
        Reshaped(CommitLsn(500), 4),
        shapes=[shape_of(TABLE), shape_of(ONCE), shape_of(TWICE)],
    )
    rows: dict[int, list[int]] = {2: [2, 4], 3: [6, 7], 4: [8, 8]}
    transaction = AlteringTransaction.read(
        state,
        (ALL,),
        CommitLsn(500),
        replicates_ddl=True,
        refused={},
        late=late,
        lookups=AlterationLookups(row_numbers=lambda table_id: rows.get(table_id, [])),
    )
    assert [step.seqval for step in transaction.steps] == places
    assert transaction.is_estimated(ALL)


def test_a_change_without_rows_is_at_the_beginning() -> None:
    transaction = read_at(log_of(altered(500, ONCE)))
    assert [step.followed.changes for step in transaction.steps] == [(ColumnDropped(ALL.columns[1]),)]
    assert columns_by_stage(transaction) == [(0, ["id", "name", "price"]), (1, ["id", "price"])]


def test_rows_that_lack_a_column_are_copied_again() -> None:
    state = log_of(Reshaped(CommitLsn(500), 2), shapes=[shape_of(without(TABLE, "name"))])
    assert altering_in(state) == 500
    with pytest.raises(CopyNeeded, match="column name is gone, and no event trigger reported it"):
        read_at(state)


def test_a_lost_identity_stops_and_says_what_lacks() -> None:
    made = article(TABLE, update="XCALL", delete="XCALL")
    state = log_of(Reshaped(CommitLsn(500), 2), shapes=[shape_of(TABLE, ImageKind.NONE)])
    assert altering_in(state, made) == 500
    with pytest.raises(SchemaChanged) as refused:
        read_at(state, made)
    assert str(refused.value).startswith(
        "RT-7286: delivery stopped before LSN 0/1F4: its replica identity is no longer full in published table "
        'public.t1. Run `alter table "public"."t1" replica identity full` at the publisher'
    )


@pytest.mark.parametrize(("is_unclear", "is_found"), [(True, 500), (False, None)])
def test_only_what_is_unclear_is_copied_again(*, is_unclear: bool, is_found: int | None) -> None:
    state = log_of(ChangesOmitted(CommitLsn(500), ALL.article_id, "which is which?", is_unclear=is_unclear))
    assert altering_in(state) == is_found
    if is_unclear:
        with pytest.raises(CopyNeeded, match="which is which"):
            read_at(state)


def test_a_column_is_added_before_the_log_has_the_article() -> None:
    (now,) = read_at(log_of(altered(500, with_added(TABLE, "more")))).articles()
    assert [column.name for column in now.columns] == ["id", "name", "price", "more"]
    assert now.left_out == ()


def test_chosen_columns_leave_out_no_column() -> None:
    state = log_of(altered(500, with_added(TABLE, "more")))
    assert altering_in(state, CHOSEN) is None


def test_a_column_that_was_not_reported_is_left_out() -> None:
    more = ColumnShape("more", 25, -1, is_key=True)
    state = log_of(Reshaped(CommitLsn(500), 2), shapes=[replace(shape_of(TABLE), others=(more,))])
    (now,) = read_at(state).articles()
    assert now.columns == ALL.columns
    assert [column.name for column in now.left_out] == ["more"]
    assert (
        altering_in(log_of(Reshaped(CommitLsn(600), 2), shapes=[replace(shape_of(TABLE), others=(more,))]), now) is None
    )


@pytest.mark.parametrize(
    ("made", "now", "change"),
    [
        (ALL, without(TABLE, "name"), "column name is gone"),
        (ALL, with_column(TABLE, "name", name="label"), "column name is gone"),
        (ALL, with_column(TABLE, "id", type_code=20), "column id has another type"),
        (ALL, with_column(TABLE, "price", type_modifier=7), "column price has another type"),
        (CHOSEN, without(TABLE, "price"), "column price is gone"),
    ],
)
def test_rows_of_another_shape_without_ddl_are_reported(made: Article, now: SourceTable, change: str) -> None:
    assert find_difference(made, shape_of(now)) == change


def test_an_added_column_is_listed_if_others_read_it_or_not() -> None:
    more = ColumnShape("more", 25, -1, is_key=True)
    shape = shape_of(TABLE)
    assert list_added(ALL, replace(shape, others=(more,))) == ["more"]
    assert list_added(ALL, replace(shape, columns=(*shape.columns, more))) == ["more"]
    assert list_added(CHOSEN, replace(shape, others=(more,))) == []


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
    assert find_difference(made, shape_of(now)) is None


def test_a_generated_column_in_the_log_was_not_added() -> None:
    """PostgreSQL 18 publishes stored ones: it refuses updates of a full identity otherwise."""
    generated = with_added(TABLE, "total", is_generated=True)
    made = article(generated)
    shape = shape_of(generated)
    for shown in (shape, replace(shape, columns=shape.columns[:-1], others=shape.columns[-1:])):
        assert find_difference(made, shown) is None
        assert list_added(made, shown) == []


def test_a_shape_whose_other_columns_were_not_noted_has_none() -> None:
    assert list_added(ALL, replace(shape_of(TABLE), others=None)) == []


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
    assert find_lost_identity(made, shape_of(TABLE, ImageKind.KEY)) is None


@pytest.mark.parametrize(
    ("update", "delete"), [("CALL", "CALL"), ("MCALL", "CALL"), ("XCALL", "NONE"), ("SQL", "SQL"), ("NONE", "XCALL")]
)
@pytest.mark.parametrize("identity", [ImageKind.KEY, ImageKind.NONE])
def test_lost_full_identity_is_a_blocker_for_whole_row_calls(update: str, delete: str, identity: ImageKind) -> None:
    made = article(TABLE, update=update, delete=delete)
    assert find_lost_identity(made, shape_of(TABLE)) is None
    assert find_lost_identity(made, shape_of(TABLE, identity)) == "its replica identity is no longer full"


@pytest.mark.parametrize(
    "made", [ALL, article(TABLE, before_images=BeforeImages.KEY), article(TABLE, update="NONE"), CHOSEN]
)
def test_a_replica_identity_without_the_key_is_reported(made: Article) -> None:
    shape = shape_of(source_table(COLUMNS, key=("price",)), ImageKind.KEY)
    assert find_lost_identity(made, shape) == "its replica identity no longer has the key"


@pytest.mark.parametrize("identity", list(ImageKind))
def test_inserts_alone_need_no_replica_identity(identity: ImageKind) -> None:
    keyless = source_table(COLUMNS, key=())
    made = article(keyless, update="NONE", delete="NONE")
    assert find_lost_identity(made, shape_of(keyless, identity)) is None


def test_a_skipped_transaction_is_a_gap_with_its_reason() -> None:
    state = then(log_of(end=500), TransactionSkipped(2, CommitLsn(500), "it is too large"))
    gap = find_gap(state, START, END)
    assert gap is not None
    assert (gap.after, gap.reason) == (Position(500), "it is too large")


@pytest.mark.parametrize(("start", "end", "is_found"), [(500, 501, True), (501, 1000, False), (100, 500, False)])
def test_a_skipped_transaction_outside_the_range_is_none(start: int, end: int, *, is_found: bool) -> None:
    state = then(log_of(end=500), TransactionSkipped(2, CommitLsn(500), "it is too large"))
    assert (find_gap(state, Position(start), Position(end)) is not None) == is_found

"""What an altered table changes for its article and its subscribers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.capture.capture_instances import alteration_of, source_table, with_added, with_column, without
from builders.replication.articles import article
from rowtide.databases.source_table import SourceTable
from rowtide.log.membership import Alteration
from rowtide.replication.articles.articles import Article, OmittedColumn
from rowtide.replication.articles.schema_changes import (
    NOT_REPLICATED,
    NOT_REPORTED,
    ArticleTableRenamed,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    Followed,
    NullsChanged,
    Unfollowed,
    bound,
    follow,
)
from rowtide.replication.filters.conditions import columns_of

TABLE = source_table([("id", "integer"), ("name", "text"), ("price", "numeric(10,2)")])
ALL = article(TABLE)
CHOSEN = article(TABLE, columns=("id", "price"))
WIDENED = "alter table t1 alter id type bigint"


def with_default(table: SourceTable, default: str, missing_value: str | None) -> Alteration:
    alteration = alteration_of(table)
    *others, last = alteration.columns
    return replace(alteration, columns=(*others, replace(last, default=default, missing_value=missing_value)))


def followed_by(made: Article, now: SourceTable | Alteration, **options: Any) -> Followed:
    alteration = now if isinstance(now, Alteration) else alteration_of(now)
    return follow(made, alteration, **{"adds_none_since": None, **options})


def kinds_of(followed: Followed) -> list[type]:
    return [type(change) for change in followed.changes]


@pytest.mark.parametrize(
    ("made", "now", "kinds"),
    [
        (ALL, replace(TABLE, name="t9"), [ArticleTableRenamed]),
        (ALL, replace(TABLE, schema="archive"), [ArticleTableRenamed]),
        (ALL, without(TABLE, "name"), [ColumnDropped]),
        (ALL, with_column(TABLE, "name", name="label"), [ColumnRenamed]),
        (ALL, with_column(TABLE, "price", type_text="numeric(12,2)", type_modifier=9), [ColumnRetyped]),
        (ALL, with_column(TABLE, "name", is_nullable=False), [NullsChanged]),
        (ALL, with_added(TABLE, "more"), [ColumnAdded]),
        (ALL, with_added(without(TABLE, "name"), "name"), [ColumnDropped, ColumnAdded]),
        (ALL, with_added(TABLE, "total", is_generated=True), []),
        (ALL, TABLE, []),
        (CHOSEN, without(TABLE, "price"), [ColumnDropped]),
        (CHOSEN, with_column(TABLE, "price", name="cost"), [ColumnRenamed]),
        (CHOSEN, with_added(TABLE, "more"), []),
        (CHOSEN, without(TABLE, "name"), []),
        (CHOSEN, with_column(TABLE, "name", name="label"), []),
    ],
)
def test_what_a_statement_changes_is_made_at_subscribers(made: Article, now: SourceTable, kinds: list[type]) -> None:
    followed = followed_by(made, now)
    assert kinds_of(followed) == kinds
    again = followed_by(followed.article, now)
    assert (again.article, again.changes) == (followed.article, ())


def test_an_article_has_its_columns_in_their_new_form() -> None:
    now = with_column(with_column(without(TABLE, "name"), "price", name="cost"), "id", type_text="bigint", type_code=20)
    article_now = followed_by(ALL, replace(now, name="t9")).article
    assert [(column.name, column.type_text) for column in article_now.columns] == [
        ("id", "bigint"),
        ("cost", "numeric(10,2)"),
    ]
    assert (article_now.table, article_now.name, article_now.insert_procedure) == ("t9", ALL.name, ALL.insert_procedure)


def test_names_that_are_exchanged_are_exchanged_in_steps() -> None:
    step = with_column(TABLE, "name", name="x")
    steps = (
        step,
        with_column(step, "price", name="name"),
        with_column(with_column(step, "price", name="name"), "x", name="price"),
    )
    made, said = ALL, []
    for now in steps:
        followed = followed_by(made, now)
        said += [(change.column.name, change.name) for change in followed.changes if isinstance(change, ColumnRenamed)]
        made = followed.article
    assert said == [("name", "x"), ("price", "name"), ("x", "price")]


@pytest.mark.parametrize(("default", "missing_value"), [("7", "7"), ("null::integer", None), ("now()", "x")])
def test_a_column_is_added_if_the_log_has_its_first_values(default: str, missing_value: str | None) -> None:
    alteration = with_default(with_added(TABLE, "more"), default, missing_value)
    assert kinds_of(followed_by(ALL, alteration)) == [ColumnAdded]
    assert kinds_of(followed_by(ALL, alteration, has_no_rows=True)) == [ColumnAdded]


def test_a_column_with_values_of_each_row_comes_by_a_copy_alone() -> None:
    alteration = with_default(with_added(TABLE, "more"), "nextval('s'::regclass)", None)
    with pytest.raises(Unfollowed, match="the log does not have the values by its default nextval"):
        followed_by(ALL, alteration)
    assert kinds_of(followed_by(ALL, alteration, has_no_rows=True)) == [ColumnAdded]


def test_what_is_not_replicated_is_left_out_while_it_is_there() -> None:
    left_out = followed_by(ALL, with_added(TABLE, "more"), adds_none_since=NOT_REPLICATED)
    assert left_out.changes == ()
    assert left_out.article == replace(ALL, left_out=(OmittedColumn(9, "more", NOT_REPLICATED),))
    renamed = followed_by(left_out.article, with_column(with_added(TABLE, "more"), "more", name="other")).article
    assert [each.name for each in renamed.left_out] == ["other"]
    assert followed_by(renamed, TABLE).article == ALL


def inferred(table: SourceTable) -> Alteration:
    return replace(alteration_of(table), is_inferred=True)


def test_what_is_inferred_is_made_if_no_value_is_missing() -> None:
    exchanged = with_column(with_column(TABLE, "name", name="x"), "price", name="name")
    exchanged = with_column(exchanged, "x", name="price")
    renames = [change for change in followed_by(ALL, inferred(exchanged)).changes if isinstance(change, ColumnRenamed)]
    assert [(one.column.name, one.name) for one in renames] == [
        ("name", "rowtide_0"),
        ("price", "name"),
        ("rowtide_0", "price"),
    ]
    assert kinds_of(followed_by(ALL, inferred(without(TABLE, "name")))) == [ColumnDropped]
    more = with_added(TABLE, "more")
    assert kinds_of(followed_by(ALL, inferred(more), has_values=lambda table, number: False)) == [ColumnAdded]
    with pytest.raises(Unfollowed, match=f"column more was added, rows had values in it, and {NOT_REPORTED}"):
        followed_by(ALL, inferred(more))
    with pytest.raises(Unfollowed, match=f"column id became bigint, and {NOT_REPORTED}"):
        followed_by(ALL, inferred(with_column(TABLE, "id", type_text="bigint", type_code=20)))


def test_what_is_inferred_says_nothing_of_nulls() -> None:
    assert followed_by(ALL, inferred(with_column(TABLE, "name", is_nullable=False))).changes == ()
    required = replace(with_added(TABLE, "more").columns[-1], is_nullable=False)
    now = replace(TABLE, columns=(*TABLE.columns, required))
    added = followed_by(ALL, inferred(now), has_values=lambda table, number: False).article.columns[-1]
    assert (added.name, added.is_nullable) == ("more", True)


@pytest.mark.parametrize(
    ("made", "now", "reason"),
    [
        (ALL, without(TABLE, "id"), "column id of its key was dropped"),
        (article(TABLE, where="name = 'x'"), without(TABLE, "name"), "column name of its row filter was dropped"),
        (
            article(TABLE, where="price > 1"),
            with_column(TABLE, "price", type_text="integer", type_code=23),
            "column price of its row filter became integer",
        ),
        (
            article(TABLE, where="id > 9"),
            with_column(TABLE, "id", type_text="text", type_code=25),
            "column id of its row filter became text",
        ),
    ],
)
def test_what_an_article_cannot_do_without_stops_it(made: Article, now: SourceTable, reason: str) -> None:
    with pytest.raises(Unfollowed, match=reason):
        followed_by(made, now)


def test_a_row_filter_goes_on_with_a_wider_type_of_its_column() -> None:
    made = article(TABLE, where="id > 9")
    now = followed_by(made, with_column(TABLE, "id", type_text="bigint", type_code=20)).article
    assert now.filter_clause == made.filter_clause
    assert now.condition is not None
    assert [column.type_text for column in columns_of(now.condition)] == ["bigint"]


def test_a_row_filter_has_the_new_name_of_its_column() -> None:
    made = article(TABLE, where="name in ('a', 'it''s') and not (price < 2 or name is null)")
    now = followed_by(made, with_column(TABLE, "name", name="new name")).article
    assert now.filter_clause is not None
    assert '"new name" in' in now.filter_clause
    assert now.condition is not None


def test_a_real_gets_digits_in_double_precision() -> None:
    real = with_column(TABLE, "id", type_text="real", type_code=700)
    double = with_column(real, "id", type_text="double precision", type_code=701)
    statement = "alter table t1 alter id type double precision"
    followed = followed_by(article(real), alteration_of(double, statement=statement, rewrites_values=True))
    (change,) = followed.changes

    assert isinstance(change, ColumnRetyped)
    assert not change.keeps_texts, "a file has the text 1.1, which becomes 1.100000023841858"


@pytest.mark.parametrize(
    ("statement", "kind", "code", "keeps"),
    [
        ("alter table t1 alter id type bigint", "bigint", 20, True),
        ("alter table t1 alter id type smallint", "smallint", 21, False),
        ("alter table t1 alter id type text", "text", 25, False),
        ("alter table t1 alter id type text using id * 2", "text", 25, None),
        ("alter table t1 alter id type timestamptz", "timestamp with time zone", 1184, None),
        ("select change()", "bigint", 20, None),
    ],
)
def test_rewritten_values_are_cast_if_the_server_only_cast_them(
    statement: str, kind: str, code: int, *, keeps: bool | None
) -> None:
    now = with_column(TABLE, "id", type_text=kind, type_code=code)
    alteration = alteration_of(now, statement=statement, rewrites_values=True)
    if keeps is None:
        with pytest.raises(Unfollowed, match=f"column id became {kind}, and the log has no rows of that"):
            followed_by(ALL, alteration)
        assert kinds_of(followed_by(ALL, alteration, has_no_rows=True)) == [ColumnRetyped]
        return
    (change,) = followed_by(ALL, alteration).changes
    assert isinstance(change, ColumnRetyped)
    assert change.keeps_texts is keeps


@pytest.mark.parametrize(
    ("before", "after", "is_rewritten", "keeps"),
    [
        (("numeric(12,3)", 1700), ("numeric(20,5)", 1700), True, False),
        (("numeric(12,3)", 1700), ("numeric(20,3)", 1700), False, True),
        (("numeric(12,3)", 1700), ("numeric", 1700), False, True),
        (("integer", 23), ("numeric(10,2)", 1700), True, False),
        (("integer", 23), ("bigint", 20), True, True),
        (("character(3)", 1042), ("character(5)", 1042), True, False),
        (("character varying(3)", 1043), ("text", 25), False, True),
        (("timestamp without time zone", 1114), ("timestamp with time zone", 1184), False, False),
        (("cidr", 650), ("inet", 869), False, False),
    ],
)
def test_a_file_keeps_texts_that_are_printed_alike(
    before: tuple[str, int], after: tuple[str, int], *, is_rewritten: bool, keeps: bool
) -> None:
    held, now = (with_column(TABLE, "id", type_text=text, type_code=code) for text, code in (before, after))
    if before[1] == after[1]:
        now = replace(now, columns=tuple(replace(one, type_modifier=7) for one in now.columns))
    alteration = alteration_of(now, statement=f"alter table t1 alter id type {after[0]}", rewrites_values=is_rewritten)
    change = followed_by(article(held), alteration).changes[0]

    assert isinstance(change, ColumnRetyped)
    assert change.keeps_texts is keeps


def test_what_a_subscriber_has_is_bound_to_a_moved_database() -> None:
    held = followed_by(ALL, without(TABLE, "name")).article
    moved = replace(TABLE, source_id=99, columns=tuple(replace(one, number=one.number + 5) for one in TABLE.columns))
    now = bound(held, article(moved))
    assert (now.source_id, [(column.name, column.number) for column in now.columns]) == (99, [("id", 6), ("price", 8)])
    assert bound(held, ALL) is held

"""What a statement that altered a published table changes for its article, and at its subscribers. Pure.

(SQL Server: @replicate_ddl.) Columns are compared by their numbers, which a rename does not change. Constraints,
indexes and defaults are the subscriber's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.values import compares_alike, is_cast_alike, prints_alike
from rowtide.databases.source_table import SourceTable
from rowtide.log.membership import Alteration, AlteredColumn, as_altered
from rowtide.replication.articles.articles import (
    Article,
    GeneratedColumn,
    OmittedColumn,
    PublishedColumn,
)
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.articles.requests import MovedPartitions
from rowtide.replication.filters import as_sql, columns_of, renamed

NOT_REPLICATED = "the publication does not replicate schema changes"
NOT_REPORTED = "no event trigger reported it"
NAME_KEPT = "the subscriber keeps a dropped column of this name"
COLUMN_LACKING = "the subscriber's table has no such column"
"""Why a column is omitted."""
_SHOWN = 200
"""Characters of a statement that a reason names."""


@frozen
class ColumnAdded:
    """A column was added; `value` is what the rows have that were there, None for null."""

    column: PublishedColumn
    value: str | None
    collation: str | None


@frozen
class ColumnDropped:
    """A column was dropped."""

    column: PublishedColumn


@frozen
class ColumnRenamed:
    """A column has another name."""

    column: PublishedColumn
    name: str


@frozen
class ColumnRetyped:
    """A column, by its new name, has another type, to which every server casts alike.

    `keeps_texts`: in which the texts of all its values are what they were.
    """

    column: PublishedColumn
    collation: str | None
    keeps_texts: bool


@frozen
class NullsChanged:
    """A column, by its new name and type, allows nulls now, or no longer does."""

    column: PublishedColumn


@frozen
class ArticleTableRenamed:
    """The table has another name, or is in another schema."""

    schema: str
    table: str


@frozen
class GeneratedAltered:
    """A stored generated column is another, new (`before` None), or gone (`after` None)."""

    before: GeneratedColumn | None
    after: GeneratedColumn | None

    @property
    def column(self) -> GeneratedColumn:
        """The column as it is, or was."""
        column = self.after or self.before
        assert column is not None
        return column


@frozen
class ExpressionDropped:
    """A column, by its new name, is not generated any more; that it is published comes after it."""

    name: str


SchemaChange = (
    ArticleTableRenamed
    | ColumnRenamed
    | ColumnDropped
    | ColumnRetyped
    | NullsChanged
    | ColumnAdded
    | GeneratedAltered
    | ExpressionDropped
)


@frozen
class CustomSql:
    """A custom script that runs after the change of the transaction at an LSN."""

    name: str
    lsn: str
    text: str


@frozen
class Followed:
    """An article as it is after an alteration, and what that changes at a subscriber, in this order.

    The article has another `left_out` too, where a column is omitted. `is_delivered`: delivery ran the alteration at
    the publisher.
    """

    before: Article
    article: Article
    changes: tuple[SchemaChange, ...]
    is_delivered: bool = False
    script: CustomSql | None = None

    @property
    def renews_calls(self) -> bool:
        """Whether calls have other arguments than before, or other formats."""
        before, after = self.before, self.article
        commands = [(each.insert, each.update, each.delete) for each in (before, after)]
        return bool(self.changes) or before.columns != after.columns or commands[0] != commands[1]

    def leaving_out(self, column: PublishedColumn, reason: str) -> Followed:
        """Return it without an added column."""
        columns = tuple(each for each in self.article.columns if each != column)
        changed = _leaving_out(replace(self.article, columns=columns), column, reason)
        kept = tuple(each for each in self.changes if not (isinstance(each, ColumnAdded) and each.column == column))
        return replace(self, article=changed, changes=kept)

    def leaving_out_generated(self, change: GeneratedAltered, reason: str) -> Followed:
        """Return it without a change of a generated column."""
        left_out = OmittedColumn(change.column.number, change.column.name, reason, is_kept=change.after is None)
        article = replace(self.article, left_out=(*self.article.left_out, left_out))
        return replace(self, article=article, changes=tuple(each for each in self.changes if each != change))

    def keeping(self, column: PublishedColumn, reason: str) -> Followed:
        """Return it with a dropped column kept by the subscriber, null in new rows."""
        kept = OmittedColumn(column.number, column.name, reason, is_kept=True)
        instead = () if column.is_nullable else (NullsChanged(replace(column, is_nullable=True)),)
        changes: list[SchemaChange] = []
        for each in self.changes:
            changes += instead if each == ColumnDropped(column) else (each,)
        article = replace(self.article, left_out=(*self.article.left_out, kept))
        return replace(self, article=article, changes=tuple(changes))


class Unfollowed(Exception):
    """An alteration that subscribers cannot apply: the article has to be copied again."""


HasValues = Callable[[int, int], bool]
"""Whether rows of a table (its oid) have values in a column (its number) that were there when it was added."""


def follow(
    article: Article,
    alteration: Alteration,
    *,
    adds_none_since: str | None,
    has_no_rows: bool = False,
    has_values: HasValues = lambda _source_id, _number: True,
) -> Followed:
    """Return what an alteration of an article's table changes.

    `adds_none_since` is why no column is added, None if columns are. `has_no_rows`: the subscriber's rows are copied
    after it, so that no value of earlier ones matters. `has_values` is asked where an alteration was inferred. Raises
    `Unfollowed`.
    """
    now = {column.number: column for column in alteration.columns}
    if alteration.is_inferred:
        # The catalogue's `not null` may be newer than the log.
        now = {number: _as_before(column, article) for number, column in now.items()}
        alteration = replace(alteration, columns=tuple(now.values()))
    kept = [column for column in article.columns if column.number in now]
    renamed = replace(
        article, schema=alteration.schema, table=alteration.table, columns=tuple(_as_now(each, now) for each in kept)
    )
    _require_followed(article, now, has_no_rows=has_no_rows)
    if not has_no_rows:
        _require_values(alteration, kept, now)
        _require_rows(article, alteration)
    changes: list[SchemaChange] = []
    if (article.schema, article.table) != (alteration.schema, alteration.table):
        changes.append(ArticleTableRenamed(alteration.schema, alteration.table))
    computed = () if alteration.is_inferred else _generated_changes(article, alteration)
    changes += [each for each in computed if isinstance(each, GeneratedAltered) and each.after is None]
    changes += [ColumnDropped(column) for column in article.columns if column.number not in now]
    changes += _renames(kept, now)
    changes += _retypings(alteration, zip(kept, renamed.columns, strict=True), now)
    renamed = replace(renamed, filter_clause=_filter_after(article, now), left_out=_omitted_now(article, now))
    _require_filter(renamed)
    if not alteration.is_inferred:
        names = tuple(column.name for column in alteration.columns if column.is_generated)
        renamed = replace(renamed, generated_columns=names, generated=_list_generated(alteration))
    if adds_none_since is None:
        changes += [each for each in computed if isinstance(each, ExpressionDropped)]
    followed = Followed(article, renamed, tuple(changes))
    followed = _with_added(followed, alteration, adds_none_since, has_values=None if has_no_rows else has_values)
    # A new expression may refer to columns that were added.
    defined = (each for each in computed if isinstance(each, GeneratedAltered) and each.after is not None)
    wanted = (each for each in defined if each.before is not None or adds_none_since is None)
    return replace(followed, changes=(*followed.changes, *wanted))


def _retypings(
    alteration: Alteration, columns: Iterable[tuple[PublishedColumn, PublishedColumn]], now: Mapping[int, AlteredColumn]
) -> Iterator[SchemaChange]:
    """Yield what has changed of columns that stay, given as they were and as they are."""
    for before, after in columns:
        if (before.type_code, before.type_modifier) != (after.type_code, after.type_modifier):
            yield ColumnRetyped(after, now[after.number].collation, _keeps_texts(before, after, alteration))
        if before.is_nullable is not after.is_nullable:
            yield NullsChanged(after)


def _list_generated(alteration: Alteration) -> tuple[GeneratedColumn, ...]:
    return tuple(
        GeneratedColumn(column.number, column.name, column.type_text, column.default)
        for column in alteration.columns
        if column.is_generated and not column.is_virtual and column.default is not None
    )


def _generated_changes(article: Article, alteration: Alteration) -> Sequence[GeneratedAltered | ExpressionDropped]:
    """Return what changes of generated columns, which subscribers of all columns have."""
    if not article.has_all_columns:
        return ()
    before = {column.number: column for column in article.generated}
    after = {column.number: column for column in _list_generated(alteration)}
    ordinary = {column.number: column for column in alteration.columns if not column.is_generated}
    gone = [GeneratedAltered(known, None) for number, known in before.items() if number not in {*after, *ordinary}]
    dropped = [
        ExpressionDropped(column.name)
        for number, column in ordinary.items()
        if number in before or column.name in article.generated_columns
    ]
    altered = [
        GeneratedAltered(before.get(number), column) for number, column in after.items() if before.get(number) != column
    ]
    return [*gone, *dropped, *altered]


def bound(held: Article, known: Article) -> Article:
    """Return an article as a subscriber has it, with the oids of the database that it is published from now.

    The database may have been moved since the subscriber applied a schema change.
    """
    if held.source_id == known.source_id:
        return held
    now = {column.name: column for column in known.columns}
    columns = (
        replace(
            column,
            number=now[column.name].number,
            type_code=now[column.name].type_code,
            type_modifier=now[column.name].type_modifier,
        )
        if column.name in now
        else column
        for column in held.columns
    )
    return replace(held, source_id=known.source_id, columns=tuple(columns))


def as_alteration(table: SourceTable) -> Alteration:
    """Return a table as the catalogue describes it, as if a statement had made it so."""
    columns = tuple(map(as_altered, table.columns))
    return Alteration(table.source_id, table.schema, table.name, "", "", rewrites_values=False, columns=columns)


def with_key_of(article: Article, table: SourceTable) -> Article:
    """Return an article with the key that its table has. Raises `Unfollowed` if updates or deletes would have none."""
    key = {column.number: column.key_ordinal for column in table.key_columns}
    if {column.number: column.key_ordinal for column in article.key_columns} == key:
        return article
    if any(command.call_format is not CallFormat.NONE for command in (article.update, article.delete)):
        if not key:
            raise Unfollowed("its primary key was dropped")
        if not key.keys() <= {column.number for column in article.columns}:
            raise Unfollowed("its primary key has columns now that are not published")
    columns = (replace(column, key_ordinal=key.get(column.number)) for column in article.columns)
    return replace(article, columns=tuple(columns))


def omit_added(article: Article, names: Sequence[str], reason: str) -> Article:
    """Return an article whose table has more columns than it."""
    added = tuple(OmittedColumn(None, name, reason) for name in names)
    return replace(article, left_out=(*article.left_out, *added))


def _as_now(column: PublishedColumn, now: Mapping[int, AlteredColumn]) -> PublishedColumn:
    altered = now[column.number]
    return replace(
        column,
        name=altered.name,
        type_text=altered.type_text,
        type_code=altered.type_code,
        type_modifier=altered.type_modifier,
        value_type_text=altered.base_type_text or altered.type_text,
        is_nullable=altered.is_nullable,
    )


def _as_before(column: AlteredColumn, article: Article) -> AlteredColumn:
    """Return a column without what the catalogue may have changed after the log's position.

    It takes nulls, unless the article's does not.
    """
    known = next((one for one in article.columns if one.number == column.number), None)
    if known is None:
        return replace(column, is_nullable=True)
    column = replace(column, is_nullable=known.is_nullable)
    if (known.type_code, known.type_modifier) != (column.type_code, column.type_modifier):
        return column
    base = None if known.value_type_text == known.type_text else known.value_type_text
    return replace(column, type_text=known.type_text, base_type_text=base)


def _renames(kept: Sequence[PublishedColumn], now: Mapping[int, AlteredColumn]) -> Iterator[ColumnRenamed]:
    """Yield renames in an order in which names are free; of names that were exchanged one is another meanwhile."""
    waiting = [column for column in kept if now[column.number].name != column.name]
    while waiting:
        taken = {column.name for column in waiting}
        free = next((column for column in waiting if now[column.number].name not in taken), None)
        if free is not None:
            yield ColumnRenamed(free, now[free.number].name)
            waiting.remove(free)
            continue
        name = next(name for number in count() if (name := f"rowtide_{number}") not in taken)
        yield ColumnRenamed(waiting[0], name)
        waiting[0] = replace(waiting[0], name=name)


def _require_followed(article: Article, now: Mapping[int, AlteredColumn], *, has_no_rows: bool) -> None:
    condition = article.condition
    filtered = {column.name for column in columns_of(condition)} if condition is not None else set()
    for column in article.columns:
        altered = now.get(column.number)
        if altered is None and column.key_ordinal is not None:
            raise Unfollowed(f"column {column.name} of its key was dropped")
        if altered is None and column.name in filtered:
            raise Unfollowed(f"column {column.name} of its row filter was dropped")
        if altered is None or column.name not in filtered or has_no_rows:
            # Rows that are copied again are those that belong by the other type.
            continue
        if not compares_alike(column.value_type_text, altered.base_type_text or altered.type_text):
            raise Unfollowed(f"column {column.name} of its row filter became {altered.type_text}")


def _require_filter(article: Article) -> None:
    try:
        # Read again: its literals are of the columns' types.
        _ = article.condition
    except RowtideError as error:
        raise Unfollowed(f"its row filter does not fit its columns any more ({error.filled_fact})") from error


def _require_values(alteration: Alteration, kept: Sequence[PublishedColumn], now: Mapping[int, AlteredColumn]) -> None:
    changed = next((each for each in kept if now[each.number].type_text != each.type_text), None)
    computed = "a type of its values was altered" if alteration.command == "ALTER TYPE" else "values were computed"
    became = computed if changed is None else f"column {changed.name} became {_type_now(changed, now)}"
    if alteration.is_inferred and changed is not None:
        raise Unfollowed(f"{became}, and {NOT_REPORTED}")
    if alteration.rewrites_values and not _is_cast_alike(kept, now, alteration):
        raise Unfollowed(f"{became}, and the log has no rows of that")


def _require_rows(article: Article, alteration: Alteration) -> None:
    """Raise `Unfollowed` if partitions came or went with rows whose inserts or deletes would be delivered."""
    gets = alteration.brings_rows and article.insert.call_format is not CallFormat.NONE
    loses = article.delete.call_format is not CallFormat.NONE
    if alteration.moves_rows and article.moved_partitions is MovedPartitions.COPY and (gets or loses):
        what = "came or went" if alteration.brings_rows else "went"
        raise Unfollowed(f"rows {what} with partitions, of which the log has none: {_shortened(alteration.statement)}")


def _shortened(sql: str) -> str:
    words = " ".join(sql.split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]} …"


def _type_now(column: PublishedColumn, now: Mapping[int, AlteredColumn]) -> str:
    return now[column.number].type_text


def _is_cast_alike(kept: Sequence[PublishedColumn], now: Mapping[int, AlteredColumn], alteration: Alteration) -> bool:
    """Return whether the server only cast values, and a subscriber that casts them has the same."""
    codes = ((column.type_code, now[column.number].type_code) for column in kept)
    return alteration.casts_alone and all(is_cast_alike(old, new) for old, new in codes)


def _keeps_texts(before: PublishedColumn, after: PublishedColumn, alteration: Alteration) -> bool:
    if before.value_type_text == after.value_type_text:
        # A domain, or its base type.
        return True
    types = ((each.type_code, each.type_text) for each in (before, after))
    return prints_alike(*types, is_rewritten=alteration.rewrites_values)


def _filter_after(article: Article, now: Mapping[int, AlteredColumn]) -> str | None:
    """Return the row filter with the columns' new names."""
    condition = article.condition
    if condition is None:
        return None
    names = {column.name: now[column.number].name for column in article.columns if column.number in now}
    changed = renamed(condition, names)
    return article.filter_clause if changed == condition else as_sql(changed)


def _omitted_now(article: Article, now: Mapping[int, AlteredColumn]) -> tuple[OmittedColumn, ...]:
    """Return the columns omitted before that the table still has, or the subscriber."""
    return tuple(
        each if each.number is None or each.is_kept else replace(each, name=now[each.number].name)
        for each in article.left_out
        if each.number is None or each.number in now or each.is_kept
    )


def _with_added(
    followed: Followed, alteration: Alteration, adds_none_since: str | None, *, has_values: HasValues | None
) -> Followed:
    """Return it with the columns that were added; without `has_values`, no row has any."""
    taken = {each.name for each in followed.before.left_out if each.is_kept}
    for altered in _list_added(followed.before, alteration):
        column = _published(altered)
        reason = adds_none_since or (NAME_KEPT if column.name in taken else None)
        if reason is not None:
            followed = replace(followed, article=_leaving_out(followed.article, column, reason))
            continue
        if has_values is not None:
            if ExpressionDropped(column.name) in followed.changes:
                raise Unfollowed(f"column {column.name} is not generated any more, and the log has none of its values")
            _require_first_values(alteration, altered, has_values)
        added = ColumnAdded(column, None if has_values is None else altered.missing_value, altered.collation)
        article = replace(followed.article, columns=(*followed.article.columns, column))
        followed = replace(followed, article=article, changes=(*followed.changes, added))
    return followed


def _list_added(article: Article, alteration: Alteration) -> Sequence[AlteredColumn]:
    if not article.has_all_columns:
        return ()
    known = {each.number for each in article.columns} | {each.number for each in article.left_out}
    names = {each.name for each in article.left_out if each.number is None}
    if alteration.is_inferred:
        names.update(article.generated_columns)
    unknown = (each for each in alteration.columns if each.number not in known and each.name not in names)
    return [each for each in unknown if not each.is_generated]


def _leaving_out(article: Article, column: PublishedColumn, reason: str) -> Article:
    return replace(article, left_out=(*article.left_out, OmittedColumn(column.number, column.name, reason)))


def _published(altered: AlteredColumn) -> PublishedColumn:
    return PublishedColumn(
        number=altered.number,
        name=altered.name,
        type_text=altered.type_text,
        type_code=altered.type_code,
        type_modifier=altered.type_modifier,
        is_nullable=altered.is_nullable,
        key_ordinal=None,
        value_type_text=altered.base_type_text or altered.type_text,
        has_deterministic_collation=True,
    )


def _require_first_values(alteration: Alteration, added: AlteredColumn, has_values: HasValues) -> None:
    """Raise `Unfollowed` if what rows have that were there is not known, because each has a value of its own."""
    default = added.default
    if alteration.is_inferred:
        # The catalogue's default may be newer, too.
        if added.missing_value is None and has_values(alteration.source_id, added.number):
            raise Unfollowed(f"column {added.name} was added, rows had values in it, and {NOT_REPORTED}")
        return
    # A column that is not null and has no default is one of numbers, if the table had rows.
    has_numbers = default is None and not added.is_nullable
    is_null = default is None or re.fullmatch(r"null(::.*)?", default, re.IGNORECASE) is not None
    if default is None and added.missing_value is None and added.base_type_text is not None:
        # A domain's default is no column's, and where the domain has constraints the server writes it into each row.
        is_null = not has_values(alteration.source_id, added.number)
        default = f"of type {added.type_text}"
    if added.missing_value is None and (has_numbers or not is_null):
        what = "the numbers" if has_numbers else f"the values by its default {default}"
        raise Unfollowed(f"column {added.name} was added, and the log does not have {what} of the rows that were there")

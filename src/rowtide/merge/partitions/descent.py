"""The query of an article's candidates: changed rows, and all that follow changed rows, as they are or were. Pure.

Rows are followed down the joins as they are in the snapshot, and by the parents that are stored with the rows that the
subscriber has: a row that was deleted, or has another key, joins no more to those that followed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.partitions.belonging import FROM, ROW, FilterDialect, belongs, parents, quoted
from rowtide.merge.partitions.filters import BoundJoin, Group, Level, RowFilter
from rowtide.merge.versions.apply import Step, applied_rows, join_applied


@dataclass(frozen=True, slots=True)
class Names:
    """The database's table names and rowguid syntax; `window` builds the condition that a stamp is after a generation.

    `of_table` is the condition on a table's number beside a window. `is_beside` is set if the log is applied to a
    temporary table, whose rows are all users' changes.
    """

    dialect: FilterDialect
    mappings: str
    literal: Callable[[str], str]
    window: Callable[[str], str]
    of_table: str
    is_beside: bool = field(kw_only=True)


def candidates(row_filter: RowFilter, destination: int, asked: Sequence[str], names: Names) -> str:
    """Return the query of an article's candidates, by rowguid; see `Candidate.read` for its columns."""
    nickname, tables = row_filter.article.nickname, names.dialect.tables
    is_live = f"{ROW}.{ROWGUID} is not null"
    is_asked = f"k.{ROWGUID} in ({', '.join(map(names.literal, asked))})" if asked else "false"
    beside, alone = ("n.rowguid is not null or ", "n.rowguid is null and ") if names.is_beside else ("", "")
    is_changed, is_own = (
        f"{applied}case when {is_live} then coalesce({of_row}, false) else coalesce({of_tombstone}, false) end"
        for applied, of_row, of_tombstone in (
            (beside, names.window("c.stamp"), names.window("d.stamp")),
            (alone, f"c.origin = {destination}", f"d.origin = {destination}"),
        )
    )
    of_subscriber = f"m.replnickname = {destination} and m.tablenick = {nickname} and m.rowguid = k.{ROWGUID}"
    found = ", ".join(_found(row_filter, group, destination, names) for group in row_filter.groups)
    # As its index has it; see `definitions`.
    leaving = f"tablenick = {nickname} and is_leaving and replnickname + 0 = {destination}"
    sources = [
        f"select rowguid from {_name(row_filter.groups[-1])} where tablenick = {nickname}",
        f"select rowguid from {names.mappings} where {leaving}",
        *(f"select {names.literal(rowguid)}" for rowguid in asked),
    ]
    table = names.dialect.table_of(row_filter.article)
    return (
        f"with recursive {found} select k.{ROWGUID}, {is_live} as is_live, {is_changed} as is_changed, "
        f"{is_own} as is_own, "
        f"coalesce({belongs(row_filter, names.dialect)}, false) as belongs, "
        f"{parents(row_filter, names.dialect)} as parents, m.generation, m.parent as member_parent, m.is_leaving, "
        f"{is_asked} as is_asked "
        f"from ({' union '.join(sources)}) k "
        f"{tables.join(table, ROW, f'{ROW}.{ROWGUID} = k.{ROWGUID}')}"
        f"{tables.join_metadata(nickname, 'k')}"
        f"{join_applied(nickname, is_beside=names.is_beside)}"
        f"{tables.join(names.mappings, 'm', of_subscriber)}order by k.{ROWGUID}"
    )


def _found(row_filter: RowFilter, group: Group, destination: int, names: Names) -> str:
    """Return the definition of the rows of a group that were changed, or follow such rows."""
    columns, tables = "tablenick, rowguid", names.dialect.tables
    sources = [_changed(level.article, names) for level in group.levels]
    steps: list[Step] = []
    for level in group.levels:
        for join in level.joins:
            if group.has(join.parent):
                steps += _steps(level, join, destination, names)
            else:
                found = _name(row_filter.find(join.parent)[0])
                to_child = _steps(level, join, destination, names)
                sources += [f"select {step.found} from {found} {FROM} {step.rest}" for step in to_child]
    first = " union ".join(sources)
    if not steps:
        return f"{_name(group)} ({columns}) as ({first})"
    return tables.recursive(_name(group), columns, f"select * from ({first}) f", FROM, steps)


def _steps(level: Level, join: BoundJoin, destination: int, names: Names) -> Sequence[Step]:
    """Return the steps from rows of a parent to those that follow them: by the join, and by what is stored."""
    child, tables, dialect = level.article, names.dialect.tables, names.dialect
    name, of_parent = quoted(join.name), f"{FROM}.tablenick = {join.parent.nickname}"
    found = tables.join(dialect.table_of(join.parent), name, f"{name}.{ROWGUID} = {FROM}.rowguid")
    # As its index has it; see `definitions`.
    by_parent = f"m.parent = {FROM}.rowguid and m.tablenick = {child.nickname} and m.replnickname + 0 = {destination}"
    stored = tables.join(names.mappings, "m", by_parent)
    return (
        Step(
            f"{child.nickname}, {quoted(child.table)}.{ROWGUID}",
            f"{found}, {dialect.named(child)} where {of_parent} and {join.condition}",
        ),
        Step(f"{child.nickname}, m.rowguid", f"{stored}where {of_parent} and m.rowguid is not null"),
    )


def _name(group: Group) -> str:
    return f"rowtide_found_{group.levels[0].article.nickname}"


def _changed(article: Article, names: Names) -> str:
    tables, nickname = names.dialect.tables, article.nickname
    changed = " union ".join(
        f"select rowguid from {table} where {names.of_table} = {nickname} and {names.window('stamp')}"
        for table in (tables.contents, tables.tombstone)
    )
    return f"select {nickname}, rowguid from ({changed}{applied_rows(nickname) if names.is_beside else ''}) c"

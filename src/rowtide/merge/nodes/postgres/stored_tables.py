"""An article's table as the server has it, for writing: the columns' types, their sequences, and foreign keys to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import EQUALS, operators_query, quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.execution import TRUSTED, Execution
from rowtide.merge.nodes.postgres.key_moves import (
    FOLLOWING,
    IS_PUBLISHER,
    Referrer,
    StagedKeys,
    read_referrers,
    referrers_request,
)
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.versions.apply import Logged


@frozen
class StoredColumn:
    """A column as the server has it: `base_type` is its type without a length, `full_type` with it.

    `is_given`: an update may not set it.

    `is_cast`: a text becomes the type by a function of its own, which does not take all that the type's input takes.

    `equal` is the operator of its unique index, or else its type's own.
    """

    name: str
    base_type: str
    full_type: str
    is_given: bool
    is_cast: bool
    equal: str = EQUALS

    def parse(self, value: str) -> str:
        """Return the expression that parses a text as the type's input does."""
        return f"((array[{value}])::text::{self.base_type}[])[1]" if self.is_cast else f"{value}::{self.base_type}"


@frozen
class StoredTable:
    """An article's columns, in its order, the sequences that belong to them, by column, and the foreign keys to it.

    `ignoring` are the triggers and rules of programs that may leave a row unwritten.
    """

    columns: Sequence[StoredColumn]
    sequences: dict[str, str]
    referrers: Sequence[Referrer]
    ignoring: Sequence[str] = ()

    @property
    def referenced(self) -> Set[str]:
        """The columns that foreign keys reference."""
        return {name for each in self.referrers for name in each.columns.values()}


Answer = Sequence[tuple[Any, ...]]
REQUESTS = 4
"""The number of `table_requests`."""


def table_requests(article: Article) -> tuple[tuple[str, Sequence[object]], ...]:
    """Return the queries of what is to be known of an article's table; `read_table` reads their rows."""
    ignoring = _IGNORING, [table_of(article)]
    return _columns_request(article), sequences_request(article), referrers_request(article), ignoring


_IGNORING = """
with tables as (select %s::regclass as root),
  parts as (select root as relid from tables union select relid from tables, pg_partition_tree(root))
select concat('trigger ', tgname) from pg_trigger join parts on tgrelid = relid
where not tgisinternal and tgenabled in ('O', 'A') and tgtype & 3 = 3 and not starts_with(tgname::text, 'MSmerge_')
union
select concat('rule ', rulename) from pg_rewrite join parts on ev_class = relid
where ev_type in ('2', '3', '4') and is_instead and ev_enabled in ('O', 'A')
order by 1"""


def _columns_request(article: Article) -> tuple[str, Sequence[object]]:
    listed = (
        "select attname::text, format_type(atttypid, -1), format_type(atttypid, atttypmod), attidentity = 'a', "
        "exists (select from pg_cast "
        "where castsource = 'text'::regtype and casttarget = atttypid and castmethod = 'f'), "
        f"coalesce(operators[3], {_OF_TYPE}) "
        f"from pg_attribute left join ({operators_query('%s')}) o on o.column_name = attname "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    )
    return listed, [table_of(article)] * 2


_OF_TYPE = """(
    select concat('operator(', quote_ident(n.nspname), '.', o.oprname, ')') from pg_opclass d
    join pg_am method on method.oid = d.opcmethod and method.amname = 'btree'
    join pg_amop m on m.amopfamily = d.opcfamily and m.amopstrategy = 3 and m.amoplefttype = d.opcintype
      and m.amoprighttype = d.opcintype
    join pg_operator o on o.oid = m.amopopr join pg_namespace n on n.oid = o.oprnamespace
    where d.opcdefault and d.opcintype = atttypid)"""


def read_table(article: Article, columns: Answer, *others: Answer, merged: Sequence[Article] = ()) -> StoredTable:
    """Return an article's table from the rows of `table_requests`, as texts; `merged` are the articles of this node.

    The columns suffice for filling them.
    """
    found = {
        name: StoredColumn(name, base, full, is_given == "t", is_cast == "t", equal or EQUALS)
        for name, base, full, is_given, is_cast, equal in columns
    }
    sequences, referrers, ignoring = others or ((), (), ())
    listed = [found[column.name] for column in article.columns]
    return StoredTable(listed, dict(sequences), read_referrers(referrers, merged), tuple(name for (name,) in ignoring))


class StoredTables:
    """The articles' tables that a session has read; `merged` are the articles of this node."""

    def __init__(self) -> None:
        self.merged: tuple[Article, ...] = ()
        self._tables: dict[int, StoredTable] = {}

    def __contains__(self, article: Article) -> bool:
        return article.nickname in self._tables

    def of(self, article: Article) -> StoredTable:
        """Return an article's table, which was read."""
        return self._tables[article.nickname]

    def take(self, article: Article, *answers: Answer) -> StoredTable:
        """Read an article's table from the rows of `table_requests`, as texts."""
        self._tables[article.nickname] = read_table(article, *answers, merged=self.merged)
        return self._tables[article.nickname]

    def forget(self) -> None:
        """Read all tables again."""
        self._tables.clear()


def sparing(
    article: Article,
    referrers: Sequence[Referrer],
    staging: str,
    condition: str,
    execution: Execution,
    spared: Set[int],
) -> Iterator[str]:
    """Yield the statements of a block that fail if an action would change rows other than the staged ones.

    `condition` selects the staged rows that are to be deleted; all of them are deleted together. At a publisher the
    rows of articles with these nicknames are `spared`, elsewhere all.
    """
    table, gone = table_of(article), f"array(select rowtide_guid from {staging} where {condition})"
    for each in referrers:
        if not each.has_action:
            continue
        # A table that refers to itself: rows that are deleted together do not hold each other.
        others = f" and c.{ROWGUID} {EQUALS} any ({gone}) is not true" if each.nickname == article.nickname else ""
        held = (
            f"select 1 from {table} t join {each.table} c on {each.matches('t', 'c')}{others} "
            f"where t.{ROWGUID} {EQUALS} any ({gone})"
        )
        reason = f"rows of {each.table} that are this node's own reference the row"
        reading = execution if each.is_alike else TRUSTED
        is_meant = "true" if each.nickname in spared else f"not {IS_PUBLISHER}"
        yield (
            f"if {is_meant} and exists (select from {reading.rows(held, {'found': 'integer'})}) "
            f"then raise exception using errcode = 'foreign_key_violation', message = {quote_literal(reason)}; end if"
        )
        yield from reading.after


def keeping_followers(
    article: Article, referrers: Sequence[Referrer], keys: StagedKeys, execution: Execution, spared: Set[int]
) -> Iterator[str]:
    """Yield the statements of a block that fail if an action would clear references of rows that were changed here
    last, as the staged rows get other keys: those follow in a retry. `spared` as above.
    """
    table = table_of(article)
    for each in referrers:
        names = sorted(set(each.columns.values()))
        if not each.is_clearing or not each.is_alike or each.nickname is None or not set(names) <= keys.values.keys():
            continue
        references = _referring(table, each, keys, names)
        reason = f"rows of {each.table} that are this node's own reference the row"
        is_meant = "true" if each.nickname in spared else f"not {IS_PUBLISHER}"
        referring = f"select q.guid from {execution.rows(references, {'guid': 'uuid'})}"
        yield (
            f"if {is_meant} and exists (select from {CONTENTS} o where o.tablenick = {each.nickname} "
            f"and o.origin is null and o.rowguid in ({referring})) "
            f"then raise exception using errcode = 'foreign_key_violation', message = {quote_literal(reason)}; end if"
        )
        yield from execution.after


def noting_followers(
    article: Article,
    referrers: Sequence[Referrer],
    keys: StagedKeys,
    execution: Execution,
    spared: Set[int],
    *,
    is_whole: bool,
) -> Iterator[str]:
    """Yield the statements of a block that list the rows which follow by foreign keys, over all levels, as the staged
    rows get other keys; at a publisher those of tables that are `spared` as above and were not changed here last.

    In a table that refers to itself the server calls a trigger once for the staged rows and for these, even where there
    are none: what the same statement writes is listed, too, at each node. `is_whole`: that is all staged rows; else
    those alone that get other keys.
    """
    table = table_of(article)
    for first in referrers:
        names = sorted(set(first.columns.values()))
        is_meant = first.is_following or (first.is_clearing and first.nickname == article.nickname)
        if not is_meant or not set(names) <= keys.values.keys():
            continue
        for each, row, joined in _following(first):
            followers = f"select {row}.{ROWGUID} from {_getting_others(table, keys, names, joined)}"
            following = f"select q.guid from {execution.rows(followers, {'guid': 'uuid'})}"
            is_subscriber, is_received = f"not {IS_PUBLISHER}", "true"
            if each.nickname in spared:
                own = f"o.tablenick = {each.nickname} and o.rowguid = n.guid and o.origin is null"
                is_subscriber = "true"
                is_received = f"not ({IS_PUBLISHER} and exists (select from {CONTENTS} o where {own}))"
            noting = f"insert into {FOLLOWING} {{0}} select {each.nickname}, n.guid from ({{1}}) n where {{2}}"
            if each.nickname == article.nickname:
                moving = f"select t.{ROWGUID} from {_getting_others(table, keys, names)}"
                moved = f"select q.guid from {execution.rows(moving, {'guid': 'uuid'})}"
                found = f"with m as materialized ({moved}), c as materialized ({following})"
                written = (
                    f"select i.rowtide_guid from {keys.staging} i where {keys.condition}" if is_whole else "table m"
                )
                beside = f"select w.guid from ({written}) w (guid) where exists (select from m)"
                both = f"{beside} union all table c" if each.is_following else beside
                both = noting.format(found, both, is_received)
                others = noting.format(found, f"{beside} and w.guid not in (table c)", "true")
                yield f"if {is_subscriber} then {both}; else {others}; end if"
            else:
                yield f"if {is_subscriber} then {noting.format('', following, is_received)}; end if"
            yield from execution.after


def _following(
    referrer: Referrer, above: str = "t", joins: str = "", level: int = 1
) -> Iterator[tuple[Referrer, str, str]]:
    """Yield the foreign keys of merged tables by which rows follow, with the alias of these, and what joins them."""
    row = f"c{level}"
    joins = f"{joins} join {referrer.table} {row} on {referrer.matches(above, row)}"
    if referrer.is_alike and referrer.nickname is not None:
        yield referrer, row, joins
        for each in referrer.below:
            yield from _following(each, row, joins, level + 1)


UNLOG_FOLLOWERS = (
    f"if exists (select from {FOLLOWING}) then delete from {LOG} where ctid = any (array(select min(l.ctid) "
    f"from {LOG} l join {FOLLOWING} f on f.tablenick = l.tablenick and f.rowguid = l.rowguid "
    f"where l.stamp = (select {BSN}) and l.kind = {Logged.UPDATED.value} group by l.tablenick, l.rowguid)); "
    f"delete from {FOLLOWING}; end if"
)
"""The statement of a block by which the listed rows do not count as changed here: what followed the key at the
publisher arrives by itself. The first line goes: others are what triggers of users did.
"""


def _referring(table: str, referrer: Referrer, keys: StagedKeys, names: Sequence[str]) -> str:
    """Return the query of the rows `c` that reference staged ones `t` which get other keys."""
    joined = f"join {referrer.table} c on {referrer.matches('t', 'c')}"
    return f"select c.{ROWGUID} from {_getting_others(table, keys, names, joined)}"


def _getting_others(table: str, keys: StagedKeys, names: Sequence[str], joined: str = "") -> str:
    """Return what follows `from`: the staged rows `t` that get other keys."""
    differs = " or ".join(f"(t.{quote(name)} {keys.equal[name]} {keys.values[name]}) is not true" for name in names)
    return (
        f"{keys.staging} i join {table} t on t.{ROWGUID} {EQUALS} i.rowtide_guid {joined} "
        f"where {keys.condition} and ({differs})"
    )


Session = psycopg.Connection[tuple[Any, ...]]


def find_sequences(session: Session, article: Article) -> dict[str, str]:
    """Return the ascending sequences that belong to an article's columns, serial or identity, by column."""
    return dict(session.execute(*sequences_request(article)).fetchall())


def sequences_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query of `find_sequences`."""
    return _SEQUENCES, [table_of(article), [column.name for column in article.columns]]


def advance_sequences(session: Session, sequences: dict[str, str], highest: dict[str, str]) -> None:
    """Set sequences to the highest values of queries, by column, unless they are further.

    Not undone by a rollback, as with any sequence: a gap does no harm.
    """
    for statement in advances(sequences, highest):
        session.execute(sql.SQL(statement))


def advances(sequences: dict[str, str], highest: dict[str, str]) -> Iterator[str]:
    """Yield the queries that do what `advance_sequences` does."""
    for name, sequence in sequences.items():
        if name in highest:
            yield (
                "select setval(s.name::regclass, s.highest) "
                f"from (select {quote_literal(sequence)}::text as name, ({highest[name]})::bigint as highest) s "
                # `setval` refuses numbers above the maximum; a sequence that was never used has no last value.
                "join pg_sequence q on q.seqrelid = s.name::regclass "
                "where s.highest <= q.seqmax "
                "and s.highest > coalesce(pg_sequence_last_value(s.name::regclass), q.seqstart - 1)"
            )


def highest_in_table(article: Article, sequences: dict[str, str]) -> dict[str, str]:
    """Return the queries of the highest values in a table, by column."""
    return {name: f"select max({quote(name)}) from {table_of(article)}" for name in sequences}


def next_values(article: Article, sequences: dict[str, str]) -> str:
    """Return the query of a number of next values, a parameter, of the one column of an article's primary key."""
    (column,) = article.key_columns
    if column.name in sequences:
        return f"select nextval({escaped(quote_literal(sequences[column.name]))}) from generate_series(1, %s)"
    highest = f"(select coalesce(max({quote(column.name)}), 0) from {table_of(article)})"
    return f"select n + {escaped(highest)} from generate_series(1, %s) n"


# The dependency is automatic ('a') of serial columns and `owned by`, internal ('i') of identity columns.
_SEQUENCES = """
select a.attname::text, quote_ident(n.nspname) || '.' || quote_ident(s.relname)
from pg_attribute a
join pg_depend d on d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass
  and d.refobjid = a.attrelid and d.refobjsubid = a.attnum and d.deptype in ('a', 'i')
join pg_class s on s.oid = d.objid and s.relkind = 'S'
join pg_namespace n on n.oid = s.relnamespace
join pg_sequence q on q.seqrelid = s.oid and q.seqincrement > 0
where a.attrelid = %s::regclass and a.attname = any(%s)
"""

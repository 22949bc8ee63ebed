"""Change keys of PostgreSQL rows, and with them the rows that reference these.

One statement does both: a foreign key is checked at its end, even one that cannot be deferred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.definitions import SCHEMA, publications, replinfo
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.nodes.untyped_values import server_type
from rowtide.merge.versions.apply import Logged

_PUBLICATIONS, _NODE = (quote_qualified(SCHEMA, table.name) for table in (publications, replinfo))
IS_PUBLISHER = f"exists (select from {_PUBLICATIONS} where publisher = (select nickname from {_NODE}))"
"""The condition that a publication of this node is its own."""
_MOST_MOVES = 100
"""How many rows may wait for each other's keys in a chain."""
_PARAMETERS = "unnest(%s::uuid[], %s::text[])"


@dataclass(frozen=True, slots=True)
class Referrer:
    """A foreign key to a table: the referencing table, quoted, and its columns with those that they reference.

    `has_action`: a delete changes the rows that reference the deleted one. `nickname` is the table's, if it is merged
    here, `article` what is known of it then.
    """

    table: str
    columns: Mapping[str, str]
    has_action: bool
    nickname: int | None
    article: Article | None = None


def referrers_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query of the foreign keys to an article's table; `read_referrers` reads its rows."""
    return _REFERRERS, [table_of(article)]


def read_referrers(rows: Iterable[tuple[Any, ...]], merged: Sequence[Article] = ()) -> tuple[Referrer, ...]:
    """Return foreign keys from the rows of `referrers_request`, as texts; `merged` are the articles of this node."""
    articles = {str(article.nickname): article for article in merged}
    return tuple(
        Referrer(
            table,
            json.loads(columns),
            has_action == "t",
            None if nickname is None else int(nickname),
            articles.get(nickname),
        )
        for table, columns, has_action, nickname in rows
    )


def renumbering(article: Article, referrers: Sequence[Referrer]) -> str:
    """Return the statement that gives rows, an array parameter, new values, another, of their one key column."""
    (column,) = article.key_columns
    moved = (
        f"select t as old, u.key::{server_type(column)} as new_0 from {_PARAMETERS} u (guid, key) "
        f"join {table_of(article)} t on t.{ROWGUID} = u.guid"
    )
    return _PARAMETERS.join(map(escaped, _move(article, referrers, moved, column.name).split(_PARAMETERS)))


def moves_of_staged(
    article: Article, referrers: Sequence[Referrer], staging: str, condition: str, temporary: Mapping[str, str]
) -> Iterator[str]:
    """Yield the statements of a block that give staged rows their new keys, with the rows that reference them.

    A key that another row has stays with it, unless that gets another, too: rows whose keys go round get `temporary`
    values first, which are expressions of a staged row `i`, by column. `condition` selects staged rows, `i`, that
    exist. Of merged tables only rows that were changed here last are taken along: others come as their sender has them,
    and may mean the row that gets the old key. A publisher logs them as its changes: others have them already.
    """
    for name in sorted({referenced for each in referrers for referenced in each.columns.values()}):
        place = article.place_of(name)
        if place is None:
            continue
        column, new = quote(name), f"i.v{place}"
        moved = (
            f"select t as old, {new} as new_0 from {staging} i join {table_of(article)} t "
            f"on t.{ROWGUID} = i.rowtide_guid where {condition} and t.{column} <> {new} "
            f"and not exists (select from {table_of(article)} x where x.{column} = {new})"
        )
        move = _move(article, referrers, moved, name, is_own=True)
        # A key may be free only once the row that had it has moved itself.
        chain = f"for rowtide_round in 1..{_MOST_MOVES} loop {move}; exit when not found; end loop"
        yield chain
        if name in temporary:
            going_round = _going_round(article, staging, condition, column, f"v{place}")
            moved = (
                f"select t as old, {temporary[name]} as new_0 from {staging} i join {table_of(article)} t "
                f"on t.{ROWGUID} = i.rowtide_guid where {condition} and t.{ROWGUID} in ({going_round})"
            )
            yield f"{_move(article, referrers, moved, name, is_own=True)}; if found then {chain}; end if"


def _going_round(article: Article, staging: str, condition: str, column: str, new: str) -> str:
    """Return the query of the staged rows each of which wants the key of another, round to the first."""
    wanted = f"(select i.rowtide_guid as guid, i.{new} as wanted from {staging} i where {condition})"
    has = f"select t.{ROWGUID} as guid, t.{column} as had, w.wanted from {wanted} w join {table_of(article)} t"
    return (
        f"with recursive rowtide_moving as materialized ({has} on t.{ROWGUID} = w.guid and t.{column} <> w.wanted), "
        "rowtide_next as (select a.guid as one, b.guid as other from rowtide_moving a "
        "join rowtide_moving b on b.had = a.wanted), "
        "rowtide_chain as (select one, other from rowtide_next union "
        "select c.one, n.other from rowtide_chain c join rowtide_next n on n.one = c.other) "
        "select one from rowtide_chain where one = other"
    )


def _move(article: Article, referrers: Sequence[Referrer], moved: str, name: str, *, is_own: bool = False) -> str:
    parts = [f"rowtide_moved as materialized ({moved})"]
    for number, each in enumerate(referrers):
        moving = [column for column, referenced in each.columns.items() if referenced == name]
        if moving:
            settings = ", ".join(f"{quote(column)} = m.new_0" for column in moving)
            pairs = (f"c.{quote(column)} = (m.old).{quote(referenced)}" for column, referenced in each.columns.items())
            conditions = [*pairs, *([_is_own(each.nickname)] if is_own and each.nickname is not None else [])]
            where = " and ".join(conditions)
            update = f"update {each.table} c set {settings} from rowtide_moved m where {where}"
            if is_own and each.nickname is not None:
                parts.append(f"rowtide_{number} as ({update} returning c.{ROWGUID})")
                parts.append(f"rowtide_log_{number} as ({_logging(each, moving, f'rowtide_{number}')})")
            else:
                parts.append(f"rowtide_{number} as ({update})")
    return (
        f"with {', '.join(parts)} update {table_of(article)} t set {quote(name)} = m.new_0 from rowtide_moved m "
        f"where t.{ROWGUID} = (m.old).{ROWGUID}"
    )


def _logging(referrer: Referrer, moving: Sequence[str], moved: str) -> str:
    """Return the statement by which a publisher logs rows as its changes of some columns."""
    columns = "null::boolean[]"
    if referrer.article is not None and referrer.article.column_tracking:
        columns = f"array[{', '.join(str(column.name in moving).lower() for column in referrer.article.columns)}]"
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
        f"select {referrer.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}), {columns} from {moved} "
        f"where {IS_PUBLISHER}"
    )


def _is_own(nickname: int) -> str:
    """Return the condition that a row `c` was changed here last."""
    return (
        f"exists (select from {CONTENTS} o where o.tablenick = {nickname} and o.rowguid = c.{ROWGUID} "
        "and o.origin is null)"
    )


_REFERRERS = """
select quote_ident(n.nspname) || '.' || quote_ident(r.relname),
       (select json_object_agg(a.attname, b.attname) from unnest(c.conkey, c.confkey) k (own, referenced)
        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
        join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.referenced)::text,
       c.confdeltype in ('c', 'n', 'd'),
       (select max(substring(tgname from '^MSmerge_[a-z_]+_([0-9]+)$')) from pg_trigger where tgrelid = c.conrelid)
from pg_constraint c join pg_class r on r.oid = c.conrelid join pg_namespace n on n.oid = r.relnamespace
where c.confrelid = %s::regclass and c.contype = 'f' and c.conparentid = 0 order by c.oid
"""

"""Change keys of PostgreSQL rows, and with them the rows that reference these.

One statement does both: a foreign key is checked at its end, even one that cannot be deferred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.row_metadata import escaped, table_of
from rowtide.merge.nodes.postgres.system_tables import CONTENTS
from rowtide.merge.nodes.untyped_values import server_type

_MOST_MOVES = 100
"""How many rows may wait for each other's keys in a chain."""
_PARAMETERS = "unnest(%s::uuid[], %s::text[])"


@dataclass(frozen=True, slots=True)
class Referrer:
    """A foreign key to a table: the referencing table, quoted, and its columns with those that they reference.

    `nickname` is the table's, if it is merged here.
    """

    table: str
    columns: Mapping[str, str]
    nickname: int | None


def referrers_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query of the foreign keys to an article's table; `read_referrers` reads its rows."""
    return _REFERRERS, [table_of(article)]


def read_referrers(rows: Iterable[tuple[Any, ...]]) -> tuple[Referrer, ...]:
    """Return foreign keys from the rows of `referrers_request`, as texts."""
    return tuple(
        Referrer(table, json.loads(columns), None if nickname is None else int(nickname))
        for table, columns, nickname in rows
    )


def renumbering(article: Article, referrers: Sequence[Referrer]) -> str:
    """Return the statement that gives rows, an array parameter, new values, another, of their one key column."""
    (column,) = article.key_columns
    moved = (
        f"select t as old, u.key::{server_type(column)} as new_0 from {_PARAMETERS} u (guid, key) "
        f"join {table_of(article)} t on t.{ROWGUID} = u.guid"
    )
    return _PARAMETERS.join(map(escaped, _move(article, referrers, moved, column.name).split(_PARAMETERS)))


def moves_of_staged(article: Article, referrers: Sequence[Referrer], staging: str, condition: str) -> Iterator[str]:
    """Yield the statements of a block that give staged rows their new keys, with the rows that reference them.

    A key that another row has stays with it. `condition` selects staged rows, `i`, that exist. Of merged tables only
    rows that were changed here last are taken along: others come as their sender has them, and may mean the row that
    gets the old key.
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
        yield f"for rowtide_round in 1..{_MOST_MOVES} loop {move}; exit when not found; end loop"


def _move(article: Article, referrers: Sequence[Referrer], moved: str, name: str, *, is_own: bool = False) -> str:
    parts = [f"rowtide_moved as materialized ({moved})"]
    for number, each in enumerate(referrers):
        moving = [column for column, referenced in each.columns.items() if referenced == name]
        if moving:
            settings = ", ".join(f"{quote(column)} = m.new_0" for column in moving)
            pairs = (f"c.{quote(column)} = (m.old).{quote(referenced)}" for column, referenced in each.columns.items())
            conditions = [*pairs, *([_is_own(each.nickname)] if is_own and each.nickname is not None else [])]
            where = " and ".join(conditions)
            parts.append(
                f"rowtide_{number} as (update {each.table} c set {settings} from rowtide_moved m where {where})"
            )
    return (
        f"with {', '.join(parts)} update {table_of(article)} t set {quote(name)} = m.new_0 from rowtide_moved m "
        f"where t.{ROWGUID} = (m.old).{ROWGUID}"
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
       (select max(substring(tgname from '^MSmerge_[a-z_]+_([0-9]+)$')) from pg_trigger where tgrelid = c.conrelid)
from pg_constraint c join pg_class r on r.oid = c.conrelid join pg_namespace n on n.oid = r.relnamespace
where c.confrelid = %s::regclass and c.contype = 'f' and c.conparentid = 0 order by c.oid
"""

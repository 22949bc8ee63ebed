"""Change keys of PostgreSQL rows, and with them the rows that reference these.

One statement does both: a foreign key is checked at its end, even one that cannot be deferred.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal, quote_qualified
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.definitions import SCHEMA, publications, replinfo
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.nodes.untyped_values import server_type
from rowtide.merge.versions.apply import Logged

_PUBLICATIONS, _NODE = (quote_qualified(SCHEMA, table.name) for table in (publications, replinfo))
IS_PUBLISHER = f"exists (select from {_PUBLICATIONS} where publisher = (select nickname from {_NODE}))"
"""The condition that a publication of this node is its own."""
_MOST_MOVES = 100
"""How many rows may wait for each other's keys in a chain."""
OWN, MOVED, FOLLOWING = "pg_temp.rowtide_own", "pg_temp.rowtide_moved", "pg_temp.rowtide_following"
"""The temporary tables of rows of other tables: those that were changed here last, those that a move has changed, and
those that follow by a foreign key.

The second has the moved rows, too, without the number of a table.
"""
_LISTS = (OWN, MOVED, FOLLOWING)
MOVE_TABLES = tuple(f"create temporary table {name} (tablenick integer, rowguid uuid)" for name in _LISTS)
_NO_ROW = "null::pg_catalog.uuid"


@frozen
class Referrer:
    """A foreign key to a table: the referencing table, quoted, and its columns with those that they reference.

    `operators` compare the columns, the referenced one on the left. `has_action`: a delete changes the rows that
    reference the deleted one; `is_deleting`: it deletes them. `is_clearing`: a change of the key sets theirs to NULL or
    its default; `is_following`: it sets theirs to the same. `is_alike`: the referencing table's code may do what the
    other one's may. `nickname` is the table's, if it is merged here, `article` what is known of it then. `below` are
    the foreign keys by which further rows follow those that follow by this one.
    """

    table: str
    columns: Mapping[str, str]
    operators: Mapping[str, str]
    has_action: bool
    is_deleting: bool
    is_clearing: bool
    is_following: bool
    is_alike: bool
    nickname: int | None
    article: Article | None = None
    below: tuple[Referrer, ...] = ()

    def matches(self, referenced: str, referencing: str) -> str:
        """Return the condition that a row references another one, by their aliases or expressions."""
        return " and ".join(
            f"{referenced}.{quote(there)} {self.operators[here]} {referencing}.{quote(here)}"
            for here, there in self.columns.items()
        )


def referrers_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query of the foreign keys to an article's table; `read_referrers` reads its rows."""
    return referrers_of(table_of(article))


def referrers_of(table: str) -> tuple[str, Sequence[object]]:
    """Return the query of the foreign keys to any table, by its quoted name."""
    return _REFERRERS, [table]


def read_referrers(rows: Iterable[tuple[Any, ...]], merged: Sequence[Article] = ()) -> tuple[Referrer, ...]:
    """Return foreign keys from the rows of `referrers_request`, as texts; `merged` are the articles of this node."""
    articles = {str(article.nickname): article for article in merged}
    below: dict[str, list[Referrer]] = {}
    # The longest paths first: each foreign key takes those below it, which were read before.
    for *values, path in sorted(rows, key=lambda row: row[-1].count(","), reverse=True):
        table, columns, operators, has_action, is_deleting, is_clearing, is_following, is_alike, nickname = values
        referrer = Referrer(
            table,
            json.loads(columns),
            json.loads(operators),
            has_action == "t",
            is_deleting == "t",
            is_clearing == "t",
            is_following == "t",
            is_alike == "t",
            None if nickname is None else int(nickname),
            articles.get(nickname),
            tuple(below.pop(path, ())),
        )
        below.setdefault(path.rpartition(",")[0], []).append(referrer)
    return tuple(below.get("", ()))


def renumbering(article: Article, referrers: Sequence[Referrer], keys: Mapping[str, str]) -> str:
    """Return the statement that gives rows, by rowguid, new values of their one key column."""
    (column,) = article.key_columns
    type_ = server_type(column)
    listed = ", ".join(
        f"({quote_literal(rowguid)}::pg_catalog.uuid, {quote_literal(key)}::{type_})" for rowguid, key in keys.items()
    )
    moved = (
        f"select t as old, u.key as new_0 from (values {listed}) u (guid, key) "
        f"join {table_of(article)} t on t.{ROWGUID} {EQUALS} u.guid"
    )
    moves = [_referring(each, column.name) for each in referrers if each.is_alike]
    return _together(moved, [*filter(None, moves), _moving(article, column.name)])


@frozen
class StagedKeys:
    """Staged rows whose keys may change, for `moves_of_staged`.

    `staging` has them, `condition` selects those that exist, `i`. `values` are the expressions of their columns,
    `temporary` those of values that no other row has, `equal` the operators of columns, all by name.
    """

    staging: str
    condition: str
    values: Mapping[str, str]
    temporary: Mapping[str, str]
    equal: Mapping[str, str]


def moves_of_staged(
    article: Article, referrers: Sequence[Referrer], keys: StagedKeys, execution: Execution
) -> Iterator[str]:
    """Yield the statements of a block that give staged rows their new keys, with the rows that reference them.

    A key that another row has stays with it, unless that gets another, too: rows whose keys form a cycle get temporary
    values first. Of merged tables only rows that were changed here last are updated too: others come as their sender
    has them, and may mean the row that gets the old key. A publisher logs them as its changes: others have them
    already. Rows of a table whose owner is another one stay: the foreign key decides.
    """
    alike = [each for each in referrers if each.is_alike]
    names = sorted({referenced for each in alike for referenced in each.columns.values()} & set(keys.values))
    if names:
        yield from _note_own(article, alike, keys, names, execution)
    for name in names:
        column, new = quote(name), keys.values[name]
        equal = keys.equal[name]
        moved = (
            f"select t as old, {new} as new_0 from {keys.staging} i join {table_of(article)} t "
            f"on t.{ROWGUID} {EQUALS} i.rowtide_guid where {keys.condition} and not (t.{column} {equal} {new}) "
            f"and not exists (select from {table_of(article)} x where x.{column} {equal} {new})"
        )
        # A key may be free only once the row that had it has moved itself.
        chain = "; ".join(
            [
                f"for rowtide_round in 1..{_MOST_MOVES} loop {_move(article, alike, moved, name, execution)}",
                f"exit when not exists (select from {MOVED})",
                "end loop",
            ]
        )
        yield chain
        if name in keys.temporary:
            going_round = _cycle_rows(article, keys, name)
            moved = (
                f"select t as old, {keys.temporary[name]} as new_0 from {keys.staging} i join {table_of(article)} t "
                f"on t.{ROWGUID} {EQUALS} i.rowtide_guid where {keys.condition} "
                f"and t.{ROWGUID} {EQUALS} any (array({going_round}))"
            )
            move = _move(article, alike, moved, name, execution)
            yield f"{move}; if exists (select from {MOVED}) then {chain}; end if"


def _note_own(
    article: Article, referrers: Sequence[Referrer], keys: StagedKeys, names: Sequence[str], execution: Execution
) -> Iterator[str]:
    """Yield the statements that list, of rows that reference moving ones, those that were changed here last."""
    yield f"delete from {OWN}"
    moving = " or ".join(f"not (t.{quote(name)} {keys.equal[name]} {keys.values[name]})" for name in names)
    for each in referrers:
        if each.nickname is not None:
            references = (
                f"select c.{ROWGUID} from {keys.staging} i join {table_of(article)} t "
                f"on t.{ROWGUID} {EQUALS} i.rowtide_guid join {each.table} c on {each.matches('t', 'c')} "
                f"where {keys.condition} and ({moving})"
            )
            yield (
                f"insert into {OWN} select {each.nickname}, o.rowguid from {CONTENTS} o "
                f"where o.tablenick = {each.nickname} and o.origin is null "
                f"and o.rowguid in (select q.guid from {execution.rows(references, {'guid': 'uuid'})})"
            )
            yield from execution.after


def _cycle_rows(article: Article, keys: StagedKeys, name: str) -> str:
    """Return the query of the staged rows each of which wants the key of another, in a cycle."""
    column, equal = quote(name), keys.equal[name]
    wanted = (
        f"(select i.rowtide_guid as guid, {keys.values[name]} as wanted from {keys.staging} i where {keys.condition})"
    )
    has = f"select t.{ROWGUID} as guid, t.{column} as had, w.wanted from {wanted} w join {table_of(article)} t"
    return (
        f"with recursive rowtide_moving as materialized ({has} on t.{ROWGUID} {EQUALS} w.guid "
        f"and not (t.{column} {equal} w.wanted)), "
        "rowtide_next as (select a.guid as one, b.guid as other from rowtide_moving a "
        f"join rowtide_moving b on b.had {equal} a.wanted), "
        "rowtide_chain as (select one, other from rowtide_next union "
        f"select c.one, n.other from rowtide_chain c join rowtide_next n on n.one {EQUALS} c.other) "
        f"select one from rowtide_chain where one {EQUALS} other"
    )


def _move(article: Article, referrers: Sequence[Referrer], moved: str, name: str, execution: Execution) -> str:
    """Return the statements of a block that move rows, list all that moved in `MOVED`, and log those of others."""
    moves = [_moving(article, name)]
    moves += filter(None, (_referring(each, name, OWN) for each in referrers))
    logging = [
        _logging(each, [column for column, referenced in each.columns.items() if referenced == name])
        for each in referrers
        if each.nickname is not None and name in each.columns.values()
    ]
    return "; ".join([f"delete from {MOVED}", *execution.in_block(_together(moved, moves)), *logging])


def _moving(article: Article, name: str) -> str:
    return (
        f"update {table_of(article)} t set {quote(name)} = m.new_0 from rowtide_moved m "
        f"where t.{ROWGUID} {EQUALS} (m.old).{ROWGUID} returning null::pg_catalog.int4 as tablenick, t.{ROWGUID}"
    )


def _referring(referrer: Referrer, name: str, own: str | None = None) -> str | None:
    """Return the update of the rows that reference moved ones by a column; None if this foreign key does not."""
    moving = [column for column, referenced in referrer.columns.items() if referenced == name]
    if not moving:
        return None
    settings = ", ".join(f"{quote(column)} = m.new_0" for column in moving)
    conditions = [referrer.matches("(m.old)", "c")]
    returned = f"null::pg_catalog.int4 as tablenick, {_NO_ROW}"
    if own is not None and referrer.nickname is not None:
        nickname = referrer.nickname
        conditions.append(
            f"exists (select from {own} o where o.tablenick {EQUALS} {nickname} and o.rowguid {EQUALS} c.{ROWGUID})"
        )
        returned = f"{nickname} as tablenick, c.{ROWGUID}"
    return (
        f"update {referrer.table} c set {settings} from rowtide_moved m where {' and '.join(conditions)} "
        f"returning {returned}"
    )


def _together(moved: str, updates: Sequence[str]) -> str:
    """Return the statement that does updates of moved rows at once, and lists what they return in `MOVED`."""
    # One statement: the server checks foreign keys at its end, when the rows and those that reference them have moved.
    parts = [f"rowtide_{number} as ({update})" for number, update in enumerate(updates)]
    listed = " union all ".join(f"select * from rowtide_{number}" for number in range(len(updates)))
    return f"with rowtide_moved as materialized ({moved}), {', '.join(parts)} insert into {MOVED} {listed}"


def _logging(referrer: Referrer, moving: Sequence[str]) -> str:
    """Return the statement by which a publisher logs the rows in `MOVED` of a table as its changes of some columns."""
    columns = "null::boolean[]"
    if referrer.article is not None and referrer.article.column_tracking:
        columns = f"array[{', '.join(str(column.name in moving).lower() for column in referrer.article.columns)}]"
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
        f"select {referrer.nickname}, rowguid, {Logged.UPDATED.value}, (select {BSN}), {columns} from {MOVED} "
        f"where tablenick = {referrer.nickname} and {IS_PUBLISHER}"
    )


# A path has each constraint once, since foreign keys may form a cycle. `conparentid` excludes the constraints that
# the server derived for partitions.
_REFERRERS = """
with recursive chain (id, path) as (
    select oid, array[oid] from pg_constraint where confrelid = %s::regclass and contype = 'f' and conparentid = 0
    union all
    select c.oid, chain.path || c.oid from chain join pg_constraint a on a.oid = chain.id and a.confupdtype = 'c'
    join pg_constraint c on c.confrelid = a.conrelid and c.contype = 'f' and c.conparentid = 0 and c.confupdtype = 'c'
        and c.confkey && a.conkey and c.oid <> all (chain.path)
)
select quote_ident(n.nspname) || '.' || quote_ident(r.relname),
       (select json_object_agg(a.attname, b.attname) from unnest(c.conkey, c.confkey) k (own, referenced)
        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
        join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.referenced)::text,
       (select json_object_agg(a.attname, concat('operator(', quote_ident(m.nspname), '.', o.oprname, ')'))
        from unnest(c.conkey, c.conpfeqop) k (own, operator)
        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
        join pg_operator o on o.oid = k.operator join pg_namespace m on m.oid = o.oprnamespace)::text,
       c.confdeltype in ('c', 'n', 'd'), c.confdeltype = 'c', c.confupdtype in ('n', 'd'),
       c.confupdtype = 'c',
       r.relowner = p.relowner
           or (select bool_and(w.rolsuper or w.rolname = current_user) from pg_roles w
               where w.oid in (r.relowner, p.relowner)),
       (select max(substring(tgname from '^MSmerge_[a-z_]+_([0-9]+)$')) from pg_trigger where tgrelid = c.conrelid),
       array_to_string(chain.path, ',')
from chain join pg_constraint c on c.oid = chain.id
join pg_class r on r.oid = c.conrelid join pg_namespace n on n.oid = r.relnamespace
join pg_class p on p.oid = c.confrelid
order by chain.path
"""

"""A PostgreSQL subscriber's own cascades and triggers, which act on delivered changes.

What the publisher's did is in its log. A cascade at the subscriber runs first, so that the delete that is delivered
after it finds no row. `add-subscription` asks what they are to do (RT-7108), since `rowtide check` knows one database
only; what is created later acts as with `enforce`.

Deletes of tables that a cascade of the batch reaches may find no row. Which rows the cascade took is not examined: the
keys that a delete is given need not have the reference. So a row of such a table that was missing before is not
noticed.

Whether tables that a PostgreSQL subscriber had before it subscribed fit the published ones; how they are copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.values import can_hold
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distributor.definitions import SCHEMA as DISTRIBUTION
from rowtide.replication.errors.conflicts import TriggersUnsent
from rowtide.replication.errors.subscribing import ConstraintsFound, SubscriberTablesUnfit
from rowtide.replication.subscription_settings import Constraints
from rowtide.replication.targets.postgres.schema.own_objects import list_foreign_keys
from rowtide.replication.targets.postgres.writing_rights import WrittenTables


def require_none_acting(connection: psycopg.Connection, articles: Sequence[Article]) -> None:
    """Raise `ConstraintsFound` if a foreign key between articles has an action, or an article has a trigger.

    Triggers enabled always fire in any case, and those enabled for replicas are meant to.
    """
    with translated():
        rows = connection.execute(_ACTING, _given(articles)).fetchall()
    if rows:
        raise ConstraintsFound(", ".join(row[0] for row in rows))


def require_nothing_unsent(
    connection: psycopg.Connection, subscriber: str, articles: Iterable[Article], constraints: Constraints | None
) -> None:
    """Raise `TriggersUnsent` if triggers of articles act, and the database sends on its own changes alone."""
    if constraints is Constraints.NOT_FOR_REPLICATION or not _sends_own_alone(connection):
        return
    with translated():
        rows = connection.execute(_TRIGGERS, _given(articles)).fetchall()
    if rows:
        raise TriggersUnsent(", ".join(row[0] for row in rows), subscriber)


def _sends_own_alone(connection: psycopg.Connection) -> bool:
    """Whether a subscription to the database omits what it has received; false if this role may not read that."""
    with translated():
        if connection.execute(_IS_PUBLISHER).fetchone() != (True,):
            return False
        return connection.execute(_SENDS_OWN_ALONE).fetchone() == (True,)


def ask_cascades(connection: psycopg.Connection, articles: Iterable[Article]) -> psycopg.Cursor:
    """Ask which foreign keys cascade in this session; the answer may wait for those of other statements."""
    return connection.execute(_CASCADES, _given(articles))


def find_cascades(cascades: Iterable[tuple[str, str]], articles: Sequence[Article]) -> Mapping[str, Set[str]]:
    """Return, by article id, the articles' tables to which a delete may cascade; `cascades` as `find_reached` has."""
    reached, known = find_reached(cascades), {article.qualified_name: article.article_id for article in articles}
    return {
        article_id: {table for table in reached[name] if table in known}
        for name, article_id in known.items()
        if name in reached
    }


def find_reached(cascades: Iterable[tuple[str, str]]) -> Mapping[str, Set[str]]:
    """Return all tables that deletes reach from each table.

    `cascades` are pairs of a table and one that references it.
    """
    referring: dict[str, set[str]] = defaultdict(set)
    for referenced, other in cascades:
        referring[referenced].add(other)
    found: dict[str, Set[str]] = {}
    for table in referring:
        reached: set[str] = set()
        ahead = [table]
        while ahead:
            new = referring.get(ahead.pop(), set()) - reached
            reached |= new
            ahead += new
        found[table] = reached
    return found


def _given(articles: Iterable[Article]) -> dict[str, list[str]]:
    found = [(quote_qualified(article.schema, article.table), article.qualified_name) for article in articles]
    return {"quoted": [quoted for quoted, _ in found], "names": [name for _, name in found]}


_GIVEN = """
given (id, name) as (
    select to_regclass(quoted), name from unnest(%(quoted)s::text[], %(names)s::text[]) _ (quoted, name))
"""

_ACTING = f"""
with {_GIVEN}
select found from (
    select format('foreign key %%s of %%s with an action', k.conname, referring.name)
    from pg_constraint k
    join given referring on referring.id = k.conrelid
    join given referenced on referenced.id = k.confrelid
    where k.contype = 'f' and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd'))
    union all
    select format('trigger %%s on %%s', t.tgname, given.name)
    from pg_trigger t join given on given.id = t.tgrelid
    where not t.tgisinternal and t.tgenabled = 'O'
) own (found)
order by 1
"""

# Without rowtide's own, which write what is not published.
_TRIGGERS = f"""
with {_GIVEN}
select format('trigger %%s on %%s', t.tgname, given.name)
from pg_trigger t
join given on given.id = t.tgrelid
join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where not t.tgisinternal and t.tgenabled in ('O', 'A') and n.nspname not like 'rowtide%%'
order by 1
"""

_IS_PUBLISHER = f"""
select has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = '{DISTRIBUTION}' and c.relname = 'MSdistribution_agents'
"""
_SENDS_OWN_ALONE = f"""
select exists (
    select from {DISTRIBUTION}."MSdistribution_agents" g where (to_jsonb(g) ->> 'forwards')::boolean is false)
"""

# In a session with the role replica no trigger of a foreign key fires: nothing cascades.
# Over tables that are not published too. The name of one that is not there, or not given, is its number.
_CASCADES = f"""
with {_GIVEN}
select coalesce(referenced.name, k.confrelid::text), coalesce(referring.name, k.conrelid::text)
from pg_constraint k
left join given referring on referring.id = k.conrelid
left join given referenced on referenced.id = k.confrelid
where k.contype = 'f' and k.confdeltype = 'c' and current_setting('session_replication_role') <> 'replica'
"""


@frozen
class _Column:
    """A column of a subscriber's table; `is_filled`: a row that is inserted without it gets a value."""

    name: str
    value_type_text: str
    is_nullable: bool
    is_filled: bool
    is_generated: bool


def require_fitting(
    connection: psycopg.Connection,
    kept: Sequence[Article],
    articles: Sequence[Article],
    constraints: Constraints | None,
) -> None:
    """Raise `SubscriberTablesUnfit`, with everything in kept tables that published rows would not fit."""
    reasons = [f"{article.qualified_name}: {reason}" for article in kept for reason in _find_unfit(connection, article)]
    if constraints is not Constraints.NOT_FOR_REPLICATION:
        reasons += _find_dangling(connection, kept, articles)
    if reasons:
        raise SubscriberTablesUnfit("; ".join(reasons))


def find_whole(connection: psycopg.Connection, kept: Sequence[Article], written: WrittenTables) -> Set[str]:
    """Return, by article id, the kept tables that must be copied in one chunk.

    Those that are unique by more than their key: it holds in one snapshot, not between several. Those with rows: a
    copy that a truncate tears begins again with an empty table.
    """
    found = set()
    for article in kept:
        table = quote_qualified(article.schema, article.table)
        with translated():
            is_unique = connection.execute(sql.SQL(_UNIQUE_BESIDES_KEY), {"table": table}).fetchone()
        # It may be a view, whose functions are its owner's.
        has_rows = written.execute(article, f"select from {table} limit 1") > 0
        if is_unique is not None or has_rows:
            found.add(article.article_id)
    return found


def _find_unfit(connection: psycopg.Connection, article: Article) -> Iterator[str]:
    with translated():
        rows = connection.execute(sql.SQL(_COLUMNS), [quote_qualified(article.schema, article.table)]).fetchall()
    present = {column.name: column for column in (_Column(*row) for row in rows)}
    for column in article.columns:
        reason = _find_reason(column, present.pop(column.name, None))
        if reason is not None:
            yield f"column {column.name} {reason}"
    if article.insert.call_format is not CallFormat.NONE:
        for other in present.values():
            if not other.is_nullable and not other.is_filled:
                yield f"column {other.name} is not null, has no default and is not published"


def _find_reason(published: PublishedColumn, column: _Column | None) -> str | None:
    """Return why a column does not take what is published; None if it does."""
    if column is None:
        return f"({published.type_text}) is missing"
    if column.is_generated:
        return "is generated"
    if not can_hold(column.value_type_text, published.value_type_text):
        return f"is {column.value_type_text}, published as {published.type_text}"
    if published.is_nullable and not column.is_nullable:
        return "is not null, but published with nulls"
    return None


def _find_dangling(
    connection: psycopg.Connection, kept: Sequence[Article], articles: Sequence[Article]
) -> Iterator[str]:
    """Yield the foreign keys of kept tables whose rows reference nothing: that table is empty and not published."""
    filled = {article.qualified_name for article in articles if article.insert.call_format is not CallFormat.NONE}
    for key in list_foreign_keys(connection, kept):
        if not key.is_enforced or f"{key.referenced_schema}.{key.referenced_table}" in filled:
            continue
        referenced = quote_qualified(key.referenced_schema, key.referenced_table)
        with translated():
            is_empty = connection.execute(sql.SQL(f"select from {referenced} limit 1")).fetchone() is None
        if is_empty:
            yield f"foreign key {key.name} of {key.table} references {referenced}, which is empty and not published"


_COLUMNS = f"""
select a.attname::text, coalesce({COLUMN_BASE_TYPE_TEXT}, {COLUMN_TYPE_TEXT}), not a.attnotnull,
       a.atthasdef or a.attidentity <> '', a.attgenerated <> ''
from pg_attribute a where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

_UNIQUE_BESIDES_KEY = """
select from pg_index i
where i.indrelid = to_regclass(%(table)s) and (i.indisunique or i.indisexclusion) and not i.indisprimary limit 1
"""

"""A PostgreSQL subscriber's own cascades and triggers, which act on delivered changes.

What the publisher's did is in its log. A cascade at the subscriber runs first, so that the delete that is delivered
after it finds no row. `add-subscription` asks what they are to do (RT-7108), since `rowtide check` knows one database
only; what is created later acts as with `enforce`.

Deletes of tables that a cascade of the batch reaches may find no row. Which rows the cascade took is not examined: the
keys that a delete is given need not have the reference. So a row of such a table that was missing before is not
noticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

import psycopg

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor.location import SCHEMA as DISTRIBUTION
from rowtide.replication.errors.conflicts import TriggersUnsent
from rowtide.replication.errors.subscribing import ConstraintsFound
from rowtide.replication.subscription_settings import Constraints


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

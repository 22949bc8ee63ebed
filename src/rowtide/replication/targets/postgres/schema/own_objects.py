"""Foreign keys, triggers and identity columns of a PostgreSQL subscriber's own tables, during a subscription.

A snapshot copies each table as of another moment, so foreign keys do not hold until it is delivered; and triggers would
act on rows whose effects are copied too. Both are switched off for as long. Unique constraints stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import LOCK_NOT_AVAILABLE, LOCK_TIMEOUT_S
from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.errors.subscribing import SubscriberTableBusy
from rowtide.replication.subscription_settings import Constraints
from rowtide.replication.targets.postgres.restorations import PostgresRestoration, Until, restored_statement


@frozen
class OwnForeignKey:
    """A foreign key of an article's table, or one that references it; `name` and `table` are quoted.

    `naming` is the part of its definition that names columns and the referenced table, if it has the form known here.
    `is_own`: the session's role owns the table.
    """

    article_id: str
    table: str
    table_id: int
    name: str
    definition: str
    naming: str
    numbers: Sequence[int]
    referenced_id: int
    referenced_numbers: Sequence[int]
    referenced_schema: str
    referenced_table: str
    comment: str | None
    is_deferrable: bool
    is_enforced: bool
    is_own: bool

    @property
    def dropping(self) -> str:
        """The statement that drops it."""
        return f"alter table {self.table} drop constraint {self.name}"

    @property
    def deferring(self) -> str:
        """The statement that makes it deferrable; it is still checked at once where nobody defers it."""
        return f"alter table {self.table} alter constraint {self.name} deferrable"

    @property
    def adding(self) -> Iterator[PostgresRestoration]:
        """What adds it again after it was dropped, deferrable as long as the subscription lasts.

        Under the names that its tables and columns have then; if one was dropped, the key is gone, too.
        """
        yield PostgresRestoration(self.article_id, Until.COPIED, self._addition)
        if self.comment is not None:
            statement = f"comment on constraint {self.name} on {self.table} is {quote_literal(self.comment)}"
            found = (
                f"select format('comment on constraint %I on %s is %L', conname, conrelid::regclass, "
                f"{quote_literal(self.comment)}) from pg_constraint "
                f"where conrelid = {self.table_id} and quote_ident(conname) = {quote_literal(self.name)}"
            )
            yield PostgresRestoration(self.article_id, Until.COPIED, restored_statement(statement, _do(found)))
        if not self.is_deferrable:
            yield self.undoing

    @property
    def _addition(self) -> str:
        deferrable = "" if self.is_deferrable else " deferrable"
        statement = f"alter table {self.table} add constraint {self.name} {self.definition}{deferrable}"
        if not self.definition.startswith(self.naming):
            return statement
        rest = self.definition.removeprefix(self.naming) + deferrable
        found = _ADDITION.format(
            name=quote_literal(self.name),
            rest=quote_literal(rest),
            table_id=self.table_id,
            numbers=list(self.numbers),
            referenced_id=self.referenced_id,
            referenced_numbers=list(self.referenced_numbers),
        )
        return restored_statement(statement, _do(found))

    @property
    def undoing(self) -> PostgresRestoration:
        """The statement that makes it not deferrable again, under the name that its table has then."""
        found = (
            "select format('alter table %s alter constraint %I not deferrable', conrelid::regclass, conname) "
            f"from pg_constraint where conrelid = {self.table_id} and quote_ident(conname) = "
            f"{quote_literal(self.name)} and contype = 'f' and condeferrable"
        )
        return PostgresRestoration(self.article_id, Until.DROPPED, _do(found))


@frozen
class _OwnTrigger:
    article_id: str
    altering: str
    name: str
    table_id: int

    @property
    def enabling(self) -> PostgresRestoration:
        """The statement that enables it again, under the name that its table has then."""
        found = (
            f"select format('alter table only %s enable trigger %I', tgrelid::regclass, tgname) "
            f"from pg_trigger where tgrelid = {self.table_id} and tgname = {quote_literal(self.name)}"
        )
        return PostgresRestoration(
            self.article_id,
            Until.COPIED,
            restored_statement(f"{self.altering} enable trigger {quote(self.name)}", _do(found)),
        )


def list_foreign_keys(connection: psycopg.Connection, articles: Sequence[Article]) -> list[OwnForeignKey]:
    """Return the foreign keys of articles' tables and those that reference them, by table and name."""
    with translated():
        (path,) = connection.execute("select current_setting('search_path')").fetchall()[0]
        # With it, definitions name every table with its schema.
        connection.execute("set local search_path = pg_catalog")
        rows = connection.execute(sql.SQL(_FOREIGN_KEYS), _given(articles)).fetchall()
        connection.execute("select set_config('search_path', %s, true)", [path])
    return [OwnForeignKey(*row) for row in rows]


def switch_off(
    connection: psycopg.Connection, kept: Sequence[Article], constraints: Constraints | None, subscriber: str
) -> list[PostgresRestoration]:
    """Drop foreign keys and disable triggers of kept tables, in the caller's transaction; return what restores them.

    With `not-for-replication` neither acts in the agents' sessions, and both stay. Raises `SubscriberTableBusy`.
    """
    if constraints is Constraints.NOT_FOR_REPLICATION:
        return []
    keys = [key for key in list_foreign_keys(connection, kept) if key.is_enforced]
    with translated():
        triggers = [
            _OwnTrigger(article_id, f"alter table only {quote_qualified(schema, table)}", name, table_id)
            for article_id, schema, table, name, table_id in connection.execute(
                sql.SQL(_TRIGGERS), _given(kept)
            ).fetchall()
        ]
    disabling = [f"{trigger.altering} disable trigger {quote(trigger.name)}" for trigger in triggers]
    _alter(connection, [*(key.dropping for key in keys), *disabling], subscriber)
    return [
        *(restoration for key in keys for restoration in key.adding),
        *(trigger.enabling for trigger in triggers),
    ]


def list_references(connection: psycopg.Connection, articles: Sequence[Article]) -> list[OwnForeignKey]:
    """Return the foreign keys by which other tables reference articles' tables."""
    own = {quote_qualified(article.schema, article.table) for article in articles}
    return [key for key in list_foreign_keys(connection, articles) if key.table not in own]


def release_references(
    connection: psycopg.Connection, articles: Sequence[Article], subscriber: str
) -> list[PostgresRestoration]:
    """Drop the foreign keys by which other tables reference articles' tables, in the caller's transaction.

    Returns what adds them again. Raises `SubscriberTableBusy`.
    """
    keys = list_references(connection, articles)
    _alter(connection, [key.dropping for key in keys], subscriber)
    return [restoration for key in keys for restoration in key.adding]


def adapt(
    connection: psycopg.Connection, articles: Sequence[Article], constraints: Constraints | None, subscriber: str
) -> list[PostgresRestoration]:
    """Let tables take what the log has, in the caller's transaction; return what undoes it.

    Identity columns that are always generated take delivered values, and foreign keys can be checked when a batch
    commits: the log has the rows of a statement one by one. Other sessions notice neither, unless they write an
    identity column or defer constraints. Only tables that the session's role owns. Raises `SubscriberTableBusy`.
    """
    with translated():
        identities = connection.execute(sql.SQL(_IDENTITIES), _given(articles)).fetchall()
    is_checked = constraints is not Constraints.NOT_FOR_REPLICATION
    known = list_foreign_keys(connection, articles) if is_checked else []
    keys = [key for key in known if key.is_own and key.is_enforced and not key.is_deferrable]
    setting = [
        f"alter table {quote_qualified(schema, table)} alter column {quote(column)} set generated by default"
        for _, schema, table, column, _, _ in identities
    ]
    _alter(connection, [*setting, *(key.deferring for key in keys)], subscriber)
    return [
        *(
            PostgresRestoration(article_id, Until.DROPPED, _generating_always(table_id, number))
            for article_id, _, _, _, table_id, number in identities
        ),
        *(key.undoing for key in keys),
    ]


def _generating_always(table_id: int, number: int) -> str:
    return _do(
        "select format('alter table %s alter column %I set generated always', attrelid::regclass, attname) "
        f"from pg_attribute where attrelid = {table_id} and attnum = {number} and attidentity = 'd'"
    )


def _do(finding: str) -> str:
    """Return the statement that runs the one that a query finds, if it finds one."""
    body = f"declare found text := ({finding}); begin if found is not null then execute found; end if; end"
    return f"do {quote_body(body)}"


def _alter(connection: psycopg.Connection, statements: Sequence[str], subscriber: str) -> None:
    # Readers of a table would wait behind this session for as long as it waits.
    limited = [f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'", *statements, "set local lock_timeout = 0"]
    try:
        with translated():
            for statement in limited if statements else ():
                connection.execute(sql.SQL(statement))
    except UnexpectedSqlError as error:
        if error.sqlstate != LOCK_NOT_AVAILABLE:
            raise
        raise SubscriberTableBusy(subscriber, error.reason) from error


def _given(articles: Sequence[Article]) -> dict[str, list[str]]:
    return {
        "articles": [article.article_id for article in articles],
        "tables": [quote_qualified(article.schema, article.table) for article in articles],
    }


_TREES = """
given (article_id, id) as (
    select article_id, to_regclass(name)::oid from unnest(%(articles)s::text[], %(tables)s::text[]) _ (article_id, name)
    where to_regclass(name) is not null),
trees (article_id, id) as (
    select article_id, id from given
    union select given.article_id, part.relid from given, pg_partition_tree(given.id) part)
"""

_NAMES = """(
    select string_agg(quote_ident(a.attname), ', ' order by place)
    from unnest({numbers}) with ordinality _ (number, place)
    join pg_attribute a on a.attrelid = {table} and a.attnum = number and not a.attisdropped
    having count(*) = cardinality({numbers}))"""
"""SQL expression of columns' names by their numbers, null if one no longer exists."""

_ADDITION = f"""
select format('alter table %s add constraint %s foreign key (%s) references %s (%s)%s',
              referring.oid::regclass, {{name}}, own.names, referenced.oid::regclass, other.names, {{rest}})
from pg_class referring, pg_class referenced,
     lateral {_NAMES.format(table="referring.oid", numbers="array{numbers}")} own (names),
     lateral {_NAMES.format(table="referenced.oid", numbers="array{referenced_numbers}")} other (names)
where referring.oid = {{table_id}} and referenced.oid = {{referenced_id}}
"""

_FOREIGN_KEYS = f"""
with {_TREES}
select (select min(article_id) from trees where id in (k.conrelid, k.confrelid)),
       format('%%I.%%I', n.nspname, c.relname), c.oid::bigint, quote_ident(k.conname), pg_get_constraintdef(k.oid),
       format('FOREIGN KEY (%%s) REFERENCES %%I.%%I(%%s)',
              {_NAMES.format(table="k.conrelid", numbers="k.conkey")}, referenced_in.nspname, referenced.relname,
              {_NAMES.format(table="k.confrelid", numbers="k.confkey")}),
       k.conkey::int[], k.confrelid::bigint, k.confkey::int[], referenced_in.nspname::text, referenced.relname::text,
       obj_description(k.oid, 'pg_constraint'), k.condeferrable,
       coalesce((to_jsonb(k) ->> 'conenforced')::boolean, true), pg_has_role(c.relowner, 'usage')
from pg_constraint k
join pg_class c on c.oid = k.conrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_class referenced on referenced.oid = k.confrelid
join pg_namespace referenced_in on referenced_in.oid = referenced.relnamespace
where k.contype = 'f' and k.conparentid = 0 and exists (select from trees where id in (k.conrelid, k.confrelid))
order by 2, 4
"""

_TRIGGERS = f"""
with {_TREES}
select min(trees.article_id), n.nspname::text, c.relname::text, t.tgname::text, c.oid::bigint
from trees
join pg_class c on c.oid = trees.id
join pg_namespace n on n.oid = c.relnamespace
join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled = 'O'
group by 2, 3, 4, 5 order by 2, 3, 4
"""

_IDENTITIES = f"""
with {_TREES}
select given.article_id, n.nspname::text, c.relname::text, a.attname::text, c.oid::bigint, a.attnum::int
from given
join pg_class c on c.oid = given.id
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attidentity = 'a' and not a.attisdropped
where pg_has_role(c.relowner, 'usage')
order by 2, 3, 6
"""

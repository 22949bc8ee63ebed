"""A subscriber's tables and generated procedures, read from its catalogue when an agent starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import psycopg

from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles import Article
from rowtide.replication.call_formats import CallFormat
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.parameters import is_generated
from rowtide.replication.targets.postgres.independence import TableRelations


def read_relations(connection: psycopg.Connection, articles: Iterable[Article]) -> TableRelations:
    """Return the relations between the articles' tables and all others."""
    tables: dict[str, int] = {}
    with translated():
        for article in articles:
            name = quote_qualified(article.schema, article.table)
            row = connection.execute("select to_regclass(%s)::oid::bigint", (name,)).fetchone()
            if row is not None and row[0] is not None:
                tables[article.article_id] = row[0]
        references = [(row[0], row[1]) for row in connection.execute(_REFERENCES)]
        entangled = {row[0] for row in connection.execute(_ENTANGLED)}
    return TableRelations(tables, references, entangled)


class MadeProcedures:
    """The procedures in the subscriber's schema, compared with those that would be generated now."""

    def __init__(self, sources: dict[str, list[str | None]]) -> None:
        self._sources = sources

    @classmethod
    def read(cls, connection: psycopg.Connection) -> MadeProcedures:
        """Read all existing ones."""
        sources: dict[str, list[str | None]] = defaultdict(list)
        with translated():
            for name, source in connection.execute(_PROCEDURES, (procedures.SCHEMA,)):
                sources[name].append(source)
        return cls(sources)

    def is_opaque(self, article: Article) -> bool:
        """Return whether an article runs a procedure that a user wrote or edited."""
        return any(
            article.command(operation).procedure is not None
            or (is_generated(article, operation) and not self._is_single_ours(article, operation))
            for operation in procedures.OPERATIONS
            if article.command(operation).call_format is not CallFormat.NONE
        )

    def has_arrays(self, article: Article, operation: Operation) -> bool:
        """Return whether an operation's calls may be sent as arrays: both its procedures are as generated.

        A subscriber prepared by an earlier version may lack the array procedure.
        """
        return (
            array_procedures.is_generated(article, operation)
            and self._is_single_ours(article, operation)
            and self._is_one(array_procedures.name_of(article, operation), array_procedures.source(article, operation))
        )

    def _is_single_ours(self, article: Article, operation: Operation) -> bool:
        return self._is_one(article.generated_procedure(operation), procedures.source(article, operation))

    def _is_one(self, name: str, source: str) -> bool:
        found: Sequence[str | None] = self._sources.get(name, ())
        return list(found) == [source]


# One that runs as somebody else or with settings of its own is not as it was made: it has no source here.
_PROCEDURES = """
select p.proname::text, case when l.lanname = 'plpgsql' and not p.prosecdef and p.proconfig is null then p.prosrc end
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
join pg_language l on l.oid = p.prolang
where n.nspname = %s
"""

_REFERENCES = """
select conrelid::bigint, confrelid::bigint from pg_constraint
where contype = 'f' and current_setting('session_replication_role') <> 'replica'
"""

# By functions in checks, defaults, indexes and generated columns too: those of the server itself are not noted there.
_ENTANGLED = """
select c.oid::bigint from pg_class c
where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relnamespace <> 'pg_catalog'::regnamespace and (
    c.relkind <> 'r' or c.relhasrules or c.relrowsecurity
    or exists (
        select from pg_trigger t
        where t.tgrelid = c.oid and not t.tgisinternal
            and (t.tgenabled = 'A'
                or t.tgenabled = case current_setting('session_replication_role') when 'replica' then 'R' else 'O' end))
    or exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
    or exists (
        select from pg_depend own
        join pg_depend used on used.classid = own.classid and used.objid = own.objid
        where own.refclassid = 'pg_class'::regclass and own.refobjid = c.oid
            and used.refclassid = 'pg_proc'::regclass))
"""

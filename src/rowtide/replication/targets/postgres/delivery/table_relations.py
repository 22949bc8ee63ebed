"""A subscriber's tables and generated procedures, read from its catalogue when an agent starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import psycopg

from rowtide.core.operations import Operation
from rowtide.databases.postgres.catalogue import COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.parameters import is_generated
from rowtide.replication.targets.postgres.delivery.independence import TableRelations, group_articles
from rowtide.replication.targets.postgres.schema.own_constraints import ask_cascades, find_cascades


@dataclass(frozen=True, slots=True)
class SetPlan:
    """What may be sent many at a time, without any observable difference.

    `has_arrays`: operations by article id, as arrays; `copied`: articles by id, inserts by COPY; `groups`: which
    articles can influence each other, by article id. Empty if none qualifies.
    """

    has_arrays: Set[tuple[str, Operation]]
    copied: Set[str]
    groups: Mapping[str, int]

    @property
    def folded(self) -> Set[str]:
        """Articles by id of which several updates of a row may be one: nothing sees the row between them."""
        return {article_id for article_id, operation in self.has_arrays if operation is Operation.UPDATE}


@dataclass(frozen=True, slots=True)
class SubscriberTables:
    """What the catalogue says of articles: their procedures, their tables' relations, the types of columns that can be
    set by article id and column, and by article id the tables to which a delete may cascade.
    """

    made: MadeProcedures
    relations: TableRelations
    types: Mapping[str, Mapping[str, str]]
    cascades: Mapping[str, Set[str]]

    @classmethod
    def read(cls, connection: psycopg.Connection, articles: Sequence[Article]) -> SubscriberTables:
        """Read it in this session's replication role, at once: the subscriber may be far away."""
        names = [quote_qualified(article.schema, article.table) for article in articles]
        with translated(), connection.pipeline():
            made = connection.execute(_PROCEDURES, (procedures.SCHEMA,))
            found = connection.execute(_TABLES, (names,))
            references, entangled = connection.execute(_REFERENCES), connection.execute(_ENTANGLED)
            typed = connection.execute(_TYPES, (names,))
            cascading = ask_cascades(connection, articles)
        tables = {articles[place].article_id: table for place, table in found}
        types: dict[int, dict[str, str]] = defaultdict(dict)
        for table, column, type_text in typed:
            types[table][column] = type_text
        return cls(
            MadeProcedures.of(made),
            TableRelations(tables, list(references), {table for (table,) in entangled}),
            {article_id: types[table] for article_id, table in tables.items()},
            find_cascades(cascading, articles),
        )


def plan_sets(tables: SubscriberTables, articles: Sequence[Article]) -> SetPlan:
    """Decide what may be sent many at a time. Pure."""
    made = tables.made
    has_arrays = {
        (article.article_id, operation)
        for article in articles
        for operation in procedures.OPERATIONS
        if made.has_arrays(article, operation)
    }
    if not has_arrays:
        return SetPlan(frozenset(), frozenset(), {})
    opaque = {article.article_id for article in articles if made.is_opaque(article)}
    grouping = group_articles(tables.relations, opaque)
    return SetPlan(
        has_arrays={known for known in has_arrays if known[0] in grouping.plain},
        copied={
            article.article_id
            for article in articles
            if article.article_id in grouping.plain
            and made.has_single(article, Operation.INSERT)
            # COPY reads a value as its column's type, where a call casts from the published one.
            and tables.types.get(article.article_id, {}).items() >= _published_types(article)
        },
        groups=grouping.groups,
    )


def _published_types(article: Article) -> Set[tuple[str, str]]:
    return {(column.name, column.type_text) for column in article.columns}


class MadeProcedures:
    """The procedures in the subscriber's schema, compared with those that would be generated now."""

    def __init__(self, sources: dict[str, list[str | None]]) -> None:
        self._sources = sources

    @classmethod
    def of(cls, existing: Iterable[tuple[str, str | None]]) -> MadeProcedures:
        """Return all existing ones by their names and sources."""
        sources: dict[str, list[str | None]] = defaultdict(list)
        for name, source in existing:
            sources[name].append(source)
        return cls(sources)

    def is_opaque(self, article: Article) -> bool:
        """Return whether an article runs a procedure that a user wrote or edited."""
        return any(
            article.command(operation).procedure is not None
            or (is_generated(article, operation) and not self.has_single(article, operation))
            for operation in procedures.OPERATIONS
            if article.command(operation).call_format is not CallFormat.NONE
        )

    def has_arrays(self, article: Article, operation: Operation) -> bool:
        """Return whether an operation's calls may be sent as arrays: both its procedures are as generated.

        A subscriber prepared by an earlier version may lack the array procedure.
        """
        return (
            array_procedures.is_generated(article, operation)
            and self.has_single(article, operation)
            and self._is_one(array_procedures.name_of(article, operation), array_procedures.source(article, operation))
        )

    def has_single(self, article: Article, operation: Operation) -> bool:
        """Return whether an operation calls a procedure that is as generated."""
        return is_generated(article, operation) and self._is_one(
            article.generated_procedure(operation), procedures.source(article, operation)
        )

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

_TABLES = """
select place - 1, to_regclass(name)::oid::bigint from unnest(%s::text[]) with ordinality given (name, place)
where to_regclass(name) is not null
"""

_TYPES = f"""
select a.attrelid::bigint, a.attname::text, {COLUMN_TYPE_TEXT} from pg_attribute a
where a.attrelid in (select to_regclass(name)::oid from unnest(%s::text[]) name)
    and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
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

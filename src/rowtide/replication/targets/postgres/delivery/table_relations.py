"""A subscriber's tables and generated procedures, read from its catalogue when an agent starts.

They decide which articles' calls can influence each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.procedures import is_generated
from rowtide.replication.targets.postgres.schema.own_cascades import ask_cascades, find_cascades
from rowtide.replication.targets.postgres.writing_rights import USERS_FUNCTIONS_PATH, WrittenTables


@frozen
class TableRelations:
    """Relations between a subscriber's tables, from its catalogue; tables are identified by oid.

    `tables` are those of articles, by article id; `references` the pairs of tables joined by foreign keys. `entangled`
    tables have users' triggers, rules, row security or functions, or share their rows with other tables.
    """

    tables: Mapping[str, int]
    references: Iterable[tuple[int, int]]
    entangled: Set[int]


@frozen
class Grouping:
    """Which reordering and batching of articles' calls is safe.

    `groups`: articles of different groups cannot influence each other. `plain`: articles whose rows can be changed many
    at a time, without any observable difference.
    """

    groups: Mapping[str, int]
    plain: Set[str]


def group_articles(relations: TableRelations, opaque: Set[str]) -> Grouping:
    """Group articles that can influence each other.

    `opaque` articles run users' code, which may do anything: with one of them, all articles form a single group. The
    same holds if an article's effects reach an entangled table.
    """
    roots = _Roots()
    for referencing, referenced in relations.references:
        roots.join(referencing, referenced)
    groups = {article: roots.find(table) for article, table in relations.tables.items()}
    reached = {roots.find(table) for table in relations.entangled}
    plain = {article for article, group in groups.items() if group not in reached}
    if opaque or len(plain) < len(groups):
        groups = dict.fromkeys(groups, 0)
    return Grouping(groups, plain)


class _Roots:
    """Connected components of tables, each identified by one of them (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, table: int) -> int:
        while (parent := self._parents.get(table, table)) != table:
            table = parent
        return table

    def join(self, one: int, other: int) -> None:
        self._parents[self.find(one)] = self.find(other)


@frozen
class SetPlan:
    """What may be sent many at a time, without any observable difference.

    `has_arrays`: operations by article id, as arrays; `copied`: articles by id, inserts by COPY; `groups`: which
    articles can influence each other, by article id. Empty if none qualifies.
    """

    has_arrays: Set[tuple[str, Operation]]
    copied: Set[str]
    groups: Mapping[str, int]

    @property
    def combinable(self) -> Set[str]:
        """Articles by id of which several updates of a row may be one: nothing sees the row between them."""
        return {article_id for article_id, operation in self.has_arrays if operation is Operation.UPDATE}


@frozen
class SubscriberTables:
    """What the catalogue says of articles: their procedures, their tables' relations, the types of columns that can be
    set by article id and column, and by article id the tables to which a delete may cascade.
    """

    made: MadeProcedures
    relations: TableRelations
    types: Mapping[str, Mapping[str, str]]
    cascades: Mapping[str, Set[str]]

    @classmethod
    def read(
        cls, connection: psycopg.Connection, articles: Sequence[Article], written: WrittenTables
    ) -> SubscriberTables:
        """Read it in this session's replication role, at once: the subscriber may be far away.

        Procedures that have another path than the role has now are made again.
        """
        found = cls._read(connection, articles, written)
        renewing = [statement for article in articles for statement in found.made.renewals(article)]
        if not renewing:
            return found
        with translated(), connection.transaction():
            for statement in renewing:
                connection.execute(sql.SQL(statement))
        return cls._read(connection, articles, written)

    @classmethod
    def _read(
        cls, connection: psycopg.Connection, articles: Sequence[Article], written: WrittenTables
    ) -> SubscriberTables:
        names = [quote_qualified(article.schema, article.table) for article in articles]
        with translated(), connection.pipeline():
            made = connection.execute(_PROCEDURES, (_SETTINGS, _SETTINGS, procedures.SCHEMA))
            found = connection.execute(_TABLES, (names,))
            references, entangled = connection.execute(_REFERENCES), connection.execute(_ENTANGLED)
            typed = connection.execute(_TYPES, (names,))
            cascading = ask_cascades(connection, articles)
        tables = {articles[place].article_id: table for place, table in found}
        types: dict[int, dict[str, str]] = defaultdict(dict)
        for table, column, type_text in typed:
            types[table][column] = type_text
        return cls(
            MadeProcedures.of(made, written),
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
            # COPY runs with the session's rights.
            and not made.is_others(article)
            # COPY reads a value as its column's type, where a call casts from the published one.
            and tables.types.get(article.article_id, {}).items() >= _published_types(article)
        },
        groups=grouping.groups,
    )


def find_edited(tables: SubscriberTables, articles: Sequence[Article]) -> Set[tuple[str, Operation]]:
    """Return the operations, by article id, whose procedures were generated and then edited. Pure."""
    return {
        (article.article_id, operation)
        for article in articles
        for operation in procedures.OPERATIONS
        if tables.made.is_edited(article, operation)
    }


def _published_types(article: Article) -> Set[tuple[str, str]]:
    return {(column.name, column.type_text) for column in article.columns}


@frozen
class _MadeProcedure:
    """A procedure at the subscriber; `source` None: it is in another language, or runs as somebody else.

    `has_path`: users' code in it runs under the path that the role has now. `is_own`: the role may replace it.
    """

    name: str
    source: str | None
    has_path: bool
    is_own: bool


class MadeProcedures:
    """The procedures in the subscriber's schema, compared with those that would be generated now."""

    def __init__(self, made: Mapping[str, Sequence[_MadeProcedure]], written: WrittenTables) -> None:
        self._made = made
        self._written = written

    @classmethod
    def of(cls, existing: Iterable[tuple[Any, ...]], written: WrittenTables) -> MadeProcedures:
        """Return all existing ones."""
        made: dict[str, list[_MadeProcedure]] = defaultdict(list)
        for row in existing:
            made[row[0]].append(_MadeProcedure(*row))
        return cls(made, written)

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

        For a table of another role there are none.
        """
        if not array_procedures.is_array_generated(article, operation) or not self.has_single(article, operation):
            return False
        if self._written.of(article).is_others:
            return True
        source = array_procedures.source(article, operation, self._written.of(article))
        return self._is_one(array_procedures.name_of(article, operation), source)

    def has_single(self, article: Article, operation: Operation) -> bool:
        """Return whether an operation calls a procedure that is as generated, or none for a table of another role."""
        return is_generated(article, operation) and not self.is_edited(article, operation)

    def is_edited(self, article: Article, operation: Operation) -> bool:
        """Return whether an operation calls a procedure that was generated and then edited."""
        if not is_generated(article, operation):
            return False
        name, table = article.generated_procedure(operation), self._written.of(article)
        source = procedures.source(article, operation, table)
        if not table.is_others:
            return not self._is_one(name, source)
        # It may exist since before the table had another owner; it is not called.
        return any(made.source != source for made in self._made.get(name, ()))

    def is_others(self, article: Article) -> bool:
        """Return whether an article's table is written with another role's rights."""
        return self._written.of(article).is_others

    def renewals(self, article: Article) -> Iterator[str]:
        """Yield the statements that make an article's generated procedures again that have another path.

        Those that are missing are made, too: the table may have had another owner before, who needs none.
        """
        table = self._written.of(article)
        for operation, kind in product(procedures.OPERATIONS, (procedures, array_procedures)):
            if table.is_others or not kind.is_generated(article, operation):
                continue
            source, name = kind.source(article, operation, table), kind.name_of(article, operation)
            match self._made.get(name, ()):
                case [made] if made.source == source and made.is_own:
                    if not self._is_one(name, source):
                        yield from kind.creations(article, operation, table)
                case [] | ():
                    yield from kind.creations(article, operation, table)
                case _:
                    pass

    def _is_one(self, name: str, source: str) -> bool:
        match self._made.get(name, ()):
            case [made]:
                return made.source == source and made.has_path
            case _:
                return False


_SETTINGS = ["standard_conforming_strings=on"]
# One that runs as somebody else or with settings of its own is not as it was made: it has no source here.
_PROCEDURES = f"""
select p.proname::text,
    case when l.lanname = 'plpgsql' and not p.prosecdef and (p.proconfig is null or p.proconfig[2:] = %s) then p.prosrc
    end,
    p.proconfig is not null and p.proconfig = array['search_path=' || {USERS_FUNCTIONS_PATH}] || %s,
    pg_has_role(p.proowner, 'usage')
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

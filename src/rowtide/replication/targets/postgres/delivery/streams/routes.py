"""Which calls depend on each other at a PostgreSQL subscriber, by its catalogue, and to which stream a call goes.

A call goes to its stream as soon as it is read, where its row alone decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import itemgetter

import psycopg

from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import ProcedureCall, indexes_of_keys
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.delivery.streams.division import (
    ArticleForeignKey,
    SubscriberRules,
    Unique,
)
from rowtide.replication.targets.postgres.delivery.table_relations import (
    SubscriberTables,
    group_articles,
)


def read_rules(connection: psycopg.Connection, known: SubscriberTables, articles: Sequence[Article]) -> SubscriberRules:
    """Read the rules for articles, in this session's replication role.

    Not divisible are articles that run users' code: custom or edited procedures, triggers, rules, row security; those
    with statements in place of procedures; and tables that these may reach through foreign keys.
    """
    made, relations = known.made, known.relations
    plain = group_articles(relations, frozenset()).plain
    divisible = {
        article.article_id
        for article in articles
        if article.article_id in plain and not made.is_opaque(article) and not _has_statements(article)
    }
    tables = {table: article_id for article_id, table in relations.tables.items()}
    uniques: dict[str, list[Unique]] = defaultdict(list)
    references: list[ArticleForeignKey] = []
    acting: set[str] = set()
    keys = {article.article_id: {column.name for column in article.key_columns} for article in articles}
    with translated(), connection.pipeline():
        found_uniques = connection.execute(_UNIQUES, (list(tables),))
        found_references = connection.execute(_REFERENCES, (list(tables),))
    for table, index, columns, nulls_collide in found_uniques:
        if columns is None or set(columns) != keys[tables[table]]:
            uniques[tables[table]].append(Unique(index, columns and tuple(columns), nulls_collide))
    for constraint, table, columns, other, key, is_acting in found_references:
        if table in tables:
            references.append(ArticleForeignKey(constraint, tables[table], tuple(columns), tables[other], tuple(key)))
        if is_acting:
            acting.add(tables[other])
    return SubscriberRules(divisible, acting, uniques, references)


def _has_statements(article: Article) -> bool:
    return any(article.command(operation).call_format is CallFormat.SQL for operation in procedures.OPERATIONS)


# An index of expressions, with a condition, or of an exclusion constraint: which values collide only the server knows.
_UNIQUES = """
select i.indrelid::bigint, i.indexrelid::bigint,
    case when i.indexprs is null and i.indpred is null and not i.indisexclusion then array(
        select a.attname::text from unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) with ordinality key (number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.number
        order by key.place) end,
    i.indnullsnotdistinct
from pg_index i
where (i.indisunique or i.indisexclusion) and i.indrelid = any(%s)
"""

_REFERENCES = """
select k.oid::bigint, k.conrelid::bigint, own.names, k.confrelid::bigint, other.names,
    k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')
from pg_constraint k, lateral (
    select array_agg(a.attname::text order by key.place) from unnest(k.conkey) with ordinality key (number, place)
    join pg_attribute a on a.attrelid = k.conrelid and a.attnum = key.number) own (names), lateral (
    select array_agg(a.attname::text order by key.place) from unnest(k.confkey) with ordinality key (number, place)
    join pg_attribute a on a.attrelid = k.confrelid and a.attnum = key.number) other (names)
where k.contype = 'f' and k.confrelid = any(%s) and current_setting('session_replication_role') <> 'replica'
"""


class Routes:
    """Finds calls' streams by the hashes of their keys."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._finders: dict[tuple[str, Operation], Callable[[Arguments], int | None]] = {}

    def find(self, call: ProcedureCall) -> int | None:
        """Return the number of a call's stream; None for an update of a key whose two rows have different ones."""
        known = (call.article.article_id, call.operation)
        finder = self._finders.get(known)
        if finder is None:
            finder = self._finders[known] = self._make_finder(call.article, call.operation)
        return finder(call.arguments)

    def assign(self, calls: Iterable[ProcedureCall]) -> Sequence[int] | None:
        """Return each call's stream; None if that of one is not found."""
        numbers: list[int] = []
        for call in calls:
            number = self.find(call)
            if number is None:
                return None
            numbers.append(number)
        return numbers

    def _make_finder(self, article: Article, operation: Operation) -> Callable[[Arguments], int | None]:
        streams = self._streams
        if not article.key_columns:
            # Rows without key are only inserted.
            numbers = count()
            return lambda _arguments: next(numbers) % streams
        indexes = indexes_of_keys(article, operation)
        if not indexes.old or not indexes.new:
            row = itemgetter(*(indexes.old or indexes.new))
            return lambda arguments: hash(row(arguments)) % streams
        old, new = itemgetter(*indexes.old), itemgetter(*indexes.new)
        is_single = len(indexes.old) == 1

        def find(arguments: Arguments) -> int | None:
            before, after = old(arguments), new(arguments)
            found = hash(before) % streams
            if after == before or after is None:
                return found
            if not is_single:
                # None stands for a value that did not change.
                after = tuple(was if now is None else now for was, now in zip(before, after, strict=True))
            return found if hash(after) % streams == found else None

        return find

"""Tables of a PostgreSQL node that a program made or rebuilt, and partitions that it attached; see `RebuiltTables`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal, statement
from rowtide.databases.postgres.rowguid import NEW_ROWGUID, identifies_rows, is_uuid
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.publishing import ArticleTableNotFound, RowguidUnfit
from rowtide.merge.nodes.postgres.default_schema import here
from rowtide.merge.nodes.postgres.metadata.row_metadata import sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.tables.triggers import removal_statements
from rowtide.merge.nodes.untyped_values import server_type
from rowtide.merge.versions.apply import Logged, changed_columns
from rowtide.merge.versions.changes import Row

_BATCH_ROWS = 2000
_MODIFIER = re.compile(r"\([^)]*\)")
_ALIKE = ({TypeKind.WHOLE_NUMBER}, {TypeKind.TEXT})
"""Types each of which keeps the values of the others that are in its range."""
_STATES = {"O": "", "A": "always ", "R": "replica "}


class PostgresRebuiltTables:
    """See `RebuiltTables`."""

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self.places = node.places
        self._connection = node.connection
        self._session = node.session
        self._executions = node.executions

    @here
    def find_misfits(self, article: Article) -> Sequence[str]:
        table = self._find(article)
        columns = {column.name: column for column in table.columns}
        found = [f"column {column.name} is missing" for column in article.columns if column.name not in columns]
        named = [column.name for column in article.columns] + [ROWGUID]
        lacking = self._connection.execute(text(_LACKING), {"table": table.source_id, "named": named}).scalars()
        found += [
            f"column {name}, which the publisher does not have, is not null and has no default" for name in lacking
        ]
        key = [column.name for column in article.key_columns]
        if [column.name for column in table.key_columns] != key:
            found.append(f"the primary key is not ({', '.join(key)})")
        for published in article.columns:
            column = columns.get(published.name)
            if column is not None and not _are_alike(column.value_type_text, server_type(published)):
                found.append(f"column {column.name} is {column.type_text}, not {published.type_text}")
        return found

    @contextmanager
    @here
    def rewriting(self, article: Article) -> Iterator[None]:
        table = table_of(article)
        self._run("set constraints all immediate", *removal_statements(article))
        listed = self._connection.execute(text(_TRIGGERS), {"table": table}).all()
        for name, _ in listed:
            self._run_on(article, f"alter table {table} disable trigger {quote(name)}")
        self._make_rowguid(article)
        yield
        self._run("set constraints all immediate")
        for name, state in listed:
            self._run_on(article, f"alter table {table} enable {_STATES[state]}trigger {quote(name)}")

    def _make_rowguid(self, article: Article) -> None:
        table, found = table_of(article), self._find(article)
        column = next((each for each in found.columns if each.name == ROWGUID), None)
        if column is None:
            self._run_on(article, f"alter table {table} add column {ROWGUID} uuid")
        elif not is_uuid(column):
            try:
                self._run_on(
                    article,
                    f"alter table {table} alter column {ROWGUID} drop default",
                    f"alter table {table} alter column {ROWGUID} type uuid "
                    f"using {ROWGUID}::pg_catalog.text::pg_catalog.uuid",
                )
            except DBAPIError as error:
                raise RowguidUnfit(found.qualified_name, f"of type {column.type_text} where a UUID belongs") from error
        elif identifies_rows(found):
            return
        repeated = (
            f"select ctid from (select ctid, pg_catalog.row_number() over (partition by {ROWGUID}) as place "
            f"from {table}) t where place operator(pg_catalog.>) 1"
        )
        kind = "" if found.kind is TableKind.PARTITIONED else "unique "
        self._run_on(
            article,
            f"alter table {table} alter column {ROWGUID} set default {NEW_ROWGUID}",
            f"update {table} set {ROWGUID} = {NEW_ROWGUID} "
            f"where {ROWGUID} is null or ctid {EQUALS} any (array({repeated}))",
            f"alter table {table} alter column {ROWGUID} set not null",
            f"create {kind}index on {table} ({ROWGUID})",
        )

    @here
    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
        cursor = f"rowtide_rows_{article.nickname}"
        self._session.put(f"declare {cursor} no scroll cursor for select {names} from {table_of(article)}")
        while batch := self._session.read((f"fetch {_BATCH_ROWS} from {cursor}", None), texts=True)[0]:
            yield [(row[0], sent(article, row[1:])) for row in batch]
        self._session.put(f"close {cursor}")

    @here
    def set_rowguids(self, article: Article, rowguids: Mapping[str, str]) -> None:
        earlier, later = (
            f"{quote_literal(uuid_array(list(each)))}::pg_catalog.uuid[]" for each in (rowguids, rowguids.values())
        )
        statement = (
            f"update {table_of(article)} t set {ROWGUID} = n.later "
            f"from rows from (pg_catalog.unnest({earlier}), pg_catalog.unnest({later})) n (earlier, later) "
            f"where t.{ROWGUID} {EQUALS} n.earlier"
        )
        self._session.put(self._executions.of(article).alone(statement))

    @here
    def log(
        self, article: Article, kind: Logged, rowguids: Collection[str], columns: frozenset[int] | None = None
    ) -> None:
        changed = changed_columns(article, kind, columns)
        bits = "null" if changed is None else f"array[{', '.join(str(each) for each in changed)}]"
        self._session.put(
            f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
            f"select {article.nickname}, n.rowguid, {kind.value}, (select {BSN}), {bits} "
            "from unnest(%s::uuid[]) n (rowguid)",
            [uuid_array(list(rowguids))],
        )
        self._node.forget_log()

    def is_logged(self) -> bool:
        return bool(self._session.read((f"select 1 from {LOG} limit 1", None))[0])

    def _find(self, article: Article) -> SourceTable:
        try:
            return find_table(self._connection, f"{article.schema or article.place}.{article.table}")
        except TableNotFound as error:
            raise ArticleTableNotFound(article.qualified_name) from error

    def _run_on(self, article: Article, *statements: str) -> None:
        execution = self._executions.of(article)
        for each in statements:
            self._run(*execution.statements(each))

    def _run(self, *statements: str) -> None:
        for each in statements:
            self._connection.execute(statement(each))


def _are_alike(here: str, published: str) -> bool:
    names = {_MODIFIER.sub("", here), _MODIFIER.sub("", published)}
    return len(names) == 1 or {kind_of(here), kind_of(published)} in _ALIKE


_TRIGGERS = """
select tgname::text, tgenabled::text from pg_trigger
where tgrelid = to_regclass(:table) and not tgisinternal and tgenabled <> 'D' and tgparentid = 0
"""
_LACKING = """
select attname::text from pg_attribute
where attrelid = :table and attnum > 0 and not attisdropped and attnotnull and not atthasdef and attidentity = ''
and attgenerated = '' and attname <> all(:named)
"""

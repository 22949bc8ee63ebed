"""Rows that foreign keys' actions would change in a PostgreSQL database, with deleted ones or with changed keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set

from rowtide.core.values import frozen
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.owner_functions import read_by
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.default_schema import here
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.key_moves import Referrer, read_referrers, referrers_of
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of, uuid_array
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import REQUESTS, table_requests
from rowtide.merge.nodes.rows import Reach

_BUILT_IN = "operator(pg_catalog."


class PostgresActions:
    """See `ForeignKeyActions`."""

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self._session = node.session
        self.places = node.places

    @here
    def find_acting(self, articles: Sequence[Article]) -> Set[int]:
        unread = [article for article in articles if article not in self._node.stored]
        answers = self._session.read(*(each for article in unread for each in table_requests(article)), texts=True)
        for index, article in enumerate(unread):
            self._node.stored.take(article, *answers[REQUESTS * index : REQUESTS * (index + 1)])
        acting = (
            article for article in articles if any(each.has_action for each in self._node.stored.of(article).referrers)
        )
        return {article.nickname for article in acting}

    def find_clearing(self, article: Article) -> Set[str]:
        self.find_acting([article])
        return {
            name
            for each in self._node.stored.of(article).referrers
            if each.is_clearing
            for name in each.columns.values()
        }

    @here
    def find_reach(
        self,
        article: Article,
        rowguids: Sequence[str],
        merged: Mapping[int, Article],
        *,
        is_update: bool = False,
    ) -> Reach:
        execution = self._node.executions.of(article)
        found = Reach()
        first = _LinkedTable(table_of(article), article.nickname)
        left = {first: set(rowguids)}
        seen = {first: set(rowguids)}
        acting: dict[_LinkedTable, list[tuple[Referrer, _LinkedTable]]] = {}
        while left:
            parent, rows = left.popitem()
            if parent not in acting:
                (listed,) = self._session.read(referrers_of(parent.name), texts=True)
                acting[parent] = [
                    (each, _child(self._session, each, merged))
                    for each in read_referrers(listed)
                    if (each.is_clearing if is_update else each.has_action)
                ]
            for each, child in acting[parent]:
                query = _referencing(parent, child, each, rows, execution)
                may_read = isinstance(child.key, int) or bool(child.columns)
                for above, below, *values in self._session.read((query, None), texts=True)[0] if may_read else ():
                    found.below.setdefault((parent.key, above), set()).add((child.key, below))
                    if isinstance(child.key, str):
                        found.others[child.key, below] = dict(zip(child.columns, values, strict=False))
                    known = seen.setdefault(child, set())
                    if each.is_deleting and not is_update and below not in known:
                        known.add(below)
                        left.setdefault(child, set()).add(below)
        return found


@frozen
class _LinkedTable:
    """A table of a foreign key; `columns` are those that may be read of one that is no article."""

    name: str
    key: int | str
    columns: tuple[str, ...] = ()

    def of_row(self, alias: str) -> str:
        """Return the expression of what identifies a row, within a transaction."""
        return f"{alias}.{ROWGUID}" if isinstance(self.key, int) else f"concat({alias}.tableoid, ':', {alias}.ctid)"

    def are_of(self, rows: set[str]) -> str:
        """Return the condition of some rows, of alias `t`."""
        if isinstance(self.key, int):
            return f"t.{ROWGUID} {EQUALS} any ({quote_literal(uuid_array(sorted(rows)))}::pg_catalog.uuid[])"
        listed = ", ".join(quote_literal(each) for each in rows)
        places = ", ".join(f"{quote_literal(each.partition(':')[2])}::pg_catalog.tid" for each in rows)
        return f"t.ctid = any (array[{places}]) and {self.of_row('t')} in ({listed})"


def _child(session: BatchingConnection, referrer: Referrer, merged: Mapping[int, Article]) -> _LinkedTable:
    if referrer.nickname is not None and referrer.nickname in merged:
        return _LinkedTable(referrer.table, referrer.nickname)
    if not referrer.is_alike:
        # Its owner may have functions that the planner would call with the rights of the session.
        return _LinkedTable(referrer.table, referrer.table)
    ((columns,),) = session.read((_COLUMNS, [referrer.table] * 3), texts=True)[0]
    return _LinkedTable(referrer.table, referrer.table, tuple(json.loads(columns or "[]")))


def _referencing(
    parent: _LinkedTable, child: _LinkedTable, referrer: Referrer, rows: set[str], execution: Execution
) -> str:
    """Return the query of rows, those that reference them by one foreign key, and the values of these if that is no
    article.
    """
    values = {f"v{index}": f"c.{quote(name)}" for index, name in enumerate(child.columns)}
    listed = {
        "above": f"{parent.of_row('t')}::pg_catalog.text",
        "below": f"{child.of_row('c')}::pg_catalog.text",
        # `concat` calls a type's output function.
        **{name: f"case when num_nulls({value}) = 0 then concat({value}) end" for name, value in values.items()},
    }
    query = (
        f"select {', '.join(listed.values())} from {parent.name} t "
        f"join {child.name} c on {referrer.matches('t', 'c')} where {parent.are_of(rows)}"
    )
    is_harmless = isinstance(child.key, int) and all(each.startswith(_BUILT_IN) for each in referrer.operators.values())
    # Other operators, and what the planner calls, are code of the tables' owners.
    reader = None if is_harmless or execution.owner is None else execution.owner.reading
    return read_by(reader, query, [(name, "text") for name in listed])


_COLUMNS = """
select json_agg(attname order by attnum)::text from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped
  and has_table_privilege(%s, 'select') and not row_security_active(%s)
"""
"""The query of the columns of a table; null if its rows may not be read."""

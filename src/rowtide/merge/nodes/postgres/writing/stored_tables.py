"""An article's table as the server has it, for writing: the columns' types, their sequences, and foreign keys to it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from rowtide.databases.postgres.operators import EQUALS, operators_query
from rowtide.merge.articles import Article
from rowtide.merge.nodes.postgres.key_moves import Referrer, read_referrers, referrers_request
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.sequences import sequences_request


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the server has it: `base_type` is its type without a length, `full_type` with it.

    `is_given`: an update may not set it.

    `is_cast`: a text becomes the type by a function of its own, which does not take all that the type's input takes.

    `equal` is the operator of its unique index, or else its type's own.
    """

    name: str
    base_type: str
    full_type: str
    is_given: bool
    is_cast: bool
    equal: str = EQUALS

    def parse(self, value: str) -> str:
        """Return the expression that parses a text as the type's input does."""
        return f"((array[{value}])::text::{self.base_type}[])[1]" if self.is_cast else f"{value}::{self.base_type}"


@dataclass(frozen=True, slots=True)
class StoredTable:
    """An article's columns, in its order, the sequences that belong to them, by column, and the foreign keys to it."""

    columns: Sequence[StoredColumn]
    sequences: dict[str, str]
    referrers: Sequence[Referrer]

    @property
    def referenced(self) -> Set[str]:
        """The columns that foreign keys reference."""
        return {name for each in self.referrers for name in each.columns.values()}


Answer = Sequence[tuple[Any, ...]]
REQUESTS = 3
"""The number of `table_requests`."""


def table_requests(article: Article) -> tuple[tuple[str, Sequence[object]], ...]:
    """Return the queries of what is to be known of an article's table; `read_table` reads their rows."""
    return _columns_request(article), sequences_request(article), referrers_request(article)


def _columns_request(article: Article) -> tuple[str, Sequence[object]]:
    listed = (
        "select attname::text, format_type(atttypid, -1), format_type(atttypid, atttypmod), attidentity = 'a', "
        "exists (select from pg_cast "
        "where castsource = 'text'::regtype and casttarget = atttypid and castmethod = 'f'), "
        f"coalesce(operators[3], {_OF_TYPE}) "
        f"from pg_attribute left join ({operators_query('%s')}) o on o.column_name = attname "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    )
    return listed, [table_of(article)] * 2


_OF_TYPE = """(
    select concat('operator(', quote_ident(n.nspname), '.', o.oprname, ')') from pg_opclass d
    join pg_am method on method.oid = d.opcmethod and method.amname = 'btree'
    join pg_amop m on m.amopfamily = d.opcfamily and m.amopstrategy = 3 and m.amoplefttype = d.opcintype
      and m.amoprighttype = d.opcintype
    join pg_operator o on o.oid = m.amopopr join pg_namespace n on n.oid = o.oprnamespace
    where d.opcdefault and d.opcintype = atttypid)"""


def read_table(article: Article, columns: Answer, *others: Answer, merged: Sequence[Article] = ()) -> StoredTable:
    """Return an article's table from the rows of `table_requests`, as texts; `merged` are the articles of this node.

    The columns suffice for filling them.
    """
    found = {
        name: StoredColumn(name, base, full, is_given == "t", is_cast == "t", equal or EQUALS)
        for name, base, full, is_given, is_cast, equal in columns
    }
    sequences, referrers = others or ((), ())
    listed = [found[column.name] for column in article.columns]
    return StoredTable(listed, dict(sequences), read_referrers(referrers, merged))


class StoredTables:
    """The articles' tables that a session has read; `merged` are the articles of this node."""

    def __init__(self) -> None:
        self.merged: tuple[Article, ...] = ()
        self._tables: dict[int, StoredTable] = {}

    def __contains__(self, article: Article) -> bool:
        return article.nickname in self._tables

    def of(self, article: Article) -> StoredTable:
        """Return an article's table, which was read."""
        return self._tables[article.nickname]

    def take(self, article: Article, *answers: Answer) -> StoredTable:
        """Read an article's table from the rows of `table_requests`, as texts."""
        self._tables[article.nickname] = read_table(article, *answers, merged=self.merged)
        return self._tables[article.nickname]

    def forget(self) -> None:
        """Let all tables be read again."""
        self._tables.clear()

"""What creating a published table at a subscriber needs besides its article: collations and constraints."""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_TYPE_TEXT
from rowtide.replication.articles.articles import Article, GeneratedColumn
from rowtide.replication.snapshot.objects import Need, read_table_needs


@frozen
class UniqueConstraint:
    """A unique constraint; `definition` is the SQL after its name. `is_deferrable` ones are checked late."""

    name: str
    columns: tuple[str, ...]
    definition: str
    is_deferrable: bool


@frozen
class ForeignKey:
    """A foreign key with the table that it references."""

    name: str
    columns: tuple[str, ...]
    referenced_id: int
    referenced_columns: tuple[str, ...]


@frozen
class TableDetails:
    """What creating a published table needs besides the article; `collations` are those that differ from the type's.

    `needs` must be there first.
    """

    collations: dict[str, str]
    generated: tuple[GeneratedColumn, ...]
    unique: tuple[UniqueConstraint, ...]
    foreign_keys: tuple[ForeignKey, ...]
    needs: tuple[Need, ...] = ()


def read_table_details(connection: Connection, article: Article) -> TableDetails:
    """Return collations, generated columns and constraints of an article's table."""
    table = {"table": article.source_id}
    return TableDetails(
        collations={row.name: row.collation for row in connection.execute(text(_COLLATIONS), table)},
        generated=tuple(GeneratedColumn(*row) for row in connection.execute(text(_GENERATED), table)),
        unique=tuple(
            UniqueConstraint(name, tuple(columns), definition, is_deferrable)
            for name, columns, definition, is_deferrable in connection.execute(text(_UNIQUE), table)
        ),
        foreign_keys=tuple(
            ForeignKey(name, tuple(columns), referenced, tuple(referenced_columns))
            for name, columns, referenced, referenced_columns in connection.execute(text(_FOREIGN_KEYS), table)
        ),
        needs=read_table_needs(connection, article),
    )


_COLLATIONS = """
select a.attname::text as name, quote_ident(n.nspname) || '.' || quote_ident(l.collname) as collation
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join pg_collation l on l.oid = a.attcollation
join pg_namespace n on n.oid = l.collnamespace
where a.attrelid = :table and a.attnum > 0 and not a.attisdropped and a.attcollation <> t.typcollation
"""

_GENERATED = f"""
select a.attnum::int, a.attname::text, {COLUMN_TYPE_TEXT}, pg_get_expr(d.adbin, d.adrelid)
from pg_attribute a
join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = :table and a.attgenerated = 's' and not a.attisdropped
order by a.attnum
"""


def _columns(of: str, numbers: str) -> str:
    """Return, as an SQL expression, the names of a table's columns with these numbers, in order."""
    return f"""
    array(select a.attname::text from unnest({numbers}) with ordinality k (attnum, place)
          join pg_attribute a on a.attrelid = {of} and a.attnum = k.attnum order by place)
    """


_UNIQUE = f"""
select c.conname::text, {_columns("c.conrelid", "c.conkey")}, pg_get_constraintdef(c.oid), c.condeferrable
from pg_constraint c where c.conrelid = :table and c.contype = 'u' order by c.conname
"""

_FOREIGN_KEYS = f"""
select c.conname::text, {_columns("c.conrelid", "c.conkey")},
       c.confrelid::bigint, {_columns("c.confrelid", "c.confkey")}
from pg_constraint c where c.conrelid = :table and c.contype = 'f' and c.conparentid = 0 and c.convalidated
order by c.conname
"""

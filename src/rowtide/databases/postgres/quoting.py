"""PostgreSQL's SQL as text: names, literals, an index's operators, and statements that psycopg runs alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rowtide.core.values import frozen

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import TextClause


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("'", "''") + "'"


def quote_escaped(value: str) -> str:
    """Quote a string literal so that it is the same whether or not a session's strings conform to the standard."""
    return "e" + quote_literal(value).replace("\\", "\\\\")


def quote_body(body: str) -> str:
    """Dollar-quote a function's body with a tag that it does not contain."""
    tag = "body"
    while f"${tag}$" in f"{body}$":
        tag += "_"
    return f"${tag}${body}${tag}$"


def quote_qualified(schema: str, name: str) -> str:
    """Quote a name with its schema."""
    return f"{quote(schema)}.{quote(name)}"


def share_ownership(table: str, owner: str, role: str, *, is_superusers: bool) -> str:
    """Return the statement that gives a role the rights of a table's owner, as a member of it.

    If that is a superuser, the table gets another owner: a member could do all that a superuser can.
    """
    return f"alter table {table} owner to {quote(role)}" if is_superusers else f"grant {quote(owner)} to {quote(role)}"


def statement(sql: str) -> TextClause:
    """Return a statement without parameters; a colon in a quoted name is not a parameter."""
    from sqlalchemy import text

    return text(sql.replace(":", "\\:"))


Run: TypeAlias = Callable[..., Sequence[Any]]
"""Runs a statement with parameters `:name`, given by name; returns rows with their columns as attributes."""

_PARAMETER = re.compile(r"(?<!:):(\w+)")

HAS_TABLE = """
select exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = :schema and c.relname = :name and c.relkind in ('r', 'p', 'f', 'v', 'm')) as is_there
"""


def running(connection: psycopg.Connection) -> Run:
    """Return a function that runs statements on a connection."""
    from psycopg.rows import namedtuple_row

    def run(sql: str, **parameters: object) -> Sequence[Any]:
        statement = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
        return connection.cursor(row_factory=namedtuple_row).execute(statement.encode(), parameters).fetchall()

    return run


def has_table(run: Run, schema: str, name: str) -> bool:
    """Return whether a table or view of exactly this name exists."""
    return bool(run(HAS_TABLE, schema=schema, name=name)[0].is_there)


def is_begun(run: Run, schema: str, name: str, *, made_with: str) -> bool:
    """Return whether a table of rowtide's exists, or one that was created with it.

    If the first was dropped since, querying it fails with the reason; otherwise it would seem that nothing was ever
    created.
    """
    return has_table(run, schema, name) or has_table(run, schema, made_with)


# The operators of an index, named by schema: a statement means the same under every search_path, and uses the index.
# A type's operators may be in any schema (citext, ltree and hstore are in `public` as a rule). Under rowtide's path a
# plain `=` would find none of them, or another one by an implicit cast; under a user's path, whichever is the
# closest. `is distinct from`, `in`, `nullif` and rows compared as a whole look `=` up by the path, too, and take no
# name of it.

EQUALS = "operator(pg_catalog.=)"
"""Equality of the server's own types."""


@frozen
class ColumnOperators:
    """How a B-tree index compares a column, in SQL: `operator(schema.name)`. Both operands have the column's type."""

    less: str
    less_or_equal: str
    equal: str
    greater_or_equal: str
    greater: str


def read_operators(run: Run, table: str) -> Mapping[str, ColumnOperators]:
    """Return the operators of the columns of a table's unique indexes, by name; the primary key's where there are two.

    `table` is a quoted name with its schema; a table that does not exist has none.
    """
    rows = run(operators_query(":name"), name=table)
    return {row.column_name: ColumnOperators(*row.operators) for row in rows}


def operators_query(name: str) -> str:
    """Return the query of `read_operators`; `name` is the expression of the table's quoted name."""
    return _OPERATORS.replace("{name}", name)


_OPERATORS = """
select distinct on (a.attname) a.attname::text as column_name, array(
    select concat('operator(', quote_ident(n.nspname), '.', o.oprname, ')')
    from pg_amop m join pg_operator o on o.oid = m.amopopr join pg_namespace n on n.oid = o.oprnamespace
    where m.amopfamily = class.opcfamily and m.amoppurpose = 's'
      and m.amoplefttype = class.opcintype and m.amoprighttype = class.opcintype
    order by m.amopstrategy) as operators
from pg_index i
cross join generate_series(0, i.indnkeyatts - 1) place
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[place]
join pg_opclass class on class.oid = i.indclass[place]
join pg_am method on method.oid = class.opcmethod and method.amname = 'btree'
where i.indrelid = to_regclass({name}) and i.indisunique and i.indisvalid and a.attnum > 0
order by a.attname, i.indisprimary desc, i.indexrelid
"""

"""The operators of an index, named by schema: a statement means the same under every search_path, and uses the index.

A type's operators may be in any schema (citext, ltree and hstore are in `public` as a rule). Under rowtide's path a
plain `=` would find none of them, or another one by an implicit cast; under a user's path, whichever is the closest.
`is distinct from`, `in`, `nullif` and rows compared as a whole look `=` up by the path, too, and take no name of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.core.values import frozen
from rowtide.databases.postgres.text_queries import Run

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

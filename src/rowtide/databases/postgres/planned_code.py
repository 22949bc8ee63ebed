"""Functions of a table's owner that the planner runs, with the rights of the role that queries the table.

The planner simplifies the expressions of a table's indexes, checks, statistics and partition keys: it calls immutable
functions whose arguments are constants, and inlines SQL functions, whose bodies it simplifies too. So the owner's code
runs for a mere `select`. Functions that have a column as an argument run when rows are written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from rowtide.databases.postgres.quoting import Run

_FIRST_OF_USERS = 16384
"""The first oid of objects that users create (PostgreSQL: FirstNormalObjectId)."""
_TOKEN = re.compile(r"\\.|\{(\w+)|(\})|:(funcid|opfuncid|opno) (\d+)", re.DOTALL)
_VARIABLE = "VAR"


def find_planned(run: Run, tables: Collection[str]) -> Mapping[str, Sequence[str]]:
    """Return the functions of roles that are not trusted which queries of tables, quoted names, would run, by table."""
    called: dict[int, dict[str, bool]] = {}
    for row in run(_EXPRESSIONS, names=list(tables)) if tables else ():
        for oid, is_constant in read_calls(row.tree):
            of_tables = called.setdefault(oid, {})
            of_tables[row.name] = of_tables.get(row.name, False) or is_constant
    found: dict[str, set[str]] = {}
    for row in run(_FUNCTIONS, oids=list(called)) if called else ():
        for table, is_constant in called[row.called].items():
            if row.is_sql or is_constant:
                found.setdefault(table, set()).add(row.name)
    return {table: sorted(names) for table, names in found.items()}


def planned_state(names: str) -> str:
    """Return the query of tables' states: what `find_planned` depends on, and that they are the same tables.

    `names` is the expression of an array of their quoted names. `is_written`: the session's role may lock them as
    statements do that write. `state` is null where a name is no table's. Of expressions only those count that call
    functions or operators of users.
    """
    return _STATES.replace("{names}", names)


def read_calls(tree: str) -> Iterator[tuple[int, bool]]:
    """Yield the functions and operators of users in an expression as the catalogue has it, by oid.

    With each: whether it is called without any column.
    """
    nodes: list[tuple[list[int], list[bool]]] = []
    for match in _TOKEN.finditer(tree):
        opened, closed, _, oid = match.groups()
        if opened is not None:
            nodes.append(([], [opened == _VARIABLE]))
        elif closed is not None and nodes:
            called, has_column = nodes.pop()
            yield from ((each, not any(has_column)) for each in called)
            if nodes:
                nodes[-1][1].append(any(has_column))
        elif oid is not None and nodes and int(oid) >= _FIRST_OF_USERS:
            nodes[-1][0].append(int(oid))


def effects_condition(tree: str) -> str:
    """Return the SQL condition that an expression calls a function of the server's that may do more than compute.

    `query_to_xml` and `ts_stat` execute statements, others set or read what their caller may: in a check or a default
    that rowtide creates elsewhere, its author would have the rights of those who write rows there.
    `tree` is the expression as the catalogue has it, null where there is none.
    """
    return f"""
exists (select from regexp_matches({tree}::text, '[:](op)?funcid ([0-9]+)', 'g') called
        join pg_proc f on f.oid = called[2]::oid
        where f.provolatile = 'v' and f.pronamespace = 'pg_catalog'::regnamespace and f.proname not in ({_HARMLESS}))
"""


_HARMLESS = (
    "'clock_timestamp', 'currval', 'gen_random_uuid', 'lastval', 'nextval', 'random', 'random_normal', 'timeofday', "
    "'uuidv4', 'uuidv7'"
)
"""Volatile functions of the server's that applications use in defaults."""

_PARTS = """
part (name, oid) as (
    select given.name, to_regclass(given.name)::oid from unnest(cast({names} as text[])) given (name)
    union select p.name, i.inhrelid from part p join pg_inherits i on i.inhparent = p.oid)
"""
_TREES = """
select part.name, part.oid, tree from part, lateral (
    select concat_ws(' ', i.indexprs, i.indpred) from pg_index i where i.indrelid = part.oid
    union all select concat(c.conbin) from pg_constraint c where c.conrelid = part.oid and c.contype = 'c'
    union all select concat(s.stxexprs) from pg_statistic_ext s where s.stxrelid = part.oid
    union all select concat(k.partexprs) from pg_partitioned_table k where k.partrelid = part.oid) e (tree)
"""
_EXPRESSIONS = f"with recursive {_PARTS.replace('{names}', ':names')} {_TREES}"
_STATES = f"""
with recursive {_PARTS},
tree as ({_TREES}),
called as (
    select t.name, t.tree, call[2]::oid as oid
    from tree t cross join regexp_matches(t.tree, '[:](funcid|opfuncid|opno) ([0-9]+)', 'g') call
    where call[2]::bigint >= {_FIRST_OF_USERS}),
function as (
    select c.name, p.oid, p.xmin from called c join pg_proc p on p.oid = c.oid
    union select c.name, p.oid, p.xmin
    from called c join pg_operator o on o.oid = c.oid join pg_proc p on p.oid = o.oprcode)
select given.name, coalesce(has_table_privilege(k.oid, 'update'), false) as is_written, case when k.oid is not null
    then md5(concat_ws(' ', k.oid, k.relowner,
    (select string_agg(distinct c.tree, ' ' order by c.tree) from called c where c.name = given.name),
    (select string_agg(concat(f.oid, ' ', f.xmin), ' ' order by f.oid) from function f where f.name = given.name)
    )) end as state
from unnest(cast({{names}} as text[])) given (name)
left join pg_class k on k.oid = to_regclass(given.name) and k.relkind in ('r', 'p')
"""  # noqa: S608 - constants
_FUNCTIONS = """
select f.called, p.oid::regprocedure::text as name, l.lanname = 'sql' as is_sql
from (select oid as called, oid as function from pg_proc where oid = any(cast(:oids as oid[]))
      union all select oid, oprcode from pg_operator where oid = any(cast(:oids as oid[]))) f
join pg_proc p on p.oid = f.function
join pg_language l on l.oid = p.prolang
join pg_roles o on o.oid = p.proowner
where o.rolname <> current_user and not o.rolsuper
"""

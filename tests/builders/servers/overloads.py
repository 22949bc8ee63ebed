"""Overloads, in users' schemas, of all functions and operators that rowtide's statements name: none may be called.

A session whose search_path has a schema in which others may create prefers their functions to the server's where the
types of the arguments are closer, or where the path has `pg_catalog` last. Each overload here notes that a session of
rowtide's called it, and returns what the server's own returns; an aggregate notes every call.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

import rowtide
from rowtide.databases.postgres.quoting import quote

SCHEMA = "trap"
_SOURCES = Path(rowtide.__file__).parent
_CALLED = re.compile(r"\b([a-z_][a-z0-9_]*)\s*\(")
_CLOSER = {
    "text": ("name", "varchar", "oid", "text"),
    "int8": ("int4", "oid", "int2", "int8"),
    "int4": ("int2", "int4"),
    "numeric": ("int8", "int4", "numeric"),
    "float8": ("int8", "float8"),
    "oid": ("int8", "int4", "regclass", "oid"),
    "regclass": ("oid", "text", "regclass"),
    "name": ("name", "text"),
    "bool": ("bool",),
    "json": ("json",),
    "jsonb": ("jsonb",),
    "bytea": ("bytea",),
    "uuid": ("uuid",),
    "xid8": ("xid8",),
    "timestamptz": ("timestamptz",),
    "anyelement": ("text", "name", "int8", "int4", "oid", "uuid", "bool"),
    "anycompatible": ("text", "name", "int8", "int4", "oid"),
    "anynonarray": ("text", "name", "int8", "oid", "uuid"),
    "any": ("text", "name", "oid", "int8"),
    "anyarray": ("text[]", "name[]", "int8[]", "oid[]", "int2vector", "int2[]", "int4[]"),
    "anycompatiblearray": ("text[]", "name[]", "int8[]", "oid[]", "int2vector", "int2[]"),
    "anycompatiblenonarray": ("text", "name", "int8", "oid"),
    "anyenum": (),
}
"""Types of arguments, for each one that the server's functions declare, which a closer overload may have."""
_MOST_ARGUMENTS = 3
_OPERANDS = (
    "text", "name", "varchar", '"char"', "int2", "int4", "int8", "oid", "regclass", "bool", "uuid", "xid", "xid8",
    "numeric", "bytea", "timestamptz", "json", "jsonb", "text[]", "name[]", "int2[]", "oid[]", "int2vector", "pg_lsn",
)  # fmt: skip
_OPERATORS = (
    "=", "<>", "<", "<=", ">", ">=", "||", "+", "-", "*", "/", "%", "&", "~", "!~", "~~", "!~~", "->", "->>", "?", "@>",
    "<@", "&&", "^", "#>>",
)  # fmt: skip


def lay(session: psycopg.Connection[Any], schemas: Sequence[str]) -> int:
    """Create overloads in schemas of a database, which exist; return how many there are in each."""
    session.execute(_PREPARATION)
    candidates = [*_functions(session), *_operators()]
    session.cursor().executemany(f"insert into {SCHEMA}.candidates values (%s, %s, %s, %s, %s)", candidates)
    session.execute(f"update {SCHEMA}.candidates set result = {SCHEMA}.type_of(called, arguments)")
    for schema in schemas:
        session.execute(f"call {SCHEMA}.lay(%s)", [schema])
    row = session.execute(f"select count(*) from {SCHEMA}.candidates where result is not null").fetchone()
    assert row is not None
    return int(row[0])


def was_called(session: psycopg.Connection[Any]) -> bool:
    """Return whether a session of rowtide's called an overload; the server's log says which."""
    return session.execute(f"select is_called from {SCHEMA}.hits").fetchone() == (True,)


def _functions(session: psycopg.Connection[Any]) -> Iterator[tuple[str, list[str], str, str, bool]]:
    """Yield name, argument types, call and kind of overloads of what rowtide's sources call by name."""
    text = "\n".join(path.read_text() for path in sorted(_SOURCES.rglob("*.py")))
    seen: set[tuple[str, tuple[str, ...]]] = set()
    rows = session.execute(_DECLARED, [sorted(set(_CALLED.findall(text)))]).fetchall()
    for name, declared, is_variadic, kind, returns_set in rows:
        for types in _declared_forms(declared, is_variadic=is_variadic):
            for arguments in itertools.product(*(_CLOSER.get(one, (one,)) for one in types)):
                if (name, arguments) not in seen:
                    seen.add((name, arguments))
                    given = (
                        f"${place}" if one.startswith("any") else f"${place}::pg_catalog.{quote(one)}"
                        for place, one in enumerate(types, 1)
                    )
                    called = f"pg_catalog.{quote(name)}({', '.join(given)})"
                    yield name, list(arguments), called, kind, returns_set


def _declared_forms(declared: Sequence[str], *, is_variadic: bool) -> Iterator[Sequence[str]]:
    if not is_variadic:
        yield from [declared] if len(declared) <= _MOST_ARGUMENTS else []
        return
    *fixed, rest = declared
    for repeated in range(1, _MOST_ARGUMENTS + 1 - len(fixed)):
        yield [*fixed, *["any" if rest == "any" else rest.removeprefix("_")] * repeated]


def _operators() -> Iterator[tuple[str, list[str], str, str, bool]]:
    for symbol, left, right in itertools.product(_OPERATORS, _OPERANDS, _OPERANDS):
        yield symbol, [left, right], f"$1 operator(pg_catalog.{symbol}) $2", "o", False


_PREPARATION = f"""
create schema {SCHEMA};
create sequence {SCHEMA}.hits;
grant usage on schema {SCHEMA} to public;
grant all on sequence {SCHEMA}.hits to public;
create table {SCHEMA}.candidates (
    name text, arguments text[], called text, kind "char", returns_set boolean, result text);

create function {SCHEMA}.type_of(called text, arguments text[]) returns text language plpgsql as $body$
declare found text;
begin
    for place in reverse pg_catalog.cardinality(arguments)..1 loop
        called := pg_catalog.replace(called, '$' || place, '(null::' || arguments[place] || ')');
    end loop;
    execute 'select pg_catalog.format_type(pg_catalog.pg_typeof(x), null) from (select ' || called || ' as x limit 1) t'
    into found;
    if found is null then  -- a set without rows
        execute 'select pg_catalog.format_type(pg_catalog.pg_typeof((select ' || called || ' limit 1)), null)'
        into found;
    end if;
    return found;
exception when others then
    return null;  -- these types do not lead to the server's function
end $body$;

create procedure {SCHEMA}.lay(schema text) language plpgsql as $body$
declare
    one record;
    function text;
    noting constant text := 'if pg_catalog.starts_with(pg_catalog.current_setting(''application_name''), ''rowtide'') '
        'then perform pg_catalog.nextval(''{SCHEMA}.hits''); raise log ''trapped: %'', %L; end if;';
begin
    for one in select * from {SCHEMA}.candidates where result is not null loop
        function := case one.kind when 'o' then 'op_' || pg_catalog.encode(one.name::bytea, 'hex') else one.name end;
        begin
            if one.kind = 'a' then
                execute pg_catalog.format('create function %I.%I(text, %s) returns text language plpgsql as %L', schema,
                    'agg_' || one.name, pg_catalog.array_to_string(one.arguments, ', '),
                    'begin perform pg_catalog.nextval(''{SCHEMA}.hits''); raise log ''trapped: aggregate %'', '
                    || pg_catalog.quote_literal(one.name) || '; return null; end');
                execute pg_catalog.format('create aggregate %I.%I(%s) (sfunc = %I.%I, stype = text)', schema, one.name,
                    pg_catalog.array_to_string(one.arguments, ', '), schema, 'agg_' || one.name);
                continue;
            end if;
            execute pg_catalog.format('create function %I.%I(%s) returns %s language plpgsql as %L', schema, function,
                pg_catalog.array_to_string(one.arguments, ', '),
                case when one.returns_set then 'setof ' else '' end || one.result,
                pg_catalog.replace('begin ' || noting || ' return ', '%L', pg_catalog.quote_literal(
                    pg_catalog.format('%s.%s(%s)', schema, one.name, pg_catalog.array_to_string(one.arguments, ', '))))
                || case when one.returns_set then 'query select ' else '' end || one.called || '; end');
            if one.kind = 'o' then
                execute pg_catalog.format('create operator %I.%s (leftarg = %s, rightarg = %s, function = %I.%I)',
                    schema, one.name, one.arguments[1], one.arguments[2], schema, function);
            end if;
        exception when duplicate_function or undefined_object then
            null;
        end;
    end loop;
end $body$;
"""
_DECLARED = """
select p.proname::text,
       array(select t.typname::text from unnest(p.proargtypes) with ordinality a (id, place)
             join pg_type t on t.oid = a.id order by place),
       p.provariadic <> 0, p.prokind::text, p.proretset
from pg_proc p join pg_type r on r.oid = p.prorettype
where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind in ('f', 'a')
  and p.proname = any(%s) and p.pronargs > 0
  and not p.proargtypes::oid[] && array['internal'::regtype::oid, 'cstring'::regtype::oid]
  and r.typname not in ('internal', 'cstring', 'trigger', 'event_trigger', 'void', 'record')
order by p.oid
"""

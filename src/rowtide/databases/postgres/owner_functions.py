"""Functions that run statements with the rights of a table's owner, for tables of other roles.

A table's triggers, defaults, checks, rules, policies and index expressions are its owner's code, which a statement runs
with the rights of the executing role. `set role` does not protect the session: the code says `reset role`. A function
that belongs to the owner and is `security definer` does: within it the role cannot be changed.

The functions are in a schema that rowtide's role alone may use. An owner could otherwise make its function `security
invoker` again; each function compares the current role for that case.

A cursor `with hold` is read when its transaction commits, with the rights of the session, whichever role has declared
it, and any cursor when rows are fetched from it by name. The functions close those that an owner's code has declared.

An owner's code can change the settings of the session it runs in, for longer than its call. Therefore the statement
that calls such a function names everything by schema and has its values as parameters, and before the next statement of
rowtide's own the settings are pinned again (`session_settings.pin_again`).

Up to PostgreSQL 17 deferred triggers run at commit with the rights of the session, even those whose events come from
such a function. From 18 on, or if its function is `security definer`, one can declare a cursor `with hold` then, which
is read with the rights of the session. A transaction is therefore refused, before it commits, if the database has one
of another role (`deferred_check`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import OWNER_FUNCTIONS
from rowtide.databases.postgres.functions import OWN_PATH, PATH, USERS_PATH, own_schema
from rowtide.databases.postgres.quoting import Run, quote, quote_body, quote_escaped, quote_literal, quote_qualified

SCHEMA = "rowtide_owners"
DEFERRED = "RTD17"
"""The SQLSTATE of a transaction that is refused for a deferred trigger of another role."""


LOCKING = f"select pg_advisory_xact_lock({OWNER_FUNCTIONS})"
"""The statement before functions of owners are made: two sessions could alter the same object of the catalogue."""
SETTINGS = "set search_path from current set standard_conforming_strings = on"
"""The settings attached to a function in which users' code runs, created under `functions_path`."""


@frozen
class Owner:
    """The owner of a table, as a session's role sees it.

    `is_trusted`: its code gains nothing from the session's rights, as it is the same role or the owner is a superuser.
    `is_held`: the session's role may make functions of the owner's. `is_ready`: those of `creations` are there.
    `others` are the owners of the table's partitions and descendants who are neither it nor trusted.
    `replaceable` is the id of a trusted owner's table that another role, which owns its schema, could drop and make
    again: it is to be guarded (`guard_places`).
    """

    role_id: int
    name: str
    is_trusted: bool
    is_held: bool
    is_ready: bool = False
    others: Sequence[str] = ()
    replaceable: int | None = None

    @property
    def executing(self) -> str:
        """The quoted name of the function that executes a statement as this role; see `creations`."""
        return quote_qualified(SCHEMA, f"execute_{self.role_id}")

    @property
    def querying(self) -> str:
        """The quoted name of the function that returns the rows of a statement executed as this role."""
        return quote_qualified(SCHEMA, f"query_{self.role_id}")

    @property
    def reading(self) -> str:
        """The same for a statement that only reads, whose names are the server's: it has rowtide's path."""
        return quote_qualified(SCHEMA, f"read_{self.role_id}")


def read_owners(run: Run, tables: Sequence[str]) -> Mapping[str, Owner]:
    """Return the owners of tables by their quoted names; those that do not exist are omitted."""
    rows = run(owners_query("cast(:names as text[])"), names=list(tables))
    return {
        row.name: Owner(
            row.role_id, row.role, row.is_trusted, row.is_held, row.is_ready, tuple(row.others), row.replaceable
        )
        for row in rows
    }


def read_by(reader: str | None, query: str, columns: Sequence[tuple[str, str]], values: str = "") -> str:
    """Return a query that runs another one through the function of an owner; if the owner is None, the query itself.

    `columns` are the names and types of its result, `values` an array that it has as `$1`.
    """
    if reader is None:
        return query
    listed = ", ".join(f"{quote(name)} {type_text}" for name, type_text in columns)
    # The session's settings may be those that an owner's code has set.
    return f"select * from {reader}({quote_escaped(query)}{f', {values}' if values else ''}) as ({listed})"  # noqa: S608 - quoted


def owners_query(names: str) -> str:
    """Return the query of the owners of tables; `names` is the expression of an array of their quoted names."""
    return _OWNERS.replace("{names}", names)


def creations(owner: Owner) -> Sequence[str]:
    """Return the statements, for one transaction, that create the functions of an owner. Idempotent.

    The statement that they are given has its values as `($1)[1]`, `($1)[2]` and so on: elements of their second
    parameter.
    """
    executing, querying = sources(owner)
    return [
        LOCKING,
        *schema_creation(),
        *made_as(
            owner,
            f"function {owner.executing}{_PARAMETERS}",
            f"returns bigint {_PLPGSQL} as {quote_body(executing)}",
            parameters=_WITH_DEFAULT,
        ),
        *made_as(
            owner,
            f"function {owner.querying}{_PARAMETERS}",
            f"returns setof record {_PLPGSQL} as {quote_body(querying)}",
            parameters=_WITH_DEFAULT,
        ),
        *made_as(
            owner,
            f"function {owner.reading}{_PARAMETERS}",
            f"returns setof record {_READING} as {quote_body(querying)}",
            parameters=_WITH_DEFAULT,
        ),
    ]


def own_creations(role: Owner, schema: str) -> Sequence[str]:
    """Return the statements, for one transaction, that create the same functions of the session's role in a schema.

    They keep the session's rights, and run what they are given under the role's own path. Idempotent.
    """
    executing, querying = sources(role)
    made = [
        (quote_qualified(schema, f"execute_{role.role_id}"), "bigint", executing),
        (quote_qualified(schema, f"query_{role.role_id}"), "setof record", querying),
    ]
    return [
        *functions_path(),
        *(
            f"create or replace function {name}({_WITH_DEFAULT}) returns {result} language plpgsql {SETTINGS} "
            f"as {quote_body(body)}"
            for name, result, body in made
        ),
        *(f"revoke all on function {name}{_PARAMETERS} from public" for name, _, _ in made),
        OWN_PATH,
    ]


def sources(owner: Owner) -> tuple[str, str]:
    """Return the bodies of the functions that execute and query, as the server stores them."""
    checked = guard(owner)
    executing = (
        f"changed bigint; begin {checked} "
        # Without values it may be several statements.
        "if $2 is null then execute $1; else execute $1 using $2; end if; "
        f"get diagnostics changed = row_count; {_CLOSING} return changed; end"
    )
    return (
        f"declare {_OPENED}; {executing}",
        f"declare {_OPENED}; begin {checked} return query execute $1 using $2; {_CLOSING} end",
    )


def schema_creation() -> Sequence[str]:
    """Return the statements that create the schema of the owners' functions."""
    return [*own_schema(SCHEMA), f"revoke all on schema {SCHEMA} from public"]


def made_as(owner: Owner, signature: str, rest: str, *, parameters: str | None = None) -> Sequence[str]:
    """Return the statements, for one transaction, that create a function or procedure and give it to an owner.

    `signature` is as in `alter`, with the types of the parameters; `parameters` what `create` has in place of them. The
    right to create, which an owner needs to be given a function, is taken away before the transaction commits.
    """
    kind_and_name = signature[: signature.rindex("(")] if parameters is not None else signature
    created = f"{kind_and_name}({parameters})" if parameters is not None else signature
    role = quote(owner.name)
    return [
        # `alter function … owner to` requires that the new owner may create in the schema.
        f"grant create, usage on schema {SCHEMA} to {role}",
        *functions_path(),
        f"create or replace {created} {rest}",
        f"alter {signature} owner to {role}",
        # Everybody may execute a new function. This one has an owner's rights, so it is created and closed in one
        # transaction.
        f"revoke all on {signature} from public",
        f"grant execute on {signature} to {_ROLE}",
        f"revoke create, usage on schema {SCHEMA} from {role}",
        OWN_PATH,
    ]


def functions_path() -> Sequence[str]:
    """Return the statements that set the path of functions in which users' code runs, up to `OWN_PATH`.

    It is the role's own with temporary tables last. What is created under it names each type with its schema.
    """
    return [USERS_PATH, _TEMPORARY_LAST]


def guard(owner: Owner) -> str:
    """Return the PL/pgSQL statement that refuses to continue as another role than the owner."""
    message = f"the function no longer runs as {owner.name}"
    return (
        f"if current_user operator(pg_catalog.<>) {quote_literal(owner.name)}::pg_catalog.name "
        f"then raise exception using message = {quote_literal(message)}; end if;"
    )


def guard_places(
    tables: Iterable[tuple[str, int]], mode: str = "row exclusive", errcode: str = "40001"
) -> Sequence[str]:
    """Return the statements with which a transaction begins that writes tables, given by quoted names and ids.

    It fails, by default as by a conflict with another session, if another one is in the place of a table: the owner of
    the schema could have dropped it, also while its lock was waited for, and what is there might have triggers.
    """
    found = "pg_catalog.to_regclass({})::pg_catalog.oid"
    failing = f"raise exception using errcode = '{errcode}', message = 'a table was replaced meanwhile'"
    checks = (
        f"if {found.format(quote_literal(name))} is not null then lock table {name} in {mode} mode; "
        f"if {found.format(quote_literal(name))} operator(pg_catalog.<>) {source_id}::pg_catalog.oid then {failing}; "
        "end if; end if"
        for name, source_id in tables
    )
    body = "; ".join(checks)
    return [f"do {quote_body(f'begin {body}; end')}"] if body else []


def find_deferred(run: Run) -> Sequence[str]:
    """Return the deferred triggers and constraints, as texts, whose code could have the session's rights at commit."""
    return [row.deferred for row in run(_DEFERRED)]


def called_by_plans(table: str) -> str:
    """Return the query of what a plan for a table calls that a role without the session's rights made.

    These are functions, operators, and domains with their checks, in expressions of indexes, checks and statistics, of
    which the server evaluates what is constant with the planning role's rights. `table` is an expression of its oid; a
    table of the session's role, or of a superuser, is omitted. It asks by SQL alone, which triggers can, and unlike
    `planned_code.find_planned` includes functions that have a column for an argument.
    """
    return _CALLED_BY_PLANS.replace("{table}", table)


def deferred_check_creation(schema: str) -> str:
    """Return the statement that creates the function which refuses a transaction for a deferred trigger."""
    body = deferred_check_source()
    return (
        f"create or replace function {quote(schema)}.refuse_deferred() returns void language plpgsql "
        f"set search_path = pg_catalog, pg_temp as {quote_body(body)}"
    )


def deferred_check_source() -> str:
    """Return the body of that function, as the server stores it."""
    return (
        f"declare found text; begin {_DEFERRED.strip()} limit 1 into found; if found is not null then "
        f"raise exception using errcode = '{DEFERRED}', message = found; end if; end"
    )


def deferred_check(schema: str) -> str:
    """Return the statement that refuses the transaction; it is the last one before the commit."""
    return f"select {quote(schema)}.refuse_deferred()"


_TEMPORARY_LAST = """
select pg_catalog.set_config('search_path',
    case when pg_catalog.current_setting('search_path') operator(pg_catalog.=) '' then 'pg_temp'
         else pg_catalog.concat(pg_catalog.current_setting('search_path'), ', pg_temp') end, true)
"""
_CALLED_BY_PLANS = """
select author.rolname::text as author,
       coalesce(p.oid::regprocedure::text, o.oid::regoperator::text, format_type(t.oid, null)) as what
from pg_class planned_table
join pg_roles owner
    on owner.oid = planned_table.relowner and owner.rolname <> current_user and not owner.rolsuper
cross join lateral (
    select 'pg_class'::regclass::oid as classid, held.oid as objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    union all
    select more.classid, more.objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    cross join lateral (
        select 'pg_class'::regclass::oid, i.indexrelid from pg_index i where i.indrelid = held.oid
        union all select 'pg_constraint'::regclass, k.oid from pg_constraint k
            where k.conrelid = held.oid and k.contype = 'c'
        union all select 'pg_statistic_ext'::regclass, s.oid from pg_statistic_ext s where s.stxrelid = held.oid
    ) more (classid, objid)
) planned
join pg_depend d on d.classid = planned.classid and d.objid = planned.objid and d.objsubid = 0
left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
left join pg_operator o on d.refclassid = 'pg_operator'::regclass and o.oid = d.refobjid
left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid and t.typtype = 'd'
join pg_roles author on author.oid = coalesce(p.proowner, o.oprowner, t.typowner)
where planned_table.oid = {table} and not author.rolsuper and author.rolname <> current_user
"""
_OPENED = "opened record"
# What the session itself has declared is of an earlier statement. A loop has a portal whose name begins so.
_CLOSING = (
    "for opened in select c.name from pg_catalog.pg_cursors c "
    "where c.creation_time operator(pg_catalog.>=) pg_catalog.statement_timestamp() "
    "and (c.is_holdable or pg_catalog.left(c.name, 1) operator(pg_catalog.<>) '<') "
    "loop execute pg_catalog.format('close %I', opened.name); end loop;"
)
_ROLE = "current_user"
_PARAMETERS = "(text, text[])"
_WITH_DEFAULT = "text, text[] default null"
_READING = f"language plpgsql security definer set search_path = {PATH} set standard_conforming_strings = on"
_PLPGSQL = f"language plpgsql security definer {SETTINGS}"

_OWNERS = """
select given.name, o.oid::bigint as role_id, o.rolname::text as role,
       o.rolname = current_user or o.rolsuper as is_trusted,
       pg_has_role(current_user, o.oid, case when current_setting('server_version_num')::int < 160000 then 'member'
                                             else 'set' end) as is_held,
       not (o.rolname = current_user or o.rolsuper)
       and (select count(*) = 3 from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        join pg_roles s on s.oid = n.nspowner and (s.rolsuper or s.rolname = current_user)
        where n.nspname = '{schema}' and p.proname in (
            concat('execute_', o.oid), concat('query_', o.oid), concat('read_', o.oid))
          and p.proowner = o.oid and p.prosecdef and position('pg_cursors' in p.prosrc) > 0
          and has_schema_privilege(n.oid, 'usage')
          and has_function_privilege(p.oid, 'execute')) as is_ready,
       array(with recursive part (oid) as (select c.oid union select i.inhrelid from part p
                                           join pg_inherits i on i.inhparent = p.oid)
             select distinct pg_get_userbyid(k.relowner)::text from part p join pg_class k on k.oid = p.oid
             where k.relowner <> c.relowner and pg_get_userbyid(k.relowner) <> current_user
               and not (select r.rolsuper from pg_roles r where r.oid = k.relowner) order by 1) as others,
       (select c.oid::bigint from pg_namespace n join pg_database d on d.datname = current_database()
        join pg_roles s on s.oid = case when n.nspowner = 'pg_database_owner'::regrole then d.datdba else n.nspowner end
        where n.oid = c.relnamespace and (o.rolname = current_user or o.rolsuper)
          and s.rolname <> current_user and not s.rolsuper) as replaceable
from unnest({names}) given (name)
join pg_class c on c.oid = to_regclass(given.name)
join pg_roles o on o.oid = c.relowner
""".replace("{schema}", SCHEMA)

_DEFERRED = """
select format('%s %I of %I.%I, which belongs to %I', case when t.tgisinternal then 'constraint' else 'trigger' end,
              coalesce(made.conname, t.tgname), n.nspname, c.relname, o.rolname) as deferred
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_roles o on o.oid = c.relowner
join pg_proc p on p.oid = t.tgfoid
join pg_roles author on author.oid = p.proowner
left join pg_index i on i.indexrelid = t.tgconstrindid
left join pg_constraint made on made.oid = t.tgconstraint
where t.tgdeferrable and o.rolname <> current_user and not o.rolsuper
  and case when t.tgisinternal then i.indexprs is not null or i.indpred is not null or t.tgconstraint in (
               select k.oid from pg_constraint k cross join unnest(k.conkey, k.confkey) pair (child, parent)
               join pg_attribute a on a.attrelid = k.conrelid and a.attnum = pair.child
               join pg_attribute b on b.attrelid = k.confrelid and b.attnum = pair.parent
               join pg_cast c on c.castsource = a.atttypid and c.casttarget = b.atttypid and c.castfunc >= 16384
               where k.contype = 'f')
           else not (p.prosecdef and (author.rolsuper or author.rolname = current_user)) end
"""

"""Merged tables of other roles in a PostgreSQL database: with whose rights their code runs, and what stops that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, text

from rowtide.databases.postgres.owners import LAST_WITH_OPEN_COMMIT, Owner, find_deferred, read_owners
from rowtide.databases.postgres.quoting import quote
from rowtide.findings.finding import Advice, Finding, Mend, Severity, Sql
from rowtide.merge.errors.nodes import DeferredCodeOfOwner, OwnerNotHeld, OwnersDiffer

_DOCUMENTED = "see the reference of merge, tables of other roles"
_TRUST = "or trust the owners with --run-as agent"


@dataclass(frozen=True, slots=True)
class MergedFacts:
    """The merged tables of owners that the role does not trust, by their quoted names, and who the role is.

    `as_agent` are those whose code has the agent's rights by --run-as; `deferred` is what would run at a commit with
    the rights of the session.
    """

    role: str
    owners: Mapping[str, Owner]
    as_agent: frozenset[str]
    deferred: Sequence[str] = ()


def read_merged(connection: Connection) -> MergedFacts:
    """Read the merged tables of other roles; none without merge's metadata."""
    run = partial(_run, connection)
    role = str(run("select current_user::text as role")[0].role)
    if not run(_IS_THERE)[0].is_there:
        return MergedFacts(role, {}, frozenset())
    listed = run(_MERGED)
    owners = {
        name: owner
        for name, owner in read_owners(run, [row.name for row in listed]).items()
        if owner.others or not owner.is_trusted
    }
    version = int(run("select current_setting('server_version_num')::int / 10000 as major")[0].major)
    deferred = find_deferred(run) if owners and version <= LAST_WITH_OPEN_COMMIT else ()
    return MergedFacts(role, owners, frozenset(row.name for row in listed if row.is_as_agent), deferred)


def find_in_merged(facts: MergedFacts) -> Iterator[Finding]:
    """Judge merged tables of other roles. Pure."""
    for name, owner in facts.owners.items():
        belongs = f'belongs to "{owner.name}"'
        if name in facts.as_agent:
            yield Finding(Severity.TELLS, name, f'{belongs}: its code runs with the rights of "{facts.role}"')
            continue
        severity, fact, mend = _judge(facts, owner)
        yield Finding(severity, name, f"{belongs}{fact}", mend)


def _judge(facts: MergedFacts, owner: Owner) -> tuple[Severity, str, Mend | None]:
    if owner.others:
        others = ", ".join(owner.others)
        advice = Advice(f"Give its partitions and descendants to one role, {_TRUST}.")
        return Severity.STOPS, f", partitions or descendants of it to {others} (RT-{OwnersDiffer.number})", advice
    if not owner.is_held:
        grant = Sql((f"grant {quote(owner.name)} to {quote(facts.role)};",), _TRUST)
        return Severity.STOPS, f', whose rights "{facts.role}" may not use (RT-{OwnerNotHeld.number})', grant
    if facts.deferred:
        advice = Advice(f"Make the trigger's function security definer, upgrade to PostgreSQL 18, {_TRUST}.")
        return (
            Severity.STOPS,
            f"; with more rights would run at the commit {facts.deferred[0]} (RT-{DeferredCodeOfOwner.number})",
            advice,
        )
    return Severity.TELLS, f": its triggers, defaults and checks run with that role's rights ({_DOCUMENTED})", None


def _run(connection: Connection, sql: str, **parameters: object) -> Sequence[Any]:
    return connection.execute(text(sql), parameters).all()


_IS_THERE = """
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = 'rowtide_merge' and c.relname = 'sysmerge_stored_articles'
                 and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')) as is_there
"""
_MERGED = """
select concat(quote_ident(n.nspname), '.', quote_ident(c.relname)) as name, bool_or(a.is_as_agent) as is_as_agent
from (select s.definition::json ->> 'schema' as schema, s.definition::json ->> 'table' as name,
             coalesce(to_jsonb(p) ->> 'run_as', 'owner') = 'agent' as is_as_agent
      from rowtide_merge."sysmerge_stored_articles" s
      join rowtide_merge."sysmerge_stored_publications" p using (pubid)) a
join pg_class c on c.relname = a.name and c.relkind in ('r', 'p')
join pg_namespace n on n.oid = c.relnamespace
where has_schema_privilege(n.oid, 'usage') and (n.nspname = a.schema or (a.schema = '' and exists (
    select from pg_trigger t where t.tgrelid = c.oid and left(t.tgname, 8) = 'MSmerge_')))
group by 1 order by 1
"""

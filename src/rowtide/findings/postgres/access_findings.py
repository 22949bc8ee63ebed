"""What the rights of a reader, of a subscriber's role and of a node's mean for its work. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby

from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.databases.postgres.quoting import quote
from rowtide.findings.finding import AS_OWNER, Advice, Command, Finding, Severity, Sql, as_superuser, of_error
from rowtide.findings.postgres.access_facts import NodeFacts, ReaderFacts, TableAccess
from rowtide.findings.postgres.facts import RoleFacts, TrackingFacts
from rowtide.findings.postgres.role_findings import find_others_tables
from rowtide.findings.quantities import format_names
from rowtide.replication.errors.rights import TableOwnerNotHeld


def find_for_monitor(role: RoleFacts, *, sees_others: bool) -> Iterator[Finding]:
    """Judge what a role sees that runs `status`, `health` and `check`."""
    if not sees_others:
        fact = "it does not see other roles' transactions, nor what standbys do: long ones are not reported"
        mend = as_superuser(f"grant pg_read_all_stats to {quote(role.name)};")
        yield Finding(Severity.TELLS, f"role {role.name}", fact, mend)


def find_for_reader(
    facts: ReaderFacts, tracking: TrackingFacts, unreadable: Iterable[TableAccess]
) -> Iterator[Finding]:
    """Judge whether a role may read changes; of tracked tables, `unreadable` are those that it may not read."""
    if not (facts.is_captured or tracking.is_there):
        fact = "nothing is captured or tracked here that could be read"
        yield Finding(Severity.WARNS, "database", fact, Advice("Check that this is the database that was meant."))
    for refusal in facts.refusals:
        mend = Sql((f"{refusal.mend};",), "as the owner of the database or of the table")
        yield Finding(Severity.STOPS, f"instance {refusal.instance}", refusal.filled_fact, mend)
    yield from _find_for_enumeration(facts, tracking)
    for one in unreadable:
        grant = Sql((f"grant select on {one.quoted} to {quote(facts.role.name)};",), AS_OWNER)
        yield Finding(Severity.STOPS, f"table {one.name}", "it is tracked, and this role may not read it", grant)
    tracked = {one.table.qualified_name for one in tracking.tables if one.table is not None}
    for name in facts.uncaptured:
        if tracking.is_readable and name not in tracked:
            advice = Advice("Let the table's owner enable it, if its changes are to be read.")
            yield Finding(Severity.STOPS, f"table {name}", "it is neither captured nor tracked", advice)
    if facts.lake is not None and not facts.may_enter_lake:
        fact = f"this user may not read {facts.lake}: changes are read from its files"
        yield Finding(Severity.STOPS, "lake", fact, Command(f"chmod -R g=rX {shlex.quote(facts.lake)}"))


def _find_for_enumeration(facts: ReaderFacts, tracking: TrackingFacts) -> Iterator[Finding]:
    """An enumeration locks what is tracked and keeps anchors: select on the tables does not suffice."""
    owner = facts.role.others.get("tracking")
    if tracking.is_there and owner is not None:
        fact = f"it has not the rights of {owner}, which owns the schema rowtide_tracking: it cannot enumerate changes"
        severity = Severity.WARNS if facts.is_captured else Severity.STOPS
        mend = as_superuser(f"grant {quote(owner)} to {quote(facts.role.name)};")
        yield Finding(severity, f"role {facts.role.name}", fact, mend)


def find_in_subscriber(facts: NodeFacts, schema: str) -> Iterator[Finding]:
    """Judge whether a role may deliver into a database; its wal_level and the right to replicate do not matter."""
    yield from _find_in_node(facts, schema, facts.role.others.get("replication"))
    subject, grantee = f"role {facts.role.name}", quote(facts.role.name)
    severity = Severity.STOPS if facts.is_named else Severity.WARNS
    yield from _find_others_tables(facts, severity)
    for lacking, found in groupby(sorted(facts.accesses, key=_lacking), key=_lacking):
        tables = tuple(found)
        fact = f"it may not {_in_words(lacking)} {format_names(tuple(one.name for one in tables))}"
        if not facts.is_named:
            fact += ", which matters if changes are delivered there"
        grants = tuple(f"grant {', '.join(lacking)} on {one.quoted} to {grantee};" for one in tables)
        yield Finding(severity, subject, fact, Sql(grants, AS_OWNER))
    if facts.unusable_schemas:
        fact = f"it may not use the schema of tables there: {format_names(facts.unusable_schemas)}"
        grants = tuple(f"grant usage on schema {quote(name)} to {grantee};" for name in facts.unusable_schemas)
        yield Finding(severity, subject, fact, Sql(grants, "as the schema's owner"))
    if facts.closed_schemas:
        fact = f"it may not create tables in {format_names(facts.closed_schemas)}: those of a publication must be there"
        grants = tuple(f"grant create on schema {quote(name)} to {grantee};" for name in facts.closed_schemas)
        yield Finding(Severity.TELLS, subject, fact, Sql(grants, "as the schema's owner"))
    if facts.origin_functions:
        fact = (
            "it cannot mark what it delivers with a replication origin: PostgreSQL's own subscriptions would take it "
            "for local changes, and --conflicts last-commit-time is refused"
        )
        grants = tuple(f"grant execute on function {one} to {grantee};" for one in facts.origin_functions)
        yield Finding(Severity.TELLS, subject, fact, as_superuser(*grants))
    if not facts.may_leave_out_triggers:
        fact = "it cannot leave out triggers and foreign keys (--constraints not-for-replication)"
        mend = as_superuser(f"grant set on parameter session_replication_role to {grantee};")
        yield Finding(Severity.TELLS, subject, fact, mend)


def _find_others_tables(facts: NodeFacts, severity: Severity) -> Iterator[Finding]:
    """List tables of other roles, whose code runs as their owners, and say which the role may not write so."""
    others = sorted(
        (one for one in facts.tables if one.owner != facts.role.name and not one.owner_is_superuser),
        key=lambda one: (one.owner, one.is_owned),
    )
    for (owner, is_held), found in groupby(others, key=lambda one: (one.owner, one.is_owned)):
        names = format_names(tuple(one.table.qualified_name for one in found))
        if is_held:
            fact = f"triggers, defaults and checks of {names} run with the rights of {owner}, which owns them"
            advice = Advice("If the owner is to be trusted with this role's rights, subscribe with --run-as agent.")
            yield Finding(Severity.TELLS, f"role {facts.role.name}", fact, advice)
        else:
            number = TableOwnerNotHeld.number
            fact = f"it is no member of {owner}, which owns {names}: they are not delivered to (RT-{number})"
            mend = as_superuser(f"grant {quote(owner)} to {quote(facts.role.name)};")
            yield Finding(severity, f"role {facts.role.name}", fact, mend)


def find_in_merge_node(facts: NodeFacts, schema: str) -> Iterator[Finding]:
    """Judge whether a role may merge a database's tables; its wal_level and the right to replicate do not matter."""
    yield from _find_in_node(facts, schema, facts.role.others.get("merge"))
    yield from find_others_tables(facts.role.name, facts.tables)


def _find_in_node(facts: NodeFacts, schema: str, owner: str | None) -> Iterator[Finding]:
    subject = f"role {facts.role.name}"
    if facts.server.in_recovery:
        yield of_error(Severity.STOPS, "server", ServerIsStandby())
    if not (facts.is_made or facts.role.may_create):
        database = facts.server.database
        grant = f"grant create on database {quote(database)} to {quote(facts.role.name)};"
        fact = f"it may not create the schema {schema} in database {database}"
        yield Finding(Severity.STOPS, subject, fact, Sql((grant,), "as the database's owner"))
    elif facts.is_made and owner is not None:
        fact = f"it has not the rights of {owner}, which owns the schema {schema}"
        mend = as_superuser(f"grant {quote(owner)} to {quote(facts.role.name)};")
        yield Finding(Severity.STOPS, subject, fact, mend)


def _lacking(table: TableAccess) -> tuple[str, ...]:
    return table.lacking


def _in_words(rights: tuple[str, ...]) -> str:
    verbs = {"select": "read", "insert": "insert into", "update": "update", "delete": "delete from"}
    words = [verbs.get(right, right) for right in rights]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]

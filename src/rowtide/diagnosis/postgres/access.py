"""Checks of the rights of the connection's role, and of names that it cannot read. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from itertools import groupby

from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.databases.postgres.owner_functions import Owner
from rowtide.databases.postgres.quoting import quote, share_ownership
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.postgres.access_facts import MergedFacts, Names, NodeFacts, ReaderFacts, TableAccess
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.server_facts import RoleFacts
from rowtide.diagnosis.postgres.table_facts import PostgresTableFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.diagnosis.result import (
    AS_OWNER,
    Advice,
    CheckResult,
    Remediation,
    ShellCommand,
    Sql,
    State,
    as_superuser,
    counts,
    failing,
    format_names,
    note,
    of_error,
    quote_table,
    warning,
)
from rowtide.merge.errors.nodes import DeferredCodeOfOwner, OwnerNotHeld, OwnersDiffer
from rowtide.replication.errors.subscribing import TableOwnerNotHeld
from rowtide.rights.granting import MonitorGaps
from rowtide.rights.grants import ObjectGrant

_AS_SCHEMAS_OWNER = "as the schema's owner"
_BY_SUPERUSER = (
    "Let a superuser run `rowtide cdc enable-db --lake PATH` once more, or, where tables are only published, "
    "`rowtide replication add-publication` for one of the publications."
)


def check_role(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Check the role."""
    role, is_enabled = facts.role, facts.capture is not None
    subject = f"role {role.name}"
    if not role.may_replicate:
        statement = as_superuser(f"alter role {quote(role.name)} replication;")
        yield failing(Code.REPLICATION_RIGHT_MISSING, subject, "it has no replication right", statement)
    if not (role.may_create or is_enabled):
        database = facts.server.identity.database
        grant = f"grant create on database {quote(database)} to {quote(role.name)};"
        message = f"it may not create schemas and publications in database {database}"
        yield failing(Code.CREATE_RIGHT_MISSING, subject, message, Sql((grant,), "as the database's owner"))
    if not (role.is_superuser or is_enabled):
        message = (
            "it is not a superuser, and cannot be allowed to create the event triggers that log DDL: without them "
            "schema changes are inferred from the rows that follow"
        )
        yield note(Code.EVENT_TRIGGERS_NOT_ALLOWED, subject, message, _BY_SUPERUSER)
    yield from check_owners(role.name, facts.tables)


def check_owners(role: str, tables: tuple[PostgresTableFacts, ...]) -> Iterator[CheckResult]:
    """Check whose tables they are: one that is captured had its identity set, one that is tracked got triggers."""
    others = sorted((table for table in tables if not table.is_owned), key=lambda table: table.owner)
    for owner, owned in groupby(others, key=lambda table: table.owner):
        found = tuple(owned)
        names = format_names(tuple(table.table.qualified_name for table in found))
        message = f"it lacks the rights of {owner}, which owns {names}: only an owner can enable and disable a table"
        stops = any(table.is_wanted and not table.is_captured for table in found)
        as_bad = failing if stops else warning
        shared, measures = _share_ownership(role, owner, found), counts(tables=len(found))
        yield as_bad(Code.TABLE_OWNER_RIGHTS_MISSING, f"role {role}", message, shared, measures)


def _share_ownership(role: str, owner: str, tables: tuple[PostgresTableFacts, ...]) -> Sql:
    sharing = (
        share_ownership(quote_table(one.table), owner, role, is_superusers=one.owner_is_superuser) for one in tables
    )
    return as_superuser(*(f"{statement};" for statement in dict.fromkeys(sharing)))


def check_monitor(role: RoleFacts, gaps: MonitorGaps, *, sees_others: bool) -> Iterator[CheckResult]:
    """Check what a role sees that runs `status`, `health` and `check`."""
    subject = f"role {role.name}"
    for owner in gaps.makers:
        message = f"the views through which monitors read what {owner} owns are missing, or of another version"
        command = shlex.join(["rowtide", "grant", role.name, "--as", "monitor"])
        yield warning(Code.MONITOR_GRANTS_MISSING, subject, message, f"Let {owner} run `{command}`.")
    for owner, lacking in groupby(sorted(_in_objects(gaps), key=_owner_of), key=_owner_of):
        statements = tuple(f"{one.grant_to(role.name)};" for one in lacking)
        message = "it may not read all that monitors read"
        yield warning(
            Code.MONITOR_GRANTS_MISSING,
            subject,
            message,
            Sql(statements, f"as {owner}"),
            counts(grants=len(statements)),
        )
    if not sees_others:
        message = "it does not see other roles' transactions, nor what standbys do: long ones are not reported"
        remediation = as_superuser(f"grant pg_read_all_stats to {quote(role.name)};")
        yield note(Code.ACTIVITY_HIDDEN, f"role {role.name}", message, remediation)


def _in_objects(gaps: MonitorGaps) -> Iterator[ObjectGrant]:
    return (one for one in gaps.missing.all if isinstance(one, ObjectGrant))


def _owner_of(one: ObjectGrant) -> str:
    return one.owner


def check_reader(
    facts: ReaderFacts, tracking: TrackingFacts, unreadable: Iterable[TableAccess]
) -> Iterator[CheckResult]:
    """Check whether a role may read changes; of tracked tables, `unreadable` are those that it may not read."""
    if not (facts.is_captured or tracking.is_there):
        message = "nothing is captured or tracked here that could be read"
        yield warning(Code.NOTHING_TO_READ, "database", message, "Check that this is the database that was meant.")
    for refusal in facts.refusals:
        remediation = Sql((f"{refusal.mend};",), "as the owner of the database or of the table")
        yield failing(Code.READING_DENIED, f"instance {refusal.instance}", refusal.filled_fact, remediation)
    yield from _check_enumeration(facts, tracking)
    for one in unreadable:
        grant = Sql((f"grant select on {one.quoted} to {quote(facts.role.name)};",), AS_OWNER)
        yield failing(
            Code.TRACKED_TABLE_UNREADABLE, f"table {one.name}", "it is tracked, and this role may not read it", grant
        )
    tracked = {one.table.qualified_name for one in tracking.tables if one.table is not None}
    for name in facts.uncaptured:
        if tracking.is_readable and name not in tracked:
            advice = "Let the table's owner enable it, if its changes are to be read."
            yield failing(Code.TABLE_NOT_ENABLED, f"table {name}", "it is neither captured nor tracked", advice)
    if facts.lake is not None and not facts.may_enter_lake:
        message = f"this user may not read {facts.lake}: changes are read from its files"
        yield failing(Code.LAKE_UNREADABLE, "lake", message, ShellCommand(f"chmod -R g=rX {shlex.quote(facts.lake)}"))


def _check_enumeration(facts: ReaderFacts, tracking: TrackingFacts) -> Iterator[CheckResult]:
    """An enumeration locks what is tracked and keeps anchors: select on the tables does not suffice."""
    owner = facts.role.others.get("tracking")
    if tracking.is_there and owner is not None:
        message = f"it lacks the rights of {owner}, which owns the schema rowtide_tracking: it cannot enumerate changes"
        as_bad = warning if facts.is_captured else failing
        yield as_bad(Code.ENUMERATION_DENIED, f"role {facts.role.name}", message, _administer(facts.role, owner))


def _administer(role: RoleFacts, owner: str) -> Remediation:
    """Return how a role comes to administer what an owner has; no other becomes a member of a superuser."""
    if owner in role.superusers:
        return Advice(f"Let rowtide connect as {owner}, or let a role that is no superuser enable it.")
    return as_superuser(f"grant {quote(owner)} to {quote(role.name)};")


def check_subscriber(facts: NodeFacts, schema: str) -> Iterator[CheckResult]:
    """Check whether a role may deliver into a database; its wal_level and the right to replicate do not matter."""
    yield from _check_node(facts, schema, facts.role.others.get("replication"))
    subject, grantee = f"role {facts.role.name}", quote(facts.role.name)
    as_bad = failing if facts.is_named else warning
    yield from _check_tables_of_owners(facts)
    for lacking, found in groupby(sorted(facts.accesses, key=_lacking), key=_lacking):
        tables = tuple(found)
        message = f"it may not {_in_words(lacking)} {format_names(tuple(one.name for one in tables))}"
        if not facts.is_named:
            message += ", which matters if changes are delivered there"
        grants = tuple(f"grant {', '.join(lacking)} on {one.quoted} to {grantee};" for one in tables)
        measures = counts(tables=len(tables))
        yield as_bad(Code.TABLE_RIGHTS_MISSING, subject, message, Sql(grants, AS_OWNER), measures)
    if facts.unusable_schemas:
        message = f"it may not use the schema of tables there: {format_names(facts.unusable_schemas)}"
        grants = tuple(f"grant usage on schema {quote(name)} to {grantee};" for name in facts.unusable_schemas)
        measures = counts(schemas=len(facts.unusable_schemas))
        yield as_bad(Code.SCHEMA_USAGE_MISSING, subject, message, Sql(grants, _AS_SCHEMAS_OWNER), measures)
    if facts.closed_schemas:
        message = (
            f"it may not create tables in {format_names(facts.closed_schemas)}: those of a publication must be there"
        )
        grants = tuple(f"grant create on schema {quote(name)} to {grantee};" for name in facts.closed_schemas)
        measures = counts(schemas=len(facts.closed_schemas))
        yield note(Code.SCHEMA_CREATE_MISSING, subject, message, Sql(grants, _AS_SCHEMAS_OWNER), measures)
    if facts.origin_functions:
        message = (
            "it cannot mark what it delivers with a replication origin: PostgreSQL's own subscriptions would take it "
            "for local changes, and --conflicts last-commit-time is refused"
        )
        grants = tuple(f"grant execute on function {one} to {grantee};" for one in facts.origin_functions)
        yield note(Code.ORIGINS_NOT_ALLOWED, subject, message, as_superuser(*grants))
    if not facts.may_disable_triggers:
        message = "it cannot disable triggers and foreign keys (--constraints not-for-replication)"
        remediation = as_superuser(f"grant set on parameter session_replication_role to {grantee};")
        yield note(Code.REPLICA_ROLE_NOT_ALLOWED, subject, message, remediation)


def _check_tables_of_owners(facts: NodeFacts) -> Iterator[CheckResult]:
    """Report tables of other roles, whose code runs as their owners, and those that the role may not write to in this
    way.
    """
    others = sorted(
        (one for one in facts.tables if one.owner != facts.role.name and not one.owner_is_superuser),
        key=lambda one: (one.owner, one.is_owned),
    )
    subject, as_bad = f"role {facts.role.name}", failing if facts.is_named else warning
    for (owner, is_held), found in groupby(others, key=lambda one: (one.owner, one.is_owned)):
        tables = tuple(one.table.qualified_name for one in found)
        names, measures = format_names(tables), counts(tables=len(tables))
        if is_held:
            message = f"triggers, defaults and checks of {names} run with the rights of {owner}, which owns them"
            advice = "If the owner is to be trusted with this role's rights, subscribe with --run-as agent."
            yield note(Code.OWNERS_CODE_RUNS, subject, message, advice, measures)
        else:
            number = TableOwnerNotHeld.number
            message = f"it is no member of {owner}, which owns {names}: they are not delivered to (RT-{number})"
            remediation = as_superuser(f"grant {quote(owner)} to {quote(facts.role.name)};")
            yield as_bad(Code.OWNER_NOT_HELD, subject, message, remediation, measures)


def check_merge_node(facts: NodeFacts, schema: str) -> Iterator[CheckResult]:
    """Check whether a role may merge a database's tables; its wal_level and the right to replicate do not matter."""
    yield from _check_node(facts, schema, facts.role.others.get("merge"))
    yield from check_owners(facts.role.name, facts.tables)


def check_tracker(facts: NodeFacts, schema: str) -> Iterator[CheckResult]:
    """Check whether a role may enable change tracking, and administer it."""
    yield from _check_node(facts, schema, facts.role.others.get("tracking"))
    yield from check_owners(facts.role.name, facts.tables)


def _check_node(facts: NodeFacts, schema: str, owner: str | None) -> Iterator[CheckResult]:
    subject = f"role {facts.role.name}"
    if facts.server.in_recovery:
        yield of_error(Code.SERVER_IS_STANDBY, State.FAILING, "server", ServerIsStandby())
    if not (facts.is_made or facts.role.may_create):
        database = facts.server.database
        grant = f"grant create on database {quote(database)} to {quote(facts.role.name)};"
        message = f"it may not create the schema {schema} in database {database}"
        yield failing(Code.CREATE_RIGHT_MISSING, subject, message, Sql((grant,), "as the database's owner"))
    elif facts.is_made and owner is not None:
        message = f"it lacks the rights of {owner}, which owns the schema {schema}"
        yield failing(Code.SCHEMA_OWNER_RIGHTS_MISSING, subject, message, _administer(facts.role, owner))


def _lacking(table: TableAccess) -> tuple[str, ...]:
    return table.lacking


def _in_words(rights: tuple[str, ...]) -> str:
    verbs = {"select": "read", "insert": "insert into", "update": "update", "delete": "delete from"}
    words = [verbs.get(right, right) for right in rights]
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def check_names(names: Iterable[Names]) -> Iterator[CheckResult]:
    """Say of each name that is not UTF-8 which it is, once. Pure."""
    found: set[tuple[bytes, ...]] = set()
    for parts in names:
        for kind, length in (("schema", 1), ("table", 2), ("column", 3)):
            named = parts[:length]
            if named not in found and not _is_readable(named[-1]):
                found.add(named)
                shown = ".".join(part.decode(errors="backslashreplace") for part in named)
                yield failing(Code.NAME_UNREADABLE, f"{kind} {shown}", _NAME_FACT, _NAME_REMEDY)


def _is_readable(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


_NAME_FACT = "its name is not UTF-8: no command of rowtide reads it (RT-2152), and this one looked at nothing else"
_NAME_REMEDY = "Rename it, in a session with `set client_encoding to 'SQL_ASCII'` and its name as the server has it."


def check_merged(facts: MergedFacts) -> Iterator[CheckResult]:
    """Check merged tables of other roles. Pure."""
    for name, owner in facts.owners.items():
        yield _check_owner(facts, name, owner)


def _check_owner(facts: MergedFacts, name: str, owner: Owner) -> CheckResult:
    belongs = f'belongs to "{owner.name}"'
    if name in facts.as_agent:
        message = f'{belongs}: its code runs with the rights of "{facts.role}"'
        return note(Code.AGENTS_RIGHTS_USED, name, message)
    if owner.others:
        others = ", ".join(owner.others)
        message = f"{belongs}, partitions or descendants of it to {others} (RT-{OwnersDiffer.number})"
        advice = f"Give its partitions and descendants to one role, {_TRUST}."
        return failing(Code.OWNERS_DIFFER, name, message, advice)
    if not owner.is_held:
        message = f'{belongs}, whose rights "{facts.role}" may not use (RT-{OwnerNotHeld.number})'
        grant = Sql((f"grant {quote(owner.name)} to {quote(facts.role)};",), _TRUST)
        return failing(Code.OWNER_NOT_HELD, name, message, grant)
    if facts.deferred:
        code, number = facts.deferred[0], DeferredCodeOfOwner.number
        message = f"{belongs}; with more rights would run at the commit {code} (RT-{number})"
        advice = f"Create the trigger again without deferrable, {_TRUST}."
        return failing(Code.OWNERS_CODE_DEFERRED, name, message, advice)
    message = f"{belongs}: its triggers, defaults and checks run with that role's rights ({_DOCUMENTED})"
    return note(Code.OWNERS_CODE_RUNS, name, message)


_DOCUMENTED = "see the reference of merge, tables of other roles"
_TRUST = "or trust the owners with --run-as agent"

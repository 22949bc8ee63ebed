"""What the rights of the connection's role mean for capture. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rowtide.databases.postgres.quoting import quote
from rowtide.findings.finding import Advice, Finding, Severity, Sql, as_superuser, quote_table
from rowtide.findings.postgres.facts import DatabaseFacts, TableFacts
from rowtide.findings.quantities import format_names

_BY_SUPERUSER = (
    "Let a superuser run `rowtide cdc enable-db --lake PATH` once more, or, where tables are only published, "
    "`rowtide replication add-publication` for one of the publications."
)


def find_in_role(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge the role."""
    role, is_enabled = facts.role, facts.capture is not None
    subject = f"role {role.name}"
    if not role.may_replicate:
        statement = as_superuser(f"alter role {quote(role.name)} replication;")
        yield Finding(Severity.STOPS, subject, "it has no replication right", statement)
    if not (role.may_create or is_enabled):
        database = facts.server.identity.database
        grant = f"grant create on database {quote(database)} to {quote(role.name)};"
        fact = f"it may not create schemas and publications in database {database}"
        yield Finding(Severity.STOPS, subject, fact, Sql((grant,), "as the database's owner"))
    if not (role.is_superuser or is_enabled):
        fact = (
            "it is no superuser, and may not be let make the event triggers that tell the log of DDL: without them "
            "schema changes are inferred from the rows that follow"
        )
        yield Finding(Severity.TELLS, subject, fact, Advice(_BY_SUPERUSER))
    yield from find_others_tables(role.name, facts.tables)


def find_others_tables(role: str, tables: tuple[TableFacts, ...]) -> Iterator[Finding]:
    """Judge whose tables they are: one that is captured had its identity set, one that is tracked got triggers."""
    others = sorted((table for table in tables if not table.is_owned), key=lambda table: table.owner)
    for owner, owned in groupby(others, key=lambda table: table.owner):
        found = tuple(owned)
        names = format_names(tuple(table.table.qualified_name for table in found))
        fact = f"it has not the rights of {owner}, which owns {names}: only an owner can enable and disable a table"
        stops = any(table.is_wanted and not table.is_captured for table in found)
        severity = Severity.STOPS if stops else Severity.WARNS
        yield Finding(severity, f"role {role}", fact, _share_ownership(role, owner, found))


def _share_ownership(role: str, owner: str, tables: tuple[TableFacts, ...]) -> Sql:
    """Superuser is never proposed for the sake of a table."""
    if not tables[0].owner_is_superuser:
        return as_superuser(f"grant {quote(owner)} to {quote(role)};")
    names = (quote_table(table.table) for table in tables)
    return as_superuser(*(f"alter table {name} owner to {quote(role)};" for name in names))

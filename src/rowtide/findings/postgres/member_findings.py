"""Tables that are no longer what was captured or published, and rows that never were. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceTable
from rowtide.findings.finding import Advice, Finding, Mend, Severity, shell
from rowtide.findings.postgres.facts import MemberFacts
from rowtide.findings.quantities import format_names
from rowtide.replication.articles.articles import FEATURE as REPLICATION

_NOUNS = {CAPTURE: "instance", REPLICATION: "article"}
_READ = {CAPTURE: "captured", REPLICATION: "published"}


def find_in_members(members: Iterable[MemberFacts], feature: str | None = None) -> Iterator[Finding]:
    """Judge the members of a feature, or all: whether their names belong to other tables, and what they do not see."""
    for member in members:
        if member.feature in _NOUNS and feature in (None, member.feature):
            yield from _find_namesake(member)
            if member.table is not None:
                yield from warn_of_child_tables(
                    member.table, f"{_NOUNS[member.feature]} {member.name}", _READ[member.feature]
                )


def warn_of_child_tables(table: SourceTable, subject: str, read: str) -> Iterator[Finding]:
    """Say that rows of the tables that inherit from one are not its own in the log."""
    if table.child_tables:
        fact = (
            f"rows of the tables that inherit from {table.qualified_name} are not {read} with it, though a query of it "
            f"returns them: {format_names(table.child_tables)}"
        )
        yield Finding(Severity.TELLS, subject, fact, Advice("Have those tables read too, each by itself."))


def _find_namesake(member: MemberFacts) -> Iterator[Finding]:
    """A table that is swapped in, or made again, has the name and not the changes of the one that is read."""
    if not member.has_namesake:
        return
    read = _READ[member.feature]
    if member.dropped_at is not None:
        fact = (
            f"it ended when its table {member.recorded} was dropped, on {member.dropped_at:%Y-%m-%d}; another table "
            f"has this name now, and is not {read}"
        )
    elif member.table is None:
        fact = f"its table {member.recorded} was dropped; another table has this name now, and is not {read}"
    else:
        fact = (
            f"{member.recorded} is another table now, and is not {read}: this reads on from the one that had the name "
            f"before, now {member.table.qualified_name}"
        )
    yield Finding(Severity.WARNS, f"{_NOUNS[member.feature]} {member.name}", fact, _mend(member))


def _mend(member: MemberFacts) -> Mend:
    table = quote_qualified(member.recorded_schema, member.recorded_name)
    if member.dropped_at is not None and member.feature == CAPTURE:
        return shell("rowtide", "cdc", "enable-table", table, "--capture-instance", member.name)
    begin = _BEGIN[member.feature](table)
    return Advice(f"Read the table of that name too: `{begin}`; end the other when its changes are consumed.")


_BEGIN = {
    CAPTURE: lambda table: shell("rowtide", "cdc", "enable-table", table, "--capture-instance", "NAME"),
    REPLICATION: lambda table: shell("rowtide", "replication", "add-article", "PUBLICATION", table),
}

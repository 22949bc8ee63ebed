"""What a check finds: a fact in plain words, how much it matters, and what mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceTable

AS_OWNER = "as the table's owner"
"""The note of statements that alter a table."""


class Severity(StrEnum):
    """How much a finding matters, the worst first."""

    STOPS = "stops"
    """Capture, replication, merge or tracking cannot begin, or cannot go on."""
    WARNS = "warns"
    """They work, and something is to be decided before it does not."""
    TELLS = "tells"
    """How they will behave here."""


@dataclass(frozen=True, slots=True)
class Sql:
    """Statements to run one after the other, each ended by a semicolon; `note` says as whom, and what then."""

    statements: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        return " ".join([*self.statements, *([f"-- {self.note}"] if self.note else [])])


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell, with the database in ROWTIDE_DB."""

    line: str

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True, slots=True)
class Advice:
    """What only a person can decide or do."""

    text: str

    def __str__(self) -> str:
        return self.text


Mend = Sql | Command | Advice


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found; `mend` is None where there is nothing to mend."""

    severity: Severity
    subject: str
    fact: str
    mend: Mend | None = None


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings, the worst first, else in the order in which they were found."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def of_error(severity: Severity, subject: str, error: RowtideError, mend: Mend | None = None) -> Finding:
    """Return what an error would say later as a finding; the error's hint mends it unless something better does."""
    return Finding(severity, subject, error.filled_fact, mend or Advice(error.filled_hint))


def shell(*words: str) -> Command:
    """Return a command as the shell takes it."""
    return Command(shlex.join(words))


def one_after_another(*commands: Command) -> Command:
    """Return commands as one line for the shell, which stops at the first that fails."""
    return Command(" && ".join(command.line for command in commands))


def as_superuser(*statements: str, then: str = "") -> Sql:
    """Return statements that need a superuser, with what has to follow."""
    return Sql(statements, f"as a superuser; then {then}" if then else "as a superuser")


def set_and_reload(setting: str, value: str) -> Sql:
    """Return the statements that change a setting which takes effect at once."""
    return as_superuser(f"alter system set {setting} = {value};", "select pg_reload_conf();")


def set_and_restart(setting: str, value: str) -> Sql:
    """Return the statement that changes a setting which takes effect at the server's next start."""
    return as_superuser(f"alter system set {setting} = {value};", then="restart the server")


def table_subject(table: SourceTable) -> str:
    """Return how a table is called as a subject."""
    return f"table {table.qualified_name}"


def quote_table(table: SourceTable) -> str:
    """Return a table's name as SQL and our commands take it."""
    return quote_qualified(table.schema, table.name)

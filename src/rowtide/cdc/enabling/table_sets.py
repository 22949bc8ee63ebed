"""Sets of tables, given by names and patterns: shell globs on schema and table, with quotes as in SQL. They are enabled
in rounds, one transaction per table.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum

from sqlalchemy import Connection, Engine, Executable

from rowtide.cdc import access
from rowtide.cdc.access import plan_gating_role
from rowtide.cdc.definitions import EnabledTable, list_enabled
from rowtide.cdc.enabling import postgres
from rowtide.cdc.errors.enabling import NoTableMatches, TablePatternInvalid
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.errors import RowtideError
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.altering_many import AlterationProgress
from rowtide.databases.postgres.catalogue import (
    NamedTable,
    find_table_id,
    list_tables,
    read_image_cost,
    read_table,
    read_tables,
)
from rowtide.databases.postgres.errors import TableNotFound, translated
from rowtide.databases.source_table import SourceTable
from rowtide.log.postgres import membership
from rowtide.log.postgres.membership import MembershipChange

_TOKEN = re.compile(r'"((?:[^"]|"")+)"|\[[^\]."]+\]|[^".]|(\.)')
_BEFORE_COMMENT = re.compile(r'(?:"(?:[^"]|"")*"|[^"#])*')
_WILD = frozenset("*?[")
_ANY = {"*": r"[^\n]*", "?": r"[^\n]"}
_GLOB_PART = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


@frozen
class TablePattern:
    """A pattern of tables; without a schema, of those that the search path finds.

    `schema` and `table` are globs that are compared with the catalogue's names, case included.
    """

    text: str
    schema: str | None
    table: str

    def matches(self, schema: str, table: str, *, is_visible: bool) -> bool:
        """Return whether it matches a table, which the search path finds or not."""
        is_there = is_visible if self.schema is None else fnmatch.fnmatchcase(schema, self.schema)
        return is_there and fnmatch.fnmatchcase(table, self.table)


def as_expression(patterns: Iterable[TablePattern]) -> str | None:
    """Return PostgreSQL's regular expression of the texts schema, line break, table that patterns match.

    None without patterns. Each pattern needs a schema. A name that has a line break matches none.
    """
    found = [rf"{_translate(pattern.schema or '')}\n{_translate(pattern.table)}" for pattern in patterns]
    return f"^(?:{'|'.join(found)})$" if found else None


def is_pattern(text: str) -> bool:
    """Return whether a text has a wildcard outside of quotes; otherwise it is a table's name."""
    return not _WILD.isdisjoint(re.sub(r'"(?:[^"]|"")*"', "", text))


def parse_pattern(text: str) -> TablePattern:
    """Return the pattern of a text: what is quoted is literal, what is not is folded to lower case as in SQL.

    Raises `TablePatternInvalid`.
    """
    parts = [""]
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() != end:
            break
        end = token.end()
        quoted, dot = token.groups()
        if dot:
            parts.append("")
        else:
            parts[-1] += glob.escape(quoted.replace('""', '"')) if quoted else _fold(token.group())
    if end != len(text):
        raise TablePatternInvalid(text, "a quote has no end")
    if not all(parts) or len(parts) > 2:
        raise TablePatternInvalid(text, "it is not of the form schema.table")
    return TablePattern(text, parts[0] if len(parts) == 2 else None, parts[-1])


def parse_lines(text: str) -> tuple[str, ...]:
    """Return the names and patterns of a file: one a line; `#` outside of quotes begins a comment."""
    return tuple(found for line in text.splitlines() if (found := _without_comment(line).strip()))


def _translate(pattern: str) -> str:
    return "".join(_translate_part(found.group()) for found in _GLOB_PART.finditer(pattern))


def _translate_part(part: str) -> str:
    if part in _ANY:
        return _ANY[part]
    if len(part) == 1:
        return _escape(part)
    is_negated = part[1] == "!"
    members = "".join(letter if letter == "-" else _escape(letter) for letter in part[1 + is_negated : -1])
    return rf"[^\n{members}]" if is_negated else f"[{members}]"


def _escape(letter: str) -> str:
    """A backslash before a letter or a digit has a meaning of its own; the server takes others literally."""
    return f"\\{letter}" if letter.isascii() and not letter.isalnum() else letter


def _without_comment(line: str) -> str:
    found = _BEFORE_COMMENT.match(line)
    before = found.group() if found else ""
    return before if line[len(before) :].startswith("#") else line


def _fold(text: str) -> str:
    """Fold as the server folds identifiers in UTF-8: letters beyond ASCII stay."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


@frozen
class TableSet:
    """Names and patterns of tables, without those that others match; `may_be_empty`: a pattern may match none."""

    patterns: tuple[str, ...]
    excluding: tuple[str, ...] = ()
    may_be_empty: bool = False


class Outcome(StrEnum):
    """The outcome for a table of a set."""

    PLANNED = "planned"
    """It can be enabled."""
    ENABLED = "enabled"
    SKIPPED = "skipped"
    """It has an instance already."""
    FAILED = "failed"


@frozen
class TableOutcome:
    """A table of a set, with its capture instance; `reason` says why it was skipped, or has the error's text.

    `large_columns` and `out_of_line_bytes` are what full before images cost (None: nothing is TOASTed); `child_tables`
    inherit from it, and are not captured with it.
    """

    source_schema: str
    source_table: str
    outcome: Outcome
    capture_instance: str | None = None
    reason: str | None = None
    large_columns: tuple[str, ...] = ()
    out_of_line_bytes: int | None = None
    child_tables: tuple[str, ...] = ()
    source_id: int = field(default=0, repr=False)
    error: RowtideError | None = field(default=None, repr=False)


def plan_tables(engine: Engine, database: str, tables: TableSet, request: InstanceRequest) -> tuple[TableOutcome, ...]:
    """Return what `enable_tables` would do, by schema and name; takes no locks.

    Raises `TableNotFound`, `NoTableMatches`, `TablePatternInvalid`, `DatabaseNotEnabled`, `NotOwner`, and the errors of
    gating roles.
    """
    with translated(), engine.connect() as connection:
        access.own_source(connection, database)
        plan_gating_role(connection, request.role_name)
        enabled = list_enabled(connection)
        return plan_each(connection, _choose(connection, tables, enabled), request)


def enable_tables(
    engine: Engine,
    database: str,
    tables: TableSet,
    request: InstanceRequest,
    wait_s: float,
    on_progress: Callable[[AlterationProgress], None],
) -> tuple[TableOutcome, ...]:
    """Enable all tables of a set that are not enabled yet; return the outcome of each, by schema and name.

    A table that cannot be enabled has its error, and the others continue. Raises as `plan_tables`, and errors of the
    server as a whole; what was enabled before stays so.
    """
    # Before anything is locked, so that a wrong name ends the command before any table is altered.
    planned = plan_tables(engine, database, tables, request)
    return enable_planned(engine, database, planned, request, wait_s, on_progress)


def plan_each(connection: Connection, source_ids: Sequence[int], request: InstanceRequest) -> tuple[TableOutcome, ...]:
    """Return what enabling each of these tables would do, by schema and name."""
    return tuple(_plan_each(connection, read_tables(connection, source_ids), request, list_enabled(connection)))


def enable_planned(
    engine: Engine,
    database: str,
    planned: Sequence[TableOutcome],
    request: InstanceRequest,
    wait_s: float,
    on_progress: Callable[[AlterationProgress], None] = lambda _progress: None,
    note: Callable[[SourceTable], Sequence[Executable]] = lambda _table: (),
) -> tuple[TableOutcome, ...]:
    """Enable those tables that are planned; return the outcome of each.

    The statements of `note` run in the transaction that enables a table.
    """
    open_ids = [one.source_id for one in planned if one.outcome is Outcome.PLANNED]
    with translated(), engine.connect() as connection:
        changes = [_change(database, table, request, note) for table in read_tables(connection, open_ids)]
    errors = membership.run_membership_changes(engine, changes, wait_s, on_progress)
    return tuple(_conclude(one, errors) for one in planned)


def _choose(connection: Connection, tables: TableSet, enabled: Sequence[EnabledTable]) -> list[int]:
    captured = {one.source_id for one in enabled}
    named = [one for one in list_tables(connection) if captured.isdisjoint(one.ancestors)]
    wanted: set[int] = set()
    by_pattern: set[int] = set()
    for pattern in tables.patterns:
        found = _find(connection, pattern, named)
        if not found and not tables.may_be_empty:
            raise NoTableMatches(pattern)
        (by_pattern if is_pattern(pattern) else wanted).update(found)
    unwanted = {found for pattern in tables.excluding for found in _find(connection, pattern, named)}
    roots = wanted | by_pattern | unwanted
    # A partition is captured with the table above it, and omitted with it.
    parts = {one.source_id for one in named if not roots.isdisjoint(one.ancestors)}
    return sorted((wanted | by_pattern - parts) - unwanted)


def _find(connection: Connection, pattern: str, named: Sequence[NamedTable]) -> set[int]:
    """Raises `TableNotFound` for a name that is none, `TablePatternInvalid`."""
    if not is_pattern(pattern):
        found = find_table_id(connection, pattern)
        if found is None:
            raise TableNotFound(pattern)
        return {found}
    parsed = parse_pattern(pattern)
    return {one.source_id for one in named if parsed.matches(one.schema, one.name, is_visible=one.is_visible)}


def _plan_each(
    connection: Connection, chosen: Sequence[SourceTable], request: InstanceRequest, enabled: Sequence[EnabledTable]
) -> Iterator[TableOutcome]:
    """Instances that are planned count as enabled for the tables after them: their names may be the same."""
    beside = list(enabled)
    names = {one.source_id: one.capture_instance for one in reversed(enabled)}
    for table in chosen:
        about = TableOutcome(table.schema, table.name, Outcome.PLANNED, source_id=table.source_id)
        if table.source_id in names:
            name = names[table.source_id]
            yield replace(about, outcome=Outcome.SKIPPED, capture_instance=name, reason="it is enabled already")
            continue
        try:
            instance = postgres.define_beside(table, request, beside)
        except RowtideError as error:
            yield _fail(about, error)
            continue
        beside.append(
            EnabledTable(instance.capture_instance, table.source_id, instance.member_id, instance.refuses_truncate)
        )
        about = replace(about, capture_instance=instance.capture_instance, child_tables=table.child_tables)
        cost = read_image_cost(connection, table) if instance.before_images is BeforeImages.FULL else None
        if cost is not None:
            about = replace(about, large_columns=cost.columns, out_of_line_bytes=cost.out_of_line_bytes)
        yield about


def _change(
    database: str,
    table: SourceTable,
    request: InstanceRequest,
    note: Callable[[SourceTable], Sequence[Executable]],
) -> MembershipChange:
    def plan(connection: Connection) -> Sequence[Executable]:
        source = access.own_source(connection, database)
        # Read in this transaction, because it may have been altered since it was chosen.
        present = read_table(connection, table.source_id)
        return [
            *postgres.plan_enable_table(connection, source, present, request, locks_briefly=True)[1],
            *note(present),
        ]

    key_index = request.index_name if request.index_name != table.key_name else None
    mode = membership.find_lock_mode(table, request.before_images, key_index)
    return MembershipChange(table.source_id, table.qualified_name, mode, plan)


def _conclude(planned: TableOutcome, errors: dict[int, RowtideError | None]) -> TableOutcome:
    if planned.outcome is not Outcome.PLANNED:
        return planned
    error = errors[planned.source_id]
    return _fail(planned, error) if error is not None else replace(planned, outcome=Outcome.ENABLED)


def _fail(about: TableOutcome, error: RowtideError) -> TableOutcome:
    return replace(about, outcome=Outcome.FAILED, capture_instance=None, reason=str(error), error=error)

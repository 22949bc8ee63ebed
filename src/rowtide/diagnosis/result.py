"""The results of a diagnosis: the state of a subject, a message that says why, and its remediation. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.codes import Area, Code

AS_OWNER = "as the table's owner"
"""The note of statements that alter a table."""
LOG = "log, capture and publications"
"""The subject of all that is read through the log, where its definitions could not be read."""


class State(StrEnum):
    """The states of a subject, the worst first."""

    FAILING = "failing"
    """It does not work or cannot start, or changes are lost."""
    WARNING = "warning"
    """It works or can continue, and will fail unless something is done."""
    UNKNOWN = "unknown"
    """Nothing is known of it. Counts as a warning."""
    HEALTHY = "healthy"
    """It works; or a note of how it will behave here."""


@frozen
class Sql:
    """Statements to run one after the other, each ended by a semicolon; `note` says as which role, and what follows."""

    statements: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        return " ".join([*self.statements, *([f"-- {self.note}"] if self.note else [])])


@frozen
class ShellCommand:
    """A line for the shell, with the database in ROWTIDE_DB."""

    line: str

    def __str__(self) -> str:
        return self.line


@frozen
class Advice:
    """Advice, for what only a person can decide or do."""

    text: str

    def __str__(self) -> str:
        return self.text


Remediation = Sql | ShellCommand | Advice


class Unit(StrEnum):
    """The unit of a measure."""

    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes per second"
    SECONDS = "seconds"
    COUNT = "count"


@frozen
class Measure:
    """A measured value on which a message is based."""

    name: str
    value: float
    unit: Unit


@frozen
class CheckResult:
    """One result for a subject; `remediation` is None where nothing has to be done.

    `code` is stable across versions; `measures` are the values on which the message is based.
    """

    code: Code
    state: State
    subject: str
    message: str
    remediation: Remediation | None = None
    measures: tuple[Measure, ...] = ()

    @property
    def area(self) -> Area:
        """The part of rowtide that it is about."""
        return self.code.area

    @property
    def is_note(self) -> bool:
        """Whether this only says how something behaves here; `health` leaves it out."""
        return self.state is State.HEALTHY and not self.code.says_how_it_works


@frozen
class Unread:
    """Facts that could not be read, and why."""

    error: RowtideError


Known = TypeVar("Known")
_EXIT_CODES = {State.FAILING: 2, State.WARNING: 1, State.UNKNOWN: 1, State.HEALTHY: 0}


def attempt(read: Callable[[], Known]) -> Known | Unread:
    """Read facts; one area that cannot be read must not hide the others."""
    try:
        return read()
    except RowtideError as error:
        return Unread(error)


def by_state(results: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results, the worst first, else in the order in which they were found."""
    order = list(State)
    return tuple(sorted(results, key=lambda result: order.index(result.state)))


def worst(results: Iterable[CheckResult]) -> State:
    """Return the worst state; without results nothing is known."""
    order = list(State)
    return min((result.state for result in results), key=order.index, default=State.UNKNOWN)


def exit_code(results: Iterable[CheckResult]) -> int:
    """Return 0 where all is healthy, 1 with a warning or an unknown, 2 where anything fails."""
    return _EXIT_CODES[worst(results)]


def _of_state(
    state: State,
    code: Code,
    subject: str,
    message: str,
    remediation: Remediation | str | None = None,
    measures: tuple[Measure, ...] = (),
) -> CheckResult:
    """Return a result; a remediation that is a text is advice."""
    advised = Advice(remediation) if isinstance(remediation, str) else remediation
    return CheckResult(code, state, subject, message, advised, measures)


failing = partial(_of_state, State.FAILING)
"""Return what does not do its work, or cannot begin."""
warning = partial(_of_state, State.WARNING)
"""Return what will fail unless something is done."""
unknown = partial(_of_state, State.UNKNOWN)
"""Return of what nothing is known."""
healthy = partial(_of_state, State.HEALTHY)
"""Return a healthy result, of a code for one."""
note = healthy
"""Return how something behaves here, which is worth knowing and no fault."""


def of_error(
    code: Code, state: State, subject: str, error: RowtideError, remediation: Remediation | str | None = None
) -> CheckResult:
    """Return a result for an error that would be raised later, by default with its hint as remediation."""
    return _of_state(state, code, subject, error.filled_fact, remediation or error.filled_hint)


def unread(code: Code, subject: str, error: RowtideError) -> CheckResult:
    """Return the result for a subject whose facts could not be read because of an error."""
    return of_error(code, State.UNKNOWN, subject, error)


def if_read(
    facts: Known | Unread | None, code: Code, subject: str, check: Callable[[Known], Iterable[CheckResult]]
) -> Iterator[CheckResult]:
    """Check facts, or report that they could not be read."""
    if isinstance(facts, Unread):
        yield unread(code, subject, facts.error)
    elif facts is not None:
        yield from check(facts)


def nothing_enabled() -> CheckResult:
    """Return the result for a database in which rowtide does nothing: another database may be meant."""
    message = "nothing is captured, published, merged or tracked here"
    advice = "Name another database with --db; or begin, `rowtide check` says what it takes."
    return warning(Code.NOTHING_ENABLED, "database", message, advice)


def without_notes(results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """Return the results of a check that `health` shows."""
    return (result for result in results if not result.is_note)


def or_healthy(results: Iterable[CheckResult], healthy: CheckResult) -> Iterator[CheckResult]:
    """Return what is not healthy of a subject, or that it is healthy."""
    yield from tuple(without_notes(results)) or [healthy]


def counts(**values: float | None) -> tuple[Measure, ...]:
    """Return the numbers of things that are known, by their names."""
    return tuple(Measure(name, value, Unit.COUNT) for name, value in values.items() if value is not None)


def sizes(**values: float | None) -> tuple[Measure, ...]:
    """Return the bytes that are known, by their names."""
    return tuple(Measure(name, value, Unit.BYTES) for name, value in values.items() if value is not None)


def rates(**values: float | None) -> tuple[Measure, ...]:
    """Return the bytes per second that are known, by their names."""
    return tuple(Measure(name, value, Unit.BYTES_PER_SECOND) for name, value in values.items() if value is not None)


def times(**values: float | None) -> tuple[Measure, ...]:
    """Return the seconds that are known, by their names."""
    return tuple(Measure(name, value, Unit.SECONDS) for name, value in values.items() if value is not None)


def shell(*words: str) -> ShellCommand:
    """Return a command as the shell takes it."""
    return ShellCommand(shlex.join(words))


def one_after_another(*commands: ShellCommand) -> ShellCommand:
    """Return commands as one line for the shell, which stops at the first that fails."""
    return ShellCommand(" && ".join(command.line for command in commands))


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


_BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))


def format_bytes(count: float) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    power = 0
    while count >= 1024 and power < len(_BYTE_UNITS) - 1:
        count, power = count / 1024, power + 1
    return f"{_rounded(count)} {_BYTE_UNITS[power]}"


def format_duration(seconds: float) -> str:
    """Return a time in the largest unit of which there are two."""
    for length_s, name in _TIME_UNITS:
        if seconds >= 2 * length_s:
            return f"{_rounded(seconds / length_s)} {name}"
    return f"{_rounded(seconds)} s"


def format_names(names: tuple[str, ...], *, most: int = 10) -> str:
    """Return names in a row; of very many the first, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _rounded(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"


@frozen
class Checked:
    """What the check of a database found.

    `others` are the roles, which that of the connection is no member of, that alone can run rowtide's commands here, by
    the commands' first word. `work` is how what rowtide does there works, as `health` says it.
    """

    results: tuple[CheckResult, ...]
    others: Mapping[str, str] = field(default_factory=dict)
    work: tuple[CheckResult, ...] = ()


def address(result: CheckResult, others: Mapping[str, str]) -> CheckResult:
    """Return a result whose remediation names who has to run it, where the role of the connection would in vain.

    Advice that begins with "Let" or "Ask" names somebody already.
    """
    words = _COMMAND.findall(str(result.remediation or ""))
    owner = next((others[word] for word in words if word in others), None)
    if owner is None:
        return result
    match result.remediation:
        case ShellCommand(line):
            return replace(result, remediation=Advice(f"Let {owner} run `{line}`."))
        case Advice(text) if not text.startswith(("Let ", "Ask ")):
            return replace(result, remediation=Advice(f"Let {owner} do it: {text}"))
        case _:
            return result


_COMMAND = re.compile(r"(?:^|`|&& )rowtide (\w+)")

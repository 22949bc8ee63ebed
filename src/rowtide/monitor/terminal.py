"""The monitor's first page in a terminal: databases, the worst first, and the problems of the selected one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.diagnosis.result import format_duration
from rowtide.monitor.views import DatabaseSummary, Overview, StateChange, make_overview
from rowtide.monitor.views.states import WORST_FIRST

if TYPE_CHECKING:
    from rowtide.monitor.web.pages import Polls

_EVERY_S = 1.0
_MOST_CHANGES = 8
_STYLES = {
    State.FAILING: "bold red",
    State.WARNING: "yellow",
    State.UNKNOWN: "cyan",
    State.HEALTHY: "green",
}
_COLUMNS = (("State", 8), ("Database", 20), ("Behind", 12), ("Polled", 8), ("What needs somebody", 20))


@frozen
class Line:
    """A database in the list: its name, its worst state, and the cells beside it."""

    name: str
    state: State
    behind: str
    polled: str
    says: str

    @property
    def cells(self) -> tuple[Text, ...]:
        """The cells of the table."""
        words = (clean(self.name), self.behind, self.polled, clean(self.says))
        return Text(self.state, _STYLES[self.state]), *map(Text, words)


def list_lines(overview: Overview, not_polled: Sequence[str], now: datetime) -> Iterator[Line]:
    """Yield the databases, the worst first, and last those that were not polled yet."""
    for one in overview.databases:
        yield Line(one.name, one.state, _behind(one), _ago(one.polled_at, now), _says(one))
    for name in not_polled:
        yield Line(name, State.UNKNOWN, "", "", "It was not polled yet.")


def describe(one: DatabaseSummary) -> Text:
    """Return the problems of a database, the worst first."""
    text = Text()
    text.append(clean(one.name), "bold")
    if not one.is_up:
        text.append(f"\nIt cannot be read since {one.unknown_since:%Y-%m-%d %H:%M:%S} UTC", "bold red")
        text.append(f": {clean(one.reason or '')}")
        return text
    for judged in one.worst:
        text.append(f"\n{judged.state:8} ", _STYLES[judged.state])
        text.append(f"{clean(judged.subject)}: {clean(judged.message)}")
    if not one.worst:
        healthy = one.counts[State.HEALTHY]
        text.append(f"\nAll {healthy} subjects are healthy." if healthy else "\nrowtide does nothing here.")
    return text


def describe_changes(changes: Sequence[StateChange]) -> Text:
    """Return what has changed within the last hour, newest first."""
    text = Text()
    text.append("Changed in the last hour", "bold")
    for one in changes[:_MOST_CHANGES]:
        text.append(f"\n{one.at.astimezone(UTC):%H:%M:%S} ")
        text.append(f"{one.after or 'gone':8} ", _STYLES[one.after] if one.after is not None else "")
        text.append(f"{clean(one.database)}: {clean(one.subject)}")
    if not changes:
        text.append("\nNothing has changed its state.")
    return text


def clean(text: str) -> str:
    """Return a text on one line, without control characters and bidirectional overrides."""
    return "".join(letter if letter.isprintable() else "�" for letter in " ".join(text.split()))


def _behind(one: DatabaseSummary) -> str:
    return format_duration(one.slowest_s) if one.slowest_s is not None else ""


def _ago(at: datetime, now: datetime) -> str:
    return f"{max(round((now - at).total_seconds()), 0)} s"


def _says(one: DatabaseSummary) -> str:
    if not one.is_up:
        return one.reason or "It cannot be read."
    return "; ".join(judged.subject for judged in one.worst) or "nothing"


class Top(App[None]):
    """Shows the results of polls until q is pressed."""

    TITLE = "rowtide top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "Quit"), Binding("tab", "focus_next", "Scroll")]
    CSS = """
    #totals { height: 1; padding: 0 1; }
    #databases { height: auto; max-height: 50%; }
    #below { padding: 0 1; }
    #changes { margin-top: 1; }
    """

    def __init__(self, polls: Polls) -> None:
        super().__init__()
        self._polls = polls
        self._lines: list[Line] = []
        self._summaries: dict[str, DatabaseSummary] = {}

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Static(id="totals")
        yield DataTable[Text](id="databases", cursor_type="row", zebra_stripes=False)
        with VerticalScroll(id="below"):
            yield Static(id="chosen")
            yield Static(id="changes")
        yield Footer()

    def on_mount(self) -> None:
        """Start refreshing."""
        table = self._table
        for name, width in _COLUMNS:
            table.add_column(name, width=width)
        table.focus()
        self.show_polled()
        self.set_interval(_EVERY_S, self.show_polled)

    def on_data_table_row_highlighted(self) -> None:
        """Show the selected database."""
        self._show_chosen()

    def show_polled(self) -> None:
        """Show the results of the last polls; the selection stays."""
        polled = self._polls.list_polled()
        overview = make_overview((one.view for one in polled), (change for one in polled for change in one.changes))
        known = {one.view.name for one in polled}
        not_polled = [name for name in self._polls.list_readiness() if name not in known]
        self._summaries = {one.name: one for one in overview.databases}
        lines = list(list_lines(overview, not_polled, datetime.now(UTC)))
        if lines != self._lines:
            self._show_lines(lines)
        self.query_one("#totals", Static).update(_describe_totals(overview, len(not_polled)))
        self.query_one("#changes", Static).update(describe_changes(overview.changes))
        self._show_chosen()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#databases", DataTable)

    def _show_lines(self, lines: list[Line]) -> None:
        chosen = self._find_chosen()
        self._lines = lines
        table = self._table
        table.clear()
        for line in lines:
            table.add_row(*line.cells)
        names = [line.name for line in lines]
        if chosen in names:
            table.move_cursor(row=names.index(chosen))

    def _find_chosen(self) -> str | None:
        row = self._table.cursor_row
        return self._lines[row].name if 0 <= row < len(self._lines) else None

    def _show_chosen(self) -> None:
        chosen = self._summaries.get(self._find_chosen() or "")
        self.query_one("#chosen", Static).update(describe(chosen) if chosen is not None else "")


def _describe_totals(overview: Overview, waiting: int) -> Text:
    text = Text()
    text.append("rowtide  ", "bold")
    for state in WORST_FIRST:
        text.append(f"{overview.totals[state]} {state}  ", _STYLES[state] if overview.totals[state] else "dim")
    if waiting:
        text.append(f"{waiting} not polled yet", "dim")
    return text

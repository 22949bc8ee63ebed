"""`rowtide top`: the first page in a terminal of 80 columns, by Textual's pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from builders.commands.command_lines import rowtide
from builders.monitor.made_views import ALL, EMPTY, FAILING, HEALTHY, HOSTILE, UNREACHABLE, MadePolls
from rowtide.monitor.terminal import Top, clean

Looking = Callable[[Top, Pilot[None]], Awaitable[None]]


def look(polls: MadePolls, looking: Looking, size: tuple[int, int] = (80, 24)) -> Top:
    """Run the application, without a terminal, as long as somebody looks."""
    app = Top(polls)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await looking(app, pilot)

    asyncio.run(run())
    return app


def names_of(app: Top) -> list[str]:
    table = app.query_one(DataTable)
    return [str(table.get_row_at(row)[1]) for row in range(table.row_count)]


def text_of(app: Top, widget: str) -> str:
    return str(app.query_one(widget, Static).render())


def test_databases_are_listed_the_worst_first() -> None:
    async def looking(app: Top, _pilot: Pilot[None]) -> None:
        assert names_of(app) == ["crm", "gone", clean(HOSTILE.name), "large", "empty", "shop", "later"]
        totals = text_of(app, "#totals")
        assert "1 not polled yet" in totals
        assert "90 MB remain until it is lost." in text_of(app, "#chosen")
        assert app.screen.virtual_size.width == 80

    look(MadePolls(ALL, ["later"]), looking)


def test_the_chosen_database_stays_chosen() -> None:
    polls = MadePolls((FAILING, HEALTHY, UNREACHABLE))

    async def looking(app: Top, pilot: Pilot[None]) -> None:
        assert names_of(app) == ["crm", "gone", "shop"]
        await pilot.press("down")
        await pilot.pause()
        assert "It cannot be read since" in text_of(app, "#chosen")
        polls.set_views((HEALTHY, UNREACHABLE, EMPTY))
        app.show_polled()
        await pilot.pause()
        assert names_of(app)[0] == "gone"
        assert "It cannot be read since" in text_of(app, "#chosen")
        polls.set_views(())
        app.show_polled()
        await pilot.pause()
        assert names_of(app) == []
        assert text_of(app, "#chosen") == ""

    look(polls, looking)


def test_names_cannot_write_to_the_terminal() -> None:
    async def looking(app: Top, _pilot: Pilot[None]) -> None:
        shown = text_of(app, "#chosen")
        assert "<script>alert(1)</script>: " in shown
        assert "two lines" in shown
        assert "\u202e" not in shown

    look(MadePolls((HOSTILE,)), looking)
    assert clean("a\x1b[31m\x07\u202eb\nc [bold]") == "a�[31m��b c [bold]"


def test_q_ends_it() -> None:
    async def looking(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running

    assert look(MadePolls(ALL[:1]), looking).return_code == 0


def test_without_a_terminal_it_says_so() -> None:
    ended = rowtide("top", "--db", "postgresql://localhost/shop")
    ended.require_error(7214)

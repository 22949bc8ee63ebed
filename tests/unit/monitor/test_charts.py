"""Pictures of pages: where their lines and bars are, and what they say to those who do not see them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from builders.monitor.made_views import make_capture, make_consumer, make_database, make_instance
from rowtide.diagnosis.result import format_duration
from rowtide.monitor.gauge_series import Point
from rowtide.monitor.views import CleanupView
from rowtide.monitor.web.charts import HEIGHT, WIDTH, draw_interval, draw_line, state_of_instance

END = datetime(2026, 11, 30, 12, tzinfo=UTC)
BEGIN = END - timedelta(hours=24)


def at(hours: float, value: float | None) -> Point:
    return Point(BEGIN + timedelta(hours=hours), value)


def test_a_line_is_broken_where_nothing_is_known() -> None:
    points = [at(0, 0.0), at(0.1, 10.0), at(0.2, None), at(0.3, 5.0), at(12, 20.0), at(12.1, -3.0)]
    line = draw_line(points, BEGIN, END, "Behind", format_duration)
    assert line is not None
    assert len(line.lines) == len(line.areas) == 3
    assert line.lines[0].split() == [f"0,{HEIGHT}", f"2,{HEIGHT - HEIGHT * 10 / 22:.1f}"]
    assert line.lines[2].split()[0].startswith(f"{WIDTH / 2:g},")
    assert line.lines[2].split()[1].endswith(f",{HEIGHT}"), "a value below zero is drawn at the bottom"
    assert line.summary == "Behind: now -3 s, highest 20 s in 24 hours"


def test_a_line_without_a_last_value_says_so() -> None:
    line = draw_line([at(23.5, 1.0), at(23.9, None)], BEGIN, END, "Behind", format_duration)
    assert line is not None
    assert line.summary == "Behind: now unknown, highest 1 s in the last hour"
    assert draw_line([at(1, None)], BEGIN, END, "Behind", format_duration) is None
    assert draw_line([], BEGIN, END, "Behind", format_duration) is None


def test_a_line_of_zeros_is_at_the_bottom() -> None:
    line = draw_line([at(0, 0.0), at(0.1, 0.0)], BEGIN, END, "Behind", format_duration)
    assert line is not None
    assert line.lines == (f"0,{HEIGHT} 2,{HEIGHT}",)


def test_an_interval_shows_its_gaps_and_its_consumers() -> None:
    view = make_database("shop", consumers=2)
    instance = make_instance("item", gaps=2)
    bar = draw_interval(view, instance)
    assert bar is not None
    assert [(gap.x, gap.width) for gap in bar.gaps] == [(48.0, 9.6), (96.0, 9.6)]
    assert {gap.label for gap in bar.gaps} == {"the slot was lost"}
    assert [(mark.x, mark.label) for mark in bar.marks] == [
        (WIDTH / 2, "consumer consumer 0"),
        (WIDTH / 2, "consumer consumer 1"),
    ]
    assert bar.summary.endswith("UTC, with 2 gaps")
    assert state_of_instance(instance) == "gaps"
    assert make_consumer(0).name == "consumer 0"


def test_the_bar_of_an_instance_has_what_cleanup_removes() -> None:
    instance = replace(make_instance("item"), consumers=())
    capture = replace(make_capture(1.0, ["item"]), cleanup=CleanupView("hourly", 35 * 3600.0, None, None, None))
    bar = draw_interval(make_database("shop", capture=capture), instance)
    assert bar is not None
    assert [(mark.x, mark.label) for mark in bar.marks] == [(WIDTH / 2, "cleanup removes what is before")]


def test_an_instance_of_which_nothing_is_published_has_no_bar() -> None:
    instance = replace(make_instance("item"), interval=None)
    assert draw_interval(make_database("shop"), instance) is None
    assert state_of_instance(instance) == "unknown"
    assert state_of_instance(replace(instance, is_dropped=True)) == "dropped"
    assert state_of_instance(make_instance("item")) == "readable"

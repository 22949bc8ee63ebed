"""Long lists in pages: what is looked for, and a page of it."""

from __future__ import annotations

import pytest

from rowtide.monitor.web.listing import PAGE_ROWS, Listed, list_rows

ROWS = [(f"Table {number}", "healthy" if number % 10 else "failing") for number in range(250)]


def search(**query: str) -> Listed[tuple[str, str]]:
    return list_rows(ROWS, query, names=lambda row: (row[0],), state=lambda row: row[1])


def test_without_a_query_the_first_page_is_shown() -> None:
    listed = search()
    assert (len(listed.rows), listed.found, listed.total, listed.page, listed.pages) == (PAGE_ROWS, 250, 250, 1, 3)
    assert listed.states == {"failing": 25, "healthy": 225}
    assert listed.link(2) == "?page=2"
    assert listed.link(1) == "?"


def test_text_and_state_are_looked_for() -> None:
    listed = search(q=" TABLE 24", state="healthy")
    assert [row[0] for row in listed.rows] == ["Table 24", *(f"Table 24{number}" for number in range(1, 10))]
    assert (listed.found, listed.total) == (10, 250)
    assert listed.link(2) == "?q=TABLE+24&state=healthy&page=2"


@pytest.mark.parametrize(
    ("page", "shown"), [("2", 2), ("3", 3), ("4", 3), ("0", 1), ("-1", 1), ("x", 1), ("\u00b2", 1), ("9" * 5000, 1)]
)
def test_a_page_that_is_not_there_is_the_nearest(page: str, shown: int) -> None:
    assert search(page=page).page == shown


def test_nothing_found_is_one_empty_page() -> None:
    listed = search(q="nothing")
    assert (list(listed.rows), listed.found, listed.page, listed.pages) == ([], 0, 1, 1)

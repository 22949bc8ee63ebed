"""Pagination and search of long lists. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Generic, TypeVar
from urllib.parse import urlencode

from rowtide.core.values import frozen

PAGE_ROWS = 100
Row = TypeVar("Row")


@frozen
class Listed(Generic[Row]):
    """A page of the rows that were looked for; `found` of `total` rows are on `pages` pages, of which this is `page`.

    `states` are those that any row has, with their numbers; `state` and `text` are what is looked for, `others` what
    else the page's query has.
    """

    rows: Sequence[Row]
    total: int
    found: int
    page: int
    pages: int
    text: str
    state: str
    states: Mapping[str, int]
    others: Mapping[str, str] = field(default_factory=dict)

    def link(self, page: int) -> str:
        """Return the query of another page of the same rows."""
        given = {**self.others, "q": self.text, "state": self.state, "page": page if page > 1 else ""}
        return "?" + urlencode({name: value for name, value in given.items() if value})


def list_rows(
    rows: Sequence[Row],
    query: Mapping[str, str],
    names: Callable[[Row], Sequence[str]],
    state: Callable[[Row], str],
    others: Mapping[str, str] | None = None,
) -> Listed[Row]:
    """Return the page of rows that a query asks for: `q` is in one of a row's names, whatever the case, `state` is its
    state. A page that is not there is the nearest.
    """
    text, wanted = query.get("q", "").strip(), query.get("state", "")
    states: dict[str, int] = {}
    for row in rows:
        states[state(row)] = states.get(state(row), 0) + 1
    folded = text.casefold()
    found = [
        row
        for row in rows
        if (not wanted or state(row) == wanted)
        and (not folded or any(folded in name.casefold() for name in names(row)))
    ]
    page, pages = choose_page(query, len(found))
    return Listed(
        rows=found[(page - 1) * PAGE_ROWS : page * PAGE_ROWS],
        total=len(rows),
        found=len(found),
        page=page,
        pages=pages,
        text=text,
        state=wanted,
        states=dict(sorted(states.items())),
        others=others or {},
    )


def choose_page(query: Mapping[str, str], found: int) -> tuple[int, int]:
    """Return the page that a query asks for, or the nearest, and how many pages so many rows have."""
    pages = max(-(-found // PAGE_ROWS), 1)
    given = query.get("page", "1")
    page = min(max(int(given), 1), pages) if given.isascii() and given.isdigit() and len(given) < 10 else 1
    return page, pages

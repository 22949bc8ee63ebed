"""Pages of conflicts in a browser: lists, versions, previews, downloads, and what viewers do not see."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from builders.monitor.made_inboxes import SHOP, MadeInboxes, make_inboxes, make_update
from builders.monitor.made_views import ALL, HOSTILE, NOW, MadePolls
from builders.monitor.page_servers import Answer, PageServer, serving_pages
from rowtide.conflicts.inbox import Choice
from rowtide.monitor.inboxes import ConflictIndex, InboxReading
from rowtide.monitor.web.access import Access, Operating

ANNA, BEN = "anna-token-0123456789", "ben-token-0123456789"

ONE = SHOP[2]
CAUSE = ONE.cause
LIST = "/db/shop/conflicts"
PATHS = [
    *("/conflicts", "/conflicts?open=any", "/db/large/conflicts", "/db/gone/conflicts", "/db/crm/conflicts"),
    *(LIST, f"{LIST}?table=public.plate", f"{LIST}?age=older-week", f"{LIST}?q=nothing"),
    *(f"{LIST}/{one.conflict_id}" for one in (ONE, *SHOP[-3:])),
    *(f"{LIST}/{ONE.conflict_id}?choice={choice}" for choice in Choice),
    *(f"{LIST}/{quote(CAUSE, safe='')}{query}" for query in ("", "?choice=otherwise", "?choice=nonsense")),
    f"/db/{quote(HOSTILE.name, safe='')}/conflicts",
    *(f"/db/{quote(HOSTILE.name, safe='')}/conflicts/c{100 + number:011}?choice=otherwise" for number in range(6)),
]


@pytest.fixture(scope="module")
def inboxes() -> MadeInboxes:
    return make_inboxes()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, inboxes: MadeInboxes) -> Iterator[PageServer]:
    with serving_conflicts(tmp_path_factory.mktemp("ring"), inboxes) as server:
        yield server


@contextmanager
def serving_conflicts(folder: Path, inboxes: MadeInboxes) -> Iterator[PageServer]:
    """Serve pages to Anna, who is an operator, and to Ben, who is not."""
    access = Access(read_tokens={ANNA: "anna", BEN: "ben"}.copy, operators=frozenset({"anna"}))
    operating = Operating(urls={}, allows_actions=True, shows_values=True)
    with serving_pages(folder, MadePolls(ALL), access, operating, inboxes=inboxes) as server:
        yield server


@contextmanager
def looking(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open a page as Anna does."""
    context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {ANNA}"}, **options)
    try:
        yield context.new_page()
    finally:
        context.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with looking(browser) as page:
        yield page


def read(pages: PageServer, path: str, token: str = ANNA) -> Answer:
    return pages.request(path, Authorization=f"Bearer {token}")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")])
def test_each_page_is_whole_and_for_everybody(browser: Browser, pages: PageServer, width: int, scheme: str) -> None:
    with looking(browser, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True) as page:
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        for path in PATHS:
            answer = page.goto(f"{pages.address}{path}")
            assert answer is not None
            assert answer.status == 200, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
            assert page.locator("h1").count() == 1
        for path in ("/conflicts", LIST, f"{LIST}/{ONE.conflict_id}?choice=otherwise"):
            page.goto(f"{pages.address}{path}")
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert faults == []


def test_conflicts_are_found_by_filters_without_scripts(browser: Browser, pages: PageServer) -> None:
    with looking(browser, java_script_enabled=False) as page:
        page.goto(f"{pages.address}/")
        page.get_by_role("link", name="All conflicts").click()
        assert "32 open" in page.locator("main").inner_text()
        page.goto(f"{pages.address}{LIST}")
        assert page.locator("caption").last.inner_text() == "26 of 27 conflicts, oldest first"
        page.get_by_label("Table").select_option("public.plate")
        page.get_by_role("button", name="Show").click()
        assert page.locator("caption").last.inner_text() == "1 of 27 conflicts, oldest first"
        page.goto(f"{pages.address}{LIST}")
        page.get_by_label("State").select_option("settled")
        page.get_by_label("Node or publication").fill("DB2")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="public.item id = 40").click()
        assert "It is settled by ann@desk: the publisher wins" in page.locator("#state").inner_text()


def test_a_cause_is_one_decision_that_is_previewed(page: Page, pages: PageServer, inboxes: MadeInboxes) -> None:
    page.goto(f"{pages.address}{LIST}")
    page.get_by_role("link", name="public.item: update origin differs").click()
    assert page.locator("h1").inner_text() == "25 conflicts in public.item"
    assert page.locator("tr.differs th").all_inner_texts() == ["price differs", "note differs"]
    inboxes.asked.clear()
    page.get_by_role("link", name="Decide otherwise …").click()
    assert inboxes.asked == [(CAUSE, Choice.OTHERWISE)]
    shown = page.locator(".preview").inner_text()
    assert "It would overwrite later changes of 1 row." in shown
    assert "The first 20 of 24 open conflicts are shown, 4 more are decided alike" in shown
    assert "2.90 → 3.50" in shown
    over = page.get_by_role("link", name="Decide over later changes …").get_attribute("href")
    assert over == f"/db/shop/act/conflicts/decide?name={quote_plus(CAUSE)}&choice=otherwise&over_later_changes=1"
    page.get_by_role("link", name="Keep the subscriber's …").click()
    assert "No row is written" in page.locator(".preview").inner_text()


def test_a_conflict_says_who_wrote_which_version(page: Page, pages: PageServer) -> None:
    page.goto(f"{pages.address}{LIST}/{ONE.conflict_id}")
    publisher, subscriber = page.locator("table.versions tfoot td").all_inner_texts()[:2]
    assert publisher == f"{ONE.created:%Y-%m-%d %H:%M:%S} UTC"
    assert subscriber.startswith(f"at {ONE.node}, between the synchronisations of ")


def test_a_conflict_is_json_without_values_for_viewers(pages: PageServer) -> None:
    path = f"/api/v1/databases/shop/conflicts/{ONE.conflict_id}"
    told, hidden = (json.loads(read(pages, path, token).body) for token in (ANNA, BEN))
    assert [one["side"] for one in told["written"]] == ["publisher", "subscriber"]
    assert {one["column"]: one["base"] for one in told["columns"]}["price"] == "3.20"
    assert [one["differs"] for one in hidden["columns"]] == [one["differs"] for one in told["columns"]]
    for value in ("Glass", "3.50", "2.90", "branch"):
        assert value in str(told)
        assert value not in str(hidden)
    assert read(pages, "/api/v1/databases/shop/conflicts/absent").status == 404
    assert read(pages, "/api/v1/databases/absent/conflicts/c1").status == 404


def test_thousands_of_conflicts_have_pages_and_causes(tmp_path: Path) -> None:
    conflicts = [
        make_update(number, node=f"//db{number % 7}/shop", table=f"public.t{number % 4}") for number in range(1, 2001)
    ]
    inboxes = MadeInboxes({"shop": InboxReading(ConflictIndex.make(conflicts), (), NOW)})
    with serving_conflicts(tmp_path, inboxes) as server:
        first, last = (read(server, f"{LIST}{query}").body for query in ("?table=public.t3", "?table=public.t3&page=5"))
        assert "500 of 2,000 conflicts" in first
        # The oldest is the first of the first page, the newest the last of the last.
        assert conflicts[-2].conflict_id in first
        assert (conflicts[2].conflict_id in first, conflicts[2].conflict_id in last) == (False, True)
        found = read(server, f"{LIST}?q=DB3&age=older-week").body
        expected = sum(number % 7 == 3 and number * 3 > 7 * 24 for number in range(1, 2001))
        assert f"{expected:,} of 2,000 conflicts" in found
        (count,) = {row.split("<")[0] for row in found.split('data-label="Conflicts" class="number">')[1:2]}
        assert int(count) == sum(number % 28 == 3 and number * 3 > 7 * 24 for number in range(1, 2001))


def test_a_conflict_settled_elsewhere_says_so(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    inboxes = make_inboxes()
    with serving_conflicts(tmp_path_factory.mktemp("ring"), inboxes) as server:
        page.clock.install()
        page.goto(f"{server.address}{LIST}/{ONE.conflict_id}?choice=otherwise")
        assert "It is open" in page.locator("#state").inner_text()
        inboxes.settle("shop", ONE.conflict_id)
        inboxes.asked.clear()
        page.clock.fast_forward(16_000)
        page.get_by_text("It is settled by ann@desk").wait_for()
        # The page asks how the conflict stands, not for the preview once more.
        assert inboxes.asked == []
        assert page.locator(".preview").count() == 1


def test_viewers_see_no_value_of_a_row(pages: PageServer, inboxes: MadeInboxes) -> None:
    inboxes.asked.clear()
    for path in (LIST, f"{LIST}/{ONE.conflict_id}?choice=otherwise", f"{LIST}/{quote(CAUSE, safe='')}?choice=keep"):
        told, hidden = (read(pages, path, token).body for token in (ANNA, BEN))
        assert "id = 3" in told or "3.50" in told
        for value in ("Glass", "3.50", "2.90", "id = ", "branch", "/act/"):
            assert value not in hidden, (path, value)
        assert "•••" in hidden
    assert len(inboxes.asked) == 2, "a viewer has made a preview"
    assert "<tbody>" not in read(pages, f"{LIST}?q=Glass", BEN).body


def test_a_download_has_what_the_list_has(pages: PageServer) -> None:
    answer = read(pages, f"{LIST}?open=any&format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="conflicts.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.body)))
    assert len(rows) == 27
    assert {row["database"] for row in rows} == {"shop"}
    assert "Glass, green" in rows[0]["publisher_row"]
    hidden = read(pages, f"{LIST}?open=any&format=csv", BEN).body
    assert "Glass" not in hidden
    assert len(list(csv.DictReader(io.StringIO(hidden)))) == 27


def test_conflicts_that_are_not_there_say_so(pages: PageServer, inboxes: MadeInboxes) -> None:
    for path in (f"{LIST}/absent", f"{LIST}/{ONE.conflict_id}/more", "/db/large/conflicts/c1", "/conflicts/absent"):
        assert read(pages, path).status == 404, path
    found = read(pages, f"/conflicts/{ONE.conflict_id}")
    assert (found.status, found.headers["location"]) == (303, f"{LIST}/{ONE.conflict_id}")
    assert "operator_url" in read(pages, "/db/large/conflicts").body
    inboxes.failure = "RT-8171: rows of line reference it"
    try:
        shown = read(pages, f"{LIST}/{ONE.conflict_id}?choice=otherwise").body
        assert "Refused: RT-8171" in shown
    finally:
        inboxes.failure = None

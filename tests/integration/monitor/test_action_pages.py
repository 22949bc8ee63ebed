"""Pages of actions in a browser: confirmed without scripts, readable at each width, for those who do not see them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from builders.monitor.made_views import HEALTHY, HOSTILE_NAMES, MadePolls, make_database
from builders.monitor.page_servers import PageServer, serving_pages
from rowtide.handle import connect
from rowtide.monitor.views import MergeSubscriptionView, MergeView
from rowtide.monitor.web.access import Access, Operating

TOKEN = "anna-token-0123456789"
HUB = "field"
HOSTILE = HOSTILE_NAMES[0]
SUBSCRIPTION = "/db/shop/replication/stock/" + quote("//db2/shop", safe="")


@dataclass
class Operated:
    """A monitor of a hub, which is a file, and of a database that is only viewed."""

    server: PageServer
    device: str
    place: Path

    def open(self, context: BrowserContext) -> Page:
        """Sign in, as a person does."""
        page = context.new_page()
        page.goto(f"{self.server.address}/sign-in?next=/db/hub/merge")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/db/hub/merge")
        return page

    @property
    def paths(self) -> list[str]:
        """The pages of actions."""
        of_device = urlencode({"publication": HUB, "subscriber": self.device})
        hostile = urlencode({"publication": HOSTILE, "subscriber": HOSTILE_NAMES[1]})
        return [
            *("/db/hub/merge", "/db/hub/audit", "/db/shop/audit", "/db/shop/capture"),
            f"/db/hub/act/merge/validate?{of_device}",
            f"/db/hub/act/merge/reinitialize?{hostile}",
            "/db/hub/act/conflicts/decide?name=cause-0f3c&choice=otherwise",
            "/db/hub/act/conflicts/comment?name=cause-0f3c",
        ]


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    place = tmp_path_factory.mktemp("operated")
    for name, sql in (
        ("hub.db", "create table item (id integer primary key, name text); insert into item values (1, 'first')"),
        ("device.db", "pragma user_version = 1"),
    ):
        with sqlite3.connect(place / name) as session:
            session.executescript(sql)
        session.close()
    hub, device = f"sqlite:///{place}/hub.db", f"sqlite:///{place}/device.db"
    merge = connect(hub).merge
    merge.add_publication(HUB)
    merge.add_article(HUB, "item")
    merge.add_subscription(HUB, device)
    merge.synchronise(HUB, device)
    for name, written in (("hub.db", "hub's"), ("device.db", "device's")):
        with sqlite3.connect(place / name) as session:
            session.execute("update item set name = ? where id = 1", (written,))
        session.close()
    merge.synchronise(HUB, device)
    shown = MergeView(HUB, 0, (MergeSubscriptionView(HUB, device, "healthy", 60.0, 86_400.0, 0),))
    polls = MadePolls([make_database("hub", merges=[shown]), replace(HEALTHY, name="shop")])
    access = Access(read_tokens=lambda: {TOKEN: "anna"}, operators=frozenset({"anna"}))
    operating = Operating(urls={"hub": hub}, own_urls={"shop": device}, allows_actions=True, shows_values=True)
    with serving_pages(place / "ring", polls, access, operating) as server:
        yield Operated(server, device, place)


def test_an_action_is_confirmed_without_scripts(browser: Browser, operated: Operated) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = operated.open(context)
        page.get_by_role("link", name="Validate").click()
        assert page.locator("h1").inner_text() == "Validate?"
        page.get_by_label("Compare values too").check()
        page.get_by_role("button", name="Validate").click()
        page.wait_for_url("**/db/hub/audit/*")
        assert page.get_by_role("status").inner_text() == "Tables with equal rows: 1."
        # The form again: what was done is shown.
        entry = page.url
        page.go_back()
        page.get_by_role("button", name="Validate").click()
        page.wait_for_url(entry)
        page.get_by_role("link", name="Audit").first.click()
        assert page.locator("tbody tr", has_text="merge validate").count() == 1
    finally:
        context.close()


def test_a_conflict_is_commented_on_and_decided(browser: Browser, operated: Operated) -> None:
    """From the inbox, without scripts: what a decision would do is shown, it is confirmed, and the row is written."""
    context = browser.new_context(java_script_enabled=False)
    try:
        page = operated.open(context)
        page.get_by_role("link", name="Conflicts").first.click()
        (conflict,) = connect(f"sqlite:///{operated.place}/hub.db").conflicts.list_conflicts().conflicts
        page.goto(f"{operated.server.address}/conflicts/{conflict.conflict_id}")
        page.get_by_role("link", name="Comment").click()
        page.get_by_label("What others should know").fill("The device is right <b>here</b>.")
        page.get_by_role("button", name="Comment").click()
        page.get_by_role("link", name="Back to").click()
        assert "The device is right <b>here</b>." in page.locator(".notes").inner_text()
        other = "device's" if conflict.won == "publisher" else "hub's"
        page.get_by_role("link", name="Decide otherwise").click()
        assert other in page.locator(".preview").inner_text()
        page.get_by_role("link", name="Decide …", exact=True).click()
        page.get_by_role("button", name="Decide").click()
        assert page.get_by_role("status").inner_text() == "Conflicts decided: 1. Rows were written for 1."
        page.get_by_role("link", name="Back to").click()
        assert "It is settled by anna" in page.get_by_role("status").inner_text()
        with sqlite3.connect(operated.place / "hub.db") as session:
            assert session.execute("select name from item").fetchall() == [(other,)]
        session.close()
        # Whoever still has the page open and decides, too, is refused.
        page.goto(f"{operated.server.address}/db/hub/act/conflicts/decide?name={conflict.conflict_id}&choice=keep")
        page.get_by_role("button", name="Decide").click()
        assert f"{conflict.conflict_id} (RT-1197)" in page.get_by_role("status").inner_text()
        page.goto(f"{operated.server.address}/db/hub/audit")
        assert "right" not in page.locator("tbody").inner_text()
    finally:
        context.close()


def test_what_loses_rows_takes_the_name(browser: Browser, operated: Operated) -> None:
    context = browser.new_context()
    try:
        page = operated.open(context)
        page.get_by_role("link", name="Reinitialize").click()
        page.get_by_label("Type the name").fill("feild")
        page.get_by_role("button", name="Reinitialize").click()
        assert page.get_by_role("alert").inner_text() == "This is not the name: nothing was done."
        page.get_by_label("Type the name").fill(HUB)
        page.get_by_role("button", name="Reinitialize").click()
        page.wait_for_url("**/db/hub/audit/*")
        assert page.get_by_role("status").inner_text() == "Reinitialized."
    finally:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")])
def test_pages_of_actions_are_for_everybody(browser: Browser, operated: Operated, width: int, scheme: str) -> None:
    """No wider than the window, one heading, no fault of axe-core's rules, no dialog of a hostile name."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme=scheme,  # type: ignore[arg-type]
        bypass_csp=True,
    )
    try:
        page = operated.open(context)
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for path in operated.paths:
            answer = page.goto(f"{operated.server.address}{path}")
            assert answer is not None
            assert answer.status == 200, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
            assert page.locator("h1").count() == 1
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert dialogs == []
    finally:
        context.close()


@pytest.mark.parametrize(("operators", "is_offered"), [((), False), (("anna",), True)])
def test_only_operators_are_offered_actions(tmp_path: Path, operators: tuple[str, ...], *, is_offered: bool) -> None:
    access = Access(read_tokens=lambda: {TOKEN: "anna"}, operators=frozenset(operators))
    with serving_pages(tmp_path, MadePolls([HEALTHY]), access, Operating(allows_actions=True)) as server:
        for path in ("/db/shop/capture", "/db/shop/merge", SUBSCRIPTION):
            answer = server.request(path, Authorization=f"Bearer {TOKEN}")
            assert (answer.status, 'class="act"' in answer.body) == (200, is_offered), path

"""A person who has not seen the source opens the monitor, finds what is wrong, and settles it, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from builders.monitor.scrapes import ANY_PORT
from builders.replication.peers import PUBLICATION, Peer
from fixtures.replicated import open_peers
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving
from rowtide.monitor.web.access import Access, Operating
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import SubscriptionSettings

TOKEN = "anna-token-0123456789"
ITEMS = "create table items (id int primary key, price numeric, note text)"
FILLER = "select pg_logical_emit_message(false, 'filler', repeat('x', 900000)) from generate_series(1, 4)"
SAFE = "select safe_wal_size from pg_replication_slots"


@pytest.mark.exhaustive
def test_a_person_finds_and_settles_what_is_wrong(
    scarce_server: EmbeddedServer, browser: Browser, tmp_path: Path
) -> None:
    access = Access(read_tokens={TOKEN: "anna"}.copy, operators=frozenset({"anna"}))
    with open_peers(scarce_server, tmp_path, 2) as (shop, branch):
        prepare(shop, branch)
        operating = Operating(urls={"shop": shop.url}, allows_actions=True, shows_values=True)
        databases = (NamedUrl("shop", shop.url), NamedUrl("branch", branch.url))
        with (
            Ring.open(tmp_path / "ring") as ring,
            serving(databases, ring, ANY_PORT, every_s=0.5, access=access, operating=operating) as served,
        ):
            page = browser.new_page()
            page.goto(f"http://{served.address}/")
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            look = Looking(page, tmp_path)
            settle_subscription(look, shop)
            settle_conflict(look, branch)
            settle_slot(look, shop)
            page.goto(f"http://{served.address}/db/shop/audit")
            listed = page.locator("tbody th").all_inner_texts()
            assert listed == ["conflicts decide", "replication resume"]


def prepare(shop: Peer, branch: Peer) -> None:
    """A conflict that waits, a subscription that is stopped, and a slot that is about to be lost."""
    for peer in (shop, branch):
        peer.execute(ITEMS, "insert into items values (1, 3.20, null), (2, 7, null)")
    shop.publish("items")
    shop.subscribe(branch, settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    branch.execute("update items set price = 2.90 where id = 1")
    shop.execute("update items set price = 3.50 where id = 1")
    shop.deliver()
    connect(shop.url).replication.pause(PUBLICATION)
    while shop.execute(SAFE)[0][0] > 12_000_000:
        shop.execute(FILLER)


class Looking:
    """A person's browser, and the pictures that the test takes."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self._folder = folder
        self._pictures = 0

    def take_picture(self) -> None:
        self._pictures += 1
        self.page.screenshot(path=str(self._folder / f"seen_{self._pictures}.png"), full_page=True)

    def open_first_page(self) -> None:
        self.page.get_by_role("link", name="rowtide", exact=True).click()

    def reload_until(self, is_met: Callable[[], bool]) -> None:
        """Wait until a poll has found what is looked for, as a person does who loads a page again."""
        for _ in range(60):
            if is_met():
                self.take_picture()
                return
            self.page.wait_for_timeout(500)
            self.page.reload()
        raise AssertionError(self.page.locator("main").inner_text())


def settle_subscription(look: Looking, shop: Peer) -> None:
    page = look.page
    look.reload_until(lambda: f"subscription {PUBLICATION} to" in page.locator("main").inner_text())
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("navigation", name="Pages of this database").get_by_role("link", name="Replication").click()
    assert "not running" in page.locator("tbody").first.inner_text()
    look.take_picture()
    page.locator("tbody th a").first.click()
    page.get_by_role("link", name="Resume").click()
    look.take_picture()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Resumed.").wait_for()
    (subscription,) = connect(shop.url).replication.status()
    assert subscription.state == "active"


def settle_conflict(look: Looking, branch: Peer) -> None:
    page = look.page
    look.open_first_page()
    page.get_by_role("link", name="All conflicts").click()
    look.reload_until(lambda: page.locator("tbody tr").count() == 1)
    page.get_by_role("link", name="items").click()
    versions = page.locator("table.versions tr.differs").inner_text()
    assert "3.50" in versions
    assert "2.90" in versions
    page.get_by_role("link", name="Decide otherwise …").click()
    assert "2.90 → 3.50" in page.locator(".preview").inner_text()
    look.take_picture()
    assert branch.rows("items") == ["(1,2.90,)", "(2,7,)"]
    page.get_by_role("link", name="Decide …", exact=True).click()
    look.take_picture()
    page.get_by_role("button", name="Decide").click()
    page.get_by_text("Conflicts decided: 1. Rows were written for 1.").wait_for()
    assert branch.rows("items") == ["(1,3.50,)", "(2,7,)"]


def settle_slot(look: Looking, shop: Peer) -> None:
    page = look.page
    look.open_first_page()
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("navigation", name="Pages of this database").get_by_role("link", name="Check").click()
    slot = page.locator("tr", has_text="slot rowtide")
    look.reload_until(lambda: "it is lost when" in (slot.inner_text() if slot.count() else ""))
    assert slot.get_by_text("warning").count() == 1
    assert slot.get_by_role("button", name="Copy").count() == 1
    # What the page says: the process that reads the log has to run.
    shop.deliver()
    look.reload_until(lambda: "it is lost when" not in page.locator("main").inner_text())

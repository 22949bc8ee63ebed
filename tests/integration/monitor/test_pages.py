"""Pages of the monitor in a browser: in every state, at two widths, light and dark, without a fault of any kind."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from builders.monitor.made_views import (
    ALL,
    HOSTILE,
    HOSTILE_NAMES,
    LONG_WORD,
    NOW,
    MadePolls,
    make_database,
    make_subscription,
)
from builders.monitor.page_servers import PageServer, serving_pages
from rowtide.events import Emitted, listening
from rowtide.events.catalogue import TokensNotRead
from rowtide.monitor.counters import DatabaseCounters
from rowtide.monitor.web.access import COOKIE, Access, AccessOptions, make_access

TOKEN = "anna-token-0123456789"
SECTIONS = ("", "/capture", "/replication", "/merge", "/conflicts", "/check", "/errors")
NAMES = [view.name for view in ALL]
SUBSCRIPTION = "/db/crm/replication/stock/" + quote("//db2/shop", safe="")
INSTANCES = [
    f"/db/{quote(HOSTILE.name, safe='')}/instances/{quote(one.name, safe='')}"
    for one in (HOSTILE.capture.instances if HOSTILE.capture else ())
]
PATHS = [
    *("/", "/topology", "/sign-in", "/manual/RT-1101", "/db/later", "/db/shop/instances/public_item", SUBSCRIPTION),
    *INSTANCES,
    *(f"/db/{quote(name, safe='')}{section}" for name in NAMES for section in SECTIONS),
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    with serving_pages(tmp_path_factory.mktemp("ring"), MadePolls(ALL, ["later"])) as server:
        for minute in range(0, 24 * 60, 5):
            if not 300 < minute < 380:
                lag = 2 + math.sin(minute / 60)
                found = {"rowtide_capture_lag_seconds": lag, "rowtide_log_read_lag_seconds": lag / 2}
                found |= {f"table_changes\n{name}": 1440 - minute for name in ("public.item", *HOSTILE_NAMES)}
                server.ring.save("shop", "system", DatabaseCounters(), NOW - timedelta(minutes=minute), found)
        yield server


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def collect_faults(page: Page) -> list[str]:
    """Collect what a page's console and requests complain of."""
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith("http://127.0.0.1:") else faults.append(request.url)
    )
    return faults


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")])
def test_each_page_is_whole_at_each_width(browser: Browser, pages: PageServer, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        faults = collect_faults(page)
        for path in PATHS:
            answer = page.goto(f"{pages.address}{path}")
            assert answer is not None
            assert answer.status == 200, path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
            assert page.locator("h1").count() == 1
        assert faults == []
    finally:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_for_those_who_do_not_see_them(browser: Browser, pages: PageServer, scheme: str) -> None:
    """The rules of axe-core: contrast, names, labels, order of headings, landmarks."""
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        for path in (
            "/",
            "/topology",
            "/sign-in",
            "/db/shop",
            "/db/crm",
            "/db/large/merge",
            "/db/crm/replication",
            "/db/shop/capture",
        ):
            page.goto(f"{pages.address}{path}")
            found = Axe().run(page)
            assert found.violations_count == 0, f"{path}: {found.generate_report()}"
    finally:
        context.close()


def test_a_hostile_name_is_text(page: Page, pages: PageServer) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    hostile = quote(HOSTILE_NAMES[0], safe="")
    page.goto(f"{pages.address}/db/{hostile}/merge")
    shown = page.locator(".card h2 bdi").all_text_contents()
    assert shown == list(HOSTILE_NAMES)
    assert dialogs == []
    page.goto(f"{pages.address}/")
    page.get_by_role("link", name=HOSTILE_NAMES[0]).click()
    assert page.locator("h1").text_content() == HOSTILE_NAMES[0]


def test_a_page_is_used_by_keyboard(page: Page, pages: PageServer) -> None:
    page.goto(f"{pages.address}/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/db/crm")


def test_a_list_is_searched_without_scripts(browser: Browser, pages: PageServer) -> None:
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{pages.address}/db/large/merge")
        assert page.locator("tbody tr").count() == 100
        page.get_by_role("link", name="Next").click()
        assert "Page 2 of 100" in page.locator("nav.pages").inner_text()
        page.get_by_label("Publication or subscriber").fill("DEVICE 0970")
        page.get_by_role("button", name="Show").click()
        assert page.locator("caption").inner_text() == "10 of 10,000 subscriptions"
        page.get_by_label("State").select_option("healthy")
        page.get_by_role("button", name="Show").click()
        assert page.locator("tbody tr").count() == 9
    finally:
        context.close()


def test_a_page_that_stays_open_is_read_again(browser: Browser, tmp_path: Path) -> None:
    polls = MadePolls(ALL[:1])
    with serving_pages(tmp_path, polls) as server:
        context = browser.new_context()
        try:
            page = context.new_page()
            page.clock.install()
            faults = collect_faults(page)
            page.goto(f"{server.address}/")
            nodes = page.evaluate("document.getElementsByTagName('*').length")
            polls.set_views(ALL[1:2])
            for _ in range(20):
                page.clock.fast_forward(16_000)
                page.wait_for_timeout(20)
            page.get_by_role("link", name="crm").wait_for()
            polls.set_views(ALL[:1])
            page.clock.fast_forward(16_000)
            page.get_by_role("link", name="shop").wait_for()
            assert page.evaluate("document.getElementsByTagName('*').length") == nodes
            assert page.locator("main").count() == 1
            assert faults == []
        finally:
            context.close()


_AT_ONCE = """
const later = window.setTimeout;
window.setTimeout = (run, after, ...given) => later(run, after >= 15000 ? 0 : after, ...given);
window.readAgain = (count) => new Promise((done) => {
  const settled = () => {
    count -= 1;
    if (count > 0) return;
    document.removeEventListener("htmx:afterSettle", settled);
    done();
  };
  document.addEventListener("htmx:afterSettle", settled);
});
"""
"""Lets a page be read again as soon as it was, instead of after 15 seconds, and tells when it was read so often."""


@pytest.mark.parametrize(
    "count",
    [100, pytest.param(1000, marks=pytest.mark.exhaustive), pytest.param(10_000, marks=pytest.mark.soak)],
)
def test_a_page_open_for_days_does_not_grow(browser: Browser, tmp_path: Path, count: int) -> None:
    with serving_pages(tmp_path, MadePolls(ALL)) as server:
        context = browser.new_context()
        try:
            page = context.new_page()
            page.add_init_script(_AT_ONCE)
            page.goto(f"{server.address}/db/crm/capture")
            page.evaluate("readAgain(20)")
            before = measure_page(page)
            page.evaluate(f"readAgain({count})")
            after = measure_page(page)
        finally:
            context.close()
    # A poll may be on its way, with its elements beside those of the page.
    assert after["Nodes"] < 3 * before["Nodes"], (before, after)
    assert after["JSEventListeners"] < before["JSEventListeners"] + 50, (before, after)
    # A week is 40,000 polls: 12 MB at the most.
    assert after["JSHeapUsedSize"] < before["JSHeapUsedSize"] + 500_000 + 300 * count, (before, after)


def measure_page(page: Page) -> dict[str, float]:
    """Return what a page holds in memory."""
    session = page.context.new_cdp_session(page)
    try:
        session.send("Performance.enable")
        session.send("HeapProfiler.collectGarbage")
        return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    finally:
        session.detach()


def test_a_label_of_the_topology_fits_its_node(page: Page, tmp_path: Path) -> None:
    names = (LONG_WORD, "W" * 63, "m" * 63, "東" * 21, "lill" * 12, "Warehouse of München")
    view = make_database("shop", subscriptions=[make_subscription(name, name) for name in names])
    with serving_pages(tmp_path, MadePolls([view])) as server:
        page.goto(f"{server.address}/topology")
        widths = page.locator("svg.graph .node").evaluate_all(
            "nodes => nodes.map(one => [one.querySelector('text').textContent,"
            " one.querySelector('text').getComputedTextLength(), one.querySelector('rect').width.baseVal.value])"
        )
    assert len(widths) == 1 + 2 * len(names)
    assert [(label, taken) for label, taken, width in widths if taken > width - 8] == []
    assert "Warehouse of München" in {label for label, _, _ in widths}


def test_a_subscriber_of_another_name_has_another_page(tmp_path: Path) -> None:
    old, new = (make_database("shop", subscriptions=[make_subscription("stock", f"//{name}/shop")]) for name in "ab")
    polls = MadePolls([old])
    with serving_pages(tmp_path, polls) as server:
        of_old, of_new = (f"/db/shop/replication/stock/{quote(f'//{name}/shop', safe='')}" for name in "ab")
        assert (server.request(of_old).status, server.request(of_new).status) == (200, 404)
        polls.set_views([new])
        assert (server.request(of_old).status, server.request(of_new).status) == (404, 200)


def test_whoever_has_no_token_signs_in(page: Page, tmp_path: Path) -> None:
    tokens = {TOKEN: "anna"}
    access = Access(read_tokens=lambda: tokens, operators=frozenset({"anna"}))
    with serving_pages(tmp_path, MadePolls(ALL[:1]), access) as server:
        faults = collect_faults(page)
        page.goto(f"{server.address}/db/shop?q=a")
        page.get_by_label("Token").fill("wrong-token-0123456789")
        page.get_by_role("button", name="Sign in").click()
        assert page.get_by_role("alert").inner_text() == "This token is not in force."
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/db/shop?q=a")
        assert "anna, operator" in page.locator(".who").inner_text()
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (COOKIE, True, "Strict")
        tokens.clear()
        tokens["another-token-0123456789"] = "ben"
        page.reload()
        page.get_by_label("Token").wait_for()
        assert [fault for fault in faults if "403" not in fault] == []


def test_merge_has_the_contacts_of_devices_over_http(pages: PageServer) -> None:
    shown = pages.request("/db/shop/merge", Accept="text/html").body
    assert '<td data-label="Tokens refused" class="number">4</td>' in shown
    assert "tablet 00001 of field</bdi>, 0.2.0" in shown
    assert "Last contact" not in pages.request("/db/crm/merge", Accept="text/html").body


def test_an_instance_has_its_snapshot_and_schema_changes(pages: PageServer) -> None:
    assert "1,200,000 rows left, about 95 s" in pages.request("/db/shop/instances/public_order").body
    assert "snapshot: 1,200,000 rows left" in pages.request("/db/shop/capture").body
    shown = pages.request("/db/shop/instances/public_item").body
    assert "changed a column&#39;s type, wrote values without change rows" in shown
    assert "altered the table; inferred" in shown


def test_answers_tell_others_nothing(tmp_path: Path) -> None:
    access = Access(read_tokens=lambda: {TOKEN: "anna"})
    with serving_pages(tmp_path, MadePolls(ALL[:1]), access) as server:
        for path in ("/", "/db/shop", "/metrics", "/readyz", "/api/v1/databases", "/api/v1/openapi.json", "/nothing"):
            answer = server.request(path, Accept="*/*")
            assert (answer.status, answer.body) == (401, "no token\n"), path
            assert server.request(path, Accept="*/*", Authorization=f"Bearer {TOKEN}").status in (200, 404)
        assert server.request("/healthz").status == 200
        assert server.request("/", Host="evil.example.com").status == 421
        away = server.request("/sign-in?next=//evil.example.com", "POST", f"token={TOKEN}")
        assert (away.status, away.headers["location"]) == (303, "/")
        assert server.request("/sign-in", "POST", "token=" + "x" * 20_000).status == 413
        for path in ("/static/../access.py", "/static/%2e%2e/access.py", "/static//etc/passwd"):
            assert "def " not in server.request(path).body


def test_tokens_that_cannot_be_read_let_nobody_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"anna {TOKEN}\n")
    path.chmod(0o600)
    access = make_access(AccessOptions(token_file=str(path)), None)
    reported: list[Emitted] = []
    with listening(reported.append), serving_pages(tmp_path / "ring", MadePolls(ALL[:1]), access) as server:
        assert server.request("/", Authorization=f"Bearer {TOKEN}").status == 200
        path.chmod(0o644)
        path.write_text(f"anna {TOKEN}\n\n")
        for _ in range(2):
            refused = server.request("/", Authorization=f"Bearer {TOKEN}")
            assert (refused.status, TOKEN in refused.body) == (503, False)
            assert server.request("/healthz").status == 200
            assert server.request("/sign-in", "POST", f"token={TOKEN}").status == 500
        path.chmod(0o600)
        path.write_text(f"anna {TOKEN}\n")
        assert server.request("/", Authorization=f"Bearer {TOKEN}").status == 200
    assert [type(one.event) for one in reported] == [TokensNotRead]
    assert TOKEN not in str(reported)


def test_every_answer_says_what_a_page_may_load(pages: PageServer) -> None:
    for path in ("/", "/metrics", "/nothing", "/static/monitor.css", "/api/v1/databases"):
        headers = pages.request(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'"), path
        assert headers["x-content-type-options"] == "nosniff"
    assert "style=" not in pages.request("/db/shop").body
    assert "<script>" not in pages.request("/db/" + quote(HOSTILE_NAMES[0], safe="")).body


def test_pages_that_are_not_there_say_so(pages: PageServer) -> None:
    for path in (
        "/nothing",
        "/db/nothing",
        "/db/shop/nothing",
        "/db/",
        "/db/shop/check/more",
        "/db/shop/instances/no",
        "/manual/RT-1",
    ):
        answer = pages.request(path)
        assert answer.status == 404, path
        assert "There is no such page" in answer.body
    assert pages.request("/api/v1/databases/nothing").status == 404
    assert pages.request("/", "POST").status == 405


@pytest.mark.exhaustive
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")])
def test_each_page_has_a_picture(browser: Browser, pages: PageServer, tmp_path: Path, width: int, scheme: str) -> None:
    """Pictures for people to look at, as wide as the window: pytest keeps those of its last runs."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        for number, path in enumerate(PATHS):
            page.goto(f"{pages.address}{path}")
            picture = page.screenshot(path=tmp_path / f"{number}.png", full_page=True)
            assert int.from_bytes(picture[16:20]) == width, path
    finally:
        context.close()


@pytest.mark.exhaustive
def test_pages_of_large_databases_are_made_quickly(pages: PageServer) -> None:
    """The goal is 100 ms for 95 of 100 on a quiet machine; benchmarks have the figure, this the order of magnitude."""
    for path in ("/", "/db/large", "/db/large/merge", "/db/large/capture", "/db/large/check", "/db/large/replication"):
        taken = []
        for _ in range(20):
            begun = time.perf_counter()
            assert pages.request(path).status == 200
            taken.append(time.perf_counter() - begun)
        assert sorted(taken)[18] < 1.0, path

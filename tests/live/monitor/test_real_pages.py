"""Pages of a database that does everything, of one where nothing is done, and of one that is not there."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import make_url

from builders.monitor.scrapes import ANY_PORT, do_everything, get, scrape_until
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving

SECTIONS = ("", "/capture", "/replication", "/merge", "/conflicts", "/check", "/errors")


def test_each_page_of_a_busy_database_is_made(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher = do_everything(replicated, tmp_path)
    gone = make_url(publisher.url).set(database="not_there").render_as_string(hide_password=False)
    urls = {"a/busy one": publisher.url, "idle": replicated.subscriber.url, "gone": gone}
    databases = tuple(NamedUrl(name, url) for name, url in urls.items())
    with Ring.open(tmp_path / "pages") as ring, serving(databases, ring, ANY_PORT, every_s=0.5) as served:
        scrape_until(served.address, lambda found: sorted(found.values("rowtide_up")) == [0, 1, 1])
        pages = {}
        for name in urls:
            for section in SECTIONS:
                path = f"/db/{quote(name, safe='')}{section}"
                status, pages[name, section] = get(served.address, path, Accept="text/html")
                assert status == 200, (path, pages[name, section])
        status, overview = get(served.address, "/")
        assert status == 200
        busy = f"/db/{quote('a/busy one', safe='')}"
        assert get(served.address, f"{busy}/instances/public_item")[0] == 200
        links = [part.partition('"')[0] for part in pages["a/busy one", "/replication"].split('href="')]
        (subscription,) = [link for link in links if link.startswith(f"{busy}/replication/{quote(PUBLICATION)}/")]
        status, shown = get(served.address, subscription)
        assert (status, "Time to catch up" in pages["a/busy one", "/replication"]) == (200, True), shown
        status, listed = get(served.address, "/api/v1/databases")
        assert (status, listed.count('"is_up":true'), listed.count('"is_up":false')) == (200, 2, 1)

        status, busy_view = get(served.address, f"/api/v1/databases/{quote('a/busy one', safe='')}")
        assert (status, '"table_changes":{"public.item":' in busy_view) == (200, True), busy_view
        assert PUBLICATION in get(served.address, "/topology")[1]

    assert "public_item" in pages["a/busy one", "/capture"]
    assert "It cannot be read since" in overview
    assert "This database cannot be read since" in pages["gone", ""]
    for text in (overview, shown, *pages.values()):
        assert "canary" not in text
        assert f"{make_url(publisher.url).username}@" not in text

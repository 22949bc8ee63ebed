"""What a scrape of the monitor finds, and a database that does everything that is scraped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.handle import connect
from rowtide.listening import Address
from rowtide.monitor.databases import name_databases
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving

Labels = Mapping[str, str]
MERGED = "notes"
ANY_PORT = Address("127.0.0.1", 0)


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of the series of a name that have these labels."""
        return [
            float(sample.value)
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the only series of a name that has these labels."""
        (found,) = self.values(name, **labels)
        return found


def get(address: Address, path: str, **headers: str) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    from urllib.error import HTTPError

    try:
        with urlopen(Request(f"http://{address}{path}", headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def scrape(address: Address) -> Scrape:
    status, text = get(address, "/metrics")
    assert status == 200, text
    return Scrape(text)


def scrape_until(address: Address, is_met: Callable[[Scrape], bool]) -> Scrape:
    """Scrape until polls have found something."""
    deadline = time.monotonic() + 30
    while not is_met(found := scrape(address)):
        assert time.monotonic() < deadline, found.text
        time.sleep(0.05)
    return found


def has_polled(found: Scrape) -> bool:
    """Whether each database was polled."""
    return bool(found.values("rowtide_up"))


@contextmanager
def monitoring(folder: Path, *urls: str, every_s: float = 0.2, device_series: bool = False) -> Iterator[Address]:
    """Poll databases and serve their metrics."""
    with (
        Ring.open(folder) as ring,
        serving(name_databases(urls), ring, ANY_PORT, every_s=every_s, device_series=device_series) as served,
    ):
        yield served.address


def do_everything(replicated: ReplicatedDatabase, folder: Path) -> LoggedDatabase:
    """Capture, publish, merge and track tables of one database, with rows that have gone each way."""
    publisher = replicated.publisher
    replicated.begin("create table item (id int primary key, name text)", item={})
    publisher.enable("item")
    publisher.cdc.add_consumer("reader", ["public_item"])
    publisher.execute("create table seen (id int primary key)", "create table note (id int primary key, body text)")
    database = connect(publisher.url)
    with connect(publisher.url) as tracked:
        tracked.tracking.enable_tracking("seen")
    publisher.execute("insert into seen values (1), (2)", "delete from seen where id = 1")
    publisher.execute("insert into item values (1, 'canary-value')")
    publisher.cdc.run(once=True)
    database.targets.add("items", ["public_item"], kind="current", path=str(folder / "target"))
    database.replication.post_tracer_token(PUBLICATION)
    publisher.execute("insert into item values (2, 'canary-value')")
    database.replication.run(once=True)
    publisher.execute("insert into item values (3, 'canary-value')")
    publisher.cdc.run(once=True)
    database.merge.add_publication(MERGED)
    database.merge.add_article(MERGED, "note")
    device = f"sqlite:///{folder / 'device.db'}"
    database.merge.add_subscription(MERGED, subscriber=device)
    publisher.execute("insert into note values (1, 'canary-value')")
    database.merge.sync(MERGED, subscriber=device)
    return publisher

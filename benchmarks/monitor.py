"""What a poll of a database with many captured tables takes, and each page of it, and of many conflicts."""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

from sqlalchemy import Connection, insert

from benchmarks.goals import Goal, at_most
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.actions.entries import RETENTION_DAYS, ActionKind, ActionRequest, Channel
from rowtide.actions.sqlite.audit import begin
from rowtide.core.addresses import Address
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import list_articles, list_publications
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import transact_at
from rowtide.monitor.databases import NamedUrl, name_databases
from rowtide.monitor.polling import open_reader
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving
from rowtide.monitor.views import make_view
from rowtide.monitor.web.access import Access, Operating

_TABLES, _CONSUMERS = 500, 50
_CONFLICTS, _CAUSES, _ACTIONS = 10_000, 200, 500
_POLLS, _REQUESTS = 20, 40
_TOKEN = "the token of benchmarks"
_MOST_POLL_S = _MOST_PAGE_S = 0.1
"""Goals in seconds, on a machine that does nothing else."""


def measure_monitor(sizes: Sizes) -> Iterator[Table]:
    """Poll a database of which so many tables (--rows) are captured, and fifty consumers read all of them."""
    tables = sizes.rows or _TABLES
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _capture(source, tables)
        hub = _make_hub(Path(folder))
        database, field = name_databases([source.url, hub])
        seconds = {"poll": _poll(database), **_serve(database, field, Path(folder))}
    yield Table(
        name="monitor",
        columns=("what", "median s", "p95 s"),
        rows=tuple((name, f"{statistics.median(taken):.3f}", f"{_p95(taken):.3f}") for name, taken in seconds.items()),
        goals=tuple(_goals(seconds)),
        remark=f"{tables:,} captured tables, all read by {_CONSUMERS} consumers; {_CONFLICTS:,} conflicts and "
        f"{_ACTIONS} actions of another database; the first poll is not counted.",
    )


MONITOR: dict[str, Callable[[Sizes], Iterator[Table]]] = {"monitor": measure_monitor}


def _capture(source: Source, tables: int) -> None:
    source.write(f"create table item_{number} (id int primary key, name text)" for number in range(tables))
    source.cdc.enable_db(source.lake)
    source.cdc.enable_tables(["public.item_*"], snapshot=False)
    for consumer in range(_CONSUMERS):
        source.cdc.add_consumer(f"reader {consumer}", [f"public_item_{number}" for number in range(tables)])
    source.cdc.run(once=True)


def _poll(database: NamedUrl) -> Sequence[float]:
    found = []
    with open_reader(database) as reader:
        for _ in range(1 + _POLLS):
            begin = time.perf_counter()
            make_view(reader.read())
            found.append(time.perf_counter() - begin)
    return found[1:]


def _make_hub(folder: Path) -> str:
    """Make a file that is a hub with many conflicts and actions."""
    path = folder / "field.db"
    with closing(sqlite3.connect(path)) as session:
        session.execute("create table item (id integer primary key, name text, note text)")
    url = f"sqlite:///{path}"
    merge = MergeReplication(url)
    merge.add_publication("field")
    merge.add_article("field", "item")
    with open_node(url) as hub:
        (publication,) = list_publications(hub.connection)
        (article,) = list_articles(hub.connection, publication.pubid)
        transact_at(hub, lambda: _record_conflicts(hub.connection, publication.pubid, article))
    asked = {"conflict": "none", "winner": "publisher"}
    begin(url, ActionRequest.make(ActionKind.RESOLVE_MERGE, asked, actor="anna", channel=Channel.WEB), RETENTION_DAYS)
    with closing(sqlite3.connect(path)) as session:
        others = "select * from rowtide_actions, (select value from json_each(:numbers))"
        columns = "begun_at, actor, channel, action, subject, arguments, outcome, ended_at, result, error_number"
        copied = f"insert into rowtide_actions select 'action ' || value, {columns} from ({others})"
        session.execute(copied, {"numbers": json.dumps(list(range(_ACTIONS)))})
        session.commit()
    return url


def _record_conflicts(connection: Connection, pubid: str, article: Article) -> None:
    def write_row(side: str, number: int) -> str:
        return json.dumps({column.name: f"{side} {number}" for column in article.columns})

    values = [
        {
            "conflict_id": f"{number:032x}",
            "pubid": pubid,
            "article": article.name,
            "tablenick": article.nickname,
            "rowguid": str(UUID(int=number)),
            "conflict_type": int(ConflictType.UPDATE_CONFLICT),
            "origin_datasource": f"device {number % 500}",
            "origin_datasource_id": 1,
            "reason_code": "1",
            "reason_text": f"reason {number % _CAUSES}",
            "losing_row": write_row("device", number),
            "winning_row": write_row("hub", number),
            "losing_lineage": b"",
        }
        for number in range(_CONFLICTS)
    ]
    connection.execute(insert(conflicts_info), values)


def _serve(database: NamedUrl, field: NamedUrl, folder: Path) -> dict[str, Sequence[float]]:
    base = f"/db/{quote(database.name, safe='')}"
    inbox = f"/db/{quote(field.name, safe='')}/conflicts"
    pages = (
        *("/", base, f"{base}/capture", f"{base}/instances/public_item_1", f"{base}/check", "/metrics", "/topology"),
        *(inbox, f"{inbox}?q=device+77", f"{inbox}?table=item&page=50", f"{inbox}/{77:032x}"),
        f"/db/{quote(field.name, safe='')}/audit",
    )
    access = Access(read_tokens={_TOKEN: "anna"}.copy, operators=frozenset({"anna"}))
    operating = Operating(urls={field.name: field.url}, allows_actions=True, shows_values=True)
    # One poll, so that none is beside the requests.
    with (
        Ring.open(folder / "state") as ring,
        serving(
            (database, field),
            ring,
            Address("127.0.0.1", 0),
            every_s=3600.0,
            access=access,
            operating=operating,
        ) as served,
    ):
        while _request(served.address, "/readyz")[0] != 200:
            time.sleep(0.05)
        while f"{_CONFLICTS:,}</strong> open" not in _read(served.address, inbox):
            time.sleep(0.05)
        return {page: [_request(served.address, page)[1] for _ in range(_REQUESTS)] for page in pages}


def _request(address: Address, path: str) -> tuple[int, float]:
    """Return the status of an answer, and the seconds until it was there."""
    begun = time.perf_counter()
    status, _ = _ask(address, path)
    return status, time.perf_counter() - begun


def _read(address: Address, path: str) -> str:
    return _ask(address, path)[1]


def _ask(address: Address, path: str) -> tuple[int, str]:
    with closing(HTTPConnection(address.host, address.port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Accept": "text/html", "Authorization": f"Bearer {_TOKEN}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


def _goals(seconds: dict[str, Sequence[float]]) -> Iterator[Goal]:
    yield at_most("monitor: seconds of a poll, the median", _MOST_POLL_S, statistics.median(seconds["poll"]))
    for name, taken in seconds.items():
        if name != "poll":
            yield at_most(f"monitor: seconds of {name}, p95", _MOST_PAGE_S, _p95(taken))

"""Devices over HTTP beside such with a database connection: requests, bytes, a slow network, many, and waiting."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.children import environment
from benchmarks.cpu import cpu_seconds
from benchmarks.goals import at_least, at_most
from benchmarks.memory import find_peak_memory
from benchmarks.merge import pouchdb
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from builders.faults.cut_network import CutNetwork, cut_network
from rowtide.gateway.client import make_request_key, send_plain
from rowtide.gateway.device import Device, fetch_first_file
from rowtide.gateway.requests import DeviceRegistration, RegisteredDevice, Wait
from rowtide.gateway.wire.envelopes import Envelope, write
from rowtide.merge.api import MergeReplication

ROWS, MANY, FIRST_ROWS, DEVICES, WAITING, DOCUMENTS = 1000, 100_000, 1_000_000, 200, 1000, 3000
_CONCERNED, _CHANGES, _REFUSED, _CUTS = 50, 10, 20, 10
_ROUND_TRIP_S, _BYTES_PER_S = 0.05, 300_000
_IDLE_S = 10.0
_PROCESSES, _ARRIVE_S = 8, 20
"""Of how many processes devices are, and how many of them arrive each second."""
_PUBLICATION = "bench"
_TEXT = "the customer was not there; a card was left, and a new appointment is to be made by telephone. " * 2
"""With 32 characters by chance before them, rows have 200 bytes."""
_NOTE = f"substr(lower(hex(randomblob(16))) || '{_TEXT}', 1, 170)"
_NUMBERS = "with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"
_REFUSING = """create function refuse() returns trigger language plpgsql as $$begin raise check_violation; end$$;
create trigger shorter before insert or update on item for each row when (length(new.note) > 170)
    execute function refuse()"""


def measure_gateway(sizes: Sizes) -> Iterator[Table]:
    """Synchronise by a gateway that is a process of its own; `--rows` are those of the largest measurements."""
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        with open_source(Path(folder), over_socket=True) as source, _serving(source) as served:
            yield _measure_sessions(served, Path(folder), min(sizes.rows or MANY, MANY))
            yield _measure_first_copy(served, Path(folder), sizes.rows or FIRST_ROWS)
        many = Path(folder) / "many"
        many.mkdir()
        devices = min(sizes.rows or DEVICES, DEVICES)
        with open_source(many, over_socket=True) as source, _serving(source) as served:
            yield from _measure_many(served, many, devices)


@dataclass(frozen=True)
class _Served:
    """A gateway's process before a hub."""

    source: Source
    merge: MergeReplication
    port: int
    pid: int

    def url(self, port: int | None = None) -> str:
        return f"http://127.0.0.1:{port or self.port}/postgres"

    def device(self, path: Path, name: str, port: int | None = None) -> Device:
        """Return a new device, which has no file."""
        made = Device(path, self.url(port))
        made.register(self.merge.add_device(name, publication=_PUBLICATION, host_name=name))
        return made


@contextmanager
def _serving(source: Source) -> Iterator[_Served]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    limits = ("--max-requests-per-minute", "1000000", "--max-rows", "1000000")
    command = (sys.executable, "-m", "rowtide", "gateway", "serve", "--db", source.url, *limits)
    with subprocess.Popen(
        [*command, "--listen", f"127.0.0.1:{port}", "--log-level", "error"],
        env={**environment(), "ROWTIDE_CONFIG": os.devnull},
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            while not _is_ready(port):
                if process.poll() is not None:
                    raise RuntimeError(f"the gateway ended with {process.returncode}")
                time.sleep(0.1)
            yield _Served(source, MergeReplication(source.url), port, process.pid)
        finally:
            process.terminate()


def _is_ready(port: int) -> bool:
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection, suppress(OSError):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False


def _measure_sessions(served: _Served, folder: Path, many: int) -> Table:
    """Measure one device's sessions: over a slow network, and many rows up on this machine, beside a direct device."""
    source, merge = served.source, served.merge
    source.execute("create table item (id bigint primary key, name text, note text)")
    merge.add_publication(_PUBLICATION)
    merge.add_article(_PUBLICATION, "item")
    _insert_at_hub(source, 40_000_000, DOCUMENTS)
    path, direct = folder / "device.db", folder / "direct.db"
    merge.add_subscription(_PUBLICATION, f"sqlite:///{direct}")
    rows: list[tuple[str, ...]] = []
    seconds: dict[str, tuple[float, int, int]] = {}
    with cut_network(served.port) as network, served.device(path, "tablet", network.port) as device:
        device.sync()
        first = device.client.requests
        rows += [(f"the first, of {DOCUMENTS:,} rows", "", str(first), "", ""), *_describe_pouchdb()]
        device.sync()

        def measure(what: str) -> None:
            client = device.client
            before = client.requests, client.sent_bytes + client.received_bytes
            network.delay_s, network.bytes_per_s = _ROUND_TRIP_S / 2, _BYTES_PER_S
            began = time.perf_counter()
            device.sync()
            took = time.perf_counter() - began
            network.delay_s, network.bytes_per_s = 0.0, None
            said = client.requests - before[0], client.sent_bytes + client.received_bytes - before[1]
            seconds[what] = took, *said
            rows.append((what, f"{took:.2f}", str(said[0]), f"{said[1]:,}", ""))
            device.sync()

        measure("empty")
        _insert_at_hub(source, 100_000, ROWS)
        _insert_at_device(path, 200_000, ROWS)
        measure("1,000 rows each way")
        source.execute(_REFUSING)
        _insert_at_device(path, 400_000, _REFUSED, "|| 'longer'")
        measure("20 refused rows")
    source.execute("drop trigger shorter on item")
    rates = _measure_uploads(served, folder, direct, many)
    rows += [(f"{many:,} rows up, {way}", f"{many / rate:.2f}", "", "", f"{rate:,.0f}") for way, rate in rates.items()]
    goals = (
        at_most(f"gateway, the first, of {DOCUMENTS:,} rows: requests", 5, first),
        *(at_most(f"gateway, {what}: requests", 1, seconds[what][1]) for what in seconds),
        *(
            at_most(f"gateway, {what}: s at 50 ms and 300 kB/s", most, seconds[what][0])
            for what, most in (("empty", 0.25), ("1,000 rows each way", 2.0), ("20 refused rows", 0.5))
        ),
        at_most("gateway, empty: bytes of bodies", 1200, seconds["empty"][2]),
        at_most("gateway, 1,000 rows each way: bytes of bodies", 60_000, seconds["1,000 rows each way"][2]),
        at_least(f"gateway, {many:,} rows up: times direct", 0.8, rates["gateway"] / rates["direct"]),
    )
    remark = (
        "By the clock, from a warm connection. Rows have 200 bytes, 16 by chance, and rowguids have 6 at the device, 9 "
        "at the hub: 47,000 bytes of 1,000 rows each way cannot be compressed. The acknowledgement is deferred."
    )
    return Table("sessions over HTTP", ("session", "s", "requests", "bytes", "rows/s"), tuple(rows), goals, remark)


def _measure_uploads(served: _Served, folder: Path, direct: Path, many: int) -> dict[str, float]:
    """Return the rows a second that a device and a direct subscriber upload on this machine."""
    rates = {}
    with served.device(folder / "local.db", "local") as device:
        ways: Sequence[tuple[str, Path, Callable[[], object]]] = (
            ("direct", direct, partial(served.merge.sync, _PUBLICATION, f"sqlite:///{direct}")),
            ("gateway", device.path, device.sync),
        )
        for way, at, sync in ways:
            for _ in range(2):
                sync()
            _insert_at_device(at, 10_000_000 if way == "direct" else 20_000_000, many)
            began = time.perf_counter()
            sync()
            rates[way] = many / (time.perf_counter() - began)
    return rates


def _describe_pouchdb() -> Iterator[tuple[str, ...]]:
    requests = pouchdb.count_requests(DOCUMENTS)
    shown = f"not measured: it needs {pouchdb.INSTALLATION}" if requests is None else str(requests)
    yield f"{pouchdb.NAME}'s first, of {DOCUMENTS:,} documents", "", shown, "", ""


def _measure_first_copy(served: _Served, folder: Path, count: int) -> Table:
    """Fetch a device's first file whole, and cut some times."""
    _insert_at_hub(served.source, 30_000_000, count)
    took = {}
    for way in ("uncut", "cut"):
        with cut_network(served.port) as network, served.device(folder / f"{way}.db", way, network.port) as device:
            key = make_request_key()
            made = time.perf_counter()
            # The first request makes the file: what is measured is fetching it.
            fetch_first_file(device.client, folder / f"{way}-first.db", key)
            made, size = time.perf_counter() - made, device.client.received_bytes
            if way == "cut":
                network.again = partial(_next_cut, network, size // (_CUTS + 1))
                network.cut_after(network.again())
            device.client.pause = lambda _seconds: None
            began = time.perf_counter()
            fetch_first_file(device.client, device.path, key)
            took[way] = made, time.perf_counter() - began, network.cuts, size
    rows = tuple(
        (way, f"{made:.1f}", f"{again:.2f}", str(cuts), f"{size:,}") for way, (made, again, cuts, size) in took.items()
    )
    name = f"first copy of {count:,} rows"
    goal = at_most(f"{name}, cut {_CUTS} times: times uncut", 1.2, took["cut"][1] / took["uncut"][1])
    headings = ("way", "made and fetched, s", "fetched, s", "cuts", "bytes")
    return Table(name, headings, rows, (goal,), "By the clock, on this machine.")


def _next_cut(network: CutNetwork, each: int) -> int:
    return each if network.cuts < _CUTS else sys.maxsize


def _measure_many(served: _Served, folder: Path, count: int) -> Iterator[Table]:
    source, merge = served.source, served.merge
    source.execute("create table visit (id int primary key, device text not null, note text)")
    source.execute(
        "insert into visit select device * 100 + i, device, 'a note' from "
        f"generate_series(0, {count - 1}) device, generate_series(0, 99) i"
    )
    merge.add_publication(_PUBLICATION)
    merge.add_article(_PUBLICATION, "visit", where="device = host_name()")
    devices = [served.device(folder / f"{number}.db", str(number)) for number in range(count)]
    for device in devices:
        device.sync()
    yield _measure_arrivals(served, devices)
    yield _measure_waiting(served, devices)


def _measure_arrivals(served: _Served, devices: Sequence[Device]) -> Table:
    """Let devices with a few changes each arrive evenly, faster than the goal; return how they fared."""
    for device in devices:
        with closing(sqlite3.connect(device.path)) as program, program:
            program.execute(f"update visit set note = note || '!' where id % 100 < {_CHANGES}")
    # One process of devices would be what is measured: its threads run one at a time.
    with ProcessPoolExecutor(_PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_synchronise, [None] * _PROCESSES, [0.0] * _PROCESSES))
        began = time.time()
        dues = [began + place / _ARRIVE_S for place in range(len(devices))]
        took = list(pool.map(_synchronise, [(device.path, served.url()) for device in devices], dues))
    rate = len(devices) / (time.time() - began)
    p95, memory = statistics.quantiles(took, n=20)[-1], (find_peak_memory(served.pid) or 0) / 1e6
    name = f"{len(devices)} devices, {_CHANGES} changes each, by a gateway"
    goals = (
        at_least(f"{name}: synchronisations/s", 15, rate),
        at_most(f"{name}: p95, s", 3, p95),
        at_most(f"{name}: memory of the gateway, MB", 300, memory),
    )
    row = (f"{rate:.1f}", f"{p95:.2f}", f"{memory:.0f}")
    remark = (
        f"{_ARRIVE_S} arrive each second, from {_PROCESSES} processes; devices, gateway and server share the machine."
    )
    return Table(name, ("synchronisations/s", "p95 s", "peak memory, MB"), (row,), goals, remark)


def _synchronise(device: tuple[Path, str] | None, due: float) -> float:
    """Synchronise a device once its time has come, in a process of its own; return how long it took from then on."""
    time.sleep(max(0.0, due - time.time()))
    if device is not None:
        with Device(*device) as opened:
            opened.sync()
    return time.time() - due


def _measure_waiting(served: _Served, devices: Sequence[Device]) -> Table:
    """Let devices wait, and change rows of some of them; each of the few devices waits over several connections."""
    client = devices[0].client
    waiting, times = min(WAITING, 5 * len(devices)), 3
    tokens = [device.client.token for device in devices for _ in range(times)]
    spare = [f"spare-{number}" for number in range(waiting - len(tokens))]
    codes = [served.merge.add_device(name, publication=_PUBLICATION, host_name=name) for name in spare]
    for code in codes:
        asked = DeviceRegistration(code)
        tokens.append(send_plain(client, "register", asked, RegisteredDevice, key=make_request_key()).token)
    generation = int(served.source.execute('select max(generation) from rowtide_merge."MSmerge_stored_genhistory"'))
    told, cpu = asyncio.run(_wait_all(served, tokens, generation, devices))
    # A device without a file lacks everything: any change concerns it.
    concerned = min(_CONCERNED, len(devices)) * times + len(spare)
    name = f"{len(tokens):,} devices waiting"
    goals = (
        at_most(f"{name}: % of a core of the gateway", 2, cpu * 100),
        at_most(f"{name}: s until the concerned are told", 2, max(told, default=_IDLE_S)),
        at_most(f"{name}: told without need, or not told", 0, abs(len(told) - concerned)),
    )
    row = (f"{cpu * 100:.2f}", str(concerned), str(len(told)), f"{max(told, default=0.0):.2f}")
    headings = ("% of a core", "concerned", "told", "last told after, s")
    return Table(name, headings, (row,), goals, f"The share of a core is that of {_IDLE_S:g} s without changes.")


async def _wait_all(
    served: _Served, tokens: Sequence[str], generation: int, devices: Sequence[Device]
) -> tuple[list[float], float]:
    changed_at = 0.0
    told = [0.0] * len(tokens)

    async def wait(place: int, token: str) -> None:
        body = write(Envelope(Wait(generation, 60.0)))
        head = f"POST /postgres/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        while not told[place]:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await _read_answer(reader)
            writer.close()
            if b'"has_changes":true' in answer:
                told[place] = time.perf_counter() - changed_at
            elif b'"has_changes":false' not in answer:
                # Too many came at once: it comes again, as a device does that is told to.
                await asyncio.sleep(1)

    waiting: list[asyncio.Task[None]] = []
    for start in range(0, len(tokens), 20):
        # Each looks its token up first: the gateway's threads are not to be overrun.
        places = range(start, min(start + 20, len(tokens)))
        waiting += [asyncio.create_task(wait(place, tokens[place])) for place in places]
        await asyncio.sleep(0.2)
    await asyncio.sleep(2)
    used = cpu_seconds(served.pid)
    await asyncio.sleep(_IDLE_S)
    used = cpu_seconds(served.pid) - used
    changed_at = time.perf_counter()
    some = f"update visit set note = 'told' where id % 100 = 99 and id < {min(_CONCERNED, len(devices)) * 100}"
    await asyncio.to_thread(served.source.execute, some)
    await asyncio.sleep(5)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return [waited_s for waited_s in told if waited_s], used / _IDLE_S


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


def _insert_at_hub(source: Source, first: int, rows: int) -> None:
    note = f"substr(md5(n::text) || '{_TEXT}', 1, 170)"
    source.execute(f"insert into item select {first} + n, 'hub', {note} from generate_series(1, {rows}) n")


def _insert_at_device(path: Path, first: int, rows: int, longer: str = "") -> None:
    numbers = _NUMBERS.format(rows=rows)
    with closing(sqlite3.connect(path)) as program, program:
        program.execute(
            f"insert into item (id, name, note) {numbers} select {first} + n, 'device', {_NOTE} {longer} from s"
        )

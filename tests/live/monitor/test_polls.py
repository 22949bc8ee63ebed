"""What a poll costs a server, and what is served while a database cannot be polled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.monitor.scrapes import ANY_PORT, get, has_polled, monitoring, scrape, scrape_until
from rowtide.core.addresses import Address
from rowtide.monitor.databases import name_databases
from rowtide.monitor.polling import open_reader

MOST_STATEMENTS = 12
TABLES, CONSUMERS = 40, 50
MONITORS = (
    "select pid from pg_stat_activity where application_name = 'rowtide monitor' and datname = current_database()"
)


def count_statements(log: Path, begin: int, pid: int) -> int:
    with log.open("rb") as opened:
        opened.seek(begin)
        lines = opened.read().decode(errors="replace").splitlines()
    return sum(f"[{pid}] LOG:  " in line for line in lines)


def test_a_poll_runs_few_statements_however_much_there_is(logged: LoggedDatabase) -> None:
    names = [f"item_{number}" for number in range(TABLES)]
    logged.execute(*(f"create table {name} (id int primary key, name text)" for name in names))
    logged.enable(*names)
    logged.execute(
        "insert into cdc.consumers (consumer_name, limit_hours) "
        f"select 'reader ' || n, 168 from generate_series(1, {CONSUMERS}) n",
        "insert into cdc.consumer_instances (consumer_name, capture_instance, member_id) "
        "select consumer_name, capture_instance, member_id from cdc.consumers, cdc.change_tables",
    )
    logged.read_log()
    ((directory,),) = logged.execute("show data_directory")
    log = Path(directory).parent / "log"
    logged.execute(f"alter database {make_url(logged.url).database} set log_statement = 'all'")
    (database,) = name_databases([logged.url])
    counted = []
    with open_reader(database) as reader:
        for _ in range(4):
            begin = log.stat().st_size
            snapshot = reader.read()
            ((pid,),) = logged.execute(MONITORS)
            counted.append(count_statements(log, begin, pid))
    assert snapshot.error is None
    assert snapshot.work is not None
    assert counted[0] > MOST_STATEMENTS
    assert max(counted[1:]) <= MOST_STATEMENTS, counted


def test_a_database_that_is_gone_is_unknown_and_comes_back(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    name = make_url(logged.url).database
    with monitoring(tmp_path / "state", logged.url) as address:
        scrape_until(address, lambda found: found.values("rowtide_up") == [1])
        maintenance = make_url(logged.url).set(database="postgres").render_as_string(hide_password=False)
        with psycopg.connect(maintenance, autocommit=True) as c:
            c.execute(f"alter database {name} allow_connections false".encode())
            logged.execute(f"select pg_terminate_backend(pid) from ({MONITORS}) monitors")
            down = scrape_until(address, lambda found: found.values("rowtide_up") == [0])
            assert down.value("rowtide_health_state", area="database", subject="database") == 2
            assert not down.values("rowtide_log_read_lag_bytes")
            assert not down.values("rowtide_capture_gaps_total")
            ready = json.loads(get(address, "/readyz")[1])
            assert ready["databases"][name]["reason"].startswith("RT-1101: ")
            assert get(address, "/healthz")[0] == 200
            c.execute(f"alter database {name} allow_connections true".encode())
        scrape_until(address, lambda found: found.values("rowtide_up") == [1])


def test_the_session_of_a_monitor_stays_when_none_is_left(logged: LoggedDatabase, tmp_path: Path) -> None:
    name = make_url(logged.url).database
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    role = f"monitor_{name}"
    logged.execute(f"create role {role} login in role pg_monitor", f"alter database {name} connection limit 2")
    url = make_url(logged.url).set(username=role).render_as_string(hide_password=False)
    try:
        with monitoring(tmp_path / "state", url) as address, ExitStack() as held:
            scrape_until(address, has_polled)

            def fill() -> bool:
                try:
                    held.enter_context(psycopg.connect(url))
                except psycopg.OperationalError as error:
                    return "too many connections" in str(error)
                return False

            wait_until(fill, what="no connection is left")
            first = scrape(address).value("rowtide_scrape_duration_seconds")
            again = scrape_until(address, lambda found: found.values("rowtide_scrape_duration_seconds") != [first])
            assert again.value("rowtide_up") == 1
    finally:
        logged.execute(f"alter database {name} connection limit -1", f"drop role {role}")


def test_a_monitor_ends_when_it_is_asked_to(logged: LoggedDatabase, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rowtide", "monitor", "serve", "--db", logged.url, "--listen", str(ANY_PORT)]
    environment = {"STATE_DIRECTORY": str(tmp_path / "state"), "PATH": "/usr/bin:/bin", "LANG": "C"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as monitor:
        assert monitor.stderr is not None
        said = monitor.stderr.readline()
        address = Address.parse(said.partition("http://")[2].partition("/")[0])
        assert scrape_until(address, has_polled).value("rowtide_up") == 1
        monitor.send_signal(signal.SIGTERM)
        assert monitor.wait(timeout=60) == 0, monitor.stderr.read()

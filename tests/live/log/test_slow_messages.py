"""A message that takes longer to arrive than the server waits for its reader: the server hears of it meanwhile."""

from __future__ import annotations

import subprocess
import sys

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.faults.slow_network import slow_network
from rowtide.log import reader
from rowtide.log.opening import open_log_reader

MIB = 1 << 20
_READ = """
import sys
from rowtide.log import reader
from rowtide.log.opening import open_log_reader
reader.STATUS_INTERVAL_S = 0.5
with open_log_reader(sys.argv[1]) as opened:
    while opened.position.log <= int(sys.argv[2]):
        opened.step()
"""
_HEARD = "select coalesce(max(reply_time) > %s, false) from pg_stat_replication join pg_stat_activity using (pid)"


def test_a_reader_to_which_nothing_comes_is_heard_of(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    logged.enable()
    mark = logged.mark()
    with open_log_reader(logged.url) as opened:
        while opened.position.log <= mark or opened.step():
            opened.step()
        ((now,),) = logged.execute("select clock_timestamp()")
        monkeypatch.setattr(reader, "STATUS_INTERVAL_S", 0.0)
        monkeypatch.setattr(opened, "_next_status", 0.0)
        opened.step()
        query = f"{_HEARD} where datname = current_database()"
        wait_until(lambda: logged.session.execute(query.encode(), [now]).fetchone() == (True,), what="a reply")


@pytest.mark.exhaustive
def test_a_row_is_read_that_takes_longer_than_the_server_waits(logged: LoggedDatabase) -> None:
    name = logged.session.info.dbname
    logged.execute("create table item (value text)", "alter table item alter value set storage external")
    logged.enable("item")
    logged.execute(f"alter database {name} set wal_sender_timeout = '5s'")
    logged.execute(f"insert into item values (repeat(md5(random()::text), {MIB}))")
    with slow_network(logged.url, bytes_per_s=2 * MIB) as network:
        command = [sys.executable, "-c", _READ, network.url, str(logged.mark())]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert [len(value or "") for value in logged.inserted()] == [32 * MIB]

"""No log has a key or a value of a row, whoever logs, in whatever form: capture, delivery, merge, the log reader."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide, rowtide_process
from builders.merge.merged_databases import FileMember, Merge
from builders.replication.peers import Peer
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.said import KEY, VALUE
from rowtide.databases.urls import parse_url
from rowtide.handle import connect
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType

TABLE = "create table accounts (id text primary key, note text, n int)"
INSERT = f"insert into accounts values ('{KEY}', '{VALUE}', 1)"
RAISE = """
create function refuse() returns trigger language plpgsql as $$
begin
    raise exception 'refused % %', new.id, new.note using detail = new.note, hint = new.id;
end $$
"""
TRIGGER = "create trigger refuse before insert on accounts for each row execute function refuse()"
REFUSALS = {
    "unique value": (
        "create unique index on accounts (note)",
        f"insert into accounts values ('x', '{VALUE}')",
    ),
    "type": ("alter table accounts add number int generated always as (note::int) stored",),
    "trigger": (RAISE, TRIGGER),
}


def log_to(path: Path, form: str) -> Sequence[str]:
    return "--log-format", form, "--log-level", "debug", "--log-destination", str(path)


def require_clean(path: Path) -> str:
    """Return what a log has, which is no key and no value."""
    written = path.read_text(encoding="utf-8")
    assert written
    assert [secret for secret in (KEY, VALUE) if secret in written] == []
    return written


def events_of(written: str) -> Sequence[Mapping[str, Any]]:
    return [json.loads(line) for line in written.splitlines()]


def count_rows(path: Path) -> int:
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return sum(one["rows"] for one in events_of(whole) if one["event"] == "cycle_published")


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("name", REFUSALS)
def test_no_log_of_delivery_has_a_row(replicated: ReplicatedDatabase, name: str, form: str, tmp_path: Path) -> None:
    replicated.begin(TABLE, accounts={})
    replicated.subscriber.execute(*REFUSALS[name])
    replicated.publisher.execute(INSERT)
    log = tmp_path / "rowtide.log"
    ended = rowtide_process("replication", "run", "--once", "-v", *log_to(log, form), "--db", replicated.publisher.url)
    written = require_clean(log)

    assert (ended.code, KEY in ended.errors) == (1, True)
    assert "subscription_stopped" in written
    if form == "json":
        stopped = next(one for one in events_of(written) if one["event"] == "subscription_stopped")
        assert (stopped["level"], stopped["number"]) == ("error", 7114)
        assert stopped["job"].startswith("to postgresql://") or stopped["job"] == "replication"


def test_an_error_on_standard_error_is_an_event_and_nothing_else(replicated: ReplicatedDatabase) -> None:
    replicated.begin(TABLE, accounts={})
    replicated.subscriber.execute(*REFUSALS["trigger"])
    replicated.publisher.execute(INSERT)
    ended = rowtide_process("replication", "run", "--once", "--log-format", "json", "--db", replicated.publisher.url)
    found = events_of(ended.errors)

    assert (ended.code, found[-1]["event"], found[-1]["number"]) == (1, "agent_failed", 7114)
    assert [secret for secret in (KEY, VALUE) if secret in ended.errors] == []


def test_no_log_of_the_agent_has_a_row(logged: LoggedDatabase, tmp_path: Path) -> None:
    """Its log reader, its copy of the table, its cycles, and a table that a rule cannot have."""
    logged.execute(TABLE, INSERT)
    logged.enable("accounts")
    log = tmp_path / "rowtide.log"
    command = [sys.executable, "-m", "rowtide", "agent", "run", *log_to(log, "json"), "--db", logged.url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as agent:
        try:
            wait_until(lambda: log.exists() and "cycle_published" in log.read_text(), what="a cycle")
            logged.execute(
                f"update accounts set note = '{VALUE}2' where id = '{KEY}'", f"delete from accounts where id = '{KEY}'"
            )
            wait_until(lambda: count_rows(log) >= 2, what="cycles of two rows")
            log.rename(tmp_path / "rotated.log")
            logged.execute(INSERT)

            def has_next_cycle() -> bool:
                # The file is looked at before some of the lines: one that follows at once is in the old one.
                logged.execute(f"update accounts set note = '{VALUE}3' where id = '{KEY}'")
                return log.exists() and "cycle_published" in log.read_text()

            wait_until(has_next_cycle, what="a cycle in the next file")
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(60) == 0
        finally:
            agent.kill()
    found = [*events_of(require_clean(tmp_path / "rotated.log")), *events_of(require_clean(log))]

    assert (found[0]["event"], found[-1]["event"]) == ("agent_started", "agent_stopped")
    assert {one["database"] for one in found} == {parse_url(logged.url).name}
    assert {"agent", "capture"} <= {one["job"] for one in found}
    assert [one["job"] for one in found if one["event"] == "job_started"] == ["capture"]


def test_the_log_readers_process_logs_by_its_parent(tmp_path: Path) -> None:
    log = tmp_path / "rowtide.log"
    nobody = "postgresql://nobody@127.0.0.1:1/none"
    ended = rowtide_process("replication", "run", "--once", *log_to(log, "json"), "--db", nobody)
    found = events_of(require_clean(log))

    assert ended.code == 1
    assert ended.errors.splitlines()[-1].startswith("RT-")
    assert found[-1]["event"] == "agent_failed"
    assert {one["database"] for one in found} == {"none"}


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_log_of_merge_has_a_row(merged: Merge, form: str, tmp_path: Path) -> None:
    merged.begin("create table accounts (id text primary key, note text)", accounts={})
    device = merged.subscribers[0]
    log = tmp_path / "rowtide.log"
    sync = ("merge", "sync", "shop", "--subscriber", device.url, *log_to(log, form), "--db", merged.hub.url)
    for member, note in ((merged.hub, "hub"), (device, "device")):
        member.execute(f"insert into accounts (id, note) values ('{KEY}', '{VALUE}{note}')")
    rowtide(*sync)
    merged.hub.execute(*_refusals_of(merged))
    device.execute(f"insert into accounts (id, note) values ('{KEY}2', '{VALUE}')")
    assert rowtide(*sync).code == 2
    written = require_clean(log)

    assert "synchronised" in written
    assert "row_refused" in written


def _refusals_of(merged: Merge) -> Sequence[str]:
    if isinstance(merged.hub, FileMember):
        refusing = f"select raise(abort, 'refused {KEY} {VALUE}')"
        return (f"create trigger refuse before insert on accounts when new.id like 'key%' begin {refusing}; end",)
    return RAISE, TRIGGER


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_log_of_conflicts_and_decisions_has_a_row(
    peers: tuple[Peer, Peer], form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = peers
    for peer in peers:
        peer.execute(TABLE, INSERT, INSERT.replace(KEY, f"{KEY}2"))
        peer.publish("accounts")
    first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    first.execute(
        f"update accounts set note = '{VALUE}-first' where id = '{KEY}'", f"delete from accounts where id = '{KEY}2'"
    )
    second.execute(f"update accounts set note = '{VALUE}-second'")
    log = tmp_path / "rowtide.log"
    run = ("replication", "run", "--once", *log_to(log, form), "--db", first.url)
    assert rowtide_process(*run).code == 0
    assert "agent_stopped" in require_clean(log)
    found = connect(first.url).conflicts.list_conflicts(table="accounts")
    updated, deleted = sorted(found.groups, key=lambda group: group.kind, reverse=True)
    assert (updated.kind, deleted.kind) == ("update_origin_differs", "delete_origin_differs")
    assert {one.key for one in found.conflicts} == {f'{{"id": "{KEY}"}}', f'{{"id": "{KEY}2"}}'}

    # One decision is refused, since the row has changed. The command writes no log but Python's.
    second.execute(f"update accounts set note = '{VALUE}-third' where id = '{KEY}'")
    caplog.set_level(logging.DEBUG, logger="rowtide")
    codes = [
        rowtide("conflicts", "decide", group.cause, "--choice", choice, "--db", first.url).code
        for group, choice in ((updated, "otherwise"), (deleted, "keep"))
    ]
    assert codes == [1, 0]
    assert [secret for secret in (KEY, VALUE) if secret in caplog.text] == []
    states = [one.state.value for one in connect(first.url).conflicts.list_conflicts(table="accounts").conflicts]
    assert sorted(states) == ["open", "settled"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_log_of_an_initial_copy_has_a_row(replicated: ReplicatedDatabase, form: str, tmp_path: Path) -> None:
    """One that fails, at a row that the subscriber refuses, and one that is completed."""
    replicated.publish(TABLE, accounts={})
    replicated.publisher.execute(INSERT)
    replicated.subscriber.execute(TABLE, "alter table accounts add constraint short check (length(note) < 3)")
    replicated.subscribe(SyncType.AUTOMATIC, if_exists="truncate", constraints="enforce")
    log = tmp_path / "rowtide.log"
    run = ("replication", "run", "--once", *log_to(log, form), "--db", replicated.publisher.url)
    assert rowtide_process(*run).code == 1
    replicated.subscriber.execute("alter table accounts drop constraint short")
    replicated.replication.resume(PUBLICATION)
    assert rowtide_process(*run).code == 0
    assert replicated.subscriber.execute("select id from accounts") == [(KEY,)]
    written = require_clean(log)
    assert "subscription_stopped" in written or "agent_failed" in written


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_log_of_skipped_errors_has_a_row(replicated: ReplicatedDatabase, form: str, tmp_path: Path) -> None:
    replicated.begin(TABLE, accounts={})
    replicated.replication.change_subscription(PUBLICATION, replicated.subscriber.url, skip_errors="2627:20598")
    replicated.subscriber.execute(INSERT)
    replicated.publisher.execute(INSERT, INSERT.replace(KEY, f"{KEY}2"))
    log = tmp_path / "rowtide.log"
    run = ("replication", "run", "--once", *log_to(log, form), "--db", replicated.publisher.url)
    assert rowtide_process(*run).code == 0
    replicated.subscriber.execute("delete from accounts")
    replicated.publisher.execute(f"update accounts set note = '{VALUE}-changed'")
    assert rowtide_process(*run).code == 0
    assert "skipped" in require_clean(log)

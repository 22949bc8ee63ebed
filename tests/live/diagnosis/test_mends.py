"""What `health` prints as a remedy helps: commands that continue for ever, too."""

from __future__ import annotations

import re

import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.checks import run_line, run_statements, run_until
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.ddl import forget_triggers
from rowtide.diagnosis import CheckResult, State, capture, delivery
from rowtide.diagnosis.result import Advice, ShellCommand, Sql
from rowtide.handle import connect

TABLE = "create table item (id int primary key, name text)"


def judged(url: str, subject: str) -> CheckResult:
    (found,) = (judgement for judgement in connect(url).health() if judgement.subject.startswith(subject))
    return found


def is_well(url: str, subject: str) -> bool:
    return all(one.state is State.HEALTHY for one in connect(url).health() if one.subject.startswith(subject))


@pytest.mark.exhaustive
def test_a_late_capture_catches_up_by_what_is_printed(
    copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture, "LATE_S", 0.0)
    copied.execute(TABLE)
    copied.enable("item")
    copied.execute("insert into item values (1, 'a')")
    unread = judged(copied.url, "instance public_item").remediation
    assert isinstance(unread, ShellCommand)
    copied.read_log()
    late = judged(copied.url, "capture")
    assert (late.state, late.remediation) == (State.WARNING, unread)
    monkeypatch.undo()
    run_until(unread, copied.url, lambda: _is_published(copied.url), what="all is published")
    assert {judgement.state for judgement in connect(copied.url).health()} == {State.HEALTHY}


def _is_published(url: str) -> bool:
    return "all that was read is published" in judged(url, "capture").message


@pytest.mark.exhaustive
@pytest.mark.parametrize("subject", ["log reader", "subscription"])
def test_a_late_delivery_catches_up_by_what_is_printed(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    """Where nothing is captured, the same command reads the log."""
    replicated.subscriber.execute(TABLE)
    replicated.publish_alone(TABLE)
    replicated.subscribe()
    url, delivered = replicated.publisher.url, "select 1 from item"
    for module in (capture, delivery):
        monkeypatch.setattr(module, "LATE_S", 0.0)
    replicated.publisher.execute("insert into item values (1, 'a')")
    if subject == "subscription":
        replicated.publisher.read_log()
    late = judged(url, subject)
    assert (late.state, str(late.remediation)) == (State.WARNING, "rowtide replication run")
    assert isinstance(late.remediation, ShellCommand)
    monkeypatch.undo()
    run_until(
        late.remediation, url, lambda: bool(replicated.subscriber.execute(delivered)), what="the row is delivered"
    )
    assert is_well(url, subject)


def test_published_identities_are_mended_by_what_is_printed(replicated: ReplicatedDatabase) -> None:
    replicated.begin(TABLE, item={})
    publisher = replicated.publisher
    replicated.deliver()
    publisher.execute("alter table item replica identity nothing")
    _mend_articles(publisher, "its replica identity no longer has the key")
    forget_triggers(publisher)
    publisher.execute("alter table item add column twice int generated always as (id * 2) virtual")
    _mend_articles(publisher, "the server refuses updates and deletes")
    publisher.execute("insert into item values (1, 'a')", "update item set name = 'b'")


def _mend_articles(publisher: LoggedDatabase, words: str) -> None:
    (found,) = (judgement for judgement in connect(publisher.url).health() if words in judgement.message)
    assert isinstance(found.remediation, Sql)
    run_statements(found.remediation, publisher.url)
    assert not [judgement for judgement in connect(publisher.url).health() if words in judgement.message]


@pytest.mark.exhaustive
def test_a_stopped_target_is_listed_by_what_is_printed(copied: CapturedDatabase) -> None:
    copied.execute(TABLE)
    copied.enable("item", snapshot=True)
    copied.copy_tables()
    connect(copied.url).targets.add("now", ["public_item"], path=str(copied.lake.parent / "targets"))
    connect(copied.url).targets.apply()
    copied.cdc.disable_table("item")
    copied.capture()
    connect(copied.url).targets.apply()
    stopped = judged(copied.url, "target now")
    assert isinstance(stopped.remediation, ShellCommand)
    run_line(stopped.remediation, copied.url)


@pytest.mark.exhaustive
def test_a_log_of_publications_goes_on_by_what_is_printed(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(TABLE)
    replicated.publish_alone(TABLE)
    replicated.publisher.read_log()
    replicated.publisher.drop_slot()
    lost = judged(replicated.publisher.url, "slot")
    assert isinstance(lost.remediation, ShellCommand)
    run_line(lost.remediation, replicated.publisher.url)
    assert is_well(replicated.publisher.url, "slot")


@pytest.mark.exhaustive
def test_a_lost_key_is_mended_by_what_is_printed(copied: CapturedDatabase) -> None:
    copied.execute(TABLE, "insert into item values (1, 'a')")
    copied.enable("item", snapshot=True)
    copied.copy_tables()
    copied.execute("alter table item drop constraint item_pkey, add primary key (id) deferrable")
    copied.capture()
    (lost,) = (one for one in connect(copied.url).health() if "no longer identifies its rows" in one.message)
    assert (lost.state, isinstance(lost.remediation, Advice)) == (State.FAILING, True)
    copied.execute("alter table item drop constraint item_pkey, add primary key (id)")
    printed = re.findall(r"`(rowtide [^`]+)`", str(lost.remediation))
    assert len(printed) == 2
    for line in printed:
        run_line(ShellCommand(line), copied.url)
    copied.copy_tables()
    assert is_well(copied.url, "instance")

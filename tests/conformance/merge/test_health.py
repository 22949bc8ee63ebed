"""Health and check of databases that are merged, on each pair of kinds."""

from __future__ import annotations

from builders.commands.checks import run_line
from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.diagnosis import Area, CheckResult, State
from rowtide.diagnosis.result import ShellCommand
from rowtide.handle import connect
from rowtide.merge.nodes.connecting import address

TABLE = "create table item (id int not null primary key, name text)"


def judged(url: str, subject: str) -> CheckResult:
    (found,) = [judgement for judgement in connect(url).health() if judgement.subject.startswith(subject)]
    return found


def shown_beside_status(url: str) -> str:
    ended = rowtide("merge", "status", "--db", url)
    assert ended.code == 0, ended
    return ended.errors


def subscription(merged: Merge, number: int = 0) -> CheckResult:
    subject = f"merge subscription {PUBLICATION}, {address(merged.subscribers[number].url)}"
    return judged(merged.hub.url, subject)


def begin(merged: Merge) -> None:
    merged.begin(TABLE, item={})
    merged.hub.execute("insert into item (id, name) values (1, 'a')")


def test_a_subscription_is_well_once_it_was_synchronised(merged: Merge) -> None:
    begin(merged)
    for number in range(len(merged.subscribers)):
        new = subscription(merged, number)
        assert (new.state, isinstance(new.remediation, ShellCommand)) == (State.WARNING, True), new
        assert isinstance(new.remediation, ShellCommand)
        assert f"WARNING  {new.subject}" in shown_beside_status(merged.hub.url)
        run_line(new.remediation, merged.hub.url)
    for member in (merged.hub, *merged.subscribers):
        of_merge = [judgement for judgement in connect(member.url).health() if judgement.area is Area.MERGE]
        assert {judgement.state for judgement in of_merge} == {State.HEALTHY}, of_merge
        assert shown_beside_status(member.url) == ""


def test_subscription_not_synchronised_for_long_has_expired(merged: Merge) -> None:
    begin(merged)
    merged.settle()
    table = (
        "rowtide_merge.sysmerge_stored_subscriptions"
        if "postgresql" in merged.hub.url
        else "sysmerge_stored_subscriptions"
    )
    url = address(merged.subscribers[0].url)
    merged.hub.execute_as_agent(
        f"update {table} set last_sync_date = '2020-01-01 00:00' where subscriber_server = '{url}'"
    )
    expired = subscription(merged)
    assert expired.state is State.FAILING
    assert "it expired" in expired.message
    assert str(expired.remediation).startswith(f"rowtide merge reinitialize {PUBLICATION} --subscriber ")
    assert isinstance(expired.remediation, ShellCommand)
    stops = [finding.subject for finding in connect(merged.hub.url).check() if finding.state is State.FAILING]
    assert expired.subject in stops
    run_line(expired.remediation, merged.hub.url)
    merged.settle()
    assert subscription(merged).state is State.HEALTHY


def test_a_merged_table_without_its_triggers_fails(merged: Merge) -> None:
    begin(merged)
    name = merged.hub.execute(
        "select tgname from pg_trigger where tgname ~ '^MSmerge_ins'"
        if "postgresql" in merged.hub.url
        else "select name from sqlite_schema where type = 'trigger' and name like 'MSmerge_ins_%'"
    )[0][0]
    merged.hub.execute(f'drop trigger "{name}"' + (" on item" if "postgresql" in merged.hub.url else ""))
    damaged = judged(merged.hub.url, "merge article item")
    assert damaged.state is State.FAILING
    assert name in damaged.message


def test_the_check_of_a_merged_database_leaves_our_tables_alone(merged: Merge) -> None:
    begin(merged)
    merged.settle()
    for member in (merged.hub, *merged.subscribers):
        findings = connect(member.url).check()
        assert {finding.subject for finding in findings} <= {"file"}, findings

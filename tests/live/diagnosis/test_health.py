"""What nobody saw: a dead slot, stopped subscriptions, unread enables, an expired retention. Each has a judgement."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase, wait_until
from builders.commands.checks import run_line
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, list_subscriptions
from builders.replication.replication_runs import running
from builders.servers.http_servers import Refusing, serving
from builders.servers.object_servers import Bucket
from rowtide.diagnosis import Area, CheckResult, Code, State, Unit, capture, exit_code, read_health
from rowtide.diagnosis.result import ShellCommand
from rowtide.handle import connect
from rowtide.log.errors import SlotMissing
from rowtide.log.store.entries import ReaderLeft
from rowtide.replication.errors.delivery import RowNotFound

TABLE = "create table item (id int primary key, name text)"


def judged(url: str, subject: str) -> CheckResult:
    """Return the only judgement on a subject that begins so."""
    found = [judgement for judgement in connect(url).health() if judgement.subject.startswith(subject)]
    assert len(found) == 1, (subject, connect(url).health())
    return found[0]


def states(url: str) -> dict[str, State]:
    return {judgement.subject: judgement.state for judgement in connect(url).health()}


def is_free(database: LoggedDatabase) -> bool:
    found = database.execute("select active from pg_replication_slots where database = current_database()")
    return not any(active for (active,) in found)


@pytest.fixture(params=["logged", "logged_16"])
def enabled(request: pytest.FixtureRequest) -> LoggedDatabase:
    """Table `item` is captured, and all of the log is read; capture has nothing to do."""
    logged: LoggedDatabase = request.getfixturevalue(request.param)
    logged.execute(TABLE)
    logged.enable("item")
    logged.read_log()
    return logged


def test_a_database_at_work_is_well(enabled: LoggedDatabase) -> None:
    health = connect(enabled.url).health()
    assert {judgement.state for judgement in health} == {State.HEALTHY}, health
    assert exit_code(health) == 0
    subjects = {judgement.subject.split()[0] for judgement in health}
    assert subjects == {"log", "slot", "publication", "capture", "instances", "cleanup", "lake"}
    of_log = [result for result in health if result.area is Area.LOG]
    assert [result.code for result in read_health(enabled.url, [Area.LOG])] == [result.code for result in of_log]
    (slot,) = (result.measures for result in of_log if result.code is Code.SLOT_HEALTHY)
    assert [(measure.name, measure.unit, measure.value >= 0) for measure in slot] == [("kept_bytes", Unit.BYTES, True)]


def test_a_dropped_slot_fails_and_check_says_so(enabled: LoggedDatabase) -> None:
    slot = enabled.cdc.get_source().slot
    enabled.drop_slot()
    assert judged(enabled.url, "slot").message == f'replication slot "{slot}" does not exist'
    assert judged(enabled.url, "log reader").state is State.FAILING
    ended = rowtide("health", "--format", "json", "--db", enabled.url)
    assert (ended.code, json.loads(ended.output)["state"]) == (2, "failing")
    status = rowtide("cdc", "status", "--format", "jsonl", "--db", enabled.url)
    assert (status.code, json.loads(status.output)["wal_status"]) == (0, "missing")
    assert "FAILING  slot" in status.errors
    assert rowtide("check", "--db", enabled.url).code == 1


def test_a_run_on_a_dead_slot_is_listed_as_an_error(logged: LoggedDatabase) -> None:
    logged.execute(TABLE)
    logged.enable("item")
    logged.drop_slot()
    with pytest.raises(SlotMissing):
        logged.cdc.run(once=True)
    (failed, *_) = logged.cdc.list_scan_errors()
    assert failed.error_number == SlotMissing.number


def test_an_invalidated_slot_fails(scarce: LoggedDatabase) -> None:
    scarce.execute(TABLE)
    scarce.enable("item")
    scarce.read_log()
    wait_until(lambda: is_free(scarce), what="the slot is free")
    for _ in range(8):
        scarce.execute(
            "select pg_logical_emit_message(false, 'filler', repeat('x', 900000)) from generate_series(1, 20)"
        )
        scarce.execute("select pg_switch_wal()", "checkpoint")
    assert "was invalidated" in judged(scarce.url, "slot").message
    assert states(scarce.url)["log reader"] is State.FAILING
    assert rowtide("health", "--db", scarce.url).code == 2


def test_an_enable_that_nobody_has_read_is_warned_of(enabled: LoggedDatabase) -> None:
    enabled.execute("create table other (id int primary key)")
    enabled.cdc.enable_table("other")
    unread = judged(enabled.url, "instance public_other")
    assert (unread.state, str(unread.remediation)) == (State.WARNING, "rowtide cdc run")
    findings = [finding for finding in connect(enabled.url).check() if finding.subject == "instance public_other"]
    assert [finding.state for finding in findings] == [State.WARNING]
    enabled.read_log()
    assert "instance public_other" not in states(enabled.url)


def test_a_cleanup_that_never_ran_is_overdue(enabled: LoggedDatabase) -> None:
    enabled.execute("update cdc.change_tables set create_date = now() - interval '30 days'")
    overdue = judged(enabled.url, "cleanup")
    assert (overdue.state, str(overdue.remediation)) == (State.WARNING, "rowtide cdc cleanup")
    assert "older than their retention" in overdue.message
    enabled.execute(
        "insert into cdc.cleanup_requests (retention_us, is_forced, finished_at, outcome) "
        'values (1, false, now(), \'{"cleaned": [], "refusal": null}\')'
    )
    assert judged(enabled.url, "cleanup").state is State.HEALTHY


@pytest.mark.exhaustive
def test_a_cleanup_that_is_overdue_is_mended_by_what_is_printed(captured: CapturedDatabase) -> None:
    captured.execute(TABLE)
    captured.enable("item")
    captured.execute("insert into item values (1, 'a')", "update cdc.change_tables set create_date = '2020-01-01'")
    captured.capture()
    overdue = judged(captured.url, "cleanup")
    assert isinstance(overdue.remediation, ShellCommand)
    run_line(overdue.remediation, captured.url)
    assert judged(captured.url, "cleanup").state is State.HEALTHY
    assert {judgement.state for judgement in connect(captured.url).health()} == {State.HEALTHY}


def test_a_cleanup_job_that_failed_fails(enabled: LoggedDatabase) -> None:
    enabled.execute(
        "insert into cdc.job_history (job_type, ended_at, outcome, message, agent) "
        "values ('cleanup', now(), 'failed', 'RT-3101: the disk is full.', 'here')"
    )
    failed = judged(enabled.url, "cleanup")
    assert failed.state is State.FAILING
    assert "the disk is full" in failed.message
    enabled.execute(
        "insert into cdc.cleanup_requests (retention_us, is_forced, finished_at, outcome) "
        'values (1, false, now(), \'{"cleaned": [], "refusal": null}\')'
    )
    assert judged(enabled.url, "cleanup").state is State.HEALTHY


def test_a_capture_that_stopped_with_an_error_fails(enabled: LoggedDatabase) -> None:
    enabled.execute(
        "insert into cdc.log_scan_errors (session_id, phase_number, entry_time, error_number, error_severity, "
        "error_state, error_message) values (1, 2, now(), 4105, 16, 1, 'RT-4105: the identity changed.')"
    )
    stopped = judged(enabled.url, "capture")
    assert stopped.state is State.FAILING
    assert "RT-4105: the identity changed" in stopped.message
    run_of_job = (
        "insert into cdc.job_history (job_type, ended_at, outcome, message, agent) "
        "values ('capture', now() {}, 'failed', 'RT-3101: the disk is full.', 'here')"
    )
    enabled.execute(run_of_job.format("- interval '1 minute'"))
    assert "RT-4105: the identity changed" in judged(enabled.url, "capture").message
    enabled.execute(run_of_job.format(""))
    assert "RT-3101: the disk is full" in judged(enabled.url, "capture").message


def test_what_waits_is_reported_where_it_waits(enabled: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled.execute("insert into item values (1, 'a')")
    assert "; read up to " in judged(enabled.url, "log reader").message
    enabled.read_log()
    assert judged(enabled.url, "capture").message.startswith("it does not run; what was read since ")
    monkeypatch.setattr(capture, "LATE_S", 0.0)
    assert judged(enabled.url, "capture").state is State.WARNING
    enabled.cdc.change_job("capture", pollinginterval=3600)
    assert judged(enabled.url, "capture").state is State.HEALTHY, "it may rest for so long"


def test_a_gap_is_reported(enabled: LoggedDatabase) -> None:
    enabled.drop_slot()
    enabled.cdc.reinitialize("a test")
    enabled.read_log()
    assert judged(enabled.url, "capture").message.endswith(": a test")


def test_who_may_not_look_is_reported(make_role: Callable[[str], str], logged: LoggedDatabase) -> None:
    logged.enable()
    stranger = make_url(logged.url).set(username=make_role("login")).render_as_string(hide_password=False)
    health = connect(stranger).health()
    unseen = [judgement for judgement in health if judgement.state is State.UNKNOWN]
    assert [judgement.subject for judgement in unseen] == ["capture", "cleanup"]
    assert "permission denied" in unseen[0].message
    assert exit_code(health) == 1


def test_a_server_that_is_not_there_fails() -> None:
    ended = rowtide("health", "--db", "postgresql://localhost:1/nowhere")
    assert ended.code == 2
    assert "no connection to the database" in ended.output


def test_a_database_of_an_unknown_kind_is_no_warning() -> None:
    ended = rowtide("health", "--db", "mysql://localhost/shop")
    assert ended.code == 2
    assert ended.errors.startswith("RT-1021")


def test_a_database_where_nothing_is_enabled_is_warned_of(database: str) -> None:
    (only,) = connect(database).health()
    assert (only.subject, only.state) == ("database", State.WARNING)
    assert only.message == "nothing is captured, published, merged or tracked here"


def judged_subscription(replicated: ReplicatedDatabase) -> CheckResult:
    return judged(replicated.publisher.url, f"subscription {PUBLICATION}")


def begin(replicated: ReplicatedDatabase) -> None:
    replicated.begin(TABLE, item={})
    replicated.deliver()


def test_a_subscription_that_was_never_delivered_is_warned_of(replicated: ReplicatedDatabase) -> None:
    replicated.begin(TABLE, item={})
    judgement = judged_subscription(replicated)
    assert (judgement.state, str(judgement.remediation)) == (State.WARNING, "rowtide replication run")
    assert "its agent has never run" in judgement.message


@pytest.mark.exhaustive
def test_a_paused_subscription_is_resumed_by_what_is_printed(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.replication.run(once=True)
    assert judged_subscription(replicated).state is State.HEALTHY
    replicated.replication.pause(PUBLICATION)
    paused = judged_subscription(replicated)
    assert paused.state is State.WARNING
    assert paused.message.startswith("it is paused")
    assert isinstance(paused.remediation, ShellCommand)
    run_line(paused.remediation, replicated.publisher.url)
    assert judged_subscription(replicated).state is State.HEALTHY


def test_a_subscription_that_stopped_fails_with_its_error(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.publisher.execute("insert into item values (1, 'a')")
    replicated.deliver()
    replicated.subscriber.execute("delete from item")
    replicated.publisher.execute("update item set name = 'b'")
    with pytest.raises(RowNotFound):
        replicated.replication.run(once=True)
    ended = rowtide("replication", "run", "--once", "--db", replicated.publisher.url)
    assert (ended.code, ended.errors.count("RT-20598: ")) == (1, 1), ended
    stopped = judged_subscription(replicated)
    assert stopped.state is State.FAILING
    assert "RT-20598" in stopped.message
    assert rowtide("health", "--db", replicated.publisher.url).code == 2
    assert rowtide("check", "--db", replicated.publisher.url).code == 1


@pytest.mark.exhaustive
def test_pending_changes_are_reported_until_they_are_delivered(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.publisher.execute("insert into item values (1, 'a')")
    replicated.publisher.read_log()
    assert "; changes wait for " in judged_subscription(replicated).message
    with running(replicated):
        wait_until(
            lambda: judged_subscription(replicated).message.startswith("delivered by "),
            what="the subscription is delivered",
        )
    assert judged_subscription(replicated).message.startswith("no agent runs; ")


def test_log_read_failure_is_reported_until_the_log_is_read_on(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    fail = 'insert into distribution."MSrepl_errors" (time, source_name, error_code, error_text) values ({})'
    replicated.publisher.execute(
        fail.format("now() + interval '1 second', 'log reader', 'RT-2101', 'RT-2101: it broke.'")
    )
    stopped = judged(replicated.publisher.url, "log reader")
    assert stopped.state is State.FAILING
    assert "RT-2101: it broke" in stopped.message


@pytest.mark.exhaustive
def test_a_deactivated_subscription_fails(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    (subscription,) = list_subscriptions(replicated.publisher)
    replicated.publisher.manifest().append(ReaderLeft(subscription.reader))
    deactivated = judged_subscription(replicated)
    assert deactivated.state is State.FAILING
    assert isinstance(deactivated.remediation, ShellCommand)
    run_line(deactivated.remediation, replicated.publisher.url)
    replicated.replication.run(once=True)
    assert judged_subscription(replicated).state is State.HEALTHY


def test_an_article_that_nobody_has_read_is_warned_of(replicated: ReplicatedDatabase) -> None:
    replicated.publish(TABLE, item={})
    articles = judged(replicated.publisher.url, "articles")
    assert (articles.state, str(articles.remediation)) == (State.WARNING, "rowtide cdc run")
    replicated.publisher.read_log()
    assert "articles" not in states(replicated.publisher.url)


def test_a_database_that_only_subscribes_says_so(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    (only,) = connect(replicated.subscriber.url).health()
    assert (only.subject, only.state) == ("subscriber", State.HEALTHY)
    assert connect(replicated.subscriber.url).check() == ()
    told = connect(replicated.subscriber.url).check(lake=str(replicated.publisher.lake / "another"))
    assert not any("rowtide_subscriber" in f"{finding.subject} {finding.message}" for finding in told)


def test_what_a_refusing_store_would_say_is_not_known(
    logged: LoggedDatabase, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is read and published; no fact, state or mend says otherwise, or anything else that was not read."""
    logged.execute(TABLE)
    for words in (
        ("cdc", "enable-db", "--lake", f"{bucket.url}/lake"),
        ("cdc", "enable-table", "item"),
        ("replication", "add-publication", "p"),
        ("replication", "add-article", "p", "item"),
        ("cdc", "scan"),
    ):
        assert rowtide(*words, "--db", logged.url).code == 0
    assert {judgement.state for judgement in connect(logged.url).health()} == {State.HEALTHY}
    with serving(Refusing) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        health = {judgement.subject: judgement for judgement in connect(logged.url).health()}
        checked = connect(logged.url).check()
    reader = health["log reader"]
    assert reader.state is State.FAILING
    assert "how far the log is read is not known" in reader.message
    assert str(reader.remediation) == "Repair log store first."
    assert "the credentials have expired" in health["log store"].message
    assert health["snapshots"].state is State.UNKNOWN
    well = {subject.split()[0] for subject, judgement in health.items() if judgement.state is State.HEALTHY}
    assert well == {"slot", "publication", "cleanup"}
    assert not [subject for subject in health if subject.startswith("instance")]
    said = [str(finding.message) for finding in checked]
    assert not any("not read yet" in fact or "nothing was read" in fact for fact in said), said

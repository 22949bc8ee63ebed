"""`rowtide check` of SQLite files: each finding is brought about, is true, and is gone when its mend has run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from builders.commands.checks import matching, only, run_mend, stopping
from builders.commands.command_lines import rowtide
from builders.formats import NEWER, recording
from builders.tracking.tracked_databases import TrackedFile
from rowtide.core.errors import NameUnfit
from rowtide.diagnosis.result import Advice, CheckResult, State
from rowtide.handle import connect
from rowtide.rights.purpose import Purpose
from rowtide.tracking import Storage, TrackingKeyType, TrackingOptions
from rowtide.tracking.errors import TableToTrackNotFound, TrackingLost


def url(file: TrackedFile) -> str:
    return f"sqlite:///{file.path}"


def check(file: TrackedFile, *tables: str) -> list[CheckResult]:
    """Return the findings but for the journal's, which half of the files here have."""
    return [finding for finding in connect(url(file)).check(tables) if finding.subject != "file"]


def mend(file: TrackedFile, words: str, *tables: str) -> CheckResult:
    """Find it, do what it says, and find it no more."""
    finding = only(check(file, *tables), words)
    run_mend(finding, url(file))
    assert matching(check(file, *tables), words) == []
    return finding


def test_writers_wait_for_enumerations_without_write_ahead_log(sqlite_file: TrackedFile) -> None:
    sqlite_file.path.chmod(0o600)
    findings = connect(url(sqlite_file)).check()
    if sqlite_file.program.execute("pragma journal_mode").fetchone() == ("delete",):
        (finding,) = findings
        assert (finding.state, finding.subject) == (State.WARNING, "file")
        run_mend(finding, url(sqlite_file))
    assert connect(url(sqlite_file)).check() == ()


def test_a_file_that_everybody_can_read_is_reported(sqlite_file: TrackedFile) -> None:
    for mode, severities in ((0o644, [State.HEALTHY]), (0o604, [State.HEALTHY]), (0o640, []), (0o600, [])):
        sqlite_file.path.chmod(mode)
        told = matching(list(connect(url(sqlite_file)).check()), "every user of this machine can read")
        assert [finding.state for finding in told] == severities
        assert all(finding.message.endswith(f"its mode is {mode:o}") for finding in told)


def test_a_merge_subscriber_that_everybody_can_read_is_warned_of(tmp_path: Path) -> None:
    hub, device = tmp_path / "hub.db", tmp_path / "device.db"
    with closing(sqlite3.connect(hub)) as session:
        session.execute("create table item (id integer primary key, v text)")
    merge = connect(f"sqlite:///{hub}").merge
    merge.add_publication("field")
    merge.add_article("field", "item")
    merge.add_subscription("field", f"sqlite:///{device}")
    merge.sync("field", f"sqlite:///{device}")
    words = "every user of this machine can read"
    assert matching(list(connect(f"sqlite:///{device}").check()), words) == []
    device.chmod(0o644)
    finding = only(connect(f"sqlite:///{device}").check(), words)
    assert finding.state is State.WARNING
    hub.chmod(0o644)
    assert only(connect(f"sqlite:///{hub}").check(), words).state is State.HEALTHY
    run_mend(finding, f"sqlite:///{device}")
    assert matching(list(connect(f"sqlite:///{device}").check()), words) == []


def test_what_cannot_be_tracked_stops_only_where_it_is_named(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript("create view v as select id from t; create virtual table words using fts5(body);")
    assert [stopping(check(sqlite_file, name))[0].subject for name in ("V", "words", "words_data")] == [
        "table v",
        "table words",
        "table words_data",
    ]
    (told,) = check(sqlite_file)
    assert (told.state, told.subject) == (State.HEALTHY, "virtual tables")
    assert check(sqlite_file, "T") == []
    for absent in ("nowhere", "sqlite_schema", "__sysClock"):
        with pytest.raises(TableToTrackNotFound):
            check(sqlite_file, absent)


def test_tracking_s_own_tables_are_not_looked_at(tracked_file: TrackedFile) -> None:
    assert check(tracked_file) == []
    assert check(tracked_file, "t") == []
    tracked_file.tracking.disable_tracking("t")
    assert check(tracked_file) == []


def test_table_without_a_key_is_tracked_by_its_rowguid(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript(
        "create table a (line text); create table b (line text, rowguid blob not null unique);"
    )
    findings = check(sqlite_file)
    assert isinstance(only(findings, "table a: it has no primary key").remediation, Advice)
    mend(sqlite_file, "table b: it has no primary key", "b")
    (tracked,) = sqlite_file.tracking.list_tracked()
    assert (tracked.name, tracked.key_type) == ("b", TrackingKeyType.ROWGUID)


@pytest.mark.parametrize(
    ("table", "is_told"),
    [
        ("(k text primary key)", True),
        ("(k integer, n text, primary key (k, n))", True),
        ("(rowguid blob unique)", True),
        ("(k text primary key not null)", False),
        ("(k text primary key) without rowid", False),
        ("(k text primary key) strict", False),
        ("(rowguid blob unique not null)", False),
    ],
)
def test_nullable_key_warns_only_if_sqlite_accepts_null(sqlite_file: TrackedFile, table: str, *, is_told: bool) -> None:
    sqlite_file.program.execute(f"create table a {table}")
    assert bool(matching(check(sqlite_file, "a"), "key may be null")) is is_told
    with nullcontext() if is_told else pytest.raises(sqlite3.IntegrityError):
        sqlite_file.program.execute("insert into a default values")


ARCHIVING = (
    "create table archive (id, name, qty)",
    "create trigger keep before delete on t begin insert into archive select * from t where id = old.id; end",
)


def test_side_storage_is_advised_for_a_column_counting_trigger(sqlite_file: TrackedFile) -> None:
    for statement in ARCHIVING:
        sqlite_file.program.execute(statement)
    sqlite_file.program.execute("insert into t (id) values (1), (2)")
    (finding,) = check(sqlite_file, "t")
    assert (finding.state, str(finding.remediation)) == (State.WARNING, "rowtide tracking enable t --storage side")
    assert "SQLite refuses statements of keep," in finding.message

    # Without it programs fail; then the command is another.
    options = TrackingOptions.INSERT | TrackingOptions.DELETE
    sqlite_file.tracking.enable_tracking("t", options=options)
    with pytest.raises(sqlite3.OperationalError):
        sqlite_file.program.execute("delete from t where id = 1")
    mend(sqlite_file, "table t")
    (tracked,) = sqlite_file.tracking.list_tracked()
    assert (tracked.storage, tracked.options) == (Storage.SIDE, options)
    sqlite_file.program.execute("select id from t").fetchall()  # SQLite looks at the schema when it reads, not before
    sqlite_file.program.execute("delete from t where id = 1")
    assert sqlite_file.program.execute("select id from archive").fetchall() == [(1,)]


def test_what_is_recommended_before_enabling_does_what_it_says(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript("; ".join(ARCHIVING) + ";")
    mend(sqlite_file, "table t")
    assert [tracked.storage for tracked in sqlite_file.tracking.list_tracked()] == [Storage.SIDE]


def test_a_trigger_of_every_update_is_asked_at_each_stamping(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript(
        "create table seen (id);"
        "create trigger touch after update on t when new.qty is old.qty begin insert into seen values (new.id); end;"
    )
    assert "touch, a trigger of every update, is asked" in only(check(sqlite_file), "table t").message

    sqlite_file.tracking.enable_tracking("t")
    sqlite_file.program.execute("insert into t (id) values (1)")
    assert sqlite_file.program.execute("select id from seen").fetchall() == [(1,)]
    mend(sqlite_file, "table t")
    sqlite_file.program.execute("insert into t (id) values (2)")
    assert sqlite_file.program.execute("select id from seen").fetchall() == [(1,)]


def test_views_that_select_all_columns_are_named(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript(
        "create table other (a, b, c); create view wide as select * from t;"
        "create view both as select * from t union all select * from other; create view narrow as select id from t;"
        "create trigger into_wide instead of insert on narrow begin insert into other select * from wide; end;"
    )
    finding = only(check(sqlite_file), "table t")
    assert "SQLite refuses statements of into_wide, both, which" in finding.message
    assert "wide would show them" in finding.message
    assert "narrow" not in finding.message
    mend(sqlite_file, "table t")


def test_what_columns_are_nothing_to_is_left_alone(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.create_function("spell", 1, str)
    sqlite_file.program.create_collation("ours", lambda one, two: (one > two) - (one < two))
    sqlite_file.program.executescript(
        "create table log (id integer primary key, line text collate ours);"
        "create index ordered on log (line);"
        "create trigger named after update of name on t begin insert into log (line) values (new.name); end;"
        "create trigger counted after insert on t begin insert into log values (null, spell(new.id)); end;"
        "create trigger gone after delete on t begin insert into log (line) select name from t; end;"
        "create view v as select spell(id) as id, name from t;"
        "create trigger \"it's; an 'update' on t\" after insert on log begin select raise(ignore); end;"
        "create view broken as select * from nowhere;"
    )
    assert check(sqlite_file) == []
    sqlite_file.tracking.enable_tracking("t")
    assert check(sqlite_file) == []
    sqlite_file.program.execute("create trigger late after update on t begin select 1; end")
    assert "late, a trigger of every update" in only(check(sqlite_file), "table t").message


def test_lost_tracking_is_found_and_resumed(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute('drop trigger "__sysTracking_t_insert"')
    finding = only(check(tracked_file), "its tracking is lost: the trigger __sysTracking_t_insert is gone")
    assert finding.state is State.FAILING
    with pytest.raises(TrackingLost) as noted:
        tracked_file.changes()
    assert f"found out at {noted.value.lost_time} UTC: the trigger" in only(check(tracked_file), "lost").message
    mend(tracked_file, "its tracking is lost")
    assert check(tracked_file) == []


def test_a_table_that_was_dropped_is_tracked_no_more(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("drop table t")
    assert only(check(tracked_file, "T"), "table t").state is State.FAILING
    run_mend(only(check(tracked_file), "there is no such table any more"), url(tracked_file))
    assert tracked_file.program.execute("select name from sqlite_schema").fetchall() == []


def test_a_table_that_lost_its_key_is_not_to_be_resumed_as_it_is(tracked_file: TrackedFile) -> None:
    tracked_file.program.executescript(
        "begin; create table new (id, name, qty); drop table t; alter table new rename to t; commit"
    )
    finding = only(check(tracked_file), "it has no primary-key any more")
    assert (finding.state, type(finding.remediation)) == (State.FAILING, Advice)


def test_what_a_newer_build_tracks_is_not_looked_at(tracked_file: TrackedFile) -> None:
    tracked_file.run(*recording(tracked_file.format_view, NEWER))
    assert only(check(tracked_file), "has format 2").state is State.FAILING


def test_old_tombstones_are_purged_when_there_are_many(tracked_file: TrackedFile) -> None:
    insert = (
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {count}) "
        "insert into __sysOCSDeletedRows (__sysTN, __sysDeleteTxBsn, __sysRK, __sysDeletedTime) "
        "select 't', 1, i, julianday('now') - {days} from n"
    )
    tracked_file.program.execute(insert.format(count=150_000, days=29))
    assert check(tracked_file) == []
    tracked_file.program.execute(insert.format(count=100_000, days=40))
    assert (
        "250000 tombstones, 100000 of them older than 30 days, the oldest of 40 days ago"
        in mend(tracked_file, "tombstones").message
    )
    assert tracked_file.program.execute("select count(*) from __sysOCSDeletedRows").fetchone() == (150_000,)


def test_nothing_in_the_file_is_changed(tracked_file: TrackedFile) -> None:
    for statement in ARCHIVING:
        tracked_file.program.execute(statement)
    tracked_file.program.execute('drop trigger "__sysTracking_t_insert"')
    version = tracked_file.program.execute("pragma data_version").fetchone()
    assert len(check(tracked_file)) == 1
    assert tracked_file.program.execute("pragma data_version").fetchone() == version


def test_the_command_ends_as_it_does_on_a_server(tracked_file: TrackedFile) -> None:
    command = ("check", "--db", url(tracked_file), "--format", "jsonl")
    assert rowtide(*command).code == 0
    tracked_file.program.execute('drop trigger "__sysTracking_t_insert"')
    ended = rowtide(*command)
    first = json.loads(ended.output.splitlines()[0])
    assert first["remediation"] == "rowtide tracking resume t"
    assert (ended.code, ended.errors.partition(". ")[0]) == (1, "RT-5101: work is stopped by table t")


def test_wrong_uses_are_said_in_one_line(sqlite_file: TrackedFile) -> None:
    rowtide("check", "absent", "--db", url(sqlite_file)).require_error(6101)
    rowtide("check", "--lake", "/lake", "--db", url(sqlite_file)).require_error(5102)
    rowtide("check", "--db", "sqlite:////nowhere/file.db").require_error(1121)
    rowtide("check", "--db", "mysql://localhost/shop").require_error(1021)
    assert "sqlite:///folder/file.db" in rowtide("check", "--help").output


def test_one_table_is_checked_by_its_name_alone(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("create table orders (a)")

    assert connect(url(tracked_file)).check("orders") == connect(url(tracked_file)).check(["orders"])
    with pytest.raises(NameUnfit, match="of the type NoneType"):
        connect(url(tracked_file)).check([None])  # type: ignore[list-item]


@pytest.mark.parametrize("purpose", [purpose for purpose in Purpose if purpose is not Purpose.PUBLISHER])
def test_a_purpose_leaves_out_what_enabling_would_do(sqlite_file: TrackedFile, purpose: Purpose) -> None:
    sqlite_file.ask("create table note (id text primary key)")
    assert matching(connect(url(sqlite_file)).check(), "table note") != []
    assert matching(connect(url(sqlite_file)).check(purpose=purpose), "table note") == []


def test_a_file_is_no_publisher(sqlite_file: TrackedFile) -> None:
    rowtide("check", "--as", "publisher", "--db", url(sqlite_file)).require_error(5104)

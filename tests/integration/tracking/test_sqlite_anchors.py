"""Anchors of SQLite files that no longer lead on: each is refused, and says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.sqlite_files import TrackedFile
from rowtide.core.anchors import InvalidAnchor, UnknownAnchor
from rowtide.databases.sqlite.connect import write_transaction
from rowtide.databases.sqlite.errors import FileBusy, FileNotOpened
from rowtide.tracking import Anchor, ChangeTracking, PurgeType, Storage, TrackingKeyType, TrackingOptions
from rowtide.tracking.errors import (
    AnchorTooOld,
    InvalidTombstoneKey,
    NothingToTrack,
    NothingTracked,
    NotTracked,
    TableToTrackNotFound,
    TrackedAlready,
    TrackingKeyMissing,
    TrackingLost,
    TrackingOutdated,
    UnknownConnection,
)


def rebuild(program: sqlite3.Connection) -> None:
    """Change a table as SQLite's documentation advises; who does it this way takes no triggers along."""
    program.executescript(
        "begin; create table t_new (id integer primary key, name text, qty real);"
        "insert into t_new select id, name, qty from t; drop table t; alter table t_new rename to t; commit;"
    )


def test_an_anchor_from_before_a_purge_is_refused_and_a_younger_one_is_not(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1), (2)")
    tracked_file.changes()
    old = tracked_file.seen
    tracked_file.program.execute("delete from t where id = 1")
    tracked_file.changes()
    young = tracked_file.seen
    tracked_file.program.execute("delete from t where id = 2")
    tracked_file.changes()
    assert young is not None

    assert tracked_file.tracking.purge_tombstone_table_data("t", PurgeType.CSN_BASED, young.csn) == 1
    tracked_file.seen = young
    assert tracked_file.changes() == [("delete", 2)]
    tracked_file.seen = old
    with pytest.raises((AnchorTooOld, UnknownAnchor)):
        tracked_file.changes()


def test_a_purge_by_days_keeps_what_is_younger(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1), (2)")
    tracked_file.program.execute("delete from t where id = 1")
    tracked_file.program.execute("update __sysOCSDeletedRows set __sysDeletedTime = __sysDeletedTime - 8")
    tracked_file.program.execute("delete from t where id = 2")

    assert tracked_file.tracking.purge_tombstone_table_data(None, PurgeType.TIME_BASED, 7) == 1
    assert tracked_file.program.execute("select count(*) from __sysOCSDeletedRows").fetchone() == (1,)
    assert tracked_file.tracking.purge_transaction_sequence_data(PurgeType.TIME_BASED, 7) == 0


def test_an_anchor_that_a_restored_file_did_not_give_is_refused(tracked_file: TrackedFile) -> None:
    before = tracked_file.seen
    with closing(sqlite3.connect(tracked_file.path.with_name("backup.db"))) as backup:
        tracked_file.program.backup(backup)
        tracked_file.program.execute("insert into t (id) values (1)")
        tracked_file.changes()
        backup.backup(tracked_file.program)
    tracked_file.program.execute("insert into t (id) values (2)")

    with pytest.raises(UnknownAnchor, match="restored"):
        tracked_file.changes()
    tracked_file.seen = before
    assert tracked_file.changes() == [("insert", 2, None, None)]


def test_who_wrote_what_a_restore_undid_is_refused_too(tracked_file: TrackedFile) -> None:
    with closing(sqlite3.connect(tracked_file.path.with_name("backup.db"))) as backup:
        tracked_file.program.backup(backup)
        with tracked_file.tracking.transaction(seen=tracked_file.seen) as transaction:
            tracked_file.program.execute("insert into t (id) values (1)")
        backup.backup(tracked_file.program)
    tracked_file.seen = transaction.anchor

    with pytest.raises(UnknownAnchor):
        tracked_file.changes()


def test_a_copied_file_refuses_the_anchors_of_the_other(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("pragma wal_checkpoint(truncate)")
    copy = tracked_file.path.with_name("copy.db")
    shutil.copy(tracked_file.path, copy)
    tracked_file.program.execute("insert into t (id) values (1)")
    tracked_file.changes()
    with closing(sqlite3.connect(copy, isolation_level=None)) as program:
        program.execute("insert into t (id) values (2)")
        with (
            pytest.raises(UnknownAnchor),
            ChangeTracking(program).changes(["t"], tracked_file.seen),
        ):
            pass


def test_a_rebuilt_table_has_lost_its_tracking_until_it_is_resumed(tracked_file: TrackedFile) -> None:
    rebuild(tracked_file.program)
    tracked_file.program.execute("insert into t (id) values (1)")

    for _ in range(2):
        with pytest.raises(TrackingLost, match="rowtide tracking resume t"):
            tracked_file.changes()
    tracked_file.tracking.resume_tracking("t")
    with pytest.raises(AnchorTooOld):
        tracked_file.changes()
    with tracked_file.tracking.changes(["t"], tracked_file.seen, whole=["T"]) as changes:
        assert [change.row for change in changes] == [(1, None, None)]
    tracked_file.seen = changes.anchor
    tracked_file.program.execute("update t set qty = 2")
    assert tracked_file.changes() == [("update", 1, None, 2.0)]


@pytest.mark.parametrize(
    "statement",
    [
        "drop trigger __sysTracking_t_delete",
        "alter table t rename to s",
        "create unique index t_name on t (name)",
        "drop table t",
    ],
)
def test_whatever_may_have_hidden_changes_is_found_out(tracked_file: TrackedFile, statement: str) -> None:
    tracked_file.program.execute(statement)

    with pytest.raises(TrackingLost):
        tracked_file.changes()
    tracked_file.tracking.disable_tracking("t")
    assert tracked_file.program.execute("select count(*) from sqlite_schema where type = 'trigger'").fetchone() == (0,)


def test_columns_may_be_added_dropped_and_renamed(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1), (2), (3)")
    tracked_file.changes()
    tracked_file.program.execute("alter table t add column more text default 'x'")
    tracked_file.program.execute("update t set more = 'y' where id = 1")
    assert tracked_file.changes() == [("update", 1, None, None, "y")]

    tracked_file.program.execute("alter table t rename column more to most")
    tracked_file.program.execute("update t set most = 'z' where id = 2")
    assert tracked_file.changes() == [("update", 2, None, None, "z")]

    tracked_file.program.execute("alter table t drop column most")
    tracked_file.program.execute("update t set qty = 3 where id = 3")
    assert tracked_file.changes() == [("update", 3, None, 3)]


def test_side_storage_leaves_clients_alone_that_an_added_column_or_a_second_update_would_break(
    sqlite_file: TrackedFile,
) -> None:
    sqlite_file.program.executescript(
        "create table log (line); create trigger t_log after update on t begin insert into log values (new.id); end;"
    )
    sqlite_file.tracking.enable_tracking("t", storage=Storage.SIDE)
    sqlite_file.program.execute("insert into t values (1, 'by position', 1)")
    sqlite_file.changes()
    sqlite_file.program.execute("update t set qty = 2")

    assert sqlite_file.program.execute("select * from log").fetchall() == [(1,)]
    assert sqlite_file.changes() == [("update", 1, "by position", 2)]


def test_tracking_leaves_nothing_behind(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id, name, qty) values (1, 'a', 2)")
    tracked_file.tracking.disable_tracking("t")

    names = tracked_file.program.execute("select name from sqlite_schema").fetchall()
    assert names == [("t",)]
    assert tracked_file.program.execute("select * from t").fetchall() == [(1, "a", 2)]
    with pytest.raises(NotTracked):
        tracked_file.changes()
    with pytest.raises(NothingTracked), tracked_file.tracking.transaction():
        pass
    with pytest.raises(NothingTracked):
        tracked_file.tracking.get_last_committed_csn()


def test_a_database_of_an_older_form_is_upgraded_and_its_anchors_stay(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1)")
    tracked_file.program.execute("update __sysOCSTrackedObjects set __sysForm = 0")
    name, sql = tracked_file.program.execute(
        "select name, sql from sqlite_schema where type = 'trigger' and name like '%_delete'"
    ).fetchone()
    tracked_file.program.execute(f'drop trigger "{name}"')
    tracked_file.program.execute(sql.replace("begin", "begin select 'older form';"))
    with pytest.raises(TrackingOutdated):
        tracked_file.changes()

    assert tracked_file.tracking.upgrade_public_tracking() == ("t",)
    assert tracked_file.changes() == [("insert", 1, None, None)]
    assert tracked_file.tracking.upgrade_public_tracking() == ()


def test_a_database_of_a_newer_form_is_refused(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("update __sysOCSTrackedObjects set __sysForm = 99")

    with pytest.raises(TrackingOutdated):
        tracked_file.tracking.upgrade_public_tracking()


def test_a_file_that_stays_locked_is_said_to_be(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("begin immediate")
    with (
        closing(sqlite3.connect(tracked_file.path, isolation_level=None)) as other,
        pytest.raises(FileBusy, match="locked by another program"),
        write_transaction(other, deadline_s=0.05),
    ):
        pass


def test_what_cannot_be_tracked_is_refused_with_what_is_missing(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.executescript("create view v as select * from t; create table without_key (a);")
    for name in ("v", "absent", "sqlite_schema", "__sysClock"):
        with pytest.raises(TableToTrackNotFound):
            sqlite_file.tracking.enable_tracking(name)
    with pytest.raises(TrackingKeyMissing, match="primary key"):
        sqlite_file.tracking.enable_tracking("without_key")
    with pytest.raises(TrackingKeyMissing, match="rowguid"):
        sqlite_file.tracking.enable_tracking("t", TrackingKeyType.ROWGUID)
    with pytest.raises(NothingToTrack):
        sqlite_file.tracking.enable_tracking("t", options=TrackingOptions(0))
    assert sqlite_file.program.execute(
        "select count(*) from sqlite_schema where name like '\\_\\_%' escape '\\'"
    ).fetchone() == (0,)
    sqlite_file.tracking.enable_tracking("T")
    with pytest.raises(TrackedAlready):
        sqlite_file.tracking.enable_tracking("t")


def test_what_is_no_key_of_the_table_is_not_packed_or_unpacked(tracked_file: TrackedFile) -> None:
    with pytest.raises(InvalidTombstoneKey, match="2 values"):
        tracked_file.tracking.pack_tombstone_key("t", [1, 2])
    with pytest.raises(InvalidTombstoneKey):
        tracked_file.tracking.pack_tombstone_key("t", [object()])
    with pytest.raises(InvalidTombstoneKey):
        tracked_file.tracking.unpack_tombstone_key("t", "no key")
    with pytest.raises(NotTracked):
        tracked_file.tracking.pack_tombstone_key("absent", [1])
    assert tracked_file.tracking.pack_tombstone_key("t", ["7"]) == "7"


def test_an_anchor_is_read_as_it_was_printed() -> None:
    anchor = Anchor(7, "0" * 32)

    assert Anchor.parse(str(anchor)) == anchor
    with pytest.raises(InvalidAnchor):
        Anchor.parse("7")


def test_a_connection_of_an_unknown_driver_is_refused() -> None:
    with pytest.raises(UnknownConnection, match="builtins"):
        ChangeTracking(object())  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    from rowtide.databases.sqlite.connect import open_url

    with pytest.raises(FileNotOpened):
        open_url(f"sqlite:///{tmp_path}/absent.db")
    (tmp_path / "text.db").write_text("no database, but long enough to be taken for one: " * 20)
    with pytest.raises(FileNotOpened, match="not a database"):
        open_url(f"sqlite:///{tmp_path}/text.db")

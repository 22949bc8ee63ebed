"""Anchors of SQLite files that no longer lead on: each is refused, and says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from builders.tracking.tracked_databases import TrackedFile
from rowtide.core.anchors import InvalidAnchor, UnknownAnchor
from rowtide.databases.sqlite import connect
from rowtide.databases.sqlite.connect import write_transaction
from rowtide.databases.sqlite.errors import FileBusy, FileFailed, FileNotOpened
from rowtide.tracking import Anchor, ChangeTracking, Storage, TrackingKeyType
from rowtide.tracking.errors import (
    AnchorTooOld,
    InvalidTombstoneKey,
    TableToTrackNotFound,
    TrackedAlready,
    TrackedTableGone,
    TrackingKeyMissing,
    TrackingLost,
    UnknownConnection,
)


def rebuild(program: sqlite3.Connection) -> None:
    """Change a table as SQLite's documentation advises; who does it this way takes no triggers along."""
    program.executescript(
        "begin; create table t_new (id integer primary key, name text, qty real);"
        "insert into t_new select id, name, qty from t; drop table t; alter table t_new rename to t; commit;"
    )


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
        ChangeTracking(program).disable_tracking("t")
    tracked_file.program.execute("insert into t (id) values (3)")
    assert tracked_file.changes() == [("insert", 3, None, None)]


def test_rebuilt_table_loses_tracking_until_it_is_resumed(tracked_file: TrackedFile) -> None:
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


def test_a_renamed_table_is_tracked_by_its_new_name(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("alter table t rename to u")
    tracked_file.program.execute("update u set qty = 2")

    for _ in range(2):
        with pytest.raises(TrackedTableGone, match="called u now. Run `rowtide tracking disable t`"):
            tracked_file.changes()
    tracked_file.tracking.disable_tracking("t")
    tracked_file.tracking.enable_tracking("u")
    with tracked_file.tracking.changes(["u"]) as changes:
        assert len(list(changes)) == len(tracked_file.program.execute("select 1 from u").fetchall())
    tracked_file.tracking.disable_tracking("u")
    assert [each for each in tracked_file.catalogue() if "__sys" in str(each)] == []


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_texts_that_are_not_utf_8_are_told_from_others(tracked_file: TrackedFile, journal: str) -> None:
    tracked_file.program.execute(f"pragma journal_mode = {journal}")
    tracked_file.program.execute("insert into t (id, name) values (1, cast(X'41ff' as text)), (2, 'A')")

    with tracked_file.tracking.changes(["t"], tracked_file.seen) as changes:
        assert [change.as_dict()["name"] for change in changes] == ["A\udcff", "A"]
    assert tracked_file.program.execute("select name from t where id = 2").fetchall() == [("A",)]


def test_keys_that_are_not_utf_8_are_deleted_and_come_again(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create table k (name text primary key, qty integer)")
    sqlite_file.tracking.enable_tracking("k")
    sqlite_file.program.execute("insert into k (name, qty) values (cast(X'41ff' as text), 1), ('B', 2)")
    with sqlite_file.tracking.changes(["k"]) as changes:
        assert {change.as_dict()["name"] for change in changes} == {"A\udcff", "B"}
    sqlite_file.program.execute("delete from k")
    with sqlite_file.tracking.changes(["k"], changes.anchor) as gone:
        assert {(change.operation, *change.row) for change in gone} == {("delete", "A\udcff"), ("delete", "B")}
    sqlite_file.program.execute("insert into k (name, qty) values (cast(X'41ff' as text), 3)")
    with sqlite_file.tracking.changes(["k"], changes.anchor) as again:
        assert [(change.operation, *change.row) for change in again][-1] == ("update", "A\udcff", 3)


def test_what_sqlite_refuses_while_enabling_is_numbered(sqlite_file: TrackedFile) -> None:
    sqlite_file.program.execute("create view __sysTxCommitSequence as select 1")
    with pytest.raises(FileFailed, match=r"RT-1124: .*__sysTxCommitSequence"):
        sqlite_file.tracking.enable_tracking("t")


def test_unique_index_that_could_displace_rows_is_detected(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("create unique index t_name on t (name)")

    with pytest.raises(TrackingLost):
        tracked_file.changes()
    tracked_file.tracking.disable_tracking("t")
    assert tracked_file.program.execute("select count(*) from sqlite_schema where type = 'trigger'").fetchone() == (0,)


def test_side_storage_keeps_positional_inserts_and_triggers(
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


def test_dropped_table_leaves_nothing_to_the_next_of_its_name(sqlite_file: TrackedFile) -> None:
    sqlite_file.tracking.enable_tracking("t", storage=Storage.SIDE)
    for number in range(5):
        sqlite_file.program.execute("insert into t (id) values (?)", (number,))
        sqlite_file.changes()
    sqlite_file.program.execute("drop table t")
    sqlite_file.tracking.disable_tracking("t")
    assert sqlite_file.program.execute("select name from sqlite_schema").fetchall() == []

    sqlite_file.program.execute("create table t (id integer primary key)")
    sqlite_file.program.execute("insert into t values (4)")
    sqlite_file.tracking.enable_tracking("t", storage=Storage.SIDE)
    sqlite_file.seen = None
    assert sqlite_file.changes() == [("insert", 4)]
    assert sqlite_file.changes() == []


@pytest.mark.parametrize("storage", Storage)
def test_a_file_whose_system_tables_were_dropped_is_enabled(sqlite_file: TrackedFile, storage: Storage) -> None:
    """Its triggers refuse all writes; stamps from before are above those of the new clock."""
    sqlite_file.tracking.enable_tracking("t", storage=storage)
    for number in range(5):
        sqlite_file.program.execute("insert into t (id) values (?)", (number,))
        sqlite_file.changes()
    for (name,) in sqlite_file.ask("select name from sqlite_schema where type = 'table' and name glob '__sys*'"):
        sqlite_file.program.execute(f"drop table {name}")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        sqlite_file.program.execute("update t set name = 'x'")
    sqlite_file.tracking.enable_tracking("t", storage=storage)
    sqlite_file.seen = None
    assert len(sqlite_file.changes()) == 5
    # SQLite notices that the schema is another as it reads.
    assert sqlite_file.ask("select count(*) from t") == [(5,)]
    sqlite_file.program.execute("update t set name = 'x' where id = 1")
    assert [change[:2] for change in sqlite_file.changes()] == [("update", 1)]
    assert sqlite_file.changes() == []


SYSTEM_TABLES = ("__sysOCSDeletedRows", "__sysTxCommitSequence", "__sysWriting", "__sysClock", "__sysAnchors")


@pytest.mark.parametrize("dropped", [*((one,) for one in SYSTEM_TABLES), SYSTEM_TABLES])
@pytest.mark.parametrize("storage", Storage)
def test_a_table_is_disabled_though_system_tables_are_gone(
    sqlite_file: TrackedFile, storage: Storage, dropped: tuple[str, ...]
) -> None:
    """What is left of the other table's tracking says what is missing; nothing is made up."""
    program, tracking = sqlite_file.program, sqlite_file.tracking
    program.execute("create table other (id integer primary key)")
    before = sqlite_file.catalogue()
    for table in ("t", "other"):
        tracking.enable_tracking(table, storage=storage)
    for statement in ("insert into t (id) values (1)", "delete from t", "insert into other (id) values (1)"):
        program.execute(statement)
    for name in dropped:
        program.execute(f"drop table {name}")
    tracking.disable_tracking("t")
    present = {name for (name,) in sqlite_file.ask("select name from sqlite_schema where type = 'table'")}
    assert present.isdisjoint({"__sysOCSDeletedRows", "__sysClock", "__sysAnchors"} & {*dropped})
    program.execute("insert into t (id) values (2)")
    tracking.disable_tracking("other")
    assert sqlite_file.ask("select count(*) from t") == [(1,)]
    assert sqlite_file.catalogue() == before


def test_a_file_that_stays_locked_is_said_to_be(tracked_file: TrackedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "LOCK_DEADLINE_S", 0.05)
    tracked_file.program.execute("begin immediate")
    with (
        closing(sqlite3.connect(tracked_file.path, isolation_level=None)) as other,
        pytest.raises(FileBusy, match="locked by another program"),
        write_transaction(other),
    ):
        pass


def test_names_are_those_of_any_case_and_not_of_the_system(sqlite_file: TrackedFile) -> None:
    for name in ("sqlite_schema", "__sysClock"):
        with pytest.raises(TableToTrackNotFound):
            sqlite_file.tracking.enable_tracking(name)
    with pytest.raises(TrackingKeyMissing, match="rowguid"):
        sqlite_file.tracking.enable_tracking("t", TrackingKeyType.ROWGUID)
    sqlite_file.tracking.enable_tracking("T")
    with pytest.raises(TrackedAlready):
        sqlite_file.tracking.enable_tracking("t")
    assert sqlite_file.tracking.get_tracked("T").name == "t"


def test_unsupported_value_is_no_key_and_digits_are_a_number(
    tracked_file: TrackedFile,
) -> None:
    with pytest.raises(InvalidTombstoneKey):
        tracked_file.tracking.pack_tombstone_key("t", [object()])
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

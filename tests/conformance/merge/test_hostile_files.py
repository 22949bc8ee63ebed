"""A device's file that somebody has prepared: it is refused with a number, in time, and is not left locked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from builders.commands.hints import run_printed
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from fixtures.merged import open_members
from rowtide.core.errors import RowtideError
from rowtide.databases.sqlite.errors import FileFailed, StatementTimedOut, ValueTooLarge
from rowtide.merge.articles import DeviceLimits
from rowtide.merge.errors.nodes import GenerationRefused, MetadataMalformed, NodeRestored
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.errors.rows import RowTooLarge, UploadTooLarge

ITEM = "create table item (id integer primary key, region varchar(10), note text)"
ROWS = "insert into item values (1, 'north', 'a'), (2, 'south', 'b'), (3, 'south', 'c')"
CONTENTS, SUBSCRIPTIONS = "MSmerge_stored_contents", "sysmerge_stored_subscriptions"
ENDLESS = "with recursive r (n) as (select 1 union all select n + 1 from r)"
FOREVER = f"({ENDLESS} select n from r where n < 0)"
NOTHING = ", ".join(
    f"null as {name}" for name in ("origin", "priority", "lineage", "last", "colv", "own_columns", "bases")
)
LIMITS = DeviceLimits(statement_s=1.0, row_bytes=1_000_000, rows=100, upload_bytes=3_000_000)


@dataclass
class Device:
    """A hub, and a file whose program writes what it wants."""

    merge: Merge

    @property
    def file(self) -> FileMember:
        (member,) = self.merge.subscribers
        assert isinstance(member, FileMember)
        return member

    def tamper(self, *statements: str) -> None:
        """Write to the file, past its guards."""
        self.file.execute("insert into MSmerge_agent values (1)", "insert into __sysWriting values (1)", *statements)
        self.file.execute("delete from MSmerge_agent", "delete from __sysWriting")

    def sync(self) -> None:
        self.merge.merge.sync(PUBLICATION, self.file.url, limits=LIMITS)

    def require_refused(self, error: type[RowtideError], match: str = "RT-") -> None:
        """A synchronisation fails with an error, takes nothing, and leaves no lock."""
        with pytest.raises(error, match=match):
            self.sync()
        assert self.merge.hub.rows("item", "id, note")[:3] == [(1, "a"), (2, "b"), (3, "c")]
        with closing(sqlite3.connect(self.file.url.removeprefix("sqlite:///"), timeout=0)) as other:
            other.execute("begin immediate")


@pytest.fixture(params=[("file", "file"), pytest.param(("server", "file"), marks=pytest.mark.live)], ids=" ".join)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device that has changed a row since it synchronised."""
    with ExitStack() as opened:
        members = open_members(request, opened, request.param)
        merge = Merge(members[0], members[1:])
        merge.begin(ITEM, ROWS, item={"column_tracking": True})
        merge.settle()
        merge.subscribers[0].execute("update item set note = 'mine' where id = 1")
        yield Device(merge)


def changed(settings: str) -> str:
    """Return the statement that makes a change's metadata something else."""
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp) select a.nickname, i.rowguid, c.__sysBsn "
        f"from sysmerge_stored_articles a, item i, __sysClock c where i.id = 2 on conflict do nothing; "
        f"update {CONTENTS} set {settings}"
    )


@pytest.mark.parametrize(
    "settings",
    [
        "lineage = x'00'",
        "lineage = 'text'",
        "lineage = zeroblob(500000)",
        "origin = 7, lineage = x'', last = x'0102'",
        "origin = 7",
        "origin = 'x', lineage = x'', last = zeroblob(10)",
        "colv = x'01'",
        "colv = x'006300000000000000000000'",
        "own_columns = 'zz'",
        "own_columns = '-000000000000001'",
        "own_columns = printf('%.*c', 160, '0') || '0000000000000001'",
        "bases = '['",
        "priority = 9e999",
    ],
)
def test_malformed_metadata_name_their_row(device: Device, settings: str) -> None:
    device.tamper(*changed(settings).split("; "))
    device.require_refused(MetadataMalformed, "the metadata of (public.)?item .* at .*-.*-")


@pytest.mark.parametrize(
    "statement",
    [
        "update sysmerge_stored_articles set definition = 'x'",
        "update sysmerge_stored_articles set definition = '[]'",
        "update sysmerge_stored_articles set purged_lineage = 1000000000000",
        "update MSmerge_replinfo set nickname = 'x'",
        "delete from MSmerge_replinfo",
        f"update {SUBSCRIPTIONS} set session = 9223372036854775807",
        f"update {SUBSCRIPTIONS} set sentgen = 'x'",
        f"update {SUBSCRIPTIONS} set last_sync_date = 'x'",
    ],
)
def test_malformed_definitions_name_their_table(device: Device, statement: str) -> None:
    device.tamper(statement)
    device.require_refused(MetadataMalformed, "merge_")


@pytest.mark.parametrize("number", ["'x'", "9223372036854775807", "-1"])
def test_a_clock_without_a_number_is_refused(device: Device, number: str) -> None:
    device.tamper(f"update __sysClock set __sysBsn = {number}")
    device.require_refused(FileFailed, "__sysClock")


def test_a_clock_that_went_back_is_refused(device: Device) -> None:
    """Its next changes would have the numbers of earlier ones, and be taken for these."""
    for name in ("b", "c", "d"):
        device.sync()
        device.file.execute(f"update item set note = '{name}' where id = 1")
    device.tamper(
        f"delete from {CONTENTS}", "delete from MSmerge_stored_genhistory", "update __sysClock set __sysBsn=1"
    )
    with pytest.raises(GenerationRefused, match="has sent generation") as refused:
        device.sync()
    run_printed(refused.value, device.merge.hub.url, PUBLICATION=PUBLICATION)
    device.sync()
    assert device.merge.hub.rows("item", "id, note")[0] == (1, "c")


@pytest.mark.parametrize("whose", ["the hub's", "another's", "its own"])
def test_generations_of_the_future_are_refused(device: Device, whose: str) -> None:
    """Later changes of these nodes would count as included, and be lost."""
    nickname = {
        "the hub's": f"select replnickname from {SUBSCRIPTIONS}",
        "another's": "select 77",
        "its own": "select nickname from MSmerge_replinfo",
    }[whose]
    prefix = "" if isinstance(device.merge.hub, FileMember) else "rowtide_merge."
    if whose == "another's":
        device.merge.hub.execute_as_agent(
            f'insert into {prefix}"{SUBSCRIPTIONS}" (subid, pubid, subscriber_server, replnickname, subscriber_type, '
            "priority, sentgen, recgen, replicastate, session, settledgen, last_sync_status) "
            "values ('other', 'other', 'other', 77, 2, 0, 0, 5, 'x', 0, 0, 0)"
        )
    ((found,),) = device.file.execute(nickname)
    lineage = f"x'{found:012x}ffffffff'"
    device.tamper(*changed(f"lineage = {lineage}").split("; "))
    device.require_refused(GenerationRefused, "still to come")


def test_a_session_of_the_future_is_refused(device: Device) -> None:
    device.tamper(f"update {SUBSCRIPTIONS} set session = 1000")
    device.require_refused(GenerationRefused, "session 1000")


def test_the_nickname_of_another_is_refused(device: Device) -> None:
    device.tamper("update MSmerge_replinfo set nickname = 77")
    device.require_refused(NodeRestored)


@pytest.mark.parametrize(
    "statements",
    [
        [f"create trigger t after delete on MSmerge_log begin update item set note = note where id = {FOREVER}; end"],
        [
            f"create trigger t after update on {SUBSCRIPTIONS} begin delete from item where id = {FOREVER}; end",
        ],
        [
            f"alter table {SUBSCRIPTIONS} rename to hidden",
            f"create view {SUBSCRIPTIONS} as {ENDLESS} select 1 as subid, n as pubid from r where n < 0",
        ],
        [
            f"drop table {CONTENTS}",
            f"create view {CONTENTS} as {ENDLESS} select n as tablenick, n as rowguid, n as stamp, {NOTHING} from r",
        ],
    ],
    ids=["trigger on the log", "trigger on subscriptions", "view of subscriptions", "view of contents"],
)
def test_code_that_does_not_end_is_stopped(device: Device, statements: list[str]) -> None:
    device.file.execute(*statements)
    device.require_refused(StatementTimedOut, "after 1 seconds")


def test_a_trigger_of_a_download_is_stopped(device: Device) -> None:
    device.sync()
    device.file.execute(
        f"create trigger t after update on item begin update item set note = note where id = {FOREVER}; end"
    )
    device.merge.hub.execute("update item set note = 'hub' where id = 3")
    with pytest.raises(StatementTimedOut):
        device.sync()
    device.file.execute("drop trigger t")
    device.sync()
    device.merge.require_equal("item", columns="id, note")


@pytest.mark.parametrize("rowguid", ["x'ff00'", "cast(x'ff41' as text)", "printf('%.300c', 'x')", "char(10)"])
def test_rowguids_are_texts_of_rowguids(device: Device, rowguid: str) -> None:
    device.file.execute(f"insert into item (id, rowguid) values (9, {rowguid})")
    device.require_refused(MetadataMalformed, "rowguid")


@pytest.mark.parametrize("text", ["{0}", "upper('{0}')", "'{{{0}}}'", "replace('{0}', '-', '')", "'zzz'"])
def test_rowguids_have_no_other_texts(device: Device, text: str) -> None:
    if text == "{0}":
        text = "'" + "0" * 35 + "-'"
    rowguid = device.merge.hub.rowguid("item", 3)
    device.file.execute(f"insert into item (id, rowguid) values (9, {text.format(rowguid)})")
    device.require_refused(MetadataMalformed, "no UUID")


def test_a_view_in_place_of_a_table_is_refused(device: Device) -> None:
    device.file.execute("alter table item rename to hidden", "create view item as select * from hidden")
    device.require_refused(MergedTableAltered)


def test_a_value_that_is_too_large_is_not_read(device: Device) -> None:
    device.file.execute("update item set note = zeroblob(2000000) where id = 1")
    device.require_refused(ValueTooLarge, "1,000,000 bytes")


@pytest.mark.parametrize(
    "statement",
    [
        f"insert into item (id, note) select n + 10, 'x' from ({ENDLESS} select n from r limit 101)",
        f"insert into item (id, note) select n + 10, printf('%.900000c', 'x') from ({ENDLESS} select n from r limit 4)",
    ],
    ids=["rows", "bytes"],
)
def test_more_than_is_taken_at_once_is_refused(device: Device, statement: str) -> None:
    device.file.execute(statement)
    device.require_refused(UploadTooLarge, "uploads more than")


def test_a_row_of_large_values_is_refused(device: Device) -> None:
    large = "printf('%.600000c', 'x')"
    device.file.execute(f"update item set region = {large}, note = {large} where id = 1")
    device.require_refused(RowTooLarge, "item")


@pytest.mark.parametrize(
    "statements",
    [
        ["pragma user_version = 77", "pragma application_id = 5"],
        ["pragma auto_vacuum = 1", "vacuum"],
        ["pragma journal_mode = delete"],
        ["alter table item add column doubled as (note || note)"],
    ],
    ids=["numbers", "vacuum", "journal", "generated column"],
)
def test_pragmas_and_columns_of_programs_do_no_harm(device: Device, statements: list[str]) -> None:
    device.file.execute(*statements)
    device.sync()
    device.merge.require_equal("item", columns="id, note")


def test_a_damaged_file_is_named(device: Device) -> None:
    path = device.file.url.removeprefix("sqlite:///")
    device.file.execute("pragma wal_checkpoint(truncate)")
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 65536)
    with pytest.raises(RowtideError, match=f"{path} is damaged"):
        device.sync()

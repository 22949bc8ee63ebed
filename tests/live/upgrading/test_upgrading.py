"""`rowtide upgrade`: a made-up build of format 2 migrates stores of format 1; this one refuses them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from builders.faults.failpoints import UPGRADE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.formats import forgetting
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, deliver_all
from builders.replication.replicated_files import FileSubscriber, ReplicatedFile
from builders.upgrading.next_formats import SCHEMAS, SECOND, be_of_format_1, be_of_format_2
from rowtide.cdc.published import system_table_path
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.formats import FormatNewer, FormatOutdated, StoreFormat
from rowtide.delta.formats import FORMAT
from rowtide.delta.writing.alteration import set_properties
from rowtide.handle import Database, connect
from rowtide.lake.stores import locate
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.sqlite import progress as delivery_to_files
from rowtide.storage.store import Store

BUILD_OF_FORMAT_2 = """
import sys
sys.path.insert(0, sys.argv[1])
from builders.upgrading.next_formats import be_of_format_2
from rowtide.cli.main import run_command

be_of_format_2()
sys.exit(run_command(("upgrade", "--db", sys.argv[2])))
"""
ITEM = "create table item (id int primary key, name text)"
TESTS = str(Path(__file__).parents[2])
STORES = ("publisher's metadata", "log store", *["lake table"] * 4)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What makes this process one of format 2 for the test."""
    yield monkeypatch
    be_of_format_1()


@pytest.fixture
def stored(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with a log store, and the system tables of a lake."""
    logged.execute("create table item (id int primary key, name text)")
    logged.enable("item")
    logged.execute("insert into item values (1, 'before')")
    logged.read_log()
    SystemTables(str(logged.lake), logged.cdc.get_source().source_id).ensure()
    return logged


def formats_of(logged: LoggedDatabase | Subscriber | FileSubscriber, *words: str) -> list[tuple[str, int, int]]:
    ended = rowtide("upgrade", *words, "--format", "jsonl", "--db", logged.url)
    assert ended.code == 0, ended
    rows = [json.loads(line) for line in ended.output.splitlines()]
    return [(row["store"], row["format"], row["upgraded_to"]) for row in rows]


def manifest_files(store: Store) -> list[str]:
    return list(store.list("manifest/"))


def test_a_database_without_stores_has_none(logged: LoggedDatabase) -> None:
    assert formats_of(logged) == []


def test_every_store_is_listed_and_none_is_changed(stored: LoggedDatabase) -> None:
    before = manifest_files(stored.store())
    assert formats_of(stored) == [(store, 1, 1) for store in STORES]
    assert "Every store has this version's format." in rowtide("upgrade", "--db", stored.url).errors
    assert manifest_files(stored.store()) == before


def test_stores_that_are_refused_are_listed_with_the_others(stored: LoggedDatabase) -> None:
    Manifest.open(stored.store()).raise_format(SECOND)
    cycles = system_table_path(str(stored.lake), "cycles")
    set_properties(locate(cycles), {FORMAT: ""})
    before = manifest_files(stored.store())
    for words in ((), ("--dry-run",)):
        ended = rowtide("upgrade", *words, "--format", "jsonl", "--db", stored.url)
        rows = [json.loads(line) for line in ended.output.splitlines()]
        found = {
            (row["store"], row["place"] == cycles, row["format"], row["upgraded_to"], row["refused"]) for row in rows
        }
        assert found == {
            ("publisher's metadata", False, 1, 1, None),
            ("log store", False, 2, 2, "RT-1134"),
            ("lake table", False, 1, 1, None),
            ("lake table", True, None, None, "RT-3104"),
        }
        assert (ended.code, "RT-1134" in ended.errors) == (1, True), ended
    assert manifest_files(stored.store()) == before


def test_refused_definitions_are_listed_alone(stored: LoggedDatabase) -> None:
    stored.execute(forgetting("rowtide.rowtide_format"))
    ended = rowtide("upgrade", "--format", "jsonl", "--db", stored.url)
    (row,) = map(json.loads, ended.output.splitlines())
    assert (row["store"], row["format"], row["refused"]) == ("publisher's metadata", None, "RT-1136")
    assert (ended.code, "RT-1136" in ended.errors) == (1, True)


def test_a_schema_of_others_is_no_store(stored: LoggedDatabase) -> None:
    stored.execute("create schema distribution", "create table distribution.parcel (id int primary key)")
    assert formats_of(stored) == [(store, 1, 1) for store in STORES]
    assert "schema distribution: it has rowtide's name, and none" in rowtide("upgrade", "--db", stored.url).errors


def test_a_rehearsal_migrates_nothing(stored: LoggedDatabase, two: pytest.MonkeyPatch) -> None:
    store, before = stored.store(), manifest_files(stored.store())
    be_of_format_2(two)
    assert formats_of(stored, "--dry-run") == [(store, 1, 2) for store in STORES]
    assert manifest_files(store) == before


def test_a_store_of_format_1_goes_on_in_a_build_of_format_2(stored: LoggedDatabase, two: pytest.MonkeyPatch) -> None:
    be_of_format_2(two)
    with pytest.raises(FormatOutdated) as refused:
        stored.read_log(0)
    rowtide("cdc", "status", "--db", stored.url).require_error(1135)

    run_printed(refused.value, stored.url)

    stored.execute("insert into item values (2, 'after')")
    assert stored.read_log().format == SECOND
    assert stored.inserted(1) == ["before", "after"]
    assert formats_of(stored) == [(store, 2, 2) for store in STORES]
    assert SystemTables(str(stored.lake), stored.cdc.get_source().source_id).read().cycle == 0

    be_of_format_1()
    with pytest.raises(FormatNewer):
        stored.read_log(0)
    for words in (("cdc", "status"), ("cdc", "run", "--once"), ("upgrade",)):
        ended = rowtide(*words, "--db", stored.url)
        assert (ended.code, "RT-1134" in ended.errors, "damaged" in ended.errors) == (1, True, False), ended


@pytest.mark.parametrize("failpoint", UPGRADE_FAILPOINTS)
def test_a_migration_killed_at_each_step_is_repeated(
    stored: LoggedDatabase, two: pytest.MonkeyPatch, failpoint: str
) -> None:
    store = stored.store()
    done = 0
    for step in (1, 2):
        assert run_program(BUILD_OF_FORMAT_2, TESTS, stored.url, failpoint=f"{failpoint}@{step}") == KILLED
        done += step if failpoint.endswith(".after") else step - 1
        be_of_format_1()
        if done > 1:
            with pytest.raises(FormatNewer, match="a newer version of rowtide wrote the log store"):
                Manifest.open(store)
        else:
            assert Manifest.open(store).state.format == LOG_STORE.recorded
        be_of_format_2(two)
        assert sum(before == 2 for _, before, _ in formats_of(stored, "--dry-run")) == done
    assert run_program(BUILD_OF_FORMAT_2, TESTS, stored.url, failpoint="none") == 0
    assert formats_of(stored) == [(store, 2, 2) for store in STORES]
    stored.execute("insert into item values (2, 'after')")
    stored.read_log()
    assert stored.inserted(1) == ["before", "after"]


def test_all_features_go_on_in_a_build_of_format_2(
    replicated: ReplicatedDatabase, everything: Database, two: pytest.MonkeyPatch
) -> None:
    publisher, subscriber = replicated.publisher, replicated.subscriber
    own = everything
    uses: tuple[Callable[[], object], ...] = (
        own.replication.list_publications,
        own.replication.list_subscriptions,
        own.merge.list_publications,
        own.tracking.list_tracked,
    )
    be_of_format_2(two)
    require_refusals(FormatOutdated, *uses, lambda: deliver_all(publisher))
    found = formats_of(publisher)
    assert {(before, after) for _, before, after in found} == {(1, 2)}
    assert {store for store, *_ in found} >= {
        own.store for schema, own in SCHEMAS.items() if "subscriber" not in schema
    }
    publisher.execute("insert into item values (1, 'a')")
    require_refusals(FormatOutdated, lambda: deliver_all(publisher))
    assert formats_of(subscriber) == [(delivery.FORMAT.store, 1, 2)]
    deliver_all(publisher)
    assert subscriber.execute("select * from item") == [(1, "a")]
    for use in uses:
        assert use()

    be_of_format_1()
    require_refusals(FormatNewer, *uses, lambda: deliver_all(publisher))


def test_a_delivered_file_goes_on_in_a_build_of_format_2(
    replicated_file: ReplicatedFile, two: pytest.MonkeyPatch
) -> None:
    publisher, file = replicated_file.publisher, replicated_file.subscriber
    replicated_file.begin(ITEM, item={})
    publisher.execute("insert into item values (1, 'a')")
    be_of_format_2(two)
    formats_of(publisher)
    require_refusals(FormatOutdated, lambda: deliver_all(publisher))
    assert formats_of(file) == [(delivery_to_files.FORMAT.store, 1, 2)]
    deliver_all(publisher)
    assert file.execute("select id, name from item") == [(1, "a")]

    two.setattr(delivery_to_files, "FORMAT", StoreFormat(delivery_to_files.FORMAT.store))
    publisher.execute("insert into item values (2, 'b')")
    require_refusals(FormatNewer, lambda: deliver_all(publisher))


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", UPGRADE_FAILPOINTS)
def test_each_store_is_killed_and_goes_on(
    replicated: ReplicatedDatabase, everything: Database, two: pytest.MonkeyPatch, failpoint: str
) -> None:
    publisher = replicated.publisher
    own = everything
    be_of_format_2(two)
    stores = len(formats_of(publisher, "--dry-run"))
    for number in range(stores):
        # One more is done each time: of the one that is killed, before its step the next time comes to it again.
        step = 1 if failpoint.endswith(".after") else min(number + 1, 2)
        assert run_program(BUILD_OF_FORMAT_2, TESTS, publisher.url, failpoint=f"{failpoint}@{step}") == KILLED
    assert run_program(BUILD_OF_FORMAT_2, TESTS, publisher.url, failpoint="none") == 0
    assert {(before, after) for _, before, after in formats_of(publisher)} == {(2, 2)}
    assert own.replication.list_publications()
    assert own.merge.list_publications()
    assert own.tracking.list_tracked()


@pytest.fixture
def everything(replicated: ReplicatedDatabase) -> Iterator[Database]:
    """A database that publishes, merges and tracks tables."""
    publisher = replicated.publisher
    replicated.begin(ITEM, item={})
    publisher.execute("create table met (id int primary key)", "create table seen (id int primary key)")
    with connect(publisher.url) as database:
        database.merge.add_publication("field")
        database.merge.add_article("field", "met")
        database.tracking.enable_tracking("seen")
        yield database


def require_refusals(error: type[Exception], *uses: Callable[[], object]) -> None:
    for use in uses:
        with pytest.raises(error):
            use()

"""Partitioned tables: rows of partitions are rows of the table, whatever becomes of the partitions."""

from __future__ import annotations

import pytest
from psycopg.errors import FeatureNotSupported

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.checks import matching, only, run_mend
from rowtide.cdc.errors.enabling import PartitionCapturedToo, PartitionNotCapturable
from rowtide.cdc.errors.querying import RewrittenSinceSnapshot
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ImageKind
from rowtide.diagnosis.result import State
from rowtide.handle import connect, open_lake
from rowtide.log.errors import PublicationAltered

INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE


def make_measures(logged: LoggedDatabase) -> None:
    """Two partitions; the second, attached, has its columns in another order, and had one more."""
    logged.execute(
        "create table measure (id int, region int, name text, primary key (id, region)) partition by range (region)",
        "create table north partition of measure for values from (0) to (10)",
        "create table south (gone int, name text, region int not null, id int not null, primary key (id, region))",
        "alter table south drop column gone",
        "alter table south replica identity nothing",
        "alter table measure attach partition south for values from (10) to (20)",
    )


def images(logged: LoggedDatabase) -> list[tuple[object, ...]]:
    return [(row["operation"], row["before"], row["after"]) for row in logged.records()]


def identities(logged: LoggedDatabase) -> dict[str, str]:
    return dict(
        logged.execute(
            "select relname, relreplident::text from pg_class "
            "where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
        )
    )


@pytest.mark.parametrize("version", ["logged", "logged_16"])
def test_partition_rows_are_rows_of_the_table_also_when_moved(version: str, request: pytest.FixtureRequest) -> None:
    logged: LoggedDatabase = request.getfixturevalue(version)
    make_measures(logged)
    logged.enable("measure")
    logged.execute(
        "insert into measure values (1, 5, 'a'), (2, 15, 'b')",
        "update measure set name = name || '!'",
        "update measure set region = 16 where id = 1",
        "delete from south",
        "truncate measure",
    )
    logged.read_log()
    assert images(logged) == [
        (INSERT, None, ["1", "5", "a"]),
        (INSERT, None, ["2", "15", "b"]),
        (UPDATE, ["1", "5", "a"], ["1", "5", "a!"]),
        (UPDATE, ["2", "15", "b"], ["2", "15", "b!"]),
        (DELETE, ["1", "5", "a!"], None),
        (INSERT, None, ["1", "16", "a!"]),
        (DELETE, ["2", "15", "b!"], None),
        (DELETE, ["1", "16", "a!"], None),
        (TRUNCATE, None, None),
    ]
    assert len({row["table_id"] for row in logged.records()}) == 1


def test_every_partition_gets_its_identity_back_even_if_detached(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.execute("create table east partition of measure for values from (20) to (30)")
    logged.enable("measure")
    assert set(identities(logged).values()) == {"f"}
    logged.execute("alter table measure detach partition south", "drop table east")
    logged.cdc.disable_table("measure")
    assert identities(logged) == {"measure": "d", "north": "d", "south": "n"}


def test_captured_detached_partition_keeps_the_identity_it_needs(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable("measure")
    logged.execute("alter table measure detach partition south")
    logged.cdc.enable_table("south")
    logged.cdc.disable_table("measure")
    assert identities(logged) == {"measure": "d", "north": "d", "south": "f"}
    logged.cdc.disable_table("south")
    assert identities(logged)["south"] == "n"


def test_with_key_images_partitions_log_keys(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable()
    logged.cdc.enable_table("measure", before_images=BeforeImages.KEY)
    assert set(identities(logged).values()) == {"d"}
    logged.execute("insert into measure values (2, 15, 'b')", "update measure set name = 'c'", "delete from measure")
    logged.read_log()
    assert images(logged)[1:] == [(UPDATE, None, ["2", "15", "c"]), (DELETE, ["2", "15", None], None)]


def test_later_partition_is_captured_with_its_own_identity(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable("measure")
    logged.execute(
        "create table east partition of measure for values from (20) to (30)",
        "insert into measure values (3, 25, 'c')",
        "update measure set name = 'd'",
        "delete from measure",
    )
    logged.read_log()
    assert [(row["image"], row["before"], row["after"]) for row in logged.records()] == [
        (ImageKind.NONE, None, ["3", "25", "c"]),
        (ImageKind.NONE, None, ["3", "25", "d"]),
        # The server calls it whole, as the table's own identity is: change rows do not take its word.
        (ImageKind.FULL, ["3", "25", None], None),
    ]


def test_a_partition_is_truncated_only_with_its_table(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable("measure")
    with pytest.raises(FeatureNotSupported, match="RT-4711: partition public.south of a captured or published table"):
        logged.execute("truncate south")
    with logged.transaction() as session:
        session.execute("truncate measure")
        with pytest.raises(FeatureNotSupported):
            session.execute("truncate north")
        session.rollback()
    with pytest.raises(FeatureNotSupported):
        logged.execute("do $$ begin truncate measure; insert into measure values (1, 5, 'a'); truncate north; end $$")
    logged.execute("alter table measure detach partition south", "truncate south", "truncate measure")
    logged.read_log()
    assert images(logged) == [(TRUNCATE, None, None)]
    logged.cdc.disable_table("measure")
    logged.execute("truncate north")
    assert logged.execute("select tgname from pg_trigger where not tgisinternal") == []


def test_refused_truncate_applies_to_partitions_too(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable()
    logged.cdc.enable_table("measure", refuses_truncate=True)
    for table in ("measure", "north"):
        with pytest.raises(FeatureNotSupported, match="RT-4711"):
            logged.execute(f"truncate {table}")


def test_a_partition_is_captured_by_itself_or_with_its_table(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable("north")
    with pytest.raises(PartitionCapturedToo, match=r"RT-4123: table public\.measure .*public_north"):
        logged.cdc.enable_table("measure")
    logged.execute("insert into measure values (1, 5, 'a'), (2, 15, 'b')")
    logged.read_log()
    assert images(logged) == [(INSERT, None, ["1", "5", "a"])]
    logged.cdc.disable_table("north")
    logged.cdc.enable_table("measure")
    with pytest.raises(PartitionCapturedToo, match=r"RT-4123: table public\.south .*public_measure"):
        logged.cdc.enable_table("south")


def test_attaching_a_captured_table_to_another_stops_reading(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.execute("create table west (id int not null, region int not null, name text)")
    logged.enable("measure", "west")
    logged.read_log()
    logged.execute("alter table measure attach partition west for values from (30) to (40)")
    with pytest.raises(PublicationAltered, match=r"publishes public\.west as the table that it was attached to"):
        logged.read_log()


def test_a_table_with_a_partition_that_is_not_logged_is_refused(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.execute("create unlogged table east partition of measure for values from (20) to (30)")
    logged.enable()
    with pytest.raises(PartitionNotCapturable, match=r"RT-4122: .*partition public\.east is unlogged"):
        logged.cdc.enable_table("measure")


def test_a_partition_that_is_no_longer_logged_is_named(logged: LoggedDatabase) -> None:
    make_measures(logged)
    logged.enable("measure")
    assert matching(connect(logged.url).check(), "not in the log") == []
    logged.execute("create unlogged table far partition of measure for values from (80) to (90)")

    finding = only(connect(logged.url).check(), "partition public.far of public.measure is unlogged")
    assert (finding.state, finding.subject) == (State.FAILING, "instance public_measure")
    assert ("instance public_measure", State.FAILING) in {
        (judgement.subject, judgement.state) for judgement in connect(logged.url).health()
    }
    run_mend(finding, logged.url)
    assert matching(connect(logged.url).check(), "not in the log") == []


def test_changes_while_a_partition_is_unlogged_are_missed_aloud(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table measure (id int primary key, name text) partition by range (id)",
        "create table upper partition of measure for values from (0) to (100) partition by range (id)",
        "create table low partition of upper for values from (0) to (10)",
        "insert into measure values (1, 'a')",
    )
    captured.enable("measure", snapshot=True)
    captured.copy_tables()
    captured.execute("alter table low set (fillfactor = 50)", "insert into measure values (2, 'b')")
    captured.capture()
    lake = open_lake(str(captured.lake))
    assert lake.get_table_as_of("public_measure").to_arrow().read_all().num_rows == 2
    captured.execute("alter table low set unlogged", "insert into measure values (3, 'c')")
    captured.capture()
    with pytest.raises(RewrittenSinceSnapshot, match="alter table low set unlogged"):
        lake.get_table_as_of("public_measure")
    captured.execute("alter table low set logged")
    captured.cdc.resnapshot("public_measure")
    captured.copy_tables()
    assert lake.get_table_as_of("public_measure").to_arrow().read_all().num_rows == 3


def test_rows_of_an_attached_partition_are_missed_aloud(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table measure (id int primary key, name text) partition by range (id)",
        "create table low partition of measure for values from (0) to (10)",
        "create table part (id int not null primary key, name text)",
        "insert into measure values (1, 'a')",
        "insert into part values (11, 'b')",
    )
    captured.enable("measure", snapshot=True)
    captured.copy_tables()
    assert matching(connect(captured.url).check(), "without change rows") == []
    attach = "alter table measure attach partition part for values from (10) to (20)"
    captured.execute(attach, "insert into measure values (2, 'c')")
    captured.capture()
    lake = open_lake(str(captured.lake))
    with pytest.raises(RewrittenSinceSnapshot, match="attach partition part"):
        lake.get_table_as_of("public_measure")
    finding = only(connect(captured.url).check(), "changed values or rows of public.measure without change rows")
    assert finding.state is State.WARNING
    assert attach in finding.message

    run_mend(finding, captured.url)
    captured.copy_tables()
    assert matching(connect(captured.url).check(), "without change rows") == []
    rows = lake.get_table_as_of("public_measure", columns=["id"]).to_arrow().read_all()
    assert {row["id"] for row in rows.to_pylist()} == {1, 2, 11}

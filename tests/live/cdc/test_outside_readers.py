"""Readers that know nothing of rowtide read each table of a lake as the page says: all rows in their types, or none.

One lake, after all that happens to its tables: columns are widened, added, renamed and dropped, files are compacted,
cleaned up and vacuumed, and the log is cut below a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars
import pytest
from datafusion import SessionContext
from deltalake import DeltaTable

import rowtide
from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.delta_tables import ERRORS, locate, own
from builders.lakes.outside_readers import find_differences, load_functions, sorted_rows
from fixtures.captured import open_copied
from fixtures.servers import fresh_database
from rowtide.cdc import Widened
from rowtide.cdc.cleanup import cleanup
from rowtide.cdc.enabling import instances
from rowtide.cdc.requests import CleanupOrder
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.delta.checkpoints import maintain_log
from rowtide.delta.writing.alteration import set_properties
from rowtide.delta.writing.changes import vacuum
from rowtide.delta.writing.compaction import compact
from rowtide.storage.local import LocalFolder

ODD = '''"a, b" text, "A, B" int, "it's ""q""" text, "ünï" text, "100%25" text, "select" text'''
SOURCE = (
    "create table plain (id int primary key, note text)",
    (
        "create table stamped (id int primary key, at timestamp, seen timestamptz, day date, amount numeric(12, 2),"
        " rough real, fine float8, is_ok bool, data bytea, document jsonb)"
    ),
    "create table widened (id int primary key, n smallint, rough real, amount numeric(6, 2))",
    "create table rewritten (id int primary key, n smallint)",
    f"create table odd (id int primary key, {ODD})",
    'create table mapped (id int primary key, "a, b" text)',
    "create table altered (id int primary key, gone text, old text)",
    'create table parted (id int primary key, "the kind" text, day date, n int, is_ok bool)',
    "insert into plain values (0, 'copied')",
    (
        "insert into stamped values (0, '2020-01-01 00:00:00.123456', '2020-01-01 00:00:00.123456+00', '2020-01-01',"
        " 1.5, 1.5, 1.5, true, '\\x00ff', '{}')"
    ),
    "insert into widened values (0, 1, 1.5, 1.5)",
    "insert into rewritten values (0, 1)",
    "insert into odd values (0, 'a', 1, 'q', 'u', 'p', 's')",
    "insert into mapped values (0, 'a')",
    "insert into altered values (0, 'gone', 'old')",
    r"""insert into parted
    select place, kind, date '0044-03-15' + place::int * 300000, nullif(place, 3), place > 3 or null
    from unnest(array['a', ' ', 'null', 'a/b=c%20', e'é\n\'"\\', '0', '.', null]) with ordinality as _ (kind, place)""",
)
CHANGES = (
    "insert into plain select n, 'row ' || n from generate_series(1, 3) n",
    "update plain set note = repeat('ö', 40) || 'x' where id = 1",
    "delete from plain where id = 2",
)
LIFE = (
    "insert into stamped values (1, 'infinity', '0001-01-01', '9999-12-31', 0, 'NaN', 'infinity', null, null, null)",
    "alter table altered drop column gone",
    "alter table altered rename old to renamed",
    "alter table altered add column added text",
    "insert into altered values (1, 'new', 'added')",
    "insert into odd values (1, 'a1', 2, 'q1', 'u1', 'p1', 's1')",
    "insert into mapped values (1, 'a1')",
    "alter table widened alter n type bigint, alter rough type float8, alter amount type numeric(10, 2)",
    "insert into widened values (1, 5000000000, 1e300, 12345678.5)",
    """update parted set "the kind" = "the kind" || '!', n = -n where id in (1, 4)""",
    "delete from parted where id = 2",
)
EXAMPLES = {
    "public_plain": "plain",
    "public_stamped": "timestamps",
    "public_widened": "widened",
    "public_altered": "plain",
    "public_mapped": "mapped",
    "Odd_täble": "odd folder",
    "odd_names": "plain",
}
"""Capture instances, and the features that their tables are examples of."""
PARTITIONS = [("the kind",), ("the_kind",), ("day", "n"), ("is_ok", "the_kind")]
"""Of targets; the first has a name that needs column mapping."""
WITHOUT_SPARK = ["read_with_delta_rs", "read_with_polars", "read_with_duckdb", "read_with_datafusion"]
_CHECKPOINTS = {"delta.checkpointInterval": "2"}


@dataclass
class Lived:
    """A lake in which all that has happened, and the targets that follow it."""

    captured: CapturedDatabase
    targets: AppliedTargets


@pytest.fixture(scope="module")
def lived(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    lake = tmp_path_factory.mktemp("outside") / "lake"
    with fresh_database(server) as url, open_copied(url, lake) as captured, pytest.MonkeyPatch.context() as patched:
        patched.setattr(cleanup, "READER_GRACE_S", 0.0)
        targets = AppliedTargets(captured)
        live(captured, targets)
        yield Lived(captured, targets)


def live(captured: CapturedDatabase, targets: AppliedTargets) -> None:
    captured.execute(*SOURCE)
    captured.enable("plain", "stamped", "rewritten", "altered", "parted", snapshot=True)
    captured.cdc.enable_table("widened", snapshot=True, widened=Widened.MARK)
    captured.cdc.enable_table("odd", capture_instance="odd_names", snapshot=True)
    captured.cdc.enable_table("odd", capture_instance="Odd_täble", snapshot=True)
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(instances, "name_in_lake", lambda name: name)
        captured.enable("mapped", snapshot=True)
    captured.copy_tables()
    for kind in ("current", "history"):
        targets.add(kind, "public_plain", "public_stamped", "odd_names", kind=kind)
        for number, columns in enumerate(PARTITIONS):
            names = {"the kind": "the_kind"} if number else {}
            targets.add(f"{kind}_{number}", "public_parted", kind=kind, partition_by=columns, rename=names)
    targets.follow_directly()
    set_properties(locate(captured.lake / "cdc" / "public_plain_CT"), _CHECKPOINTS)
    for statement in CHANGES:
        captured.execute(statement)
        captured.capture()
    captured.execute(*LIFE)
    targets.follow_directly()
    changes = captured.lake / "cdc" / "public_plain_CT"
    second = sorted(changed.as_py() for changed in own(changes).read()["__$start_lsn"].unique())[1]
    captured.cdc.cleanup(CleanupOrder("public_plain", CommitLsn(second)))
    assert compact(locate(changes), "__$start_lsn")
    later = datetime.now(UTC) + timedelta(days=2)
    maintain_log(locate(changes), own(changes).version // 2 * 2, own(changes).properties, now=later)
    assert vacuum(locate(changes), LocalFolder(str(changes), ERRORS), later)
    assert not (changes / "_delta_log" / f"{0:020d}.json").exists()


def list_tables(lived: Lived) -> dict[str, tuple[Path, str]]:
    """Return the lake's tables and those of targets, with the features that they are examples of."""
    tables = {
        f"{instance}{kind}": (lived.captured.lake / "cdc" / f"{instance}{kind}", feature)
        for instance, feature in EXAMPLES.items()
        for kind in ("_CT", "_base")
    }
    system = ("lsn_time_mapping", "instances", "snapshots", "cycles", "ddl_history", "cleanups")
    tables |= {name: (lived.captured.lake / "cdc" / name, "plain") for name in system}
    of_targets = {"public_plain": "plain", "public_stamped": "timestamps", "odd_names": "mapped"}
    for kind in ("current", "history"):
        for instance, feature in of_targets.items():
            tables[f"{kind} {instance}"] = (lived.targets.folder / kind / instance, feature)
        for number, columns in enumerate(PARTITIONS):
            table = lived.targets.folder / f"{kind}_{number}" / "public_parted"
            tables[f"{kind} by {columns}"] = (table, "plain" if number else "mapped")
    return tables


def test_every_table_is_read_or_refused_as_the_page_says(lived: Lived) -> None:
    assert find_differences(list_tables(lived), WITHOUT_SPARK) == []


def test_the_page_s_steps_lead_to_the_changes_of_rowtide(lived: Lived) -> None:
    lake = rowtide.open_lake(str(lived.captured.lake))
    functions = load_functions()
    for instance in ("public_plain", "public_stamped", "public_altered", "odd_names"):
        own_changes = lake.get_all_changes(instance, row_filter_option="all update old").to_arrow().read_all()
        keys = ["__$start_lsn", "__$seqval", "__$operation", "id"]
        wanted = sorted_rows(own_changes.select(keys))
        low, high = (
            functions["find_low"](str(lived.captured.lake), instance),
            functions["find_high"](str(lived.captured.lake)),
        )
        assert sorted_rows(functions["read_changes"](str(lived.captured.lake), instance).select(keys)) == wanted
        assert functions["count_changes"](str(lived.captured.lake), instance, low, high) == len(wanted)


def test_bounds_in_statistics_lose_no_row_to_a_filter(lived: Lived) -> None:
    changes = str(lived.captured.lake / "cdc" / "public_stamped_CT")
    base = changes.removesuffix("_CT") + "_base"
    exact = datetime(2020, 1, 1, 0, 0, 0, 123456)  # noqa: DTZ001 - of no zone
    scanned = polars.scan_delta(base).filter(polars.col("at") >= exact).collect()
    assert scanned["id"].to_list() == [0]
    assert DeltaTable(base).to_pyarrow_table(filters=[("at", ">=", exact)])["id"].to_pylist() == [0]
    notes = str(lived.captured.lake / "cdc" / "public_plain_CT")
    long = "ö" * 40 + "x"
    assert len(polars.scan_delta(notes).filter(polars.col("note") == long).collect()) == 1
    context = SessionContext()
    context.register_table("t", DeltaTable(notes))
    found = context.sql(f"select max(note) as last, count(*) filter (where note = '{long}') as hits from t").to_pylist()
    assert found == [{"last": long, "hits": 1}]

"""The comparison would find what it is there to find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowtide.demo.proof import Comparison, compare_tables
from rowtide.demo.reading import instance_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {
    "pgbench_accounts": "aid int, bid int, abalance int, filler string",
    "pgbench_branches": "bid int, bbalance int, filler string",
    "pgbench_tellers": "tid int, bid int, tbalance int, filler string",
    "pgbench_history": "tid int, bid int, aid int, delta int, mtime timestamp_ntz, filler string",
}
METADATA = "`__$start_lsn` bigint, `__$seqval` bigint, `__$operation` int"
INITIAL = ['"1","1","0","a "', '"2","1","0",\\N', '"3","1","0",""']
CHANGES = [
    (10, 1, 3, 1, 1, 0, "a "),
    (10, 1, 4, 1, 1, 5, "a "),
    (10, 2, 3, 1, 1, 5, "a "),
    (10, 2, 4, 1, 1, 7, "a "),
    (11, 1, 1, 2, 1, 0, None),
    (12, 1, 2, 4, 1, 9, None),
]
"""Account 1 changes twice in one transaction, 2 is deleted, 4 is inserted; 3 stays."""
SOURCE = ['"1","1","7","a "', '"3","1","0",""', '"4","1","9",\\N']


class Place:
    """A lake with a few change rows, and the copies beside it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        for table in TABLES:
            self.write_changes(table, [])
            self.write_copy("initial", table, [])
            self.write_copy("final", table, [])

    def write_changes(self, table: str, rows: list[tuple[object, ...]]) -> None:
        changes = self._spark.createDataFrame(rows, f"{METADATA}, {TABLES[table]}")
        path = f"{self._root}/lake/cdc/{instance_of(table)}_CT"
        changes.write.format("delta").mode("overwrite").save(path)

    def write_copy(self, side: str, table: str, lines: list[str]) -> None:
        header = ",".join(column.split()[0] for column in TABLES[table].split(", "))
        (self._root / side).mkdir(exist_ok=True)
        (self._root / side / f"{table}.csv").write_text("\n".join([header, *lines, ""]))

    def compare(self, table: str) -> Comparison:
        root = self._root
        found = compare_tables(self._spark, f"{root}/lake", root / "initial", root / "final")
        return next(comparison for comparison in found if comparison.table == table)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    """Accounts whose changes lead from the initial rows to the source's."""
    place = Place(spark, tmp_path)
    place.write_changes("pgbench_accounts", list(CHANGES))
    place.write_copy("initial", "pgbench_accounts", INITIAL)
    place.write_copy("final", "pgbench_accounts", SOURCE)
    return place


@pytest.mark.exhaustive
def test_last_change_of_each_key_leads_to_the_source(place: Place) -> None:
    assert place.compare("pgbench_accounts") == Comparison("pgbench_accounts", 3, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("lines", "different"),
    [
        pytest.param([SOURCE[0].replace("7", "8"), *SOURCE[1:]], 2, id="other value", marks=pytest.mark.exhaustive),
        pytest.param(SOURCE[1:], 1, id="row missing", marks=pytest.mark.exhaustive),
        pytest.param([*SOURCE, '"2","1","0",\\N'], 1, id="row too many", marks=pytest.mark.exhaustive),
        pytest.param([SOURCE[0].replace("a ", "a"), *SOURCE[1:]], 2, id="trailing blank"),
        pytest.param([SOURCE[0], '"3","1","0",\\N', SOURCE[2]], 2, id="null instead of empty"),
    ],
)
def test_difference_is_found(place: Place, lines: list[str], different: int) -> None:
    place.write_copy("final", "pgbench_accounts", lines)
    assert place.compare("pgbench_accounts").different_rows == different


@pytest.mark.exhaustive
def test_lost_changes_are_found(place: Place) -> None:
    place.write_changes("pgbench_accounts", list(CHANGES[:2]))
    assert place.compare("pgbench_accounts").different_rows == 4


@pytest.mark.exhaustive
def test_table_without_key_is_compared_as_a_bag(spark: SparkSession, place: Place) -> None:
    booking, line = (7, 1, 4711, 500, None, None), '"7","1","4711","500",\\N,\\N'
    place.write_changes("pgbench_history", [(20, 4, 2, *booking), (21, 4, 2, *booking)])
    place.write_copy("final", "pgbench_history", [line, line])
    assert place.compare("pgbench_history") == Comparison("pgbench_history", 2, 0)
    place.write_copy("final", "pgbench_history", [line])
    assert place.compare("pgbench_history") == Comparison("pgbench_history", 1, 1)

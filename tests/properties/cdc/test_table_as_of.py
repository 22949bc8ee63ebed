"""A table as of each LSN is what the table had: random histories, snapshots begun at any moment, and cleanups."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from builders.lakes.shadow_bags import BAG, ShadowBag
from builders.lakes.shadow_tables import UNKNOWN, ShadowTable, Shown
from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE
from rowtide.cdc.errors.querying import BeforeSnapshot, NeverCopied
from rowtide.cdc.lake_readers.as_of import moved_rows
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.queries.sql_functions import register
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import for_reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 120
LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 200)]


@pytest.mark.parametrize("seed", [*range(5), *LONG])
def test_table_as_of_each_lsn_is_that_of_the_model(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    shadow = ShadowTable(chosen, tmp_path / "lake")
    lake = Lake(shadow.made.path)
    for _ in range(STEPS):
        shadow.step()
        if chosen.random() < 0.1:
            lsn = chosen.choice(shadow.lsns())
            assert with_more(read(lake, shadow, lsn), shadow, lsn) == shadow.expected(lsn), lsn
    shadow.publish()
    for lsn in some(chosen, shadow.lsns()):
        assert with_more(read(lake, shadow, lsn), shadow, lsn) == shadow.expected(lsn), lsn


@pytest.mark.parametrize("seed", [*range(5), *LONG])
def test_net_changes_turn_one_state_into_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chosen = random.Random(seed)
    # Values of moved rows are taken some rows at a time.
    monkeypatch.setattr(moved_rows, "_SLICE_BYTES", chosen.choice((1, 1 << 20)))
    shadow = ShadowTable(chosen, tmp_path / "lake")
    lake = Lake(shadow.made.path)
    for _ in range(STEPS // 2):
        shadow.step()
    shadow.publish()
    lsns = shadow.lsns()
    for _ in range(8):
        first, last = sorted(chosen.choices(lsns, k=2))
        window = (CommitLsn(first).increment(), CommitLsn(last)) if first < last else None
        if window is None:
            continue
        for changes in (
            lake.get_net_changes("public_t1", *window, chosen.choice(("all", "all with merge"))),
            lake.get_all_changes("public_t1", *window),
        ):
            kept: dict[int, tuple[str, str | None]] = {}
            kept |= {key: (row.name, row.note) for key, row in shadow.states[first].items()}
            unknown = apply_rows(changes.to_arrow().read_all(), kept, shadow)
            wanted = {key: (row.name, row.note) for key, row in shadow.states[last].items()}
            assert kept == wanted | {key: (wanted[key][0], None) for key in unknown}, (first, last)
            assert not unknown & {key for key, row in shadow.states[last].items() if row.moved_at is None}


def apply_rows(rows: pa.Table, kept: dict[int, tuple[str, str | None]], shadow: ShadowTable) -> set[int]:
    """Apply changes to a copy as the documentation says; return the keys whose notes are unknown then."""
    unknown: set[int] = set()
    for row in rows.to_pylist():
        key = row["id"] // shadow.key_step if row["id"] is not None else None
        if row["__$operation"] == TRUNCATE:
            kept.clear()
            unknown.clear()
            continue
        assert key is not None
        lacks = row["__$absent_mask"] is not None
        if row["__$operation"] == DELETE:
            del kept[key]
            unknown.discard(key)
        elif row["__$operation"] == INSERT or not lacks:
            kept[key] = (row["name"], row["note"])
            unknown = unknown | {key} if lacks else unknown - {key}
        else:
            kept[key] = (row["name"], kept[key][1])
    return unknown


def with_more(found: list[Shown] | None, shadow: ShadowTable, lsn: int) -> list[Shown] | None:
    """Return rows without notes that the model does not know to be in the lake, and that are right."""
    shown = shadow.expected(lsn)
    if found is None or shown is None or len(found) != len(shown):
        return found
    notes = [row.note for _, row in sorted(shadow.states[lsn].items())]
    return [
        wanted if wanted[3] == UNKNOWN and row == (*wanted[:2], note, None) else row
        for row, wanted, note in zip(found, shown, notes, strict=True)
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [*range(3), *LONG[:20]])
def test_table_as_of_an_lsn_is_the_same_by_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    shadow = ShadowTable(chosen, tmp_path / "lake")
    for _ in range(STEPS):
        shadow.step()
    shadow.publish()
    session = for_reading(spark)
    changes = Changes(session, shadow.made.path)
    function = register(session, shadow.made.path)[-1]
    for lsn in some(chosen, [lsn for lsn in shadow.lsns() if shadow.expected(lsn) is not None], 2):
        found = changes.get_table_as_of("public_t1", CommitLsn(lsn)).toArrow()
        assert with_more(in_order(found), shadow, lsn) == shadow.expected(lsn), lsn
        found = session.sql(f"select * from {function}((select cast({lsn} as bigint)))").toArrow()
        # The function reads rows that moved as they are stored.
        stored = [(*row[:2], None, None) if row[3] == UNKNOWN else row for row in in_order(found)]
        wanted = with_more(in_order(changes.get_table_as_of("public_t1", CommitLsn(lsn)).toArrow()), shadow, lsn) or []
        assert stored == [
            (*row[:2], None, None) if row[3] == UNKNOWN or own[2] is None else row
            for row, own in zip(wanted, stored, strict=True)
        ], lsn


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_bag_of_rows_is_the_same_by_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    shadow = ShadowBag(chosen, tmp_path / "lake")
    for _ in range(STEPS):
        shadow.step()
    shadow.publish()
    changes = Changes(for_reading(spark), shadow.made.path)
    for lsn in some(chosen, [lsn for lsn in shadow.lsns() if shadow.expected(lsn) is not None], 2):
        found = changes.get_table_as_of("public_t1", CommitLsn(lsn)).toArrow()
        assert as_texts(found) == shadow.expected(lsn), lsn


def some(chosen: random.Random, lsns: list[int], most: int = 20) -> list[int]:
    return chosen.sample(lsns, min(most, len(lsns)))


def read(lake: Lake, shadow: ShadowTable, lsn: int) -> list[Shown] | None:
    try:
        found = lake.get_table_as_of(shadow.instance.capture_instance, CommitLsn(lsn)).to_arrow()
    except (BeforeSnapshot, NeverCopied):
        return None
    return in_order(found.read_all())


def in_order(rows: pa.Table) -> list[Shown]:
    return [(row["id"], row["name"], row["note"], row["__$absent_mask"]) for row in rows.sort_by("id").to_pylist()]


@pytest.mark.parametrize("seed", [*range(5), *LONG])
def test_table_without_a_key_is_a_bag_of_rows(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    shadow = ShadowBag(chosen, tmp_path / "lake")
    lake = Lake(shadow.made.path)
    for _ in range(STEPS):
        shadow.step()
        if chosen.random() < 0.1:
            lsn = chosen.choice(shadow.lsns())
            assert read_bag(lake, lsn) == shadow.expected(lsn), lsn
    shadow.publish()
    for lsn in some(chosen, shadow.lsns()):
        assert read_bag(lake, lsn) == shadow.expected(lsn), lsn


def read_bag(lake: Lake, lsn: int) -> list[str] | None:
    try:
        found = lake.get_table_as_of(BAG.capture_instance, CommitLsn(lsn), ["number", "name"]).to_arrow().read_all()
    except (BeforeSnapshot, NeverCopied):
        return None
    return as_texts(found)


def as_texts(rows: pa.Table) -> list[str]:
    return sorted(str((row["number"], row["name"])) for row in rows.to_pylist())

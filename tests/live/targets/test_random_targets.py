"""Random changes: current rows are the source's at the set's LSN, and slices what each LSN had."""

from __future__ import annotations

import random

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from builders.values.random_rows import write_randomly
from rowtide.core.tables import BeforeImages
from rowtide.targets.options import ApplyEngine, TargetFormat

KEYS, COLUMNS = ("id",), ("id", "name", "amount", "document")


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 9))
def test_targets_are_what_the_source_was(captured: CapturedDatabase, seed: int) -> None:
    chance = random.Random(seed)
    for table in ("whole", "keyed"):
        captured.execute(
            f"create table {table} (id int primary key, name text, amount int, document text)",
            f"alter table {table} alter document set storage external",
        )
    captured.enable("whole")
    captured.cdc.enable_table("keyed", before_images=BeforeImages.KEY, snapshot=False)
    applied = AppliedTargets(captured)
    instances = ("public_whole", "public_keyed")
    # By Spark every window, or only those that need it.
    engine = (ApplyEngine.SPARK, ApplyEngine.AUTO)[seed % 2]
    applied.add("now", *instances, engine=engine)
    applied.add("past", *instances, kind="history", engine=engine)
    parts = chance.choice((("name",), ("amount", "name"), ("id",)))
    formats = (TargetFormat.DELTA, TargetFormat.ICEBERG)
    applied.add("parts", *instances, engine=engine, partition_by=parts, format=formats[seed // 2 % 2])
    past_parts = chance.choice((("is_current",), ("name", "is_current"), ("amount",), ("id",)))
    applied.add("past_parts", *instances, kind="history", engine=engine, partition_by=past_parts)
    for _ in range(3):
        for _ in range(chance.randint(3, 8)):
            for table in ("whole", "keyed"):
                write_randomly(captured, table, chance)
        applied.follow()
        assert applied.notes() == dict.fromkeys(instances)
        for instance in instances:
            source = captured.execute(f"select {', '.join(COLUMNS)} from {instance.removeprefix('public_')}")
            for target in ("now", "parts"):
                assert applied.rows(target, instance, *COLUMNS) == sorted(source, key=repr)
            states = states_by_change(captured, instance, KEYS, COLUMNS)
            for target in ("past", "past_parts"):
                slices = applied.targets.read(target, instance, spark=captured.spark).collect()
                assert found_slices((row.asDict() for row in slices), KEYS, COLUMNS) == slices_of(states)
                assert len(slices) == len(slices_of(states))

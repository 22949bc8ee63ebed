"""Random changes: current rows are the source's at the set's LSN, and slices what each LSN had."""

from __future__ import annotations

import random

import pytest

from builders.applied_targets import AppliedTargets
from builders.captured_databases import CapturedDatabase
from builders.slice_models import found_slices, slices_of, states_by_change
from rowtide.core.tables import BeforeImages

KEYS, COLUMNS = ("id",), ("id", "name", "amount", "document")


def write_randomly(captured: CapturedDatabase, table: str, chance: random.Random) -> None:
    """Commit a transaction of some random changes of a table."""
    with captured.transaction() as session:
        for _ in range(chance.randint(1, 4)):
            some = chance.randint(1, 8)
            session.execute(
                chance.choice(
                    (
                        (
                            f"insert into {table} values ({some}, 'n{chance.randint(1, 3)}', {chance.randint(1, 3)}, "
                            f"repeat('{chance.choice('xyz')}', 3000)) on conflict (id) do nothing"
                        ),
                        f"update {table} set amount = {chance.randint(1, 3)} where id = {some}",
                        f"update {table} set name = 'n{chance.randint(1, 3)}' where id % 2 = {some % 2}",
                        f"update {table} set document = repeat('{chance.choice('xyz')}', 3000) where id = {some}",
                        f"update {table} set name = name",
                        (
                            f"update {table} set id = {some + 10} where id = {some} and not exists "
                            f"(select from {table} where id = {some + 10})"
                        ),
                        f"delete from {table} where id = {some}",
                        f"with gone as (delete from {table} where id = {some} returning *) select * from gone",
                        (f"truncate {table}") if chance.random() < 0.3 else f"delete from {table} where id > 10",
                    )
                )
            )


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
    applied.add("now", *instances)
    applied.add("past", *instances, kind="history")
    for _ in range(3):
        for _ in range(chance.randint(3, 8)):
            for table in ("whole", "keyed"):
                write_randomly(captured, table, chance)
        applied.follow()
        assert applied.notes() == dict.fromkeys(instances)
        for instance in instances:
            source = captured.execute(f"select {', '.join(COLUMNS)} from {instance.removeprefix('public_')}")
            assert applied.rows("now", instance, *COLUMNS) == sorted(source, key=repr)
            states = states_by_change(captured, instance, KEYS, COLUMNS)
            slices = applied.targets.read("past", instance, spark=captured.spark).collect()
            assert found_slices((row.asDict() for row in slices), KEYS, COLUMNS) == slices_of(states)
            assert len(slices) == len(slices_of(states))

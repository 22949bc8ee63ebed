"""When a table goes over to a newer instance of its source's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from builders.capture.consumers import NOON
from rowtide.cdc.consumers.consumers import ConsumedInstance, Consumer
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn
from rowtide.targets.definitions import Target
from rowtide.targets.hand_over import HandOver, find_hand_overs
from rowtide.targets.options import CURRENT, TargetOptions


def recorded(name: str, *columns: str, source_id: int = 1) -> RecordedInstance:
    captured = tuple(
        CapturedColumn(column, place, "int", 23, -1, column, is_computed=False, index_ordinal=None)
        for place, column in enumerate(columns, 1)
    )
    instance = Instance(
        capture_instance=name,
        member_id=f"m-{name}",
        database_kind="postgres",
        source_id=source_id,
        source_schema="public",
        source_table="item",
        supports_net_changes=True,
        index_name=None,
        columns=captured,
    )
    return RecordedInstance(instance, ENABLED, CommitLsn(1), None)


def find(
    *known: RecordedInstance, names: tuple[str, ...] = ("old",), copied: bool = True, follows: bool = True
) -> list[HandOver]:
    instances = tuple(ConsumedInstance(name, f"m-{name}") for name in names)
    consumer = Consumer("target:t", instances, timedelta(hours=1), None, None, None, None, NOON)
    target = Target("t", "id", CURRENT, TargetOptions(path="/t", follow_columns=follows), consumer, NOON)
    by_name = {one.instance.capture_instance: one for one in known}
    return list(find_hand_overs(target, by_name, lambda _one: copied))


OLD, NEW = recorded("old", "id", "a"), recorded("new", "id", "a", "b")


def test_an_instance_with_more_columns_takes_over_once_copied() -> None:
    assert find(OLD, NEW) == [HandOver("old", "new", "m-new")]
    assert find(OLD, NEW, copied=False) == []
    assert find(OLD, NEW, follows=False) == []


def test_others_do_not() -> None:
    assert find(OLD, recorded("same", "id", "a")) == []
    assert find(OLD, recorded("other", "id", "a", "b", source_id=2)) == []
    assert find(OLD, NEW, names=("old", "new")) == []
    assert find(replace(OLD, instance=replace(OLD.instance, member_id="another")), NEW) == []

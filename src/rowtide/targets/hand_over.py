"""Hand-over of a table to a newer instance of its source's table, which has more columns.

A column that is added to the source is not captured by the instances that are there, and a constant default makes no
change rows: nothing but a copy of the table has all its values. So the table goes over at an LSN at which the newer
instance's copy is complete, and is made equal to the source's table as of that LSN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.targets.definitions import Target


@dataclass(frozen=True, slots=True)
class HandOver:
    """An instance of a target, and the one that takes its place."""

    old: str
    new: str
    new_member_id: str


def find_hand_overs(
    target: Target, recorded: Mapping[str, RecordedInstance], is_copied: Callable[[RecordedInstance], bool]
) -> Iterator[HandOver]:
    """Yield the instances of a target that have a newer one whose rows are copied, if the target follows columns."""
    if not target.options.follow_columns:
        return
    taken = set(target.consumer.instance_names)
    for consumed in target.consumer.instances:
        old = recorded.get(consumed.name)
        if old is None or old.instance.member_id != consumed.member_id:
            continue
        for new in recorded.values():
            if new.instance.capture_instance not in taken and _has_more(new, old) and is_copied(new):
                yield HandOver(consumed.name, new.instance.capture_instance, new.instance.member_id)
                break


def _has_more(new: RecordedInstance, old: RecordedInstance) -> bool:
    """Return whether an instance has all columns of another of the same table, and more."""
    if new.state != ENABLED or new.instance.source_id != old.instance.source_id:
        return False
    columns = [{column.column_id for column in one.instance.columns} for one in (new, old)]
    return columns[0] > columns[1]

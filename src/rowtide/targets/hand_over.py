"""Hand-over of a target's table to a newer instance of its source's table, which has more or renamed columns.

The existing instances do not capture a column that is added to the source, and a constant default makes no change rows:
only a copy of the table has all of its values. So the table is handed over at an LSN at which the newer instance's copy
is complete, and is made equal to the source's table as of that LSN. Before, it has received everything that the older
instance captured up to there, so that a history lacks no moment.

A new target follows columns where that loses nothing: not with `--truncate keep`, whose rows a copy lacks, nor with a
class, which names instances itself. Nobody gains a right by it: only the owner hands a target over, and never to an
instance with another gating role.

Columns are identified by their numbers. Renamed columns are renamed before the table is made equal, so that this does
not end slices; a Delta table's files are rewritten with the new name, since column mapping would lock out readers for
good. SQL is not translated: if an expression has the old name, the target is not handed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.targets.columns import for_instance
from rowtide.targets.definitions import Target
from rowtide.targets.options import TargetOptions


@frozen
class HandOver:
    """An instance of a target, and the one that replaces it."""

    old: Instance
    new: Instance


def find_hand_overs(
    target: Target,
    recorded: Mapping[str, RecordedInstance],
    at: CommitLsn,
    is_copied: Callable[[RecordedInstance], bool],
) -> Iterator[HandOver]:
    """Yield the instances of a target that have a newer one whose rows are copied, if the target follows columns.

    The target's set is at an LSN: columns that were dropped up to it are null in its tables.
    """
    if not target.options.follow_columns:
        return
    taken = set(target.consumer.instance_names)
    for consumed in target.consumer.instances:
        old = recorded.get(consumed.name)
        if old is None or old.instance.member_id != consumed.member_id:
            continue
        dropped = {
            column.column_id
            for column in old.instance.columns
            if column.dropped_at is not None and column.dropped_at <= at.value
        }
        for new in recorded.values():
            change = HandOver(old.instance, new.instance)
            if new.state != ENABLED or new.instance.capture_instance in taken:
                continue
            if is_ahead(new.instance, old.instance, dropped) and is_copied(new):
                if not is_expressed(target, change):
                    taken.add(new.instance.capture_instance)
                    yield change
                break


def is_ahead(new: Instance, old: Instance, dropped: Collection[int]) -> bool:
    """Return whether an instance has all columns of another of the same table, and more, or their later names.

    `dropped` are the numbers of the older one's columns that are gone. Not an instance with another gating role: who
    may read the target's table would read what the role keeps.
    """
    if (new.source_id, new.role_name) != (old.source_id, old.role_name):
        return False
    if old.supports_net_changes and not new.supports_net_changes:
        return False
    before = {column.column_id: column.name for column in old.columns if column.column_id not in dropped}
    after = {column.column_id: column.name for column in new.columns}
    if not before.keys() <= after.keys() or find_reused(new, old, dropped):
        return False
    if after.keys() != before.keys():
        return True
    present = {column.name for column in new.seen_columns}
    renamed = [number for number, name in before.items() if after[number] != name]
    # If the names differ, the later instance has the table's present ones.
    return present >= {after[number] for number in renamed} and not present >= {before[number] for number in renamed}


def find_reused(new: Instance, old: Instance, dropped: Collection[int]) -> tuple[str, ...]:
    """Return the names of dropped columns, which the target's table still has, that another column cannot take.

    A column that was added again with the same type can: its values replace nulls.
    """
    known = {column.column_id for column in old.columns}
    names = {column.lake_name.lower(): column.type_text for column in old.columns if column.column_id in dropped}
    return tuple(
        column.name
        for column in new.columns
        if column.lake_name.lower() in names
        and (column.column_id in known or column.type_text != names[column.lake_name.lower()])
    )


def is_expressed(target: Target, change: HandOver) -> bool:
    """Return whether an expression of the table names a column that has another name in the newer instance."""
    options, old = target.options, change.old.capture_instance
    expressions = for_instance(options.columns, old, target.consumer.instance_names).values()
    texts = [*expressions, *([options.apply_as_deletes] if options.apply_as_deletes is not None else [])]
    renamed = [before for before, after in _names_by_source(change).items() if before != after]
    return any(re.search(rf"(?i)(?<!\w){re.escape(name)}(?!\w)", text) for name in renamed for text in texts)


def _names_by_source(change: HandOver) -> dict[str, str]:
    """Return the names that columns of the older instance have in the newer one, as readers know them."""
    after = {column.column_id: column for column in change.new.for_readers().columns}
    columns = change.old.for_readers().columns
    return {column.lake_name: after[column.column_id].lake_name for column in columns if column.column_id in after}


def translate(options: TargetOptions, change: HandOver, others: Sequence[str]) -> TargetOptions:
    """Return a target's options translated for the newer instance; `others` are the target's other instances.

    An option that names a column keeps naming it under its new name: what was excluded stays excluded. A column of
    the table that an option renamed keeps that name, others take the source's.
    """
    old, new = change.old.capture_instance, change.new.capture_instance
    sources = _names_by_source(change)
    renamed = for_instance(options.rename, old, (old, *others))
    own = {renamed.get(before, before): renamed.get(before, after) for before, after in sources.items()}

    def spell(name: str, names: Mapping[str, str]) -> list[str]:
        if name.startswith(f"{old}."):
            column = name.removeprefix(f"{old}.")
            return [f"{new}.{names.get(column, column)}"]
        if names.get(name, name) == name:
            return [name]
        # The other tables may have a column of the old name.
        return [f"{new}.{names[name]}", *(f"{other}.{name}" for other in others)] if others else [names[name]]

    def spell_all(listed: Sequence[str], names: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for name in listed for each in spell(name, names)))

    def spell_keys(given: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
        return {each: value for name, value in given.items() for each in spell(name, names)}

    wanted, tracked = options.column_list, options.track_history_column_list
    changed = {before: after for before, after in own.items() if before != after}
    kept = {name: columns for name, columns in options.renamed_columns.items() if name != old}
    return replace(
        options,
        column_list=spell_all(wanted, sources) if wanted is not None else None,
        except_column_list=spell_all(options.except_column_list, sources),
        rename=spell_keys(options.rename, sources),
        columns=spell_keys(options.columns, own),
        track_history_column_list=spell_all(tracked, own) if tracked is not None else None,
        track_history_except_column_list=spell_all(options.track_history_except_column_list, own),
        cluster_by=spell_all(options.cluster_by, own),
        partition_by=spell_all(options.partition_by, own),
        # Kept for reads as of earlier LSNs, at which the table has the names of earlier instances.
        table_names={**options.table_names, new: options.table_of(old)},
        renamed_columns={**kept, **({new: changed} if changed else {})},
    )

"""Lifetimes of instances by the log's events: which begin, get other columns, and end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rowtide.cdc.ddl.schema_changes import InstanceSchemaChange, follow_alteration, follow_shape
from rowtide.cdc.definitions import FEATURE
from rowtide.cdc.instances import Instance, decode_instance
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.log.membership import Altered, Disabled, Enabled, Reshaped
from rowtide.log.store.state import ManifestState, events_between


@frozen
class InstanceLifetime:
    """A capture instance and the LSNs that it captures: after `begin`, before `end` (None: it is still enabled)."""

    instance: Instance
    begin: CommitLsn
    end: CommitLsn | None = None

    def contains(self, lsn: CommitLsn) -> bool:
        return self.begin < lsn and (self.end is None or lsn < self.end)


@frozen
class AlteredInstance:
    """An instance whose table was altered, as of the last such transaction, at `lsn`."""

    lifetime: InstanceLifetime
    lsn: CommitLsn


@frozen
class AppliedEvents:
    """The lifetimes that overlap a range, as of its end, and the schema changes of instances that are still enabled."""

    lifetimes: tuple[InstanceLifetime, ...]
    history: tuple[InstanceSchemaChange, ...]


def apply_events(
    state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position, to_position: Position
) -> AppliedEvents:
    """Apply the events of a range to the lifetimes that are active at its start, by member id."""
    lifetimes = dict(active)
    of_table: dict[int, list[str]] = {}
    for member_id, lifetime in lifetimes.items():
        of_table.setdefault(lifetime.instance.source_id, []).append(member_id)
    history: list[InstanceSchemaChange] = []
    for event in events_between(state, from_position, to_position):
        if isinstance(event, Enabled) and event.member.feature == FEATURE:
            instance = decode_instance(event.member.definition)
            lifetimes[instance.member_id] = InstanceLifetime(instance, event.commit_lsn)
            of_table.setdefault(instance.source_id, []).append(instance.member_id)
        elif isinstance(event, Disabled) and event.member_id in lifetimes:
            lifetimes[event.member_id] = replace(lifetimes[event.member_id], end=event.commit_lsn)
        elif isinstance(event, Altered | Reshaped):
            members = of_table.get(_source_id(state, event), ())
            changes = [
                change for member_id in members for change in _schema_changes(state, lifetimes[member_id], event)
            ]
            for change in changes:
                member_id = change.instance.member_id
                lifetimes[member_id] = replace(lifetimes[member_id], instance=change.instance)
            history += changes
    is_over = {member_id: lifetime.end is not None for member_id, lifetime in lifetimes.items()}
    return AppliedEvents(
        tuple(lifetimes.values()), tuple(change for change in history if not is_over[change.instance.member_id])
    )


def _source_id(state: ManifestState, event: Altered | Reshaped) -> int:
    """Return the table of an event."""
    return event.alteration.source_id if isinstance(event, Altered) else state.tables[event.table_id].shape.source_id


def _schema_changes(
    state: ManifestState, lifetime: InstanceLifetime, event: Altered | Reshaped
) -> Sequence[InstanceSchemaChange]:
    """Return how an event of an instance's table changes the instance."""
    instance, lsn = lifetime.instance, event.commit_lsn
    if not lifetime.contains(lsn):
        return ()
    if isinstance(event, Altered):
        change = follow_alteration(instance, lsn, event.alteration)
        return (change,) if change is not None else ()
    return follow_shape(instance, lsn, state.tables[event.table_id].shape)


def find_altered(applied: AppliedEvents, active: Mapping[str, InstanceLifetime]) -> Iterator[AlteredInstance]:
    """Yield the instances that were active before the range and whose tables were altered in it."""
    last = {change.instance.member_id: change.lsn for change in applied.history}
    for lifetime in applied.lifetimes:
        member_id = lifetime.instance.member_id
        if member_id in active and member_id in last:
            yield AlteredInstance(lifetime, last[member_id])

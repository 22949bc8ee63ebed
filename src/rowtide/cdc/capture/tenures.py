"""The instances that have a part in a range of the log, and what becomes of them and their tables in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.cdc.ddl.schema_changes import SchemaChange, follow_alteration, follow_shape
from rowtide.cdc.definitions import FEATURE, Instance, decode_instance
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import Altered, Disabled, Enabled, Reshaped
from rowtide.log.state import ManifestState, events_between


@dataclass(frozen=True, slots=True)
class Tenure:
    """An instance and the part of the log that is its own: after `begin`, before `end` (None: still going on)."""

    instance: Instance
    begin: CommitLsn
    end: CommitLsn | None = None

    def contains(self, lsn: CommitLsn) -> bool:
        return self.begin < lsn and (self.end is None or lsn < self.end)


@dataclass(frozen=True, slots=True)
class AlteredTenure:
    """An instance whose table was altered: as it is after the last such transaction, at `lsn`."""

    tenure: Tenure
    lsn: CommitLsn


@dataclass(frozen=True, slots=True)
class Course:
    """Every tenure that has a part in a range, as it is in the end, and what was done to tables of those that go on."""

    tenures: tuple[Tenure, ...]
    history: tuple[SchemaChange, ...]


def follow(
    state: ManifestState, active: Mapping[str, Tenure], from_position: Position, to_position: Position
) -> Course:
    """Follow the events of a range, from the tenures that are going on at its start, by member id."""
    tenures = dict(active)
    history: list[SchemaChange] = []
    for event in events_between(state, from_position, to_position):
        if isinstance(event, Enabled) and event.member.feature == FEATURE:
            instance = decode_instance(event.member.definition)
            tenures[instance.member_id] = Tenure(instance, event.commit_lsn)
        elif isinstance(event, Disabled) and event.member_id in tenures:
            tenures[event.member_id] = replace(tenures[event.member_id], end=event.commit_lsn)
        elif isinstance(event, Altered | Reshaped):
            changes = [change for tenure in tenures.values() for change in _schema_changes(state, tenure, event)]
            for change in changes:
                member_id = change.instance.member_id
                tenures[member_id] = replace(tenures[member_id], instance=change.instance)
            history += changes
    is_over = {member_id: tenure.end is not None for member_id, tenure in tenures.items()}
    return Course(
        tuple(tenures.values()), tuple(change for change in history if not is_over[change.instance.member_id])
    )


def _schema_changes(state: ManifestState, tenure: Tenure, event: Altered | Reshaped) -> Sequence[SchemaChange]:
    instance, lsn = tenure.instance, event.commit_lsn
    if not tenure.contains(lsn):
        return ()
    if isinstance(event, Altered):
        is_ours = event.alteration.source_id == instance.source_id
        change = follow_alteration(instance, lsn, event.alteration) if is_ours else None
        return (change,) if change is not None else ()
    shape = state.tables[event.table_id].shape
    return follow_shape(instance, lsn, shape) if shape.source_id == instance.source_id else ()


def find_altered(course: Course, active: Mapping[str, Tenure]) -> Iterator[AlteredTenure]:
    """Return those of the tenures that were going on before whose tables were altered."""
    last = {change.instance.member_id: change.lsn for change in course.history}
    for tenure in course.tenures:
        member_id = tenure.instance.member_id
        if member_id in active and member_id in last:
            yield AlteredTenure(tenure, last[member_id])

"""Changes of a table's columns and properties, by which its rows are removed, stay, or are converted.

`before_commit` is called after a version of the table is read and before the commit on top of it, and may raise. Its
check holds for the commit too, since it is called again if another commit came first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from rowtide.core.formats import StoredFormat
from rowtide.delta import features, formats
from rowtide.delta.errors import TableMissing
from rowtide.delta.replay import AddFile, Metadata, commit_info
from rowtide.delta.schema import FIELD_ID, PHYSICAL_NAME, parse_schema
from rowtide.delta.snapshot import Location, Snapshot, open_any_format
from rowtide.delta.writing.appends import write_partition, write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.commit_race import CommitEntry, CommitLost, Last, Passed, load_nameable, put_commit
from rowtide.delta.writing.commits import LAST_ID, features_for, give_names, is_mapped
from rowtide.storage.freshness import read_clock

TYPE_CHANGES = "delta.typeChanges"
"""In a column's metadata: the narrower types that older files may have."""
_WIDENING = "delta.enableTypeWidening"
_IN_FILES = (PHYSICAL_NAME, FIELD_ID)

BeforeCommit = Callable[[], None]
Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


def empty_table(location: Location) -> bool:
    """Remove all data files; return whether there were any. Raises as `commit_change`."""

    def plan(snapshot: Snapshot) -> CommitChange | None:
        if not snapshot.files:
            return None
        # `sees_all_files`: if another commit added files meanwhile, this one is planned again, or else those rows would
        # remain.
        return CommitChange("DELETE", removed=list(snapshot.files.values()), sees_all_files=True)

    return commit_change(location, plan)


def retire_table(location: Location, name: str, value: str, retired: str) -> None:
    """Empty a table whose property has a value, and give it another in the same commit: readers see all rows or none.

    One that has that other value already is emptied too. Raises as `commit_change`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        found = snapshot.properties.get(name)
        # It was retired before, but a writer with an earlier version of the table has added files since.
        if found not in (value, retired) or (found == retired and not snapshot.files):
            return None
        metadata = _altered(snapshot.metadata, properties={name: retired})
        return CommitChange("DELETE", removed=list(snapshot.files.values()), metadata=metadata, sees_all_files=True)

    commit_change(location, plan)


def renew_table(
    location: Location, schema_text: str, properties: Mapping[str, str], *, before_commit: BeforeCommit = lambda: None
) -> None:
    """Empty a table and give it other columns and properties, in one commit. Raises as `commit_change`."""

    def plan(snapshot: Snapshot) -> CommitChange:
        schema = json.loads(schema_text)
        changed = {**snapshot.properties, **properties}
        if is_mapped(changed):
            changed[LAST_ID] = str(give_names(schema, int(changed.get(LAST_ID, 0))))
        metadata = _altered(snapshot.metadata, schema, changed)
        protocol = features.with_features(snapshot.protocol, features_for(schema, changed))
        before_commit()
        return CommitChange(
            "REPLACE TABLE",
            removed=list(snapshot.files.values()),
            protocol=protocol if protocol != snapshot.protocol else None,
            metadata=metadata,
            sees_all_files=True,
        )

    commit_change(location, plan)


def retype_empty(
    location: Location, read_types: Callable[[], Mapping[str, str]], *, before_commit: BeforeCommit = lambda: None
) -> bool:
    """Change the types of a table's columns, given as Delta types, if it has no data files; return whether any
    differed.

    `read_types` is called with each version of the table in hand. Raises as `commit_change`, and what it raises.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        if snapshot.files:
            return None
        types, schema = read_types(), json.loads(snapshot.metadata.schema_text)
        retyped = _find_retyped(schema, types)
        for field in retyped:
            field["type"] = types[field["name"]]
        if not retyped:
            return None
        metadata = without_widening(_altered(snapshot.metadata, schema))
        protocol = features.with_features(snapshot.protocol, features_for(schema, metadata.properties))
        before_commit()
        return CommitChange(
            "CHANGE COLUMN", protocol=protocol if protocol != snapshot.protocol else None, metadata=metadata
        )

    return commit_change(location, plan)


def set_properties(location: Location, properties: Mapping[str, str]) -> bool:
    """Set properties that need no feature; return whether any differed. Raises as `commit_change`."""

    def plan(snapshot: Snapshot) -> CommitChange | None:
        if all(snapshot.properties.get(name) == value for name, value in properties.items()):
            return None
        return CommitChange("SET TBLPROPERTIES", metadata=_altered(snapshot.metadata, properties=properties))

    return commit_change(location, plan)


def raise_format(location: Location, recorded: StoredFormat) -> None:
    """Raise the format of a table of rowtide's, in one commit: from then on older builds refuse it. Idempotent.

    Raises `TableMissing`, `LakeReadFailed`, `LakeWriteFailed`.
    """
    while True:
        begun = read_clock()
        snapshot = open_any_format(location)
        if snapshot is None:
            raise TableMissing(location.path, "there is no table")
        stored = formats.find_format(location.path, snapshot.properties)
        if stored is not None and stored.number >= recorded.number:
            return
        metadata = _altered(snapshot.metadata, properties={formats.FORMAT: str(recorded)})
        info = commit_info("SET TBLPROPERTIES", {}, is_append=False)
        entry = CommitEntry.of(info, [("metaData", metadata.found)])
        with suppress(CommitLost):
            put_commit(location, Last(snapshot.version, begun), entry, pass_by=_yield_to_all, is_counted=lambda: False)


def name_mapping(location: Location) -> bool:
    """Name column mapping as a feature of a table that another program mapped; return whether that was committed.

    Its log is left to that program: rowtide's checkpoints lack what other features need. Raises `TableUnwritable`,
    `LakeReadFailed`, `LakeWriteFailed`.
    """
    begun = read_clock()
    snapshot = load_nameable(location)
    protocol = features.with_features(snapshot.protocol, {features.COLUMN_MAPPING})
    if not snapshot.metadata.is_mapped or protocol == snapshot.protocol:
        return False
    entry = CommitEntry.of(commit_info("UPGRADE PROTOCOL", {}, is_append=False), [("protocol", protocol.values())])
    try:
        put_commit(location, Last(snapshot.version, begun), entry, pass_by=_yield_to_all, is_counted=lambda: False)
    except CommitLost:
        return False
    return True


# For commits of metadata alone, which are made of those of one version, and whose loop reads the table again.
def _yield_to_all(_passed: Passed) -> None:
    raise CommitLost


def widen_columns(location: Location, types: Mapping[str, str], *, before_commit: BeforeCommit = lambda: None) -> bool:
    """Widen columns to given Delta types without rewriting files; return whether any type differed.

    The schema records that older files have narrower values. Raises as `commit_change`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        schema = json.loads(snapshot.metadata.schema_text)
        widened = _find_retyped(schema, types)
        for field in widened:
            before, after = field["type"], types[field["name"]]
            kept = field.get("metadata") or {}
            # All earlier changes stay in the list: files of each of the narrower types may exist, and readers widen
            # them by it.
            changes = [*kept.get(TYPE_CHANGES, ()), {"toType": after, "fromType": before}]
            field.update(type=after, metadata={**kept, TYPE_CHANGES: changes})
        if not widened:
            return None
        metadata = _altered(snapshot.metadata, schema, {_WIDENING: "true"})
        protocol = features.with_features(
            snapshot.protocol, {features.TYPE_WIDENING} | features_for(schema, metadata.properties)
        )
        before_commit()
        return CommitChange(
            "CHANGE COLUMN", protocol=protocol if protocol != snapshot.protocol else None, metadata=metadata
        )

    return commit_change(location, plan)


def rewrite(
    location: Location,
    schema_text: str,
    convert: Convert,
    *,
    changes_rows: bool = True,
    before_commit: BeforeCommit = lambda: None,
) -> None:
    """Replace a table's rows by the result of `convert`, and its columns' types by those of the result, in one commit.

    Each file becomes a new file, in batches. Afterwards no file has narrower types, so the table needs no type
    widening. Without `changes_rows` the values are the same. No effect on a table that has these columns already.
    Raises as `commit_change`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        before = json.loads(snapshot.metadata.schema_text)
        # Physical names and ids stay, because concurrent readers find columns in the earlier files by them.
        schema = _named_alike(json.loads(schema_text), before)
        if _types_of(schema) == _types_of(before):
            return None
        metadata = without_widening(_altered(snapshot.metadata, schema))
        columns = parse_schema(metadata.schema_text, is_mapped=metadata.is_mapped)
        # No file has narrower types any more. A table that still named the feature would be refused by readers without
        # it, for which the table is rewritten.
        kept = features.without_features(snapshot.protocol, features.WIDENINGS)
        protocol = features.with_features(kept, features_for(schema, metadata.properties))

        def convert_file(file: AddFile) -> AddFile:
            rows = (convert(batch) for batch in snapshot.stream_files([file]))
            written = write_stream(location, columns, metadata, rows, f"rewritten-{uuid.uuid4().hex}.parquet")
            return replace(written, tags=file.tags)

        added = [convert_file(file) for file in snapshot.files.values()]
        before_commit()
        return CommitChange(
            "WRITE",
            {"mode": "Overwrite"},
            removed=list(snapshot.files.values()),
            added=added,
            protocol=protocol if protocol != snapshot.protocol else None,
            metadata=metadata,
            changes_rows=changes_rows,
            sees_all_files=True,
        )

    commit_change(location, plan)


def rename_columns(
    location: Location, names: Sequence[tuple[str, str]], *, before_commit: BeforeCommit = lambda: None
) -> bool:
    """Give columns other names, one after the other, in one commit; return False if none has one of the old names.

    Data files are rewritten if they have the table's names. Raises as `commit_change`.
    """

    def plan(snapshot: Snapshot) -> CommitChange | None:
        schema, renamed = json.loads(snapshot.metadata.schema_text), dict[str, str]()
        for field in schema["fields"]:
            name = field["name"]
            for old, new in names:
                name = new if name == old else name
            renamed[field["name"]], field["name"] = name, name
        if all(before == after for before, after in renamed.items()):
            return None
        altered = _altered(snapshot.metadata, schema)
        partitions = [renamed[name] for name in snapshot.metadata.partition_columns]
        metadata = Metadata({**altered.found, "partitionColumns": partitions})
        # With column mapping, files have physical names, which stay: only the schema is committed.
        if metadata.is_mapped:
            before_commit()
            return CommitChange("RENAME COLUMN", metadata=metadata)
        after = replace(snapshot, state=replace(snapshot.state, metadata=metadata))

        def rename(file: AddFile) -> AddFile:
            batches = (
                pa.RecordBatch.from_arrays(batch.columns, schema=after.columns.schema)
                for batch in snapshot.stream_files([file])
            )
            values = {renamed[name]: text for name, text in file.partition_values.items()}
            return write_partition(after, values, batches, f"rewritten-{uuid.uuid4().hex}.parquet")

        added = [rename(file) for file in snapshot.files.values()]
        before_commit()
        return CommitChange(
            "RENAME COLUMN",
            removed=list(snapshot.files.values()),
            added=added,
            metadata=metadata,
            changes_rows=False,
            sees_all_files=True,
        )

    return commit_change(location, plan)


def without_widening(metadata: Metadata) -> Metadata:
    """Return metadata that neither ask for type widening nor name narrower types."""
    schema = json.loads(metadata.schema_text, object_hook=_without_type_changes)
    configuration = {name: value for name, value in metadata.properties.items() if name != _WIDENING}
    text = json.dumps(schema, separators=(",", ":"))
    return Metadata({**metadata.found, "schemaString": text, "configuration": configuration})


def _without_type_changes(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name != TYPE_CHANGES}


def _altered(metadata: Metadata, schema: Any = None, properties: Mapping[str, str] = MappingProxyType({})) -> Metadata:
    """Return metadata with another schema and other values of some properties."""
    text = metadata.schema_text if schema is None else json.dumps(schema, separators=(",", ":"))
    configuration = {**metadata.properties, **properties}
    return Metadata({**metadata.found, "schemaString": text, "configuration": configuration})


def _find_retyped(schema: Any, types: Mapping[str, str]) -> list[Any]:
    """Return the fields that have another type than that which is named for them."""
    return [field for field in schema["fields"] if types.get(field["name"], field["type"]) != field["type"]]


def _types_of(schema: Any) -> list[tuple[str, Any]]:
    return [(field["name"], field["type"]) for field in schema["fields"]]


def _named_alike(schema: Any, before: Any) -> Any:
    """Return a schema in which each column has the name and id in files that the column of its name had."""
    kept = {field["name"]: field.get("metadata") or {} for field in before["fields"]}
    fields = [
        {**field, "metadata": {name: kept[field["name"]][name] for name in _IN_FILES if name in kept[field["name"]]}}
        for field in schema["fields"]
    ]
    return {**schema, "fields": fields}

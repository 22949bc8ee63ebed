"""Delta tables of targets: each commit carries the LSN up to which the table has its source (`txn`).

Delta looks for the transaction identifier in every commit that comes in between, so that a window that is applied again
changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rowtide.cdc.ddl.retyping import REWRITTEN_BYTES
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta import formats
from rowtide.delta.errors import EditOutdated, LakeReadFailed, TableUnreadable, TableUnwritable
from rowtide.delta.formats import OWNER, TARGET_TABLE
from rowtide.delta.replay import commit_path, read_commit
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.alteration import name_mapping, rename_columns
from rowtide.delta.writing.widening_removal import mend
from rowtide.lake.sql_text import literal, quote, table_at
from rowtide.lake.stores import locate
from rowtide.lake.tables import writing
from rowtide.storage.places import spark_url
from rowtide.storage.store import Missing
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetOccupied
from rowtide.targets.table_format import FoundTable, NewTable, TableFormat, Verify, partitioned_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The lineage of a table's version: rows that others changed, and versions that they restored. A transaction identifier
# survives the restore of an earlier version, and then claims more than the table has.

_RESTORE = "RESTORE"


@frozen
class Foreign:
    """A commit of another application that changed rows."""

    version: int
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} in version {self.version}"


@frozen
class VersionLineage:
    """The lineage of a version since one that the application knows.

    `restored`: the earlier version whose rows it has, None if it follows from the known one. `foreign`: the last commit
    of another that changed rows and was not undone by a restore.
    """

    restored: int | None = None
    foreign: Foreign | None = None


@frozen
class _Commit:
    operation: str
    parameters: Mapping[str, Any]
    applications: frozenset[str]
    changes_rows: bool

    @property
    def restored(self) -> int | None:
        """The version that it restored; None if it restored none, or one that is known by its time only."""
        version = self.parameters.get("version") if self.operation == _RESTORE else None
        return int(version) if version is not None and str(version).isdecimal() else None


def find_lineage(snapshot: Snapshot, application: str, known: int) -> VersionLineage:
    """Return what a version follows from since a known one, which is not later.

    Commits that the log no longer has are assumed to be the application's own. Raises `LakeReadFailed`.
    """
    seen = {known: VersionLineage()}
    last = seen[known]
    for number in range(known + 1, snapshot.version + 1):
        last = _after(last, _read(snapshot, number), application, number, seen)
        seen[number] = last
    return last


def _after(
    before: VersionLineage, commit: _Commit | None, application: str, number: int, seen: Mapping[int, VersionLineage]
) -> VersionLineage:
    if commit is None:
        return before
    if commit.restored is not None:
        # A restore undoes changes of others since that version; the position in its `txn` is valid again, so the
        # windows after it are applied again.
        return seen.get(commit.restored) or VersionLineage(restored=commit.restored)
    # A commit of the application itself after a restore: the table follows from its source again.
    if application in commit.applications:
        return replace(before, restored=None)
    if commit.changes_rows:
        return replace(before, foreign=Foreign(number, commit.operation))
    return before


def _read(snapshot: Snapshot, number: int) -> _Commit | None:
    location = snapshot.location
    try:
        content = location.store.get(commit_path(number))
    except Missing:
        return None
    try:
        return _sum_up(read_commit(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeReadFailed(location.path, f"{commit_path(number)} is damaged: {error}") from error


def _sum_up(actions: Iterable[tuple[str, Mapping[str, Any]]]) -> _Commit:
    operation, changes_rows = "a commit", False
    parameters: Mapping[str, Any] = {}
    applications: set[str] = set()
    for kind, values in actions:
        match kind:
            case "commitInfo":
                operation = str(values.get("operation") or operation)
                parameters = values.get("operationParameters") or {}
            case "txn":
                applications.add(values["appId"])
            case "add" | "remove":
                changes_rows = changes_rows or values.get("dataChange") is not False
    return _Commit(operation, parameters, frozenset(applications), changes_rows)


FORMAT = TableFormat(
    title="Delta",
    noun="a Delta table",
    is_written_without_spark=True,
    is_registered_by_path=True,
    can_cluster=True,
    has_partition_texts=True,
    marks_wider_types=True,
)

_APPLICATION, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_OPTIMIZED = "spark.databricks.delta.optimizeWrite.enabled"
_NEEDS_MAPPING = frozenset(" ,;{}()\n\t=")


def open_table(spark: SparkSession, target: Target, instance: str, verify: Verify, known: int | None) -> DeltaTable:
    """Return the table of an instance; `spark` is a session for it alone, `known` the version that the set has."""
    options = target.options
    name = f"{options.catalog}.{options.table_of(instance)}" if options.catalog is not None else None
    return DeltaTable(spark, target, options.path_of(instance), name, known, verify)


class DeltaTable:
    """A Delta table at a path, or of a catalogue; `spark` is a session for this table alone."""

    def __init__(
        self, spark: SparkSession, target: Target, path: str | None, name: str | None, known: int | None, verify: Verify
    ) -> None:
        """`known` is the version that the set has, None before the first."""
        self._spark = spark
        self._target = target.name
        self._target_id = target.target_id
        self._given_path = path
        self._name = name
        self._known = known
        self._verify = verify
        self._position: int | None = None
        self._is_partitioned = False

    @property
    def location(self) -> str:
        """Its path, or its name in a catalogue."""
        return self._name or self._given_path or ""

    @property
    def sql_name(self) -> str:
        """Its name in Spark SQL."""
        return self._name if self._name is not None else table_at(spark_url(self.path, os.environ))

    def find(self) -> FoundTable | None:
        """Return its present version, None if it is not there. Raises `TargetOccupied`, `LakeReadFailed`."""
        if self._name is not None and not self._spark.catalog.tableExists(self._name):
            return None
        snapshot = open_snapshot(locate(self.path))
        if snapshot is None:
            return None
        if snapshot.properties.get(OWNER) != self._target_id:
            raise TargetOccupied(self._target, self.location)
        if snapshot.metadata.is_mapped and not snapshot.protocol.reader_features:
            snapshot = self._name_mapping(snapshot)
        self._position = snapshot.get_transaction(self._target_id)
        self._is_partitioned = bool(snapshot.metadata.partition_columns)
        return as_found(snapshot, self._target_id, self._known, self._types())

    def _name_mapping(self, found: Snapshot) -> Snapshot:
        """List column mapping among the table's features, which Spark does not do; return the resulting version.

        A table that has features which need Spark for each commit stays as it is.
        """
        self._verify()
        with suppress(TableUnwritable):
            name_mapping(found.location)
        return open_snapshot(found.location) or found

    def create(self, table: NewTable) -> None:
        """Make it, empty. Raises `LakeWriteFailed`."""
        properties = {**mapping_properties(table.columns), **table.properties, OWNER: self._target_id}
        properties[formats.FORMAT] = str(TARGET_TABLE.recorded)
        columns = ", ".join(f"{quote(name)} {type_name}" for name, type_name in table.columns)
        clustered = f" cluster by ({', '.join(map(quote, table.cluster_by))})" if table.cluster_by else ""
        listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        with writing(self.location):
            self._spark.sql(
                f"create table {self.sql_name} ({columns}) using delta{partitioned_by(table)}{clustered} "
                f"tblproperties ({listed})"
            )

    def add_columns(self, columns: Sequence[tuple[str, str]]) -> None:
        """Add columns, null in the rows that are there. Raises `LakeWriteFailed`."""
        listed = ", ".join(f"{quote(name)} {type_name}" for name, type_name in columns)
        with writing(self.location):
            self._spark.sql(f"alter table {self.sql_name} add columns ({listed})")

    def rename_columns(self, names: Sequence[tuple[str, str]]) -> None:
        """Give columns other names, one after the other. Raises `LakeWriteFailed`.

        Data files are rewritten, unless their columns have physical names by Delta's column mapping, which many readers
        do not support. If a table has features that rowtide's commits do not honour, Spark renames its columns, by
        column mapping.
        """
        snapshot = open_snapshot(locate(self.path))
        is_plain = snapshot is None or snapshot.metadata.is_mapped or not _need_mapping(new for _, new in names)
        with writing(self.location):
            if is_plain:
                try:
                    rename_columns(locate(self.path), names, before_commit=self._verify)
                except (TableUnreadable, TableUnwritable):
                    is_plain = False
            if not is_plain:
                mapped = "'delta.columnMapping.mode' = 'name'"
                self._spark.sql(f"alter table {self.sql_name} set tblproperties ({mapped})")
                for old, new in names:
                    self._spark.sql(f"alter table {self.sql_name} rename column {quote(old)} to {quote(new)}")

    def change_types(self, types: Mapping[str, str]) -> None:
        """Give columns wider types; a table up to a size is rewritten, others get type widening. Raises
        `LakeWriteFailed`.
        """
        with writing(self.location):
            self._spark.sql(f"alter table {self.sql_name} set tblproperties ('delta.enableTypeWidening' = 'true')")
            for name, type_name in types.items():
                self._spark.sql(f"alter table {self.sql_name} alter column {quote(name)} type {type_name}")
        self._mend_small()

    def _mend_small(self) -> None:
        """Remove type widening from a small table whose features rowtide's commits honour."""
        snapshot = open_snapshot(locate(self.path))
        if snapshot is not None and sum(file.size for file in snapshot.files.values()) <= REWRITTEN_BYTES:
            # Clustered tables, and those with other features of Delta, are left to Spark.
            with suppress(TableUnreadable, TableUnwritable):
                mend(snapshot.location, before_commit=self._verify)

    def commit(self, lsn: CommitLsn, statement: Callable[[], object]) -> None:
        """Let a statement commit everything up to an LSN; idempotent, by any process. Raises `LakeWriteFailed`.

        Raises also if another process has written the table since it was found. Delta itself detects commits between
        the statement's beginning and end.
        """
        self._spark.conf.set(_APPLICATION, self._target_id)
        self._spark.conf.set(_VERSION, str(lsn.value))
        # Otherwise each task would write a file for each partition of its rows.
        self._spark.conf.set(_OPTIMIZED, str(self._is_partitioned).lower())
        self._verify()
        failpoint("target_commit.before")
        try:
            with writing(self.location):
                # Before the statement reads the table; Delta's conflict check finds later commits.
                self._require_position()
                statement()
        finally:
            # If they stayed in the session, its next statement would be skipped.
            self._spark.conf.unset(_APPLICATION)
            self._spark.conf.unset(_VERSION)
            self._spark.conf.unset(_OPTIMIZED)
        failpoint("target_commit.after")

    def _require_position(self) -> None:
        found = open_snapshot(locate(self.path))
        if found is None or found.get_transaction(self._target_id) != self._position:
            raise EditOutdated(self.location, "another process has committed to it meanwhile")

    def read(self, version: int) -> DataFrame:
        """Return its rows as of a version."""
        url = spark_url(self.path, os.environ)
        return self._spark.read.format("delta").option("versionAsOf", version).load(url)

    @cached_property
    def path(self) -> str:
        """Where its files are, also of one in a catalogue."""
        if self._name is None:
            return self._given_path or ""
        detail = self._spark.sql(f"describe detail {self._name}").select("location").first()
        assert detail is not None
        return str(detail[0]).removeprefix("file:")

    def _types(self) -> dict[str, str]:
        return dict(self._spark.table(self.sql_name).dtypes)


def as_found(snapshot: Snapshot, target_id: str, known: int | None, types: Mapping[str, str]) -> FoundTable:
    """Return a version with its position in the source; `known` is the version that the set has.

    Where an earlier version was restored, that one's transaction counts. Raises `LakeReadFailed`.
    """
    is_known = known is not None and known <= snapshot.version
    lineage = find_lineage(snapshot, target_id, known) if is_known and known is not None else VersionLineage()
    of_rows = snapshot if lineage.restored is None else open_snapshot(snapshot.location, lineage.restored)
    lsn = of_rows.get_transaction(target_id) if of_rows is not None else None
    files = len(snapshot.files)
    return FoundTable(
        snapshot.version,
        range((snapshot.version if lineage.restored is None else lineage.restored) + 1),
        CommitLsn(lsn) if lsn is not None else None,
        types,
        0 if lsn is None and not files else max(files, 1),
        str(lineage.foreign) if lineage.foreign is not None else None,
    )


def mapping_properties(columns: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the properties of a table whose columns have names that data files cannot have."""
    return {"delta.columnMapping.mode": "name"} if _need_mapping(name for name, _ in columns) else {}


def _need_mapping(names: Iterable[str]) -> bool:
    return any(_NEEDS_MAPPING & set(name) for name in names)

"""Iceberg tables of targets: each snapshot's summary has the LSN up to which the table has its source.

Iceberg has no transaction identifiers. So a statement writes to a branch of the snapshot that was found, and the table
follows that branch, atomically, if no other process has committed to it since.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.delta import formats
from rowtide.delta.formats import OWNER, TARGET_TABLE, require_writable
from rowtide.lake.jars import ICEBERG
from rowtide.lake.sql_text import literal, quote
from rowtide.lake.tables import writing
from rowtide.storage.places import local_folder, spark_url
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetBranchesDropped, TargetOccupied
from rowtide.targets.table_format import FoundTable, NewTable, TableFormat, Verify, partitioned_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = TableFormat(title="Iceberg", noun="an Iceberg table", libraries=(ICEBERG,))

LSN = "rowtide.lsn"
_SUMMARY = "spark.sql.iceberg.snapshot-property."
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_BRANCH = "rowtide_"
_NOT_A_NAME = re.compile(r"\W")


def open_table(spark: SparkSession, target: Target, instance: str, verify: Verify, _known: int | None) -> IcebergTable:
    """Return the table of an instance; a path is the warehouse of a Hadoop catalogue of the target's own."""
    options = target.options
    if options.catalog is not None:
        catalog, _, namespace = options.catalog.partition(".")
        settings = dict(options.catalog_options)
    else:
        catalog, namespace = f"rowtide_{target.target_id}", _NOT_A_NAME.sub("_", target.name)
        settings = {"type": "hadoop", "warehouse": _as_url(options.path or ""), **options.catalog_options}
    _configure(spark, catalog, settings)
    levels = [quote(name) for name in (catalog, *namespace.split("."))]
    namespaces = [".".join(levels[:count]) for count in range(2, len(levels) + 1)]
    name = f"{namespaces[-1]}.{quote(options.table_of(instance))}"
    return IcebergTable(spark, target, namespaces, name, verify)


class IcebergTable:
    """A table of an Iceberg catalogue; `spark` is a session for this table alone."""

    def __init__(
        self, spark: SparkSession, target: Target, namespaces: Sequence[str], name: str, verify: Verify
    ) -> None:
        """`namespaces` are that of the table and those that it is in, outermost first."""
        self._spark = spark
        self._target = target
        self._namespaces = namespaces
        self._name = name
        self._verify = verify
        self._present = 0
        self._branch: str | None = None

    @property
    def location(self) -> str:
        """Its name in its catalogue."""
        return self._name.replace("`", "")

    @property
    def sql_name(self) -> str:
        """Its name in Spark SQL: of a branch, while a statement is committed."""
        return self._name if self._branch is None else f"{self._name}.{quote(f'branch_{self._branch}')}"

    def find(self) -> FoundTable | None:
        """Return its present version, None if it is not there. Raises `TargetOccupied`, `LakeWriteFailed`."""
        with writing(self.location):
            if not self._is_there():
                return None
            properties = dict(tuple(row) for row in self._spark.sql(f"show tblproperties {self._name}").collect())
            if properties.get(OWNER) != self._target.target_id:
                raise TargetOccupied(self._target.name, self.location)
            require_writable(self.location, properties)
            versions, types = self._read_versions(), dict(self._spark.table(self._name).dtypes)
        self._present = present = next(reversed(versions), 0)
        # It is never filled by an insert, which Iceberg would not check against concurrent commits.
        return FoundTable(present, frozenset({0, *versions}), _last(versions), types, max(len(versions), 1))

    def create(self, table: NewTable) -> None:
        """Make it, empty. Raises `LakeWriteFailed`."""
        properties = {"format-version": "2", **table.properties, OWNER: self._target.target_id}
        properties[formats.FORMAT] = str(TARGET_TABLE.recorded)
        columns = ", ".join(f"{quote(name)} {type_name}" for name, type_name in table.columns)
        listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        with writing(self.location):
            # Nessie and others require the enclosing namespaces to exist.
            for namespace in self._namespaces:
                self._spark.sql(f"create namespace if not exists {namespace}")
            self._spark.sql(
                f"create table {self._name} ({columns}) using iceberg{partitioned_by(table)} tblproperties ({listed})"
            )

    def add_columns(self, columns: Sequence[tuple[str, str]]) -> None:
        """Add columns, null in the rows that are there. Raises `LakeWriteFailed`."""
        listed = ", ".join(f"{quote(name)} {type_name}" for name, type_name in columns)
        with writing(self.location):
            self._spark.sql(f"alter table {self._name} add columns ({listed})")

    def rename_columns(self, names: Sequence[tuple[str, str]]) -> None:
        """Give columns other names, one after the other. Raises `LakeWriteFailed`."""
        with writing(self.location):
            for old, new in names:
                self._spark.sql(f"alter table {self._name} rename column {quote(old)} to {quote(new)}")

    def change_types(self, types: Mapping[str, str]) -> None:
        """Give columns wider types. Raises `LakeWriteFailed`."""
        with writing(self.location):
            for name, type_name in types.items():
                self._spark.sql(f"alter table {self._name} alter column {quote(name)} type {type_name}")

    def commit(self, lsn: CommitLsn, statement: Callable[[], object]) -> None:
        """Let a statement commit everything up to an LSN; idempotent, by any process. Raises `LakeWriteFailed`."""
        with writing(self.location):
            has = _last(self._read_versions())
        if has is not None and has >= lsn:
            return
        name = f"{_SUMMARY}{LSN}"
        self._spark.conf.set(name, str(lsn.value))
        self._verify()
        failpoint("target_commit.before")
        try:
            with writing(self.location), self._branched():
                statement()
        finally:
            self._spark.conf.unset(name)
        failpoint("target_commit.after")

    @contextmanager
    def _branched(self) -> Iterator[None]:
        """Let the block write to a branch of the snapshot that was found, to which the table is then fast-forwarded.

        Branches of interrupted processes are removed: if such a process wakes up, its branch is missing. Raises
        `TargetBranchesDropped`.
        """
        spark: Any = self._spark
        util = spark._jvm.org.apache.iceberg.spark.Spark3Util  # noqa: SLF001 - there is no other way to it
        table = util.loadIcebergTable(spark._jsparkSession, self._name)  # noqa: SLF001
        branch = f"{_BRANCH}{secrets.token_hex(8)}"
        for left in [name for name in table.refs().keySet() if name.startswith(_BRANCH)]:
            # In a commit of its own: a table without a snapshot cannot get both in one commit.
            table.manageSnapshots().removeBranch(left).commit()
        if self._present:
            table.manageSnapshots().createBranch(branch, self._present).commit()
        else:
            # Without a snapshot the branch begins as empty as the table.
            table.manageSnapshots().createBranch(branch).commit()
        if not table.refs().containsKey(branch):
            raise TargetBranchesDropped(self._target.name, self.location)
        failpoint("target_branch.after")
        self._branch = branch
        try:
            yield
        finally:
            self._branch = None
        failpoint("target_forward.before")
        table.refresh()
        table.manageSnapshots().fastForwardBranch("main", branch).removeBranch(branch).commit()

    def read(self, version: int) -> DataFrame:
        """Return its rows as of a snapshot; none before the first."""
        if not version:
            return self._spark.table(self._name).limit(0)
        if version == self._present:
            # By snapshot it would have the columns of that time; by its plain name, Spark 4.1 cannot plan a merge into
            # it that also reads it.
            return self._spark.sql(f"select * from {self._name} version as of 'main'")
        return self._spark.sql(f"select * from {self._name} version as of {version}")

    def _read_versions(self) -> dict[int, CommitLsn | None]:
        """Return the snapshots that the table follows from, oldest first, with their LSNs."""
        # Joined in Python, because a join and a sort in Spark would take as long as a small merge.
        history = self._spark.sql(
            f"select made_current_at, snapshot_id from {self._name}.history where is_current_ancestor"
        ).collect()
        recorded = self._spark.sql(
            f"select snapshot_id, bigint(summary[{literal(LSN)}]) from {self._name}.snapshots"
        ).collect()
        lsns = {version: CommitLsn(lsn) for version, lsn in recorded if lsn is not None}
        ordered = sorted(history, key=lambda row: row["made_current_at"])
        return {row["snapshot_id"]: lsns.get(row["snapshot_id"]) for row in ordered}

    def _is_there(self) -> bool:
        from pyspark.errors import AnalysisException

        try:
            return bool(self._spark.catalog.tableExists(self._name))
        except AnalysisException as error:
            if error.getCondition() != "SCHEMA_NOT_FOUND":
                raise
            return False


def _last(versions: Mapping[int, CommitLsn | None]) -> CommitLsn | None:
    return max((lsn for lsn in versions.values() if lsn is not None), default=None)


def _configure(spark: SparkSession, catalog: str, settings: Mapping[str, str]) -> None:
    """Configure a catalogue in a session, where the user has not."""
    for name, value in _settings(catalog, settings):
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, value)


def _settings(catalog: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    place = f"spark.sql.catalog.{catalog}"
    yield place, _CATALOG
    # Without the cache, which would show tables as they were half a minute ago.
    yield f"{place}.cache-enabled", "false"
    for name, value in settings.items():
        yield f"{place}.{name}", value


def _as_url(path: str) -> str:
    return path if local_folder(path) is not None else spark_url(path, os.environ)

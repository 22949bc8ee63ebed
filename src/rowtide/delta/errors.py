"""The errors of Delta tables: 3xxx, with the lake's."""

from __future__ import annotations

from rowtide.core.errors import Invalid, Retryable, RowtideError
from rowtide.core.redaction import Said


class AppendNotFound(RowtideError, number=3102):
    """An append was ignored as a repeat, but the table does not have the rows."""

    fact = "table {path} does not show the rows of cycle {cycle} after they were appended"
    hint = "Another process writes this lake, or the table was restored: stop it, then run `rowtide cdc reinitialize`."
    path: str
    cycle: int


class LakeWriteFailed(Retryable, number=3103):
    """Spark or the storage failed while writing."""

    fact = "writing {path} failed: {reason}"
    hint = "Check that the storage is reachable and not full; the write is retried."
    path: str
    reason: Said


class TableMissing(LakeWriteFailed):
    """A table that was created is missing."""


class RowsUnfit(LakeWriteFailed):
    """Rows do not have columns of the table, as it is known to the writer."""


class EditOutdated(LakeWriteFailed):
    """A table's stamp is not the one that an edit was planned for."""


class PartitionUnfit(Invalid, number=8176):
    """A value of a partition column would be read as another one."""

    fact = "table {path} cannot be partitioned by the values of {column}: {reason}"
    hint = """Change the rows in the source, or drop the target and add it with another column, as `--column
        "AREA=coalesce(nullif(COLUMN, ''), '-')" --partition-by AREA`. Iceberg tables have no such values."""
    path: str
    column: str
    reason: str


class LakeFenced(Retryable, number=1132):
    """Another process took the lake's lease while this one was stopped."""

    fact = "another process took the lake while this one was stopped, and now writes table {path}"
    hint = "Nothing was written. This process asks for the lease again; the other one captures meanwhile."
    path: str


class LakeReadFailed(Retryable, number=3104):
    """The storage failed while reading, or a table's log is damaged."""

    fact = "reading {path} failed: {reason}"
    hint = "Check that the storage is reachable and that no files were removed from it; capture retries the read."
    path: str
    reason: Said


class LogDamaged(LakeReadFailed):
    """Versions are missing from a table's log."""


class TableUnreadable(Invalid, number=3106):
    """A table has a feature of Delta's that rowtide reads only with Spark."""

    fact = "table {path} has {feature}, which is not read without Spark"
    hint = "Another program switched it on: read the table with Spark, or `alter table … drop feature`."
    path: str
    feature: str


class TableUnwritable(Invalid, number=3107):
    """A table has a feature of Delta's that a commit of rowtide's would not honour."""

    fact = "table {path} has {feature}, which commits do not honour"
    hint = "Another program switched it on: `alter table … unset tblproperties`, or `alter table … drop feature`."
    path: str
    feature: str

"""Errors of enabling databases and tables. SQL Server's numbers where it has one, else 4xxx."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class InstanceNameTaken(RowtideError):
    """Capture instance names are unique in a database (SQL Server: 22926)."""

    number = 22926
    fact = "capture instance {instance} exists already"
    hint = "Choose another name with --capture-instance."
    instance: str


@numbered
class InstanceNameTooLong(RowtideError):
    """A capture instance's name has at most 100 characters (SQL Server: 22927)."""

    number = 22927
    fact = "the capture instance name {instance} has more than {limit} characters"
    hint = "Choose a shorter one with --capture-instance."
    instance: str
    limit: int


@numbered
class InstanceNameInvalid(RowtideError):
    """A capture instance names folders and functions (SQL Server: 22932)."""

    number = 22932
    fact = '"{instance}" cannot name a capture instance'
    hint = "Use letters, digits, underscores and dashes: --capture-instance."
    instance: str


@numbered
class ColumnUnknown(RowtideError):
    """A listed column is not in the table (SQL Server: 22930)."""

    number = 22930
    fact = "table {table} has no column {column}"
    hint = "Name columns of the table, separated by commas."
    table: str
    column: str


@numbered
class KeyColumnMissing(RowtideError):
    """The key's columns must be captured (SQL Server: 22943)."""

    number = 22943
    fact = "the column list of {table} leaves out key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


@numbered
class ColumnListedTwice(RowtideError):
    """A column list names a column twice (SQL Server: 22942)."""

    number = 22942
    fact = "the column list of {table} has column {column} twice"
    hint = "Name it once."
    table: str
    column: str


@numbered
class IndexUnknown(RowtideError):
    """The named index is not one of the table's (SQL Server: 22928)."""

    number = 22928
    fact = "table {table} has no index {index}"
    hint = "Name a unique index of the table, without its schema and as the catalogue has it."
    table: str
    index: str


@numbered
class IndexNotUsable(RowtideError):
    """The named index does not identify rows (SQL Server: 22929)."""

    number = 22929
    fact = "index {index} of table {table} cannot identify rows: {reason}"
    hint = "Name a unique index over all rows whose columns are not null."
    table: str
    index: str
    reason: str


@numbered
class IndexInvalid(RowtideError):
    """The named index is not in force (SQL Server: 22980, disabled)."""

    number = 22980
    fact = "index {index} of table {table} is not valid: it is being built, or building it failed"
    hint = "Wait until it is built, or run `reindex index`."
    table: str
    index: str


@numbered
class NetChangesNeedKey(RowtideError):
    """Net changes were asked for without a key to tell rows apart (SQL Server: 22939)."""

    number = 22939
    fact = "table {table} cannot have net changes: {reason}"
    hint = "Name a unique index over columns that are not null with --index, or use --no-net-changes."
    table: str
    reason: str


@numbered
class KeyImagesDiffer(RowtideError):
    """The log carries the key of one index only."""

    number = 4142
    fact = "the log of table {table} cannot carry the keys of {index} beside those of {other}, which an instance needs"
    hint = "Use `--before-images full`, or the same index for both."
    table: str
    index: str
    other: str


@numbered
class KeyImagesOfPartitions(RowtideError):
    """Each partition has an index of its own name, and those that come later have none in the log."""

    number = 4143
    fact = "the log of the partitioned table {table} cannot carry the keys of index {index}"
    hint = "Use `--before-images full`, or the primary key."
    table: str
    index: str


@numbered
class ColumnNameReserved(RowtideError):
    """Change tables have columns of this name already (SQL Server: 22975)."""

    number = 22975
    fact = "column {column} of {table} has the name of a change table's own column"
    hint = "Leave it out with --columns, or rename it."
    table: str
    column: str


@numbered
class TableNotCapturable(RowtideError):
    """The table's rows do not reach the log, or not as its own (SQL Server: 22931)."""

    number = 4103
    fact = "table {table} cannot be captured: it is {kind}"
    hint = "Enable an ordinary, logged table."
    table: str
    kind: str


@numbered
class PartitionNotCapturable(RowtideError):
    """Rows of a partition do not reach the log, so the partitioned table would be captured in part."""

    number = 4122
    fact = "table {table} cannot be captured: its partition {partition} is {kind}"
    hint = "Make it an ordinary, logged table, or detach it."
    table: str
    partition: str
    kind: str


@numbered
class PartitionCapturedToo(RowtideError):
    """The server publishes a change under one table: the topmost of those that are published."""

    number = 4123
    fact = "table {table} cannot be captured beside instance {instance}, whose rows are partly the same"
    hint = "Disable {instance} first; the rows of partitions come with the partitioned table."
    table: str
    instance: str


@numbered
class VirtualColumnUnloggable(RowtideError):
    """PostgreSQL refuses updates and deletes of such a table under a full replica identity."""

    number = 4108
    fact = "table {table} cannot be captured: the server would refuse its updates because column {column} is virtual"
    hint = "Make the generated column `stored`, or use `--before-images key`."
    table: str
    column: str


@numbered
class BeforeImagesNeedKey(RowtideError):
    """Without the whole old row, a row is known by its primary key alone."""

    number = 4121
    fact = "table {table} has no primary key: the log cannot carry the keys of its rows"
    hint = "Give it a primary key, name a unique index with --index, or use `--before-images full`."
    table: str


@numbered
class SystemTable(RowtideError):
    """Tables of schema cdc are not captured (SQL Server: 22974)."""

    number = 22974
    fact = "table {table} belongs to rowtide or to the system"
    hint = "Enable a table of the application."
    table: str


@numbered
class TwoInstancesExist(RowtideError):
    """A table has at most two capture instances (SQL Server: 22962)."""

    number = 22962
    fact = "table {table} has two capture instances already: {instances}"
    hint = "Disable one of them first: `rowtide cdc disable-table`."
    table: str
    instances: str

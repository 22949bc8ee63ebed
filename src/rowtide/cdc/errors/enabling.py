"""Errors of tables and capture instances that are enabled, of roles and rights."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound


class InstanceNameTaken(AlreadyExists, number=22926):
    """Capture instance names are unique in a database (SQL Server: 22926)."""

    fact = "capture instance {instance} exists already"
    hint = "Choose another name with --capture-instance."
    instance: str


class InstanceNameTooLong(Invalid, number=22927):
    """A capture instance's name has at most 100 characters (SQL Server: 22927)."""

    fact = "the capture instance name {instance} has more than {limit} characters"
    hint = "Choose a shorter one with --capture-instance."
    instance: str
    limit: int


class InstanceNameInvalid(Invalid, number=22932):
    """A capture instance's name is also that of folders and functions (SQL Server: 22932)."""

    fact = '"{instance}" cannot name a capture instance'
    hint = "Use letters, digits, underscores and dashes: --capture-instance."
    instance: str


class ColumnUnknown(NotFound, number=22930):
    """A listed column is not in the table (SQL Server: 22930)."""

    fact = "table {table} has no column {column}"
    hint = "Name columns of the table, separated by commas."
    table: str
    column: str


class KeyColumnMissing(Invalid, number=22943):
    """All columns of the key must be captured (SQL Server: 22943)."""

    fact = "the column list of {table} excludes key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


class ColumnListedTwice(Invalid, number=22942):
    """A column list names a column twice (SQL Server: 22942)."""

    fact = "the column list of {table} has column {column} twice"
    hint = "Name it once."
    table: str
    column: str


class IndexUnknown(NotFound, number=22928):
    """The named index is not one of the table's (SQL Server: 22928)."""

    fact = "table {table} has no index {index}"
    hint = "Name a unique index of the table, without its schema and as the catalogue has it."
    table: str
    index: str


class IndexNotUsable(Invalid, number=22929):
    """The named index does not identify rows (SQL Server: 22929)."""

    fact = "index {index} of table {table} cannot identify rows: {reason}"
    hint = "Name a unique index over all rows whose columns are not null."
    table: str
    index: str
    reason: str


class IndexInvalid(Invalid, number=22980):
    """The named index is not valid (SQL Server: 22980, disabled)."""

    fact = "index {index} of table {table} is not valid: it is being built, or building it failed"
    hint = """Wait until it is built; or remove what prevents building it, such as equal values, and run `reindex
        index {quoted}`."""
    table: str
    index: str
    quoted: str


class NetChangesNeedKey(Invalid, number=22939):
    """Net changes were asked for without a key that identifies rows (SQL Server: 22939)."""

    fact = "table {table} cannot have net changes: {reason}"
    hint = "Name a unique index over columns that are not null with --index, or use --no-net-changes."
    table: str
    reason: str


class KeyImagesDiffer(Invalid, number=4142):
    """A table has one replica identity: the log carries the key of one index only."""

    fact = "the log of table {table} cannot carry the keys of {index} beside those of {other}, which an instance needs"
    hint = "Use `--before-images full`, or the same index for both."
    table: str
    index: str
    other: str


class KeyImagesOfPartitions(Invalid, number=4143):
    """Each partition's index has its own name, and later partitions would lack the replica identity."""

    fact = "the log of the partitioned table {table} cannot carry the keys of index {index}"
    hint = "Use `--before-images full`, or the primary key."
    table: str
    index: str


class ColumnNameReserved(Invalid, number=22975):
    """Change tables have a metadata column of this name (SQL Server: 22975)."""

    fact = "column {column} of {table} has the name of a metadata column of change tables"
    hint = "Exclude it with --columns, or rename it."
    table: str
    column: str


class NoColumns(Invalid, number=4116):
    """An instance would have no columns: PostgreSQL has tables without any."""

    fact = "no column of {table} would be captured"
    hint = "Name columns with --columns; a table without columns can be enabled once it has one."
    table: str


class TablePatternInvalid(Invalid, number=4113):
    """A pattern of tables cannot be read."""

    fact = "{pattern} is not a pattern of tables: {reason}"
    hint = "Write schema.table with * ? [] as wildcards, and in double quotes what is to be taken literally."
    pattern: str
    reason: str


class NoTableMatches(NotFound, number=4114):
    """A pattern matches no table that could be captured."""

    fact = "no table matches {pattern}"
    hint = """Quote names as in SQL: what is not quoted is lower case. Views, foreign and temporary tables, partitions
        of a captured table and rowtide's own schemas match no pattern."""
    pattern: str


class RulePatternIncomplete(Invalid, number=4160):
    """Without a schema, a name means the tables that the search path of a session finds."""

    fact = "{pattern} names no schema, which a rule for new tables needs"
    hint = "Write schema.table, with * ? [] as wildcards."
    pattern: str


class RuleWithoutPattern(Invalid, number=4161):
    """A rule for new tables needs a pattern: new tables have no names yet."""

    fact = "no new table can match {names}"
    hint = "Name a pattern such as 'public.*', or a --schema; or omit --with-new-tables."
    names: str


class TableRuleUnknown(NotFound, number=4162):
    """There is no rule of this name."""

    fact = "there is no rule {rule} for new tables"
    hint = "`rowtide cdc table-rules` lists them."
    rule: str


class TableNotCapturable(Invalid, number=4103):
    """The table's rows are not in the log, or not under its name (SQL Server: 22931)."""

    fact = "table {table} cannot be captured: it is {kind}"
    hint = "Enable an ordinary, logged table."
    table: str
    kind: str


class PartitionNotCapturable(Invalid, number=4122):
    """Rows of a partition are not in the log, so the partitioned table would be captured in part."""

    fact = "table {table} cannot be captured: its partition {partition} is {kind}"
    hint = "Make it an ordinary, logged table, or detach it."
    table: str
    partition: str
    kind: str


class PartitionCapturedToo(Invalid, number=4123):
    """The server publishes a change under one table only: the topmost published one."""

    fact = "table {table} cannot be captured beside instance {instance}, whose rows are partly the same"
    hint = "Disable {instance} first; the rows of partitions come with the partitioned table."
    table: str
    instance: str


class VirtualColumnUnloggable(Invalid, number=4108):
    """PostgreSQL refuses updates and deletes of a table with a virtual column under a full replica identity."""

    fact = "table {table} cannot be captured: the server would refuse its updates because column {column} is virtual"
    hint = "Make the generated column `stored`, or use `--before-images key`."
    table: str
    column: str


class BeforeImagesUnknown(Invalid, number=22863):
    """Before images are full or key."""

    fact = "{before_images} is not a kind of before images"
    hint = "Choose full or key, or a member of rowtide.cdc.BeforeImages."
    before_images: str


class WidenedUnknown(Invalid, number=8165):
    """Tables with wider columns are rewritten, marked, or one of these by their size."""

    fact = "{setting} does not say what is done with tables whose columns get wider types"
    hint = "Choose auto, rewrite or mark, or a member of rowtide.cdc.Widened."
    setting: str


class BeforeImagesNeedKey(Invalid, number=4121):
    """Without full before images, the key identifies the old row."""

    fact = "table {table} has no primary key, or a deferrable one: the log cannot carry the keys of its rows"
    hint = "Give it a primary key, name a unique index with --index, or use `--before-images full`."
    table: str


class SystemTable(Invalid, number=22974):
    """Tables of schema cdc are not captured (SQL Server: 22974)."""

    fact = "table {table} belongs to rowtide or to the system"
    hint = "Enable a table of the application."
    table: str


class TwoInstancesExist(AlreadyExists, number=22962):
    """A table has at most two capture instances (SQL Server: 22962)."""

    fact = "table {table} has two capture instances already: {instances}"
    hint = "Disable one of them first: `rowtide cdc disable-table {table} --capture-instance INSTANCE`."
    table: str
    instances: str


class TableNameIncomplete(Invalid, number=22972):
    """Schema and name of a table are given together or not at all (SQL Server: 22972)."""

    fact = "a schema without a table's name was given, or a name without its schema"
    hint = "Give both, --source-schema and --source-name, or neither."


class ReadingDenied(Denied, number=229):
    """The role may not read an instance's changes (SQL Server: 229)."""

    fact = "role {role} may not read capture instance {instance}: {reason}"
    hint = "Ask the owner of the database to run `{mend}`."
    role: str
    instance: str
    reason: str
    mend: str


class RoleNameEmpty(Invalid, number=22907):
    """The gating role's name is empty (SQL Server: 22907)."""

    fact = "the gating role has no name"
    hint = "Name a role with --role, or omit the option."


class RoleNameInvalid(Invalid, number=22938):
    """The gating role's name is not a valid role name (SQL Server: 22938)."""

    fact = '"{role}" cannot name a gating role: {reason}'
    hint = "Name another one with --role."
    role: str
    reason: str


class RoleNotCreated(Denied, number=22944):
    """The gating role does not exist, and may not be created (SQL Server: 22944)."""

    fact = "there is no role {role}, and {user} may not create it"
    hint = "Run `create role {quoted}` as a role with createrole, then enable again."
    role: str
    user: str
    quoted: str


class NotOwner(Denied, number=22904):
    """Only the owner administers capture (SQL Server: 22904, db_owner)."""

    fact = "role {role} does not own the change data capture of database {database}: {owner} enabled it"
    hint = """To administer it, {joining}. To list what capture does, let {owner} run
        `rowtide grant {role} --as monitor`."""
    role: str
    database: str
    owner: str
    joining: str
    """How the role comes to administer it, in words."""

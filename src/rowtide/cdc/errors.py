"""The numbered errors of change data capture: SQL Server's numbers where it has one, else 4xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered


@numbered
class ReadingDenied(Denied):
    """The role may not read an instance's changes (SQL Server: 229)."""

    number = 229
    fact = "role {role} may not read capture instance {instance}: {reason}"
    hint = "Ask the owner of the database to run `{mend}`."
    role: str
    instance: str
    reason: str
    mend: str


@numbered
class RoleNameEmpty(Invalid):
    """The gating role's name is empty (SQL Server: 22907)."""

    number = 22907
    fact = "the gating role has no name"
    hint = "Name a role with --role, or leave the option out."


@numbered
class RoleNameInvalid(Invalid):
    """The gating role's name is not a valid role name (SQL Server: 22938)."""

    number = 22938
    fact = '"{role}" cannot name a gating role: {reason}'
    hint = "Name another one with --role."
    role: str
    reason: str


@numbered
class RoleNotCreated(Denied):
    """The gating role does not exist, and may not be created (SQL Server: 22944)."""

    number = 22944
    fact = "there is no role {role}, and {user} may not create it"
    hint = "Run `create role {quoted}` as a role with createrole, then enable again."
    role: str
    user: str
    quoted: str


@numbered
class NotOwner(Denied):
    """Only the owner administers capture (SQL Server: 22904, db_owner)."""

    number = 22904
    fact = "role {role} does not own the change data capture of database {database}: {owner} enabled it"
    hint = "Connect as {owner} or a member of it, or as a superuser."
    role: str
    database: str
    owner: str


@numbered
class InstanceNameTaken(AlreadyExists):
    """Capture instance names are unique in a database (SQL Server: 22926)."""

    number = 22926
    fact = "capture instance {instance} exists already"
    hint = "Choose another name with --capture-instance."
    instance: str


@numbered
class InstanceNameTooLong(Invalid):
    """A capture instance's name has at most 100 characters (SQL Server: 22927)."""

    number = 22927
    fact = "the capture instance name {instance} has more than {limit} characters"
    hint = "Choose a shorter one with --capture-instance."
    instance: str
    limit: int


@numbered
class InstanceNameInvalid(Invalid):
    """A capture instance's name is also that of folders and functions (SQL Server: 22932)."""

    number = 22932
    fact = '"{instance}" cannot name a capture instance'
    hint = "Use letters, digits, underscores and dashes: --capture-instance."
    instance: str


@numbered
class ColumnUnknown(NotFound):
    """A listed column is not in the table (SQL Server: 22930)."""

    number = 22930
    fact = "table {table} has no column {column}"
    hint = "Name columns of the table, separated by commas."
    table: str
    column: str


@numbered
class KeyColumnMissing(Invalid):
    """All columns of the key must be captured (SQL Server: 22943)."""

    number = 22943
    fact = "the column list of {table} leaves out key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


@numbered
class ColumnListedTwice(Invalid):
    """A column list names a column twice (SQL Server: 22942)."""

    number = 22942
    fact = "the column list of {table} has column {column} twice"
    hint = "Name it once."
    table: str
    column: str


@numbered
class IndexUnknown(NotFound):
    """The named index is not one of the table's (SQL Server: 22928)."""

    number = 22928
    fact = "table {table} has no index {index}"
    hint = "Name a unique index of the table, without its schema and as the catalogue has it."
    table: str
    index: str


@numbered
class IndexNotUsable(Invalid):
    """The named index does not identify rows (SQL Server: 22929)."""

    number = 22929
    fact = "index {index} of table {table} cannot identify rows: {reason}"
    hint = "Name a unique index over all rows whose columns are not null."
    table: str
    index: str
    reason: str


@numbered
class IndexInvalid(Invalid):
    """The named index is not valid (SQL Server: 22980, disabled)."""

    number = 22980
    fact = "index {index} of table {table} is not valid: it is being built, or building it failed"
    hint = "Wait until it is built, or run `reindex index`."
    table: str
    index: str


@numbered
class NetChangesNeedKey(Invalid):
    """Net changes were asked for without a key that identifies rows (SQL Server: 22939)."""

    number = 22939
    fact = "table {table} cannot have net changes: {reason}"
    hint = "Name a unique index over columns that are not null with --index, or use --no-net-changes."
    table: str
    reason: str


@numbered
class KeyImagesDiffer(Invalid):
    """A table has one replica identity: the log carries the key of one index only."""

    number = 4142
    fact = "the log of table {table} cannot carry the keys of {index} beside those of {other}, which an instance needs"
    hint = "Use `--before-images full`, or the same index for both."
    table: str
    index: str
    other: str


@numbered
class KeyImagesOfPartitions(Invalid):
    """Each partition's index has its own name, and later partitions would lack the replica identity."""

    number = 4143
    fact = "the log of the partitioned table {table} cannot carry the keys of index {index}"
    hint = "Use `--before-images full`, or the primary key."
    table: str
    index: str


@numbered
class ColumnNameReserved(Invalid):
    """Change tables have a metadata column of this name (SQL Server: 22975)."""

    number = 22975
    fact = "column {column} of {table} has the name of a metadata column of change tables"
    hint = "Leave it out with --columns, or rename it."
    table: str
    column: str


@numbered
class TablePatternInvalid(Invalid):
    """A pattern of tables cannot be read."""

    number = 4113
    fact = "{pattern} is not a pattern of tables: {reason}"
    hint = "Write schema.table with * ? [] as wildcards, and in double quotes what is to be taken literally."
    pattern: str
    reason: str


@numbered
class NoTableMatches(NotFound):
    """A pattern matches no table that could be captured."""

    number = 4114
    fact = "no table matches {pattern}"
    hint = (
        "Quote names as in SQL: what is not quoted is lower case. Views, foreign and temporary tables, partitions of "
        "a captured table and rowtide's own schemas match no pattern."
    )
    pattern: str


@numbered
class RulePatternIncomplete(Invalid):
    """Without a schema, a name means the tables that the search path of a session finds."""

    number = 4160
    fact = "{pattern} names no schema, which a rule for new tables needs"
    hint = "Write schema.table, with * ? [] as wildcards."
    pattern: str


@numbered
class RuleWithoutPattern(Invalid):
    """A rule for new tables needs a pattern: new tables have no names yet."""

    number = 4161
    fact = "no new table can match {names}"
    hint = "Name a pattern such as 'public.*', or a --schema; or leave --with-new-tables out."
    names: str


@numbered
class TableRuleUnknown(NotFound):
    """There is no rule of this name."""

    number = 4162
    fact = "there is no rule {rule} for new tables"
    hint = "`rowtide cdc table-rules` lists them."
    rule: str


@numbered
class TableNotCapturable(Invalid):
    """The table's rows are not in the log, or not under its name (SQL Server: 22931)."""

    number = 4103
    fact = "table {table} cannot be captured: it is {kind}"
    hint = "Enable an ordinary, logged table."
    table: str
    kind: str


@numbered
class PartitionNotCapturable(Invalid):
    """Rows of a partition are not in the log, so the partitioned table would be captured in part."""

    number = 4122
    fact = "table {table} cannot be captured: its partition {partition} is {kind}"
    hint = "Make it an ordinary, logged table, or detach it."
    table: str
    partition: str
    kind: str


@numbered
class PartitionCapturedToo(Invalid):
    """The server publishes a change under one table only: the topmost published one."""

    number = 4123
    fact = "table {table} cannot be captured beside instance {instance}, whose rows are partly the same"
    hint = "Disable {instance} first; the rows of partitions come with the partitioned table."
    table: str
    instance: str


@numbered
class VirtualColumnUnloggable(Invalid):
    """PostgreSQL refuses updates and deletes of a table with a virtual column under a full replica identity."""

    number = 4108
    fact = "table {table} cannot be captured: the server would refuse its updates because column {column} is virtual"
    hint = "Make the generated column `stored`, or use `--before-images key`."
    table: str
    column: str


@numbered
class BeforeImagesNeedKey(Invalid):
    """Without full before images, the key identifies the old row."""

    number = 4121
    fact = "table {table} has no primary key: the log cannot carry the keys of its rows"
    hint = "Give it a primary key, name a unique index with --index, or use `--before-images full`."
    table: str


@numbered
class SystemTable(Invalid):
    """Tables of schema cdc are not captured (SQL Server: 22974)."""

    number = 22974
    fact = "table {table} belongs to rowtide or to the system"
    hint = "Enable a table of the application."
    table: str


@numbered
class TwoInstancesExist(AlreadyExists):
    """A table has at most two capture instances (SQL Server: 22962)."""

    number = 22962
    fact = "table {table} has two capture instances already: {instances}"
    hint = "Disable one of them first: `rowtide cdc disable-table`."
    table: str
    instances: str


@numbered
class QueryFailed(RowtideError):
    """A query on the lake's files failed in this process."""

    number = 3110
    fact = "the changes cannot be put together: {reason}"
    hint = "Free memory, or space in the temporary folder (TMPDIR); a smaller range (--from, --to) takes less of both."
    reason: str


@numbered
class LsnOutOfRange(Invalid):
    """A bound is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use a range inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    from_lsn: str
    to_lsn: str
    low: str
    high: str
    gap: str = ""


@numbered
class RangeOverGap(DataLoss):
    """A range contains a transaction whose changes are missing (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} of {instance} contains {missing}: {note}"
    hint = "Its changes are missing. Query a range up to {before} and one from {after} on."
    instance: str
    from_lsn: str
    to_lsn: str
    missing: str
    note: str
    before: str
    after: str


@numbered
class TimeOutOfRange(Invalid):
    """A time is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "time {time} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use times inside it, or omit the bound: the interval's end is used then."
    instance: str
    time: str
    low: str
    high: str


@numbered
class UnknownTimeOperator(Invalid):
    """The relational operator is not one of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{operator}" is not a relational operator between LSNs and times'
    hint = "Use one of: {operators}."
    operator: str
    operators: str


@numbered
class InvalidBound(Invalid):
    """The text is neither an LSN nor a time, or not a time where one is required."""

    number = 4141
    fact = '"{text}" is not {wanted}'
    hint = "Write an LSN as X/Y, epoch:X/Y or an integer; a time as 2026-01-31T08:00:00+01:00, without zone in UTC."
    text: str
    wanted: str


@numbered
class UnknownRowFilter(Invalid):
    """The row filter option is not one of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{option}" is not a row filter option'
    hint = "Use one of: {options}."
    option: str
    options: str


@numbered
class NetChangesUnsupported(Invalid):
    """The instance was enabled without net changes; SQL Server has no such function then (208)."""

    number = 208
    fact = "instance {instance} of table {table} was enabled without net changes, or without a key for them"
    hint = "Query all changes, or disable and enable it again with a primary key, or a unique index by --index."
    instance: str
    table: str


@numbered
class InstanceUnknown(NotFound):
    """There is no such capture instance (SQL Server: 22960)."""

    number = 22960
    fact = "there is no capture instance {instance}"
    hint = "`rowtide cdc instances` lists them; a newly enabled instance appears when capture has read that far."
    instance: str


@numbered
class InstanceNotReadable(NotFound):
    """There is no such capture instance, or this role may not know of it (SQL Server: 22981)."""

    number = 22981
    fact = "there is no capture instance {instance}, or role {role} may not read it"
    hint = "`rowtide cdc instances` lists those that it may read."
    instance: str
    role: str


@numbered
class TableNameIncomplete(Invalid):
    """Schema and name of a table are given together or not at all (SQL Server: 22972)."""

    number = 22972
    fact = "a schema without a table's name was given, or a name without its schema"
    hint = "Give both, --source-schema and --source-name, or neither."


@numbered
class WrapperColumnUnknown(NotFound):
    """The column list of a wrapper function names a column that is not captured (SQL Server: 22918)."""

    number = 22918
    fact = "the column list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperFlagUnknown(NotFound):
    """The flag list of a wrapper function names a column that is not captured (SQL Server: 22919)."""

    number = 22919
    fact = "the update flag list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperListsNeedInstance(Invalid):
    """A list of columns applies to one instance (SQL Server: 22921)."""

    number = 22921
    fact = "lists of columns were given for the wrapper functions of every instance"
    hint = "Name the instance, or leave --column-list and --update-flag-list out."


@numbered
class LakeUnknown(NotFound):
    """There is no lake, or capture has never run there."""

    number = 4107
    fact = "nothing was captured to the lake {lake} yet"
    hint = "Check the path; `rowtide cdc run` captures."
    lake: str


@numbered
class RelationChanged(RowtideError):
    """A captured table's shape in the log changed; capture stops before that transaction."""

    number = 4105
    fact = "table {table} changed at LSN {lsn}: {change}; capture stopped before it"
    hint = "Disable instance {instance} and enable it again: the missing values exist nowhere but in the table."
    table: str
    lsn: str
    change: str
    instance: str


@numbered
class ChangeRowsMiscounted(RowtideError):
    """The rows written for a cycle are not those that the log has; nothing of the cycle is committed to that table."""

    number = 4112
    fact = "cycle {cycle} wrote {written:,} rows for {table}, but the log has {expected:,}"
    hint = (
        "Start capture again: the cycle is redone. If it says the same, the log store or rowtide is at fault: "
        "run `rowtide check`, and report it."
    )
    cycle: int
    written: int
    table: str
    expected: int


@numbered
class ChangeFileMissing(RowtideError):
    """A task of Spark wrote a file that capture's own process does not find: they do not share the lake's folder."""

    number = 4111
    fact = "a task of Spark wrote {file}, and this process does not find it"
    hint = "Put the lake in a folder that the executors and this process share, or run with --engine auto."
    file: str


@numbered
class DefinitionsIncomplete(RowtideError):
    """An earlier version of rowtide enabled the database, and created fewer tables."""

    number = 4109
    fact = "tables are missing in schema cdc: {tables}; an earlier version of rowtide enabled this database"
    hint = "Run `rowtide cdc enable-db` again as the role that did: it creates what is missing and keeps the rest."
    tables: str


@numbered
class LakeBehindLog(DataLoss):
    """The log store no longer has the range that the lake needs next."""

    number = 4106
    fact = "the lake is at {lake}, but the log store starts at {log_store}"
    hint = "The lake is older than the log store (restored?): run `rowtide cdc reinitialize`; it says what is lost."
    lake: str
    log_store: str


@numbered
class ValuesDoNotFit(RowtideError):
    """Captured values do not fit the type that their column has now (SQL Server: 8115)."""

    number = 8115
    fact = "{count} values of {column} captured by {instance} do not fit {type_name}, its type in the source now"
    hint = (
        "Nothing is lost: everything before the change is published, the log is kept. Consume it, then remove them by "
        "`rowtide cdc cleanup {instance}`, or disable the instance and enable it again."
    )
    count: int
    column: str
    instance: str
    type_name: str


@numbered
class LowWaterMarkOutOfRange(Invalid):
    """The mark must lie inside the instance's validity interval (SQL Server: 22957)."""

    number = 22957
    fact = "low-water mark {mark} is below the low endpoint {low} of {instance}"
    hint = "Low endpoints only move up; name an LSN of the validity interval."
    mark: str
    instance: str
    low: str


@numbered
class LowWaterMarkUnknown(NotFound):
    """The mark must be the LSN of a captured transaction (SQL Server: 22964)."""

    number = 22964
    fact = "low-water mark {mark} is not a transaction of lsn_time_mapping"
    hint = "Name the `start_lsn` of one; `rowtide cdc lsn max` prints the last."
    mark: str


@numbered
class CleanupImplausible(RowtideError):
    """The last captured commit time may have jumped: cleanup by it could remove rows that should be kept."""

    number = 4125
    fact = "cleanup would move the low-water mark from {before} to {time}, by more than has passed since {set_at}"
    hint = "If the source's clock was right, repeat with --force; if it was wrong, name a --low-water-mark."
    time: str
    before: str
    set_at: str


@numbered
class CleanupIncomplete(RowtideError):
    """Low endpoints moved, but rows below them could not be removed everywhere (SQL Server: 22852)."""

    number = 22852
    fact = "low endpoints are moved, but rows are left in {failures}"
    hint = "Queries do not return them; the next cleanup removes them."
    failures: str


@numbered
class ConsumerUnknown(NotFound):
    """There is no consumer of this name."""

    number = 4131
    fact = "there is no consumer {consumer}"
    hint = "`rowtide cdc consumers` lists them, `rowtide cdc add-consumer` creates one."
    consumer: str


@numbered
class ConsumerExists(AlreadyExists):
    """There is a consumer of this name already."""

    number = 4132
    fact = "consumer {consumer} exists already"
    hint = "`rowtide cdc change-consumer {consumer}` changes its instances and its limit; what it acknowledged stays."
    consumer: str


@numbered
class ConsumerOwned(Denied):
    """A consumer belongs to a target, and ends with it."""

    number = 4144
    fact = "consumer {consumer} belongs to a target"
    hint = "Run `rowtide cdc drop-target` for the target; `rowtide cdc targets` lists them."
    consumer: str


@numbered
class ConsumerInvalid(Invalid):
    """A consumer without a name, without instances, or with a limit below one hour."""

    number = 4133
    fact = "consumer {consumer} is invalid: {reason}"
    hint = "Give it a name, at least one capture instance, and a limit of at least one hour."
    consumer: str
    reason: str


@numbered
class ConsumerPassed(DataLoss):
    """Changes that a consumer has not acknowledged were removed."""

    number = 4134
    fact = "consumer {consumer} has acknowledged up to LSN {acknowledged}, but {instance} begins at {low} now: {reason}"
    hint = (
        "Reload the table as of LSN {before} or later, then `rowtide cdc acknowledge {consumer} {before}` "
        "(or the LSN of that load) continues from there."
    )
    consumer: str
    acknowledged: str
    instance: str
    low: str
    before: str
    reason: str


@numbered
class ConsumedInstanceEnded(DataLoss):
    """An instance of a consumer was disabled; one enabled under its name since is a different instance."""

    number = 4135
    fact = "capture instance {instance} of consumer {consumer} was disabled, and its changes were removed"
    hint = "Name the instances with which it continues: `rowtide cdc change-consumer {consumer} --instances ...`."
    consumer: str
    instance: str


@numbered
class AcknowledgementRefused(Invalid):
    """An acknowledgement before the last one, or after the last published LSN."""

    number = 4136
    fact = "consumer {consumer} cannot acknowledge LSN {lsn}: {reason}"
    hint = "Acknowledge what was read, up to the last published LSN; `rowtide cdc consumers` shows the last one."
    consumer: str
    lsn: str
    reason: str


@numbered
class ConsumerContended(RowtideError):
    """Two processes consume under one name; this one's acknowledgement came second."""

    number = 4137
    fact = "consumer {consumer} acknowledged up to LSN {acknowledged} elsewhere while this window was open"
    hint = "The changes of this window were read twice. Give each process its own consumer."
    consumer: str
    acknowledged: str


@numbered
class AcknowledgementDenied(Denied):
    """The role is neither the owner nor a member of the consumer's role."""

    number = 4138
    fact = "role {role} may not acknowledge for consumer {consumer}"
    hint = "{mend}."
    role: str
    consumer: str
    mend: str


@numbered
class NotOfConsumer(Invalid):
    """A follower names instances that its consumer does not read: one position is over all of a consumer's."""

    number = 4151
    fact = "consumer {consumer} reads {instances}, not {asked}"
    hint = "Leave the instances out, or name all of them; `rowtide cdc change-consumer {consumer}` changes them."
    consumer: str
    instances: str
    asked: str


@numbered
class EventsRefused(RowtideError):
    """A receiver refuses events, and would refuse them again."""

    number = 4152
    fact = "{receiver} answered {status} to the events from {event_id} on"
    hint = (
        "Nothing from that event on is acknowledged. Mend the receiver, its address or the headers, and run it again."
    )
    receiver: str
    status: str
    event_id: str


@numbered
class ReceiverFails(Retryable):
    """A receiver cannot be reached, or asks for another try; events are sent again."""

    number = 4153
    fact = "{receiver} takes no events: {reason}"
    hint = "They are sent again until it does."
    receiver: str
    reason: str


@numbered
class ReceiverUntrusted(Denied):
    """A receiver's certificate is not valid."""

    number = 4154
    fact = "the certificate of {receiver} is not valid: {reason}"
    hint = "Name the certificates to be trusted in SSL_CERT_FILE, or mend the receiver's."
    receiver: str
    reason: str


@numbered
class EventsNotWritten(RowtideError):
    """A folder for files of events cannot be written to."""

    number = 4155
    fact = "files of events cannot be written to {folder}: {reason}"
    hint = "Name a folder that is there, with free space, and that this user may write."
    folder: str
    reason: str


@numbered
class ConsumersBehind(Denied):
    """A low-water mark that would remove changes that consumers have not acknowledged."""

    number = 4139
    fact = "low-water mark {mark} would pass what was not acknowledged yet: {consumers}"
    hint = "Use a mark up to there, acknowledge for them with `rowtide cdc acknowledge`, or drop them."
    mark: str
    consumers: str


@numbered
class JobTypeUnknown(Invalid):
    """There are two jobs (SQL Server: 22992)."""

    number = 22992
    fact = '"{job_type}" is not a job'
    hint = "Name capture or cleanup."
    job_type: str


@numbered
class JobMissing(NotFound):
    """The database has no such job (SQL Server: 22997)."""

    number = 22997
    fact = "database {database} has no {job_type} job"
    hint = "`rowtide cdc add-job {job_type}` adds it; enabling the first table adds both."
    job_type: str
    database: str


@numbered
class JobExists(AlreadyExists):
    """A database has one job of each type."""

    number = 4171
    fact = "database {database} has a {job_type} job already"
    hint = "`rowtide cdc change-job {job_type} NAME=VALUE` changes it."
    job_type: str
    database: str


@numbered
class ParameterUnknown(Invalid):
    """Not a parameter of any job."""

    number = 4172
    fact = '"{text}" does not set a parameter of a job'
    hint = "Write NAME=VALUE, where NAME is one of {names}."
    text: str
    names: str


@numbered
class ParameterNotInteger(Invalid):
    """Parameters of jobs are integers, except the schedule."""

    number = 4173
    fact = '"{value}" is not a value of {name}'
    hint = "Write an integer."
    name: str
    value: str


@numbered
class ScheduleInvalid(Invalid):
    """The text is not a schedule in cron's form."""

    number = 4174
    fact = '"{schedule}" is not a schedule: {reason}'
    hint = 'Write minute, hour, day, month and weekday as cron does, weekdays by name: "0 2 * * *", "30 1 * * sun".'
    schedule: str
    reason: str


@numbered
class ThresholdInvalid(Invalid):
    """The threshold is not positive (SQL Server: 22850)."""

    number = 22850
    fact = "threshold cannot be {value}"
    hint = "Give a number greater than 0."
    value: int


@numbered
class MaxscansInvalid(Invalid):
    """The number of scans is not positive (SQL Server: 22970)."""

    number = 22970
    fact = "maxscans cannot be {value}"
    hint = "Give a number of scans greater than 0."
    value: int


@numbered
class PollingIntervalInvalid(Invalid):
    """The interval is negative or a day and more (SQL Server: 22990)."""

    number = 22990
    fact = "pollinginterval cannot be {value}"
    hint = "Give seconds from 0 to 86399."
    value: int


@numbered
class MaxtransInvalid(Invalid):
    """The number of transactions is not positive (SQL Server: 22991)."""

    number = 22991
    fact = "maxtrans cannot be {value}"
    hint = "Give a number of transactions greater than 0."
    value: int


@numbered
class RetentionInvalid(Invalid):
    """The retention is not positive, or longer than a hundred years (SQL Server: 22994)."""

    number = 22994
    fact = "retention cannot be {value}"
    hint = "Give minutes from 1 to 52594800."
    value: int


@numbered
class ParameterOfCleanup(Invalid):
    """The capture job has no such parameter (SQL Server: 22995)."""

    number = 22995
    fact = "the capture job has no {parameter}"
    hint = "It is a parameter of the cleanup job: omit it."
    parameter: str


@numbered
class ParameterOfCapture(Invalid):
    """The cleanup job has no such parameter (SQL Server: 22996)."""

    number = 22996
    fact = "the cleanup job has no {parameter}"
    hint = "It is a parameter of the capture job: omit it."
    parameter: str


@numbered
class ContinuousInvalid(Invalid):
    """A job is continuous or not (SQL Server: 22998)."""

    number = 22998
    fact = "continuous cannot be {value}"
    hint = "Give 1, or 0 for a job that ends after one round of scans."
    value: str


@numbered
class PollingNotContinuous(Invalid):
    """A job that scans once has no polling interval (SQL Server: 22999)."""

    number = 22999
    fact = "a job that is not continuous has no pollinginterval of {value} s"
    hint = "Leave it out, or set continuous=1."
    value: int


@numbered
class ScanRunning(RowtideError):
    """Two processes cannot read one log (SQL Server: 22903)."""

    number = 22903
    fact = "another scan is running: {holder}"
    hint = "Wait for it, or, if an agent runs it, end it with `rowtide cdc stop-job capture`."
    holder: str


@numbered
class AgentNotRunning(RowtideError):
    """No agent runs that could start or stop a job (SQL Server: 22022)."""

    number = 22022
    fact = "no agent runs the jobs of database {database}"
    hint = "Start `rowtide agent run`: the capture job begins with it."
    database: str


@numbered
class JobRunning(RowtideError):
    """A job has at most one run at a time (SQL Server: 22022)."""

    number = 22022
    fact = "the {job_type} job is running already, since {since}"
    hint = "`rowtide cdc stop-job {job_type}` ends it."
    job_type: str
    since: str


@numbered
class JobNotRunning(RowtideError):
    """A job that does not run cannot be stopped (SQL Server: 22022)."""

    number = 22022
    fact = "the {job_type} job is not running"
    hint = "`rowtide cdc job-history {job_type}` says when and how it ended."
    job_type: str

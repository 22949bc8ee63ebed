"""Errors of subscriptions, of their settings and at subscribers: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.redaction import Said


class SubscriptionUnknown(NotFound, number=14055):
    """There is no such subscription (SQL Server: 14055)."""

    fact = "{subscriber} has no subscription to publication {publication}"
    hint = "`rowtide replication status` lists subscriptions."
    publication: str
    subscriber: str


class SubscriberUnknown(NotFound, number=7260):
    """No publication of the database is delivered to this subscriber."""

    fact = "{subscriber} subscribes to no publication"
    hint = "`rowtide replication status` lists subscribers, as they have to be written."
    subscriber: str


class SubscriptionExists(AlreadyExists, number=14058):
    """A subscriber can subscribe to a publication only once (SQL Server: 14058)."""

    fact = "{subscriber} already subscribes to publication {publication}"
    hint = "Drop that subscription first."
    publication: str
    subscriber: str


class SubscriberIsPublisher(Invalid, number=7160):
    """A database cannot subscribe to itself."""

    fact = "{subscriber} is the publisher itself"
    hint = "Subscribe another database; a promoted copy of the publisher's server with --sync-type from-copy."
    subscriber: str


class SubscriberKnownOtherwise(AlreadyExists, number=7161):
    """A database can subscribe to a publication only once, however its URL is written (SQL Server: 14058)."""

    fact = "{subscriber} already subscribes to publication {publication}, as {known}"
    hint = "Drop that subscription first, by that URL."
    subscriber: str
    publication: str
    known: str


class NothingToSubscribe(Invalid, number=7111):
    """A publication without articles has nothing to deliver."""

    fact = "publication {publication} has no articles"
    hint = "Add one with `rowtide replication add-article {publication} TABLE`."
    publication: str


class SkipErrorsInvalid(Invalid, number=7170):
    """The list of errors to skip is malformed."""

    fact = '"{text}" is not an error that can be skipped'
    hint = "List error numbers ({numbers}) or five-character SQLSTATEs, separated by colons."
    text: str
    numbers: str


class PasswordGiven(Invalid, number=7124):
    """A subscriber's URL is stored, and must not contain a password."""

    fact = "the subscriber's URL has a password, which would be stored: {url}"
    hint = "Omit the password: the agent reads it from PGPASSWORD or the password file (~/.pgpass)."
    url: str


class SubscriberNotCleared(RowtideError, number=7172):
    """A subscription's metadata could not be removed from the subscriber."""

    fact = "the subscription of {subscriber} to {publication} is paused, but not dropped: {reason}"
    hint = """Repeat the command when the subscriber is reachable, or continue delivery with `rowtide replication resume
        {publication} --subscriber {subscriber}`. If the subscriber no longer exists, use `rowtide replication
        drop-subscription {publication} --subscriber {subscriber} --ignore-subscriber`."""
    subscriber: str
    publication: str
    reason: str


class LsnNotKept(DataLoss, number=7134):
    """The log store does not have all changes from the requested LSN on."""

    fact = "the log store lacks changes from LSN {lsn} on: it has {low} to {position}"
    hint = """Let `rowtide replication run` read that its articles are published, and stop it before the copy ends,
        until the subscription is added; use a newer copy, or --sync-type automatic."""
    lsn: str
    low: str
    position: str


class NotAPromotedCopy(Invalid, number=7234):
    """The subscriber's history does not show where it diverged from the publisher's."""

    fact = "{subscriber} is not a promoted copy of the publisher: {reason}"
    hint = """Make the copy with `pg_basebackup --write-recovery-conf`, and promote it once it has the log; or use
        --sync-type automatic, or from-lsn."""
    subscriber: str
    reason: str


class LsnNotGiven(Invalid, number=7135):
    """An LSN is required with `from-lsn`, and only then."""

    fact = "sync type {sync_type} {needs} an LSN"
    hint = "Use --lsn with --sync-type from-lsn, and only with it."
    sync_type: str
    needs: str


class SettingOutOfRange(Invalid, number=7210):
    """A subscription's setting is outside its range."""

    fact = "{setting} cannot be {value}"
    hint = "Choose a number from {least} to {most}."
    setting: str
    value: int
    least: int
    most: int


class StreamsUnsupported(Invalid, number=7211):
    """A SQLite file has one writer at a time, so a batch cannot be divided among connections."""

    fact = "a SQLite file is delivered to over one connection, not {streams}: {path}"
    hint = "Use --streams 1; larger batches, with --commit-batch-size, make fewer transactions."
    path: str
    streams: int


class PreparedTransactionsLacking(Denied, number=7212):
    """More than one stream needs a prepared transaction for each (PostgreSQL: max_prepared_transactions)."""

    fact = "{streams} streams need {needed} prepared transactions at {subscriber}, which allows {allowed}"
    hint = """Run `alter system set max_prepared_transactions = {needed}` there and restart that server; or use
        --streams 1."""
    subscriber: str
    streams: int
    needed: int
    allowed: int


class ConstraintsFound(Invalid, number=7108):
    """The subscriber's cascades and triggers would repeat what the publisher's did, which is in its log too."""

    fact = "the subscriber has {found}, which would act on delivered changes"
    hint = "Choose --constraints enforce, or --constraints not-for-replication to disable them during delivery."
    found: str


class ReplicationRoleRefused(Denied, number=7109):
    """Constraints are disabled by session_replication_role = replica, which needs a privilege."""

    fact = "role {role} may not set session_replication_role at the subscriber"
    hint = """At the subscriber, run `grant set on parameter session_replication_role to {quoted}` as a superuser;
        before PostgreSQL 15 the role must be a superuser."""
    role: str
    quoted: str


class NameNotHeld(Invalid, number=2153):
    """The subscriber's encoding lacks a character of a published name."""

    fact = 'the subscriber\'s encoding, {encoding}, cannot hold the name "{name}" of {table}'
    hint = "Use a subscriber database with encoding UTF8, or rename the published table or column."
    encoding: str
    name: str
    table: str


class SubscriberUnprepared(NotFound, number=7112):
    """The subscriber has no record of the subscription: it was restored from an older backup, or is a different one."""

    fact = "the subscriber has no record of subscription {guid}"
    hint = "It may have been restored from an older backup. Drop the subscription and add it again."
    guid: str


class ArticleTableMissing(NotFound, number=7115):
    """Without a snapshot, the subscriber must already have the tables."""

    fact = "the subscriber has no table {table} with the published columns: {missing}"
    hint = "Create it there, with the publisher's rows."
    table: str
    missing: str


class SubscriberTableInUse(Retryable, number=7183):
    """Others use a subscriber's table that a schema change has to alter."""

    fact = """a table at subscriber {subscriber} is in use and cannot be altered as at the publisher: {reason}, by
        {holders}"""
    hint = "Delivery tries again by itself; end those transactions if this persists."
    subscriber: str
    reason: Said
    holders: str


class ProcedureUnfit(Invalid, number=7119):
    """A custom procedure does not exist, or has other parameters."""

    fact = "the subscriber has no procedure {procedure} that takes {operation}s: {reason}"
    hint = "Create it there: create procedure {procedure}({wanted})."
    procedure: str
    operation: str
    wanted: str
    reason: str


class ProcedureEndsTransaction(Invalid, number=7120):
    """A custom procedure must not end the batch's transaction."""

    fact = "procedure {procedure} ends its transaction: {word}"
    hint = "Remove that statement: the procedure's changes commit with the batch and the subscriber's progress."
    procedure: str
    word: str


class ProcedureTaken(AlreadyExists, number=7127):
    """The subscriber has a procedure of this name for another publisher's article, or of the user's own."""

    fact = "the subscriber has a procedure {procedure} that does not belong to this article of {table}"
    hint = """Use separate subscribers for two publishers' tables of the same name; drop the procedure if nothing uses
        it."""
    procedure: str
    table: str


class SubscriberTableExists(AlreadyExists, number=7132):
    """The subscriber has a table that the snapshot would create."""

    fact = "the subscriber already has a table {table}"
    hint = """Choose --if-exists keep, delete, truncate or drop; or --sync-type replication-support-only. For an article
        that joins subscriptions: `rowtide replication drop-article PUBLICATION {table}`, then `add-article` with
        --if-exists."""
    table: str


class SubscriberTablesUnfit(Invalid, number=7225):
    """Tables that the subscriber keeps cannot hold the published rows; all that is unfit is listed."""

    fact = "the subscriber's tables do not fit the published ones: {reasons}"
    hint = """Alter them there, or exclude columns with --columns. Foreign keys are not checked with --constraints
        not-for-replication. --if-exists drop lets rowtide create the tables."""
    reasons: str


class SubscriberTableBusy(RowtideError, number=7226):
    """A subscriber's own table is in use, so that its foreign keys and triggers cannot be switched off."""

    fact = "a table at subscriber {subscriber} is in use and cannot be prepared for the subscription: {reason}"
    hint = "End the subscriber's long transactions, or repeat the command at a quieter time: nothing has changed."
    subscriber: str
    reason: str


class RestorationRefused(RowtideError, number=7227):
    """The subscriber refuses to have back what was switched off during a copy."""

    fact = "the subscriber refuses `{statement}`, which was switched off during the copy ({sqlstate}): {reason}"
    hint = """Correct the rows, or empty the tables if their copy is to be abandoned, and repeat or resume. What is
        still switched off is listed in the subscriber's table rowtide_subscriber."MSrestorations"."""
    statement: str
    sqlstate: str
    reason: Said


class SubscriberLacks(NotFound, number=7228):
    """The subscriber lacks what published tables need and rowtide does not create; all of it is listed."""

    fact = "the subscriber lacks {objects}"
    hint = """Create them there; `pg_dump --schema-only` of the publisher has the statements of functions. Schemas,
        enums, domains, composite and range types and collations are created by rowtide."""
    objects: str


class ScriptRefused(RowtideError, number=7232):
    """A subscriber refuses a published view, function or procedure."""

    fact = "the subscriber refuses {kind} {name} ({sqlstate}): {reason}"
    hint = "Deliver everything first, or correct it there; then repeat the command."
    kind: str
    name: str
    sqlstate: str
    reason: str


class ProceduresMissing(NotFound, number=7136):
    """With sync type `none`, the subscriber must already have the procedures."""

    fact = "the subscriber has no procedure {procedure}"
    hint = """Run the output of `rowtide replication script-procedures PUBLICATION` there, or use --sync-type
        replication-support-only."""
    procedure: str


class SubscriberWithoutFile(Invalid, number=7141):
    """A SQLite subscriber must be a file: an in-memory database is lost with the process."""

    fact = "the subscriber's URL {url} does not name a file"
    hint = "Give the path of a database file: sqlite:///folder/file.db, or, absolute, sqlite:////folder/file.db."
    url: str


class ProceduresUnsupported(Invalid, number=7142):
    """SQLite has no procedures, so custom procedures cannot be called."""

    fact = "the subscriber is a SQLite file, which cannot have procedure {procedure} for {operation}s of {table}"
    hint = "Publish the table in another publication without custom procedures; a trigger there can replace them."
    procedure: str
    operation: str
    table: str


class NameShared(Invalid, number=7143):
    """Two published names are the same in a SQLite file, which has no schemas and ignores case."""

    fact = 'in the SQLite file, {first} and {second} would have the same name "{name}"'
    hint = """Use a separate file for one; leftovers of a lost subscription are in the file's table
        MSreplication_objects."""
    name: str
    first: str
    second: str


class ColumnAlters(Invalid, number=7144):
    """A SQLite column's declared type would change the published values."""

    fact = "column {column} of {table} is declared {declared} at the subscriber, which would change {published} values"
    hint = "Declare it {wanted}, or exclude it from the article with --columns."
    table: str
    column: str
    declared: str
    published: str
    wanted: str


class ConstraintsUnsupported(Invalid, number=7147):
    """In a SQLite file foreign keys are not enforced during delivery, and triggers cannot be disabled."""

    fact = "--constraints does not apply to SQLite file {path}: its triggers fire, its foreign keys are not enforced"
    hint = "Omit --constraints."
    path: str


class SubscriberFileFailed(Retryable, number=7145):
    """SQLite cannot write to the subscriber's file: the disk is full, or the file is read-only."""

    fact = "the subscriber's file {path} cannot be written ({code}): {reason}"
    hint = "Free disk space, or let this user write to the file and its directory; delivery then repeats the batch."
    path: str
    code: str
    reason: Said


class SubscriberFileUnusable(RowtideError, number=7182):
    """The subscriber's file is not a database, is damaged, or lacks rowtide's tables."""

    fact = "the subscriber's file {path} cannot be used ({code}): {reason}"
    hint = """If it is damaged, restore it from a backup: delivery resumes from the backup's position, if the log store
        has the later changes."""
    path: str
    code: str
    reason: Said


class SubscriberFileReplaced(Retryable, number=7146):
    """The file was replaced while it was open: further writes would go to the deleted file."""

    fact = "{path} was replaced by another file, or removed"
    hint = "Delivery opens the file again, and resumes from its position."
    path: str


class TableOwnerNotHeld(Denied, number=7190):
    """A table's triggers, defaults and checks run as its owner, which the agent's role must be able to act for."""

    fact = """table {table} at subscriber {subscriber} belongs to role {owner}, whose triggers, defaults and checks
        would run with the rights of role {role}, which is not a member of it"""
    hint = """At the subscriber, run `grant {quoted_owner} to {quoted_role}`; or name {owner} in the subscriber's URL;
        or say that the role is trusted by `--run-as agent`."""
    table: str
    owner: str
    role: str
    subscriber: str
    quoted_owner: str
    quoted_role: str


class OwnerTriggersDeferred(Denied, number=7191):
    """A deferred trigger can run code at the commit with the rights of the session."""

    fact = "the transaction would run code of another role with the agent's rights at its commit: {found}"
    hint = """Create the trigger or constraint again without `deferrable`, or say that the tables' owners are trusted by
        `--run-as agent`."""
    found: str


class ProcedureOwnerNotTrusted(Denied, number=7194):
    """A custom procedure belongs to a role that could replace it, and is neither the table's owner nor the agent."""

    fact = "procedure {procedure}, which delivers changes of {table}, belongs to role {owner}, which could replace it"
    hint = """Give it to the role of the subscriber's URL, `alter procedure {procedure} owner to ...`, or say that the
        role is trusted by `--run-as agent`."""
    procedure: str
    owner: str
    table: str


class PartitionsOfOthers(Denied, number=7195):
    """Code of a partition's owner would run with the rights of the table's owner, or of the agent."""

    fact = """table {table} at the subscriber is written with the rights of role {owner}, but partitions or descendants
        of it belong to {others}"""
    hint = """Give them to the table's owner, `alter table ... owner to`, or say that their owners are trusted by
        `--run-as agent`."""
    table: str
    owner: str
    others: str

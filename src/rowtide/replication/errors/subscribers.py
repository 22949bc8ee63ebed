"""Errors of what a subscriber has, or lacks: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, Retryable, RowtideError, numbered
from rowtide.core.row_values import Said


@numbered
class ConstraintsFound(Invalid):
    """The subscriber's cascades and triggers would repeat what the publisher's did, which is in its log too."""

    number = 7108
    fact = "the subscriber has {found}, which would act on delivered changes"
    hint = "Choose --constraints enforce, or --constraints not-for-replication to disable them during delivery."
    found: str


@numbered
class ReplicationRoleRefused(Denied):
    """Constraints are disabled by session_replication_role = replica, which needs a privilege."""

    number = 7109
    fact = "role {role} may not set session_replication_role at the subscriber"
    hint = (
        "At the subscriber, run `grant set on parameter session_replication_role to {quoted}` as a superuser; "
        "before PostgreSQL 15 the role must be a superuser."
    )
    role: str
    quoted: str


@numbered
class NameNotHeld(Invalid):
    """The subscriber's encoding lacks a character of a published name."""

    number = 2153
    fact = 'the subscriber\'s encoding, {encoding}, cannot hold the name "{name}" of {table}'
    hint = "Use a subscriber database with encoding UTF8, or rename the published table or column."
    encoding: str
    name: str
    table: str


@numbered
class SubscriberUnprepared(NotFound):
    """The subscriber has no record of the subscription: it was restored from an older backup, or is a different one."""

    number = 7112
    fact = "the subscriber has no record of subscription {guid}"
    hint = "It may have been restored from an older backup. Drop the subscription and add it again."
    guid: str


@numbered
class ArticleTableMissing(NotFound):
    """Without a snapshot, the subscriber must already have the tables."""

    number = 7115
    fact = "the subscriber has no table {table} with the published columns: {missing}"
    hint = "Create it there, with the publisher's rows."
    table: str
    missing: str


@numbered
class SubscriberTableInUse(Retryable):
    """Others use a subscriber's table that a schema change has to alter."""

    number = 7183
    fact = (
        "a table at subscriber {subscriber} is in use and cannot be altered as at the publisher: {reason}, by {holders}"
    )
    hint = "Delivery tries again by itself; end those transactions if it goes on."
    subscriber: str
    reason: Said
    holders: str


@numbered
class ProcedureUnfit(Invalid):
    """A custom procedure does not exist, or has other parameters."""

    number = 7119
    fact = "the subscriber has no procedure {procedure} that takes {operation}s: {reason}"
    hint = "Create it there: create procedure {procedure}({wanted})."
    procedure: str
    operation: str
    wanted: str
    reason: str


@numbered
class ProcedureEndsTransaction(Invalid):
    """A custom procedure must not end the batch's transaction."""

    number = 7120
    fact = "procedure {procedure} ends its transaction: {word}"
    hint = "Remove that statement: the procedure's changes commit with the batch and the subscriber's progress."
    procedure: str
    word: str


@numbered
class ProcedureTaken(AlreadyExists):
    """The subscriber has a procedure of this name for another publisher's article, or of the user's own."""

    number = 7127
    fact = "the subscriber has a procedure {procedure} that does not belong to this article of {table}"
    hint = (
        "Use separate subscribers for two publishers' tables of the same name; drop the procedure if nothing uses it."
    )
    procedure: str
    table: str


@numbered
class SubscriberTableExists(AlreadyExists):
    """The subscriber has a table that the snapshot would create."""

    number = 7132
    fact = "the subscriber already has a table {table}"
    hint = (
        "Choose --if-exists keep, delete, truncate or drop; or --sync-type replication-support-only. For an article "
        "that joins subscriptions: `rowtide replication drop-article PUBLICATION {table}`, then `add-article` with "
        "--if-exists."
    )
    table: str


@numbered
class SubscriberTablesUnfit(Invalid):
    """Tables that the subscriber keeps do not take the published rows; all that is unfit is listed."""

    number = 7225
    fact = "the subscriber's tables do not fit the published ones: {reasons}"
    hint = (
        "Alter them there, or leave columns out with --columns. Foreign keys are not checked with --constraints "
        "not-for-replication. --if-exists drop lets rowtide create the tables."
    )
    reasons: str


@numbered
class SubscriberTableBusy(RowtideError):
    """A subscriber's own table is in use, so that its foreign keys and triggers cannot be switched off."""

    number = 7226
    fact = "a table at subscriber {subscriber} is in use and cannot be prepared for the subscription: {reason}"
    hint = "End the subscriber's long transactions, or repeat the command at a quieter time: nothing has changed."
    subscriber: str
    reason: str


@numbered
class RestorationRefused(RowtideError):
    """The subscriber refuses to have back what was switched off during a copy."""

    number = 7227
    fact = "the subscriber refuses `{statement}`, which was switched off during the copy ({sqlstate}): {reason}"
    hint = (
        "Correct the rows, or empty the tables if their copy is to be given up, and repeat or resume. "
        'What is still switched off is listed in the subscriber\'s table rowtide_subscriber."MSrestorations".'
    )
    statement: str
    sqlstate: str
    reason: Said


@numbered
class SubscriberLacks(NotFound):
    """The subscriber lacks what published tables need and rowtide does not create; all of it is listed."""

    number = 7228
    fact = "the subscriber lacks {objects}"
    hint = (
        "Create them there; `pg_dump --schema-only` of the publisher has the statements of functions. Schemas, enums, "
        "domains, composite and range types and collations are created by rowtide."
    )
    objects: str


@numbered
class ScriptRefused(RowtideError):
    """A subscriber refuses a published view, function or procedure."""

    number = 7232
    fact = "the subscriber refuses {kind} {name} ({sqlstate}): {reason}"
    hint = "Deliver everything first, or correct it there; then repeat the command."
    kind: str
    name: str
    sqlstate: str
    reason: str


@numbered
class ProceduresMissing(NotFound):
    """With sync type `none`, the subscriber must already have the procedures."""

    number = 7136
    fact = "the subscriber has no procedure {procedure}"
    hint = (
        "Run the output of `rowtide replication script-procedures PUBLICATION` there, or use --sync-type "
        "replication-support-only."
    )
    procedure: str


@numbered
class SubscriberWithoutFile(Invalid):
    """A SQLite subscriber must be a file: an in-memory database is lost with the process."""

    number = 7141
    fact = "the subscriber's URL {url} does not name a file"
    hint = "Give the path of a database file: sqlite:///folder/file.db, or, absolute, sqlite:////folder/file.db."
    url: str


@numbered
class ProceduresUnsupported(Invalid):
    """SQLite has no procedures, so custom procedures cannot be called."""

    number = 7142
    fact = "the subscriber is a SQLite file, which cannot have procedure {procedure} for {operation}s of {table}"
    hint = "Publish the table in another publication without custom procedures; a trigger there can replace them."
    procedure: str
    operation: str
    table: str


@numbered
class NameShared(Invalid):
    """Two published names are the same in a SQLite file, which has no schemas and ignores case."""

    number = 7143
    fact = 'in the SQLite file, {first} and {second} would have the same name "{name}"'
    hint = (
        "Use a separate file for one; leftovers of a lost subscription are in the file's table MSreplication_objects."
    )
    name: str
    first: str
    second: str


@numbered
class ColumnAlters(Invalid):
    """A SQLite column's declared type would change the published values."""

    number = 7144
    fact = "column {column} of {table} is declared {declared} at the subscriber, which would change {published} values"
    hint = "Declare it {wanted}, or leave it out of the article with --columns."
    table: str
    column: str
    declared: str
    published: str
    wanted: str


@numbered
class ConstraintsUnsupported(Invalid):
    """In a SQLite file foreign keys are not enforced during delivery, and triggers cannot be disabled."""

    number = 7147
    fact = "--constraints does not apply to SQLite file {path}: its triggers fire, its foreign keys are not enforced"
    hint = "Omit --constraints."
    path: str


@numbered
class SubscriberFileFailed(Retryable):
    """SQLite cannot write to the subscriber's file: the disk is full, or the file is read-only."""

    number = 7145
    fact = "the subscriber's file {path} cannot be written ({code}): {reason}"
    hint = "Free disk space, or let this user write to the file and its directory; delivery then repeats the batch."
    path: str
    code: str
    reason: Said


@numbered
class SubscriberFileUnusable(RowtideError):
    """The subscriber's file is not a database, is damaged, or lacks rowtide's tables."""

    number = 7182
    fact = "the subscriber's file {path} cannot be used ({code}): {reason}"
    hint = (
        "If it is damaged, restore it from a backup: delivery resumes from the backup's position, "
        "if the log store has the later changes."
    )
    path: str
    code: str
    reason: Said


@numbered
class SubscriberFileReplaced(Retryable):
    """The file was replaced while it was open: further writes would go to the deleted file."""

    number = 7146
    fact = "{path} was replaced by another file, or removed"
    hint = "Delivery opens the file again, and resumes from its position."
    path: str

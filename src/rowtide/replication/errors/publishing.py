"""Errors of publications, their articles and filters: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError
from rowtide.core.redaction import Said
from rowtide.log.errors import DatabaseNotEnabled


class CommandInvalid(Invalid, number=7101):
    """The operation has no such call format."""

    fact = '"{text}" is not a call format for {operation}s'
    hint = "Use one of {formats}; a custom procedure's name may follow a call format."
    text: str
    operation: str
    formats: str


class DatabaseNotPublished(DatabaseNotEnabled, number=14013):
    """Nothing is published in the database, nor captured (SQL Server: 14013)."""

    fact = "database {database} is not enabled for publication"
    hint = """Run `rowtide replication add-publication NAME --lake PATH` first. --db or ROWTIDE_DB names the publisher's
        database."""


class ArticleNeedsKey(Invalid, number=14088):
    """Updates and deletes find their row by its primary key (SQL Server: 14088)."""

    fact = "table {table} has no primary key, which updates and deletes need to find their rows"
    hint = "Add a primary key, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


class KeyCheckedLate(Invalid, number=7165):
    """A deferrable key may be duplicated for a while: an update or a delete would find two rows."""

    fact = "the primary key of {table} is deferrable: within a transaction two rows may have the same key"
    hint = "Recreate it without `deferrable`, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


class KeyGenerated(Invalid, number=20550):
    """Generated columns are not published: the log may lack them, and a subscriber computes them itself."""

    fact = "the primary key of {table} has the generated column {column}, and generated columns are not published"
    hint = "Give it a key of other columns, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str
    column: str


class TableNotPublishable(Invalid, number=7102):
    """Only tables whose rows are logged can be articles."""

    fact = "{table} is of kind {kind}, which cannot be published"
    hint = "Publish ordinary or partitioned tables."
    table: str
    kind: str


class PartitionNotPublishable(Invalid, number=7215):
    """Rows of a partition are not in the log, so subscribers would lack its changes."""

    fact = "partitioned table {table} cannot be published: its partition {partition} is {kind}"
    hint = "Make it an ordinary, logged table, or detach it."
    table: str
    partition: str
    kind: str


class PublishedColumnUnknown(NotFound, number=7103):
    """A listed column is not in the table, or is generated."""

    fact = "table {table} has no column {column} that can be published"
    hint = "List only stored columns of the table; generated ones are computed again at the subscriber."
    table: str
    column: str


class PublishedColumnListedTwice(Invalid, number=7104):
    """A column list names a column twice."""

    fact = "the column list of {table} names {column} twice"
    hint = "Name it once."
    table: str
    column: str


class PublishedKeyColumnMissing(Invalid, number=7105):
    """A column list must contain the key's columns."""

    fact = "the column list of {table} excludes key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


class ImagesNeeded(Invalid, number=7106):
    """A command needs values that the log does not always carry."""

    fact = "{need} needs all values of {table}, which the log does not always carry with --before-images key"
    hint = "Omit --before-images, or use SCALL and no row filter."
    table: str
    need: str


class ColumnNotLogged(RowtideError, number=7107):
    """A published column is no longer in the table."""

    fact = "the log of {table} no longer contains the published columns {columns}"
    hint = "Drop the article and add it again, then reinitialize its subscriptions."
    table: str
    columns: str


class PublicationUnknown(NotFound, number=20026):
    """There is no publication of this name (SQL Server: 20026)."""

    fact = "the publication {publication} does not exist"
    hint = "`rowtide replication publications` lists them."
    publication: str


class PublicationExists(AlreadyExists, number=14016):
    """Publication names are unique (SQL Server: 14016)."""

    fact = "the publication {publication} already exists"
    hint = "Choose another name, or drop it first."
    publication: str


class ArticleExists(AlreadyExists, number=14030):
    """A table can be an article of a publication only once (SQL Server: 14030)."""

    fact = "publication {publication} already has article {article}"
    hint = "Drop it first, or add it to another publication."
    article: str
    publication: str


class CustomScriptInvalid(Invalid, number=7262):
    """A custom script is empty or misnamed."""

    fact = "{script} is not a custom script: {reason}"
    hint = "Give a file with SQL statements (--sql FILE), or a Python function (--python module:function)."
    script: str
    reason: str


class PublishedTableAltered(Invalid, number=7184):
    """A published table was altered so that its article no longer fits it."""

    fact = "published table {table} was altered: {change}"
    hint = "Drop the article and add it again."
    table: str
    change: str


class PublicationSubscribed(Denied, number=14005):
    """A publication with subscriptions cannot be dropped (SQL Server: 14005)."""

    fact = "publication {publication} has subscriptions"
    hint = "Drop them first with `rowtide replication drop-subscription {publication} --subscriber URL`."
    publication: str


class ArticleUnknown(NotFound, number=20027):
    """There is no such article (SQL Server: 20027)."""

    fact = "the article {article} does not exist in {where}"
    hint = "Name a published table, as schema.table."
    article: str
    where: str

    @classmethod
    def of(cls, article: str, publication: str | None) -> ArticleUnknown:
        """Return the error of a publication, or of all."""
        return cls(article, "any publication" if publication is None else f"publication {publication}")


class ArticleTooWide(Invalid, number=7125):
    """A custom procedure would need more parameters than PostgreSQL allows."""

    fact = "{command} of {table} needs {count} parameters, a procedure takes {limit}"
    hint = "Publish fewer columns with --columns, or use rowtide's own procedures, which take rows as arrays."
    table: str
    command: str
    count: int
    limit: int


class PartitionImagesVary(Invalid, number=7126):
    """Each partition has its own replica identity, so that the old values in the log may differ."""

    fact = "{need} needs all values of {table}, which the log does not always carry for partitions"
    hint = "Use SCALL or NONE for updates, CALL or NONE for deletes, and no row filter."
    table: str
    need: str


class ImagesLackKey(Invalid, number=7293):
    """PostgreSQL refuses updates and deletes of a published table whose rows nothing identifies."""

    fact = """no primary key identifies the rows of {table}: with --before-images key the server would refuse updates
        and deletes there"""
    hint = "Omit --before-images, or give the table a primary key that is not deferrable."
    table: str


class VirtualColumnPublished(Invalid, number=7292):
    """PostgreSQL refuses updates and deletes of a table with a virtual column under a full replica identity."""

    fact = "{need} needs whole old rows of {table}, and the server would refuse its updates: column {column} is virtual"
    hint = """Use SCALL or NONE for updates, CALL or NONE for deletes, and no row filter; or make the column `stored`. A
        table without a primary key needs one."""
    table: str
    column: str
    need: str


class NothingReadsLog(NotFound, number=7153):
    """The log reader needs a directory for the log store."""

    fact = "database {database} has no directory for its log store, so its log is not read yet"
    hint = """Give a directory with `--lake PATH` or `--log-store PATH`; or enable capture too, with `rowtide cdc
        enable-db --lake PATH`."""
    database: str


class CaptureReadsLog(Denied, number=7155):
    """Change data capture reads the same log, and would lose changes too."""

    fact = "change data capture reads the same log, and would lose changes too"
    hint = """Run `rowtide cdc reinitialize --difference`: subscriptions to captured tables continue. For others, drop
        the publications, run `rowtide cdc reinitialize`, and publish again."""


class LogStoreElsewhere(Invalid, number=7154):
    """A database has one log store."""

    fact = "the log store of database {database} is {recorded}, not {wanted}"
    hint = "Omit --lake and --log-store: all publications share the log store."
    database: str
    recorded: str
    wanted: str


class FilterMalformed(Invalid, number=7121):
    """A row filter is outside the filter language; `place` is the character, from 1."""

    fact = "the row filter {filter_text} is refused at character {place}: {reason}"
    hint = "Compare columns with literals by =, <>, <, <=, >, >=, in, between, is null; combine with and, or, not."
    filter_text: str
    place: int
    reason: str


class FilterTypeInexact(Invalid, number=7122):
    """A row filter compares values of a type whose text form does not determine the server's comparison."""

    fact = "the row filter {filter_text} is refused at character {place}: {column} is {type_text}, and {reason}"
    hint = "Filter by a column of an exact type, which a trigger can maintain."
    filter_text: str
    place: int
    column: str
    type_text: str
    reason: str


class FilterColumnUnpublished(Invalid, number=7123):
    """A row filter may name only published columns (as in SQL Server)."""

    fact = "the row filter {filter_text} names {column} at character {place}, which is not a published column"
    hint = "Publish the column, or remove it from the filter. Unquoted names are folded to lower case."
    filter_text: str
    place: int
    column: str


class ChangeRefused(Invalid, number=7201):
    """The subscriber refuses the procedures of an article that was changed."""

    fact = "table {table} was changed in its publication, which the subscriber refuses: {reason}"
    hint = """Remove the cause and run `rowtide replication resume PUBLICATION`, or change the article with
        `change-article`."""
    table: str
    reason: Said


class SchemaArticleUsesUnpublished(Invalid, number=7229):
    """A view or function uses what its publication lacks, so that a subscriber could not create it."""

    fact = "{kind} {name} uses {missing}, which the publication does not have"
    hint = "Add that first, in order of dependency."
    kind: str
    name: str
    missing: str


class ObjectNotFound(NotFound, number=7230):
    """There is no object of the given type."""

    fact = "there is no {kind} {name} in this database"
    hint = "Write it as schema.name, a function with the types of its parameters: public.tax(numeric, text)."
    kind: str
    name: str


class ExecutionsNotLogged(Invalid, number=7231):
    """Executions of procedures cannot be published (SQL Server: proc exec)."""

    fact = """executions of {name} cannot be published: PostgreSQL's log has the rows that a procedure wrote, not its
        call"""
    hint = "Publish the tables that it writes; `--type procedure` publishes its text."
    name: str


class UpdatableCallRefused(Invalid, number=7233):
    """VCALL belongs to updatable subscriptions, which do not exist here."""

    fact = "VCALL is refused: it writes a subscriber's changes back to the publisher, for updatable subscriptions"
    hint = "Let two databases publish to each other, or use merge replication. For updates here: SCALL."


class SchemaEmpty(NotFound, number=7276):
    """A schema that is to be published has no tables, views or functions."""

    fact = "schema {schema} has nothing that could be published"
    hint = "Write its name as the catalogue has it; what belongs to extensions is not published."
    schema: str


class ArticlesNotAdded(RowtideError, number=7277):
    """Some objects of a schema are not published; the others are."""

    fact = "{count} of {total} objects of schema {schema} could not be published in {publication}"
    hint = "The list says why. Remove the causes and repeat the command: objects that are already published stay."
    schema: str
    publication: str
    count: int
    total: int


class PublicationBeingDropped(RowtideError, number=7289):
    """Nothing can be added to a publication while it is dropped."""

    fact = "publication {publication} is being dropped"
    hint = "Once that has ended, add it again with `rowtide replication add-publication {publication}`."
    publication: str


class SubscriptionBeingAdded(RowtideError, number=7284):
    """While a subscription is added, which begins with all articles, they cannot change."""

    fact = "a subscription to publication {publication} is being added"
    hint = "Repeat the command once that has ended; the subscription begins with the articles that there were."
    publication: str

"""Errors of publications, their articles and filters: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError, numbered
from rowtide.core.row_values import Said
from rowtide.log.errors import DatabaseNotEnabled


@numbered
class CommandInvalid(Invalid):
    """The operation has no such call format."""

    number = 7101
    fact = '"{text}" is not a call format for {operation}s'
    hint = "Use one of {formats}; a custom procedure's name may follow a call format."
    text: str
    operation: str
    formats: str


@numbered
class DatabaseNotPublished(DatabaseNotEnabled):
    """Nothing is published in the database, nor captured (SQL Server: 14013)."""

    number = 14013
    fact = "database {database} is not enabled for publication"
    hint = (
        "Run `rowtide replication add-publication NAME --lake PATH` first. --db or ROWTIDE_DB names the publisher's "
        "database."
    )


@numbered
class ArticleNeedsKey(Invalid):
    """Updates and deletes find their row by its primary key (SQL Server: 14088)."""

    number = 14088
    fact = "table {table} has no primary key, which updates and deletes need to find their rows"
    hint = "Add a primary key, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


@numbered
class KeyCheckedLate(Invalid):
    """A deferrable key may be duplicated for a while: an update or a delete would find two rows."""

    number = 7165
    fact = "the primary key of {table} is deferrable: within a transaction two rows may have the same key"
    hint = "Recreate it without `deferrable`, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


@numbered
class TableNotPublishable(Invalid):
    """Only tables whose rows are logged can be articles."""

    number = 7102
    fact = "{table} is of kind {kind}, which cannot be published"
    hint = "Publish ordinary or partitioned tables."
    table: str
    kind: str


@numbered
class PublishedColumnUnknown(NotFound):
    """A listed column is not in the table, or is generated."""

    number = 7103
    fact = "table {table} has no column {column} that can be published"
    hint = "List only stored columns of the table; generated ones are computed again at the subscriber."
    table: str
    column: str


@numbered
class PublishedColumnListedTwice(Invalid):
    """A column list names a column twice."""

    number = 7104
    fact = "the column list of {table} names {column} twice"
    hint = "Name it once."
    table: str
    column: str


@numbered
class PublishedKeyColumnMissing(Invalid):
    """A column list must contain the key's columns."""

    number = 7105
    fact = "the column list of {table} leaves out key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


@numbered
class ImagesNeeded(Invalid):
    """A command needs values that the log does not always carry."""

    number = 7106
    fact = "{need} needs all values of {table}, which the log does not always carry with --before-images key"
    hint = "Omit --before-images, or use SCALL and no row filter."
    table: str
    need: str


@numbered
class ColumnNotLogged(RowtideError):
    """A published column is no longer in the table."""

    number = 7107
    fact = "the log of {table} no longer contains the published columns {columns}"
    hint = "Drop the article and add it again, then reinitialize its subscriptions."
    table: str
    columns: str


@numbered
class PublicationUnknown(NotFound):
    """There is no publication of this name (SQL Server: 20026)."""

    number = 20026
    fact = "the publication {publication} does not exist"
    hint = "`rowtide replication publications` lists them."
    publication: str


@numbered
class PublicationExists(AlreadyExists):
    """Publication names are unique (SQL Server: 14016)."""

    number = 14016
    fact = "the publication {publication} already exists"
    hint = "Choose another name, or drop it first."
    publication: str


@numbered
class ArticleExists(AlreadyExists):
    """A table can be an article of a publication only once (SQL Server: 14030)."""

    number = 14030
    fact = "publication {publication} already has article {article}"
    hint = "Drop it first, or add it to another publication."
    article: str
    publication: str


@numbered
class CustomScriptInvalid(Invalid):
    """A custom script is empty or misnamed."""

    number = 7262
    fact = "{script} is no custom script: {reason}"
    hint = "Give a file with SQL statements (--sql FILE), or a Python function (--python module:function)."
    script: str
    reason: str


@numbered
class PublishedTableAltered(Invalid):
    """A published table was altered so that its article no longer fits it."""

    number = 7184
    fact = "published table {table} was altered: {change}"
    hint = "Drop the article and add it again."
    table: str
    change: str


@numbered
class PublicationSubscribed(Denied):
    """A publication with subscriptions cannot be dropped (SQL Server: 14005)."""

    number = 14005
    fact = "publication {publication} has subscriptions"
    hint = "Drop them first with `rowtide replication drop-subscription {publication} --subscriber URL`."
    publication: str


@numbered
class ArticleUnknown(NotFound):
    """There is no such article (SQL Server: 20027)."""

    number = 20027
    fact = "the article {article} does not exist in {where}"
    hint = "Name a published table, as schema.table."
    article: str
    where: str

    @classmethod
    def of(cls, article: str, publication: str | None) -> ArticleUnknown:
        """Return the error of a publication, or of all."""
        return cls(article, "any publication" if publication is None else f"publication {publication}")


@numbered
class ArticleTooWide(Invalid):
    """A custom procedure would need more parameters than PostgreSQL allows."""

    number = 7125
    fact = "{command} of {table} needs {count} parameters, a procedure takes {limit}"
    hint = "Publish fewer columns with --columns, or use rowtide's own procedures, which take rows as arrays."
    table: str
    command: str
    count: int
    limit: int


@numbered
class PartitionImagesVary(Invalid):
    """Each partition has its own replica identity, so that the old values in the log may differ."""

    number = 7126
    fact = "{need} needs all values of {table}, which the log does not always carry for partitions"
    hint = "Use SCALL or NONE for updates, CALL or NONE for deletes, and no row filter."
    table: str
    need: str


@numbered
class ImagesLackKey(Invalid):
    """PostgreSQL refuses updates and deletes of a published table whose rows nothing identifies."""

    number = 7293
    fact = (
        "no primary key identifies the rows of {table}: with --before-images key the server would refuse updates and "
        "deletes there"
    )
    hint = "Omit --before-images, or give the table a primary key that is not deferrable."
    table: str


@numbered
class VirtualColumnPublished(Invalid):
    """PostgreSQL refuses updates and deletes of a table with a virtual column under a full replica identity."""

    number = 7292
    fact = "{need} needs whole old rows of {table}, and the server would refuse its updates: column {column} is virtual"
    hint = (
        "Use SCALL or NONE for updates, CALL or NONE for deletes, and no row filter; or make the column `stored`. A "
        "table without a primary key needs one."
    )
    table: str
    column: str
    need: str


@numbered
class NothingReadsLog(NotFound):
    """The log reader needs a directory for the log store."""

    number = 7153
    fact = "database {database} has no directory for its log store, so its log is not read yet"
    hint = (
        "Give a directory with `--lake PATH` or `--log-store PATH`; or enable capture too, with "
        "`rowtide cdc enable-db --lake PATH`."
    )
    database: str


@numbered
class CaptureReadsLog(Denied):
    """Change data capture reads the same log, and would lose changes too."""

    number = 7155
    fact = "change data capture reads the same log, and would lose changes too"
    hint = (
        "Run `rowtide cdc reinitialize --difference`: subscriptions to captured tables go on. For others, drop the "
        "publications, run `rowtide cdc reinitialize`, and publish again."
    )


@numbered
class LogStoreElsewhere(Invalid):
    """A database has one log store."""

    number = 7154
    fact = "the log store of database {database} is {recorded}, not {wanted}"
    hint = "Omit --lake and --log-store: all publications share the log store."
    database: str
    recorded: str
    wanted: str


@numbered
class FilterMalformed(Invalid):
    """A row filter is outside the filter language; `place` is the character, from 1."""

    number = 7121
    fact = "the row filter {filter_text} is refused at character {place}: {reason}"
    hint = "Compare columns with literals by =, <>, <, <=, >, >=, in, between, is null; combine with and, or, not."
    filter_text: str
    place: int
    reason: str


@numbered
class FilterTypeInexact(Invalid):
    """A row filter compares values of a type whose text form does not determine the server's comparison."""

    number = 7122
    fact = "the row filter {filter_text} is refused at character {place}: {column} is {type_text}, and {reason}"
    hint = "Filter by a column of an exact type, which a trigger can maintain."
    filter_text: str
    place: int
    column: str
    type_text: str
    reason: str


@numbered
class FilterColumnUnpublished(Invalid):
    """A row filter may name only published columns (as in SQL Server)."""

    number = 7123
    fact = "the row filter {filter_text} names {column} at character {place}, which is not a published column"
    hint = "Publish the column, or remove it from the filter. Unquoted names are folded to lower case."
    filter_text: str
    place: int
    column: str


@numbered
class ChangeRefused(Invalid):
    """The subscriber refuses the procedures of an article that was changed."""

    number = 7201
    fact = "table {table} was changed in its publication, which the subscriber refuses: {reason}"
    hint = (
        "Remove the cause and run `rowtide replication resume PUBLICATION`, or change the article with "
        "`change-article`."
    )
    table: str
    reason: Said


@numbered
class SchemaArticleUsesUnpublished(Invalid):
    """A view or function uses what its publication lacks, so that a subscriber could not create it."""

    number = 7229
    fact = "{kind} {name} uses {missing}, which the publication does not have"
    hint = "Add that first, in order of dependency."
    kind: str
    name: str
    missing: str


@numbered
class ObjectNotFound(NotFound):
    """There is no object of the given type."""

    number = 7230
    fact = "there is no {kind} {name} in this database"
    hint = "Write it as schema.name, a function with the types of its parameters: public.tax(numeric, text)."
    kind: str
    name: str


@numbered
class ExecutionsNotLogged(Invalid):
    """Executions of procedures cannot be published (SQL Server: proc exec)."""

    number = 7231
    fact = (
        "executions of {name} cannot be published: PostgreSQL's log has the rows that a procedure wrote, not its call"
    )
    hint = "Publish the tables that it writes; `--type procedure` publishes its text."
    name: str


@numbered
class UpdatableCallRefused(Invalid):
    """VCALL belongs to updatable subscriptions, which do not exist here."""

    number = 7233
    fact = "VCALL is refused: it writes a subscriber's changes back to the publisher, for updatable subscriptions"
    hint = "Let two databases publish to each other, or use merge replication. For updates here: SCALL."


@numbered
class SchemaEmpty(NotFound):
    """A schema that is to be published has no tables, views or functions."""

    number = 7276
    fact = "schema {schema} has nothing that could be published"
    hint = "Write its name as the catalogue has it; what belongs to extensions is not published."
    schema: str


@numbered
class ArticlesNotAdded(RowtideError):
    """Some objects of a schema are not published; the others are."""

    number = 7277
    fact = "{count} of {total} objects of schema {schema} could not be published in {publication}"
    hint = "The list says why. Mend that, and repeat the command: those that are published already are skipped."
    schema: str
    publication: str
    count: int
    total: int


@numbered
class PublicationBeingDropped(RowtideError):
    """Nothing can be added to a publication while it is dropped."""

    number = 7289
    fact = "publication {publication} is being dropped"
    hint = "Once that has ended, add it again with `rowtide replication add-publication {publication}`."
    publication: str


@numbered
class SubscriptionBeingAdded(RowtideError):
    """While a subscription is added, which begins with all articles, they cannot change."""

    number = 7284
    fact = "a subscription to publication {publication} is being added"
    hint = "Repeat the command once that has ended; the subscription begins with the articles that there were."
    publication: str

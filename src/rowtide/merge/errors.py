"""Errors of merge replication, 8001 and up."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered


@numbered
class MergePublicationUnknown(NotFound):
    """There is no such publication for merging here."""

    number = 8002
    fact = "there is no merge publication {name} in this database"
    hint = "See `rowtide merge status`; make one with `rowtide merge add-publication`."
    name: str


@numbered
class ArticleTableNotFound(NotFound):
    """The table that is to be merged is not there."""

    number = 8003
    fact = "there is no table {name} in this database"
    hint = "Write it as the database does; views and temporary tables cannot be merged."
    name: str


@numbered
class MergeKeyMissing(Invalid):
    """A merged table needs a primary key."""

    number = 8004
    fact = "table {name} has no primary key"
    hint = "Give it one: rows are identified by the key at the other nodes."
    name: str


@numbered
class UnsupportedColumnType(Invalid):
    """The subscriber cannot have a column's values."""

    number = 8005
    fact = "column {column} of {table} is of type {type_text}, which the subscriber does not have"
    hint = "Make the type there, and add the subscription again."
    table: str
    column: str
    type_text: str


@numbered
class NodeBusy(Retryable):
    """Others wrote the same rows, or kept the database locked."""

    number = 8006
    fact = "{node} was written by others at the same time: {reason}"
    hint = "The synchronisation is tried again; if it comes back, run it at a quieter time."
    node: str
    reason: str


@numbered
class RowsRefused(RowtideError):
    """A node does not take rows as they are: a constraint, a trigger of its own, a value that its type has not."""

    number = 8007
    fact = "{table} does not take a row ({code}): {reason}"
    hint = "See `rowtide merge conflicts`; the row is tried again at each synchronisation."
    table: str
    code: str
    reason: str


@numbered
class ResolverUnknown(NotFound):
    """What is written for --resolver is none."""

    number = 8008
    fact = 'there is no resolver "{resolver}" for {article}'
    hint = "Name one of these, with a column of the article where one is asked for: {known}."
    resolver: str
    article: str
    known: str


@numbered
class SessionReplaced(RowtideError):
    """Another synchronisation of the same subscription has begun."""

    number = 8009
    fact = "another synchronisation of {subscriber} has begun, and this one ends"
    hint = "Let one run at a time; what was exchanged stays, and nothing has to be done."
    subscriber: str


@numbered
class MergePublicationExists(AlreadyExists):
    """A publication's name is taken."""

    number = 8010
    fact = "there is a merge publication {name} in this database already"
    hint = "Choose another name, or drop it first with `rowtide merge drop-publication`."
    name: str


@numbered
class RowguidUnfit(Invalid):
    """The table has a column rowguid that cannot identify rows."""

    number = 1023
    fact = "table {table} has a column rowguid, {reason}"
    hint = "Rename the column: merging gives a table its own rowguid, a UUID for each row."
    table: str
    reason: str


@numbered
class MergeArticleExists(AlreadyExists):
    """The table is in the publication already, or merged with other options."""

    number = 8011
    fact = "table {table} is merged already: {reason}"
    hint = "Drop the article first, or publish it with the same options."
    table: str
    reason: str


@numbered
class MergeArticleUnknown(NotFound):
    """There is no such article."""

    number = 8012
    fact = "publication {publication} has no article {article}"
    hint = "See `rowtide merge status`."
    publication: str
    article: str


@numbered
class MergeSubscriptionUnknown(NotFound):
    """The database does not subscribe to the publication, as far as one of both knows."""

    number = 8013
    fact = "{subscriber} does not subscribe to {publication}"
    hint = "Add it with `rowtide merge add-subscription`; if it did before, its subscription was dropped at one end."
    subscriber: str
    publication: str


@numbered
class MergeSubscriptionExists(AlreadyExists):
    """The database subscribes already."""

    number = 8014
    fact = "{subscriber} subscribes to {publication} already"
    hint = "Synchronise it with `rowtide merge sync`, or drop it first."
    subscriber: str
    publication: str


@numbered
class SubscriptionsLeft(Denied):
    """What subscribers have cannot be altered under them."""

    number = 8015
    fact = "publication {publication} has subscribers: {subscribers}"
    hint = "Drop their subscriptions first; articles are added and dropped before anybody subscribes."
    publication: str
    subscribers: str


@numbered
class SubscriberHasTable(AlreadyExists):
    """The snapshot makes its tables."""

    number = 8016
    fact = "the subscriber has a table {table} already"
    hint = "Drop or rename it there: the subscription makes it, with its rows, constraints and triggers."
    table: str


@numbered
class NodeRestored(DataLoss):
    """One of both ends is not what it was when they met last: restored from a backup, or a copy of another."""

    number = 8017
    fact = "{subscriber} and the publisher did not part as they meet now: one was restored, or copied from another"
    hint = (
        "If this one stays, begin anew: `rowtide merge reinitialize`, without --upload-first; save first what only the "
        "subscriber has. A mere copy of the publisher lets go: `rowtide merge drop-subscription --ignore-subscriber`."
    )
    subscriber: str


@numbered
class NodeCopied(RowtideError):
    """A node is a copy of another database, which is still there."""

    number = 8032
    fact = "database {database} has the merge metadata of {original}, of which it is a copy"
    hint = (
        "Its subscriptions are the original's: a copied publisher lets go of them with `rowtide merge "
        "drop-subscription --ignore-subscriber`. If this one stays in the original's place, begin anew: `rowtide merge "
        "reinitialize`, without --upload-first."
    )
    database: str
    original: str


@numbered
class FilterRefused(Invalid):
    """A filter is not in the language of filters, or the hub does not judge it from a row alone."""

    number = 8024
    fact = "the filter {condition} of {article} is refused: {reason}"
    hint = "Write a condition over the article's columns, host_name() and suser_name(), without subqueries or the time."
    article: str
    condition: str
    reason: str


@numbered
class StoredFilterRefused(Invalid):
    """A filter that an earlier build took is none that this one reads."""

    number = 8030
    fact = "the filter {condition} of {article} was taken by an earlier build, and is refused: {reason}"
    hint = (
        "Write it anew with `rowtide merge change-article`; "
        "then `rowtide merge reinitialize --upload-first` each subscriber."
    )
    article: str
    condition: str
    reason: str


@numbered
class FiltersChanged(RowtideError):
    """A subscriber has the rows of filters that the publisher has no more."""

    number = 8031
    fact = "{subscriber} was filled when the filters of {articles} said something else"
    hint = "Run `rowtide merge reinitialize --upload-first` for it: what only it has goes up, then it is filled anew."
    subscriber: str
    articles: str


@numbered
class PartitionValueMissing(Invalid):
    """A filter asks for a value that the subscription does not give."""

    number = 8025
    fact = "publication {publication} is filtered by {function}(), and the subscription gives none"
    hint = "Add {option}: it is kept with the subscription, wherever its agent runs."
    publication: str
    function: str
    option: str


@numbered
class JoinFilterRefused(Invalid):
    """A join filter does not fit into the publication."""

    number = 8026
    fact = "{child} cannot be filtered by {parent}: {reason}"
    hint = "A join filter has one level: the parent is an article with a row filter, or none, of the same publication."
    child: str
    parent: str
    reason: str


@numbered
class RowOutsidePartition(RowsRefused):
    """A subscriber has put a row where it may not."""

    number = 8027
    fact = "{table} does not take a row ({code}): {reason}"
    hint = "With --partition-options 3 a subscriber's rows stay in its partition; see `rowtide merge conflicts`."


@numbered
class HandlerFailed(RowtideError):
    """What a publisher's own handler has raised, or returned, ends the synchronisation."""

    number = 8028
    fact = "{handler} failed in {method}, asked about a row of {article}: {reason}"
    hint = "Mend the handler, and synchronise again: nothing of the row's batch was written."
    handler: str
    method: str
    article: str
    reason: str


@numbered
class MergedTableAltered(RowtideError):
    """A table is not what was published, or its changes are not tracked any more."""

    number = 8029
    fact = "table {table} of {node} was altered: {reason}"
    hint = "Put back what is missing, then `rowtide merge reinitialize` each subscriber, which makes triggers anew."
    node: str
    table: str
    reason: str


@numbered
class ConflictUnknown(NotFound):
    """No conflict of this id is kept."""

    number = 8019
    fact = "there is no conflict {conflict_id} in this database"
    hint = "See `rowtide merge conflicts`."
    conflict_id: str


@numbered
class ConflictNotAtHub(Denied):
    """Conflicts are decided at the publisher."""

    number = 8020
    fact = "conflict {conflict_id} is kept here, but this database is a subscriber"
    hint = "Resolve it at the publisher, which has it too once both have synchronised."
    conflict_id: str


@numbered
class ConflictOfSubscriber(Denied):
    """A subscriber did not take a row: there is nothing to choose at the publisher."""

    number = 8023
    fact = "conflict {conflict_id} is a row that the subscriber does not take"
    hint = "Mend what its reason says there, or the row here: it is sent again at each synchronisation."
    conflict_id: str


@numbered
class UploadNotComparable(DataLoss):
    """The metadata are gone by which the subscriber's changes could be told from older ones."""

    number = 8021
    fact = "what {subscriber} has changed cannot be told from what others changed since: {reason}"
    hint = "Export what is needed of it, and reinitialize without --upload-first."
    subscriber: str
    reason: str


@numbered
class MergeValidationFailed(RowtideError):
    """Rows differ that should be the same (SQL Server: 20574)."""

    number = 8022
    fact = "of {all} articles {failed} differ between the publisher and {subscriber}"
    hint = "Synchronise while nobody writes, and validate again; if it stays, `rowtide merge reinitialize`."
    subscriber: str
    failed: int
    all: int


@numbered
class SubscriptionExpired(DataLoss):
    """The subscriber has not synchronised for longer than the retention."""

    number = 8018
    fact = "{subscriber} last synchronised on {last}, more than {days} days ago"
    hint = "Begin anew: `rowtide merge reinitialize`, with --upload-first to keep what only the subscriber has."
    subscriber: str
    last: str
    days: int

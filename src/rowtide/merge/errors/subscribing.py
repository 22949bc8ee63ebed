"""Errors of subscriptions, their snapshots and their partitions."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError


class PriorityRefused(Invalid, number=8095):
    """A server's priority is not below its publisher's."""

    fact = "{subscriber} cannot have priority {priority} in {publication}, whose publisher has {publisher_priority}"
    hint = "Choose one from 0 up to, but below, the publisher's: 100, or its own as a subscriber that publishes again."
    subscriber: str
    priority: float
    publication: str
    publisher_priority: float


class MergeSubscriptionUnknown(NotFound, number=8013):
    """The publisher, the subscriber or both have no such subscription."""

    fact = "{subscriber} does not subscribe to {publication}"
    hint = """Add it with `rowtide merge add-subscription {publication} --subscriber {subscriber}`; an earlier
        subscription may have been dropped at one end."""
    subscriber: str
    publication: str


class MergeSubscriptionExists(AlreadyExists, number=8014):
    """The database subscribes already."""

    fact = "{subscriber} already subscribes to {publication}"
    hint = "Synchronise it with `rowtide merge sync {publication} --subscriber {subscriber}`, or drop it first."
    subscriber: str
    publication: str


class AddressTaken(AlreadyExists, number=8134):
    """Another database subscribes by the same address: it was moved, or is on another machine, or is gone."""

    fact = "another database subscribes to {publication} as {subscriber}; last synchronised {last}"
    hint = """Subscribe this one by another path or name: two machines' databases must not share one. If the other is
        gone for good, run `rowtide merge drop-subscription {publication} --subscriber {subscriber} --ignore-subscriber`
        first."""
    subscriber: str
    publication: str
    last: str


class SubscriberIsHub(AlreadyExists, number=8132):
    """A database has the publication itself: it is the hub, or a copy of the hub."""

    fact = "{subscriber} is the publisher of {publication}, or a copy of it"
    hint = """Name another database. In a copy, and there alone, `rowtide merge drop-subscription {publication}
        --subscriber URL --ignore-subscriber` for each of its subscriptions and `rowtide merge drop-publication
        {publication}` remove what was copied with it; then subscribe it with --existing."""
    subscriber: str
    publication: str


class SubscriberHasTable(AlreadyExists, number=8016):
    """The subscriber has a table that the snapshot would create."""

    fact = "the subscriber already has a table {table}"
    hint = """Drop or rename it there: the subscription creates it, with its rows, constraints and triggers. Two
        publications of one publisher share a table if neither filters it."""
    table: str


class PartitionValueMissing(Invalid, number=8025):
    """A filter uses a value that the subscription does not give."""

    fact = "publication {publication} is filtered by {function}(), for which the subscription gives no value"
    hint = "Add {option}; the value is stored with the subscription."
    publication: str
    function: str
    option: str


class PartitionValueUnfit(Invalid, number=8041):
    """A filter converts a value of the subscription, which is not of the type."""

    fact = "publication {publication} is filtered by {function}() as {type_name}, which {value} is not"
    hint = "Give a value of the type: a date as YYYY-MM-DD, a number in plain digits."
    publication: str
    function: str
    value: str
    type_name: str


class IdentityRangeUnfit(Denied, number=8055):
    """A file cannot be numbered from ranges that its publisher has from another publisher."""

    fact = "a file cannot be given numbers of {table} by a publisher that has them from another publisher"
    hint = """SQLite numbers a row above all that the file has, and rows of the other publisher may be above the ranges
        of this one: subscribe a PostgreSQL database here, or the file there."""
    table: str


class PartitionUnused(Invalid, number=8060):
    """A subscriber is to move to another partition, but all subscribers have all rows."""

    fact = "no article of {publication} is filtered: its subscribers have all rows"
    hint = """Filter articles with `rowtide merge add-article {publication} TABLE --where CONDITION`, before the first
        subscription."""
    publication: str


class TablesUnfit(Invalid, number=8061):
    """Tables of a subscriber cannot take the rows of their articles."""

    fact = "tables of {subscriber} do not fit: {misfits}"
    hint = "Change the tables as stated, all of them, and repeat the command."
    subscriber: str
    misfits: str


class SnapshotUnfit(Invalid, number=8110):
    """A prepared snapshot is not of the publication or the partition."""

    fact = "the snapshot in {folder} cannot be used: {reason}"
    hint = """Name the folder of a snapshot of this publication and partition; `rowtide merge snapshot PUBLICATION --to
        FOLDER` makes one."""
    folder: str
    reason: str


class SnapshotOutdated(RowtideError, number=8111):
    """The publisher no longer knows what was changed after a prepared snapshot."""

    fact = "the snapshot in {folder}, of {taken}, is too old: {reason}"
    hint = "Make a new one by `rowtide merge snapshot PUBLICATION --to FOLDER`."
    folder: str
    taken: str
    reason: str


class SnapshotDamaged(RowtideError, number=8112):
    """A file of a prepared snapshot is missing, or has other contents than were written."""

    fact = "the file {path} of a snapshot is damaged: {reason}"
    hint = """Copy it again, or make a new snapshot by `rowtide merge snapshot PUBLICATION --to FOLDER`; what was
        delivered stays."""
    path: str
    reason: str


class ChangesNotUploaded(RowtideError, number=8131):
    """A subscription was to be dropped after an upload, and the publisher lacks some changes of the subscriber."""

    fact = "the subscription of {subscriber} stays: the publisher does not have all of its changes: {changes}"
    hint = """`rowtide merge conflicts PUBLICATION` and `rowtide merge sync PUBLICATION --subscriber {subscriber}` say
        why they are refused. To discard them, drop the subscription without --upload-first."""
    subscriber: str
    changes: str


class UploadNotComparable(DataLoss, number=8021):
    """The publisher has purged the metadata that it needs to order the subscriber's changes."""

    fact = "the changes of {subscriber} cannot be compared with those of other nodes: {reason}"
    hint = """Export what you need from the subscriber, and run `rowtide merge reinitialize PUBLICATION --subscriber
        {subscriber}` without --upload-first."""
    subscriber: str
    reason: str


class SubscriptionExpired(DataLoss, number=8018):
    """The subscriber has not synchronised for longer than the retention."""

    fact = "{subscriber} last synchronised on {last}, more than {days} days ago"
    hint = """Run `rowtide merge reinitialize PUBLICATION --subscriber {subscriber}`, with --upload-first to keep the
        subscriber's own changes."""
    subscriber: str
    last: str
    days: int


class SchemaNotFollowed(Denied, number=8180):
    """A device that synchronises by requests has earlier definitions than its publisher, and cannot follow.

    The publisher is altered again and again, or the device's client does not follow schema changes.
    """

    fact = "{subscriber} has earlier definitions of {publication} than its publisher"
    hint = """Synchronise again, or run `rowtide merge sync {publication} --subscriber FILE --db URL` once with the
        publisher's database URL. The device's changes stay in its file until then."""
    subscriber: str
    publication: str


class DownloadLost(Retryable, number=8181):
    """A gateway has a download no more: it was restarted, or another one has taken over."""

    fact = "the download of {subscriber} up to generation {generation} of the publisher is not there any more"
    hint = "Synchronise again: a download begins after the last generation that the device has confirmed."
    subscriber: str
    generation: int


class UploadLost(Retryable, number=8187):
    """A gateway does not have the parts of an upload that came before: another one got them, or they are too old."""

    fact = "the gateway does not have the earlier parts of what {subscriber} uploads"
    hint = """Synchronise again: the upload starts over. If that happens again and again, let the gateways share the
        folder of --files, or let the proxy send the requests of a device to one of them."""
    subscriber: str


class UploadNotAgreed(RowtideError, number=8182):
    """A hub has asked for more of an upload again and again."""

    fact = "the publisher of {publication} has asked {subscriber} {requests} times for more of one upload"
    hint = "Synchronise again; if it happens again, synchronise the file once with the publisher's database URL."
    subscriber: str
    publication: str
    requests: int


class PublicationsShared(Denied, number=8184):
    """A copied or restored file of several publications cannot be filled again by requests: each knows its number."""

    fact = "{subscriber} was copied or restored, and has other publications beside {publication}"
    hint = "Fill it again with a connection to the publisher's database: give --db in place of --url."
    subscriber: str
    publication: str


class TooLargeAtOnce(Invalid):
    """A hub takes less with one request."""


class UploadMalformed(Invalid, number=8183):
    """A device has uploaded what no device sends."""

    fact = "{subscriber} uploads what its publisher cannot read: {reason}"
    hint = "Look for a client other than rowtide, or for one of another version, that synchronises this device."
    subscriber: str
    reason: str

"""Partition membership: the rows of filtered articles that each subscriber has; in the caller's transaction.

The documented mapping tables show which rows are in a partition, and which a subscriber has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, bindparam, case, delete, insert, select, update

from rowtide.core.values import frozen
from rowtide.merge.articles import ROWGUID, Article, Partition, PartitionOptions, SubscriberType, Subscription
from rowtide.merge.definitions import partition_groups, partition_mappings, subscriptions
from rowtide.merge.documented_views.dialect import CONTENTS_VIEW
from rowtide.merge.errors.publishing import StoredFilterRefused
from rowtide.merge.partitions.belonging import ROW, FilterDialect, belongs
from rowtide.merge.partitions.candidates import STAYED, CandidateMemberships
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.versions.apply import OF_OTHERS
from rowtide.merge.versions.changes import Row, Write

FROM_THERE = 0
"""The generation of rows that came from the subscriber itself."""
_CHUNK = 1000
Item = TypeVar("Item")


def add_members(
    connection: Connection, subscriber: int, article: Article, rows: Iterable[tuple[str, str | None]], generation: int
) -> None:
    """Add rows to a subscriber's membership, each with its parent's rowguid. Rows already there stay as they are.

    Those that had stayed are members again.
    """
    for chunk in _chunks(rows):
        of_rows = _of(subscriber, article, [rowguid for rowguid, _ in chunk])
        known = select(partition_mappings.c.rowguid, partition_mappings.c.generation).where(of_rows)
        noted = {row.rowguid: row.generation for row in connection.execute(known)}
        stayed = [rowguid for rowguid, since in noted.items() if since == STAYED]
        if stayed:
            remove_members(connection, subscriber, article, stayed)
        values = [
            {
                "replnickname": subscriber,
                "tablenick": article.nickname,
                "rowguid": rowguid,
                "parent": parent,
                "generation": generation,
                "is_leaving": False,
            }
            for rowguid, parent in chunk
            if noted.get(rowguid, STAYED) == STAYED
        ]
        if values:
            connection.execute(insert(partition_mappings), values)


def mark(
    connection: Connection, subscriber: int, article: Article, marks: CandidateMemberships, generation: int
) -> None:
    """Store the membership changes that a generation's enumeration found, before any row of it is sent.

    A row that was leaving and belongs again stays marked until `confirm_members`: it is sent again after an
    interruption, even if it was not changed since.
    """
    add_members(connection, subscriber, article, marks.entering, generation)
    for chunk in _chunks(marks.relinked):
        of_row = _of(subscriber, article, []) & (partition_mappings.c.rowguid == bindparam("of_rowguid"))
        values = [{"of_rowguid": rowguid, "to_parent": parent} for rowguid, parent in chunk]
        relinked = update(partition_mappings).where(of_row)
        connection.execute(relinked.values(parent=bindparam("to_parent")), values)
    for leaving in _chunks(marks.leaving):
        connection.execute(update(partition_mappings).where(_of(subscriber, article, leaving)).values(is_leaving=True))


def put_others_rows(connection: Connection, subscriber: int, article: Article, rowguids: Sequence[str]) -> None:
    """Store that a subscriber wrote to rows that it does not have: it is sent the rows, or their absence."""
    remove_members(connection, subscriber, article, rowguids)
    add_members(connection, subscriber, article, ((rowguid, None) for rowguid in rowguids), OF_OTHERS)
    mark(connection, subscriber, article, CandidateMemberships(leaving=list(rowguids)), OF_OTHERS)


def keep_stayed(connection: Connection, subscriber: int, article: Article, rowguids: Iterable[str]) -> None:
    """Store that a subscriber keeps rows which have left its partition, or that nodes below it may keep them.

    It does not keep those that it only wrote to.
    """
    for chunk in _chunks(rowguids):
        of_rows = _of(subscriber, article, chunk)
        connection.execute(delete(partition_mappings).where(of_rows & (partition_mappings.c.generation == OF_OTHERS)))
        connection.execute(update(partition_mappings).where(of_rows).values(generation=STAYED, is_leaving=False))


def end_memberships(
    connection: Connection, subscriber: Subscription, article: Article, rowguids: Sequence[str]
) -> None:
    """Store that a subscriber no longer has rows.

    Nodes below one that publishes again may have changed them before they left; their changes come later.
    """
    is_server = subscriber.subscriber_type is SubscriberType.SERVER
    (keep_stayed if is_server else remove_members)(connection, subscriber.nickname, article, rowguids)


def confirm_members(connection: Connection, subscriber: int, article: Article, rowguids: Iterable[str]) -> None:
    """Store that the subscriber has received rows that were marked as leaving, or that it had written to before."""
    since = case((partition_mappings.c.generation == OF_OTHERS, FROM_THERE), else_=partition_mappings.c.generation)
    for chunk in _chunks(rowguids):
        received = update(partition_mappings).where(_of(subscriber, article, chunk))
        connection.execute(received.values(is_leaving=False, generation=since))


def remove_members(connection: Connection, subscriber: int, article: Article, rowguids: Iterable[str]) -> None:
    """Remove rows from a subscriber's membership."""
    for chunk in _chunks(rowguids):
        connection.execute(delete(partition_mappings).where(_of(subscriber, article, chunk)))


def list_members(connection: Connection, subscriber: int, article: Article) -> dict[str, str | None]:
    """Return the rows of an article that a subscriber has, each with its parent's rowguid."""
    listed = select(partition_mappings.c.rowguid, partition_mappings.c.parent)
    return {row.rowguid: row.parent for row in connection.execute(listed.where(_of(subscriber, article, ())))}


def find_members(connection: Connection, subscriber: int, article: Article, rowguids: Sequence[str]) -> set[str]:
    """Return those of some rows that a subscriber has, or has written to."""
    found: set[str] = set()
    for chunk in _chunks(rowguids):
        listed = select(partition_mappings.c.rowguid).where(_of(subscriber, article, chunk))
        found.update(connection.execute(listed).scalars())
    return found


def find_held(connection: Connection, subscriber: int, article: Article, rowguids: Sequence[str]) -> set[str]:
    """Return those of some rows that a subscriber has been sent, or has made, and that are not leaving it."""
    found: set[str] = set()
    c = partition_mappings.c
    for chunk in _chunks(rowguids):
        is_held = _of(subscriber, article, chunk) & (c.generation >= FROM_THERE) & ~c.is_leaving
        found.update(connection.execute(select(c.rowguid).where(is_held)).scalars())
    return found


def remove_all_members(connection: Connection, subscriber: int, articles: Iterable[Article]) -> None:
    """Remove all rows of articles from a subscriber's membership."""
    for article in articles:
        connection.execute(delete(partition_mappings).where(_of(subscriber, article, ())))


def add_partition(connection: Connection, pubid: str, partition: Partition, *, is_explicit: bool) -> int:
    """Return the number of a partition, created if it does not exist (SQL Server: sp_addmergepartition)."""
    groups = partition_groups.c
    same = (groups.HOST_NAME_FN.is_not_distinct_from(partition.host_name)) & (
        groups.SUSER_NAME_FN.is_not_distinct_from(partition.suser_name)
    )
    found = connection.execute(select(groups.partition_id).where((groups.pubid == pubid) & same)).scalar()
    if found is None:
        values = {
            "pubid": pubid,
            "HOST_NAME_FN": partition.host_name,
            "SUSER_NAME_FN": partition.suser_name,
            "is_explicit": is_explicit,
        }
        made = connection.execute(insert(partition_groups).values(values)).inserted_primary_key
        assert made is not None
        return int(made[0])
    if is_explicit:
        connection.execute(update(partition_groups).where(groups.partition_id == found).values(is_explicit=True))
    return int(found)


def list_explicit(connection: Connection, pubid: str) -> Sequence[Partition]:
    """Return the partitions of a publication that were added without a subscription."""
    groups = partition_groups.c
    query = select(groups.HOST_NAME_FN, groups.SUSER_NAME_FN).where((groups.pubid == pubid) & groups.is_explicit)
    return [Partition(host_name, login) for host_name, login in connection.execute(query)]


def drop_partition(connection: Connection, pubid: str, partition: Partition) -> bool:
    """Remove a partition that was added explicitly; return whether it was. With subscriptions it stays for them."""
    groups = partition_groups.c
    same = (groups.HOST_NAME_FN.is_not_distinct_from(partition.host_name)) & (
        groups.SUSER_NAME_FN.is_not_distinct_from(partition.suser_name)
    )
    ours = update(partition_groups).where((groups.pubid == pubid) & groups.is_explicit & same)
    found = connection.execute(ours.values(is_explicit=False)).rowcount
    drop_unused_partitions(connection, pubid)
    return found > 0


def list_subscribers(connection: Connection, partition_id: int) -> Sequence[str]:
    """Return the ids of a partition's subscriptions."""
    listed = select(subscriptions.c.subid).where(subscriptions.c.partition_id == partition_id)
    return connection.execute(listed).scalars().all()


def drop_unused_partitions(connection: Connection, pubid: str) -> None:
    """Remove the partitions of a publication that have no subscription and were not added explicitly."""
    used = select(subscriptions.c.partition_id).where(subscriptions.c.partition_id.is_not(None))
    groups = partition_groups.c
    is_unused = ~groups.is_explicit & groups.partition_id.not_in(used)
    connection.execute(delete(partition_groups).where((groups.pubid == pubid) & is_unused))


def _of(subscriber: int, article: Article, rowguids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition of a subscriber's rows of an article, restricted to rowguids if any are given."""
    of_article = (partition_mappings.c.replnickname == subscriber) & (
        partition_mappings.c.tablenick == article.nickname
    )
    return of_article & partition_mappings.c.rowguid.in_(rowguids) if rowguids else of_article


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


NOBODY = (
    "select null as pubid, null as partition_id, null as tablenick, null as rowguid, null as parent, 0 as is_in, "
    "0 as is_held, 0 as is_changed where 1 = 0"
)
"""The query of no rows."""


@frozen
class MappedRows:
    """Writes the queries for a database; `name` quotes the name of a table or view of ours.

    `rowguid_type` is the type of `rowguid`.
    """

    name: Callable[[str], str]
    dialect: FilterDialect
    rowguid_type: str

    def query(self, row_filter: RowFilter, pubid: str, partition_id: str) -> str:
        """Return the query of an article's rows that are in a partition, or were sent to it.

        `pubid` and `partition_id` are SQL. See `DocumentedDialect.members` for the columns.
        """
        article = row_filter.article
        mappings, subscribed = self.name(partition_mappings.name), self.name(subscriptions.name)
        listed = (
            "select c.rowguid, null as parent, 0 as is_held, 1 as is_changed "
            f"from {self.name(CONTENTS_VIEW)} c where c.tablenick = {article.nickname} union all "
            f"select m.rowguid, m.parent, 1, 0 from {mappings} m join {subscribed} s "
            f"on s.replnickname = m.replnickname and s.partition_id = {partition_id} "
            f"where m.tablenick = {article.nickname} and m.generation >= {FROM_THERE}"
        )
        # There is no `max` of uuids, only of their texts.
        known = (
            f"select rowguid, cast(max(cast(parent as text)) as {self.rowguid_type}) as parent, "
            f"max(is_held) as is_held, max(is_changed) as is_changed from ({listed}) l group by rowguid"
        )
        return (
            f"select {pubid} as pubid, {partition_id} as partition_id, {article.nickname} as tablenick, k.rowguid, "
            f"k.parent, case when {belongs(row_filter, self.dialect)} then 1 else 0 end as is_in, k.is_held, "
            f"k.is_changed from ({known}) k "
            f"left join {self.dialect.table_of(article)} {ROW} on {ROW}.{ROWGUID} = k.rowguid"
        )


def mapped_filters(articles: Sequence[Article], partition: Partition) -> list[RowFilter]:
    """Return the filters of a publication's articles in a partition, of those whose rows may be in several.

    Rows of an article whose partitions have one subscriber each are in no mapping table. Filters that are refused by
    now map nothing.
    """
    try:
        bound = bind_articles(articles, partition)
    except StoredFilterRefused:
        return []
    return [
        row_filter
        for row_filter in bound.values()
        if row_filter.article.partition_options is not PartitionOptions.ONE_SUBSCRIBER
    ]


def find_moved(row_filter: RowFilter, writes: Sequence[Write], present: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield the rows in which a column that decides about partitions would change, with the reason to refuse them."""
    for write in writes:
        before, after = present.get(write.rowguid), write.row
        if before is None or after is None:
            continue
        changed = next((place for place in row_filter.deciding if before[place] != after[place]), None)
        if changed is not None:
            yield write.rowguid, f"{row_filter.article.columns[changed].name} decides about partitions, and was changed"

"""What a node has exchanged with each other node: subscriptions, refused rows, generations and purges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Update,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from rowtide.core.values import frozen
from rowtide.merge.articles import ExchangeType, Partition, SubscriberType, Subscription, Waiting
from rowtide.merge.definitions import (
    genhistory,
    partition_groups,
    publications,
    replinfo,
    retries,
    subscriptions,
)
from rowtide.merge.errors.nodes import SessionReplaced, read_count, reading


def as_utc(read: datetime) -> datetime:
    """Return a stored time with its zone, UTC: SQLite stores none."""
    return read.replace(tzinfo=read.tzinfo or UTC)


@frozen
class Purge:
    """The generation up to which a node's metadata is purged, and the time of the last purge."""

    generation: int
    at: datetime


def read_purge(connection: Connection) -> Purge:
    """Return the last purge of a node's metadata."""
    with reading(replinfo.name):
        return purge_of(connection.execute(SELECT_NODE).mappings().one())


SELECT_NODE = select(replinfo.c.nickname, replinfo.c.purgedgen, replinfo.c.metadatacleanuptime)
"""The query of the node itself: its nickname, and its last purge."""


def purge_of(row: Mapping[Any, Any]) -> Purge:
    """Read the last purge from a row of `SELECT_NODE`."""
    return Purge(read_count(row["purgedgen"]), as_utc(row["metadatacleanuptime"]))


def set_purge(connection: Connection, generation: int, at: datetime) -> None:
    """Store the generation up to which metadata is purged, in the caller's transaction."""
    connection.execute(update(replinfo).values(purgedgen=generation, metadatacleanuptime=at))


def forget_generations(connection: Connection, own: int, bound: int) -> None:
    """Remove this node's generations before one, and all but the last of others', in the caller's transaction."""
    is_own = genhistory.c.nickname == own
    connection.execute(delete(genhistory).where(is_own & (genhistory.c.generation < bound)))
    other = genhistory.alias()
    last = select(func.max(other.c.generation)).where(other.c.nickname == genhistory.c.nickname).scalar_subquery()
    connection.execute(delete(genhistory).where(~is_own & (genhistory.c.generation < last)))


def list_subscriptions(connection: Connection, pubid: str) -> tuple[Subscription, ...]:
    """Return the other nodes of a publication that this one exchanges with."""
    with reading(subscriptions.name):
        rows = connection.execute(select_subscriptions(subscriptions.c.pubid == pubid)).mappings()
        return tuple(map(read_subscription, rows))


SELECT_SUBSCRIBERS = (
    select(subscriptions.c.subscriber_server)
    .join(publications, publications.c.pubid == subscriptions.c.pubid)
    .join(replinfo, replinfo.c.nickname == publications.c.publisher)
    .distinct()
    .order_by(subscriptions.c.subscriber_server)
)
"""The query of the URLs of a hub's subscribers; none for publications whose hub is another node."""


def list_subids(connection: Connection, publication_name: str) -> tuple[str, ...]:
    """Return the numbers of a publication's subscriptions that a node knows; none without the publication."""
    return tuple(connection.execute(_SUBIDS, {"of_name": publication_name}).scalars())


_SUBIDS = (
    select(subscriptions.c.subid)
    .join(publications, publications.c.pubid == subscriptions.c.pubid)
    .where(publications.c.name == bindparam("of_name"))
    .order_by(subscriptions.c.subid)
)


def select_subscriptions(condition: ColumnElement[bool]) -> Select[Any]:
    """Return the query of subscriptions; `read_subscription` reads its rows."""
    joined = subscriptions.outerjoin(partition_groups, partition_groups.c.partition_id == subscriptions.c.partition_id)
    functions = (partition_groups.c.HOST_NAME_FN, partition_groups.c.SUSER_NAME_FN)
    statement = select(subscriptions, *functions).select_from(joined).where(condition)
    return statement.order_by(subscriptions.c.subscriber_server)


_OF_SUBID = subscriptions.c.subid == bindparam("of_subid")
_SESSION = select(subscriptions.c.session).where(_OF_SUBID)
_SET = update(subscriptions).where(_OF_SUBID)
"""Statements made once: SQLAlchemy takes longer to make one than SQLite to run it."""


def put_subscription(connection: Connection, subscription: Subscription, *, partition_id: int | None = None) -> None:
    """Write a subscription, in the caller's transaction."""
    connection.execute(
        insert(subscriptions).values(
            subid=subscription.subid,
            pubid=subscription.pubid,
            subscriber_server=subscription.subscriber,
            replnickname=subscription.nickname,
            subscriber_type=int(subscription.subscriber_type),
            priority=subscription.priority,
            sentgen=subscription.sent,
            recgen=subscription.received,
            replicastate=subscription.state,
            session=subscription.session,
            settledgen=subscription.settled,
            partition_id=partition_id,
            schemaversion=subscription.schema_version,
            schemaguid=subscription.schema_guid,
            last_sync_status=0,
        )
    )


def remove_subscription(connection: Connection, subid: str) -> None:
    """Remove a subscription, in the caller's transaction."""
    connection.execute(delete(subscriptions).where(subscriptions.c.subid == subid))


def require_session(connection: Connection, subscription: Subscription) -> None:
    """Raise `SessionReplaced` if another synchronisation of a subscription has begun, in the caller's transaction."""
    session = connection.execute(_SESSION, {"of_subid": subscription.subid}).scalar_one()
    if session != subscription.session:
        raise SessionReplaced(subscription.subscriber)


def set_subscription(connection: Connection, subid: str, **values: object) -> None:
    """Set columns of a subscription, in the caller's transaction."""
    connection.execute(_SET, {**values, "of_subid": subid})


def set_exchanged(connection: Connection, subid: str, exchange: ExchangeType, **values: object) -> None:
    """Store at the hub, in the caller's transaction, that a subscription has exchanged now, with other columns."""
    connection.execute(_EXCHANGED[exchange], {**values, "of_subid": subid, "now": datetime.now(UTC)})


def _setting_dates(exchange: ExchangeType) -> Update:
    """Return the statement that sets the dates of what was exchanged.

    Those of the other direction stay; they are read within the statement, as asking for them would be a round trip.
    """
    c, now = subscriptions.c, bindparam("now", type_=subscriptions.c.last_sync_date.type)
    uploaded = now if exchange.uploads else func.coalesce(c.last_upload_date, c.last_sync_date)
    downloaded = now if exchange.downloads else func.coalesce(c.last_download_date, c.last_sync_date)
    # A download may never be acknowledged: the retention period begins with the upload then.
    both = case((uploaded < downloaded, uploaded), else_=func.coalesce(downloaded, uploaded))
    return _SET.values(last_upload_date=uploaded, last_download_date=downloaded, last_sync_date=both)


_EXCHANGED = {exchange: _setting_dates(exchange) for exchange in ExchangeType}


def read_last_validation(connection: Connection, subid: str) -> datetime | None:
    """Return when a subscriber's rows were last found equal to the hub's, by the hub's clock; None if never."""
    last = connection.execute(select(subscriptions.c.last_validated).where(subscriptions.c.subid == subid)).scalar()
    return None if last is None else as_utc(last)


def generation_at(connection: Connection, own: int, at: datetime) -> int:
    """Return the last of a node's own generations that was closed by a time; 0 if none is known."""
    closed = select(genhistory.c.generation, genhistory.c.coldate).where(genhistory.c.nickname == own)
    return max((row.generation for row in connection.execute(closed) if as_utc(row.coldate) <= at), default=0)


def read_last_sync(connection: Connection, subid: str) -> datetime | None:
    """Return when a subscriber last synchronised, by this node's clock; None if never."""
    last = connection.execute(select(subscriptions.c.last_sync_date).where(subscriptions.c.subid == subid)).scalar()
    return None if last is None else as_utc(last)


def has_retries(connection: Connection, nickname: int) -> bool:
    """Whether refused rows of a table are to be requested again, from any other node."""
    own = select(replinfo.c.nickname)
    found = select(retries.c.rowguid).where((retries.c.tablenick == nickname) & retries.c.source.not_in(own))
    return connection.execute(found).first() is not None


def list_retries(connection: Connection, source: int) -> dict[int, list[str]]:
    """Return the refused rows to request again from a node, by the table's nickname."""
    with reading(retries.name):
        return group_retries(connection.execute(SELECT_RETRIES, {"of_source": source}).mappings())


SELECT_RETRIES = (
    select(retries.c.tablenick, retries.c.rowguid)
    .where(retries.c.source == bindparam("of_source"))
    .order_by(retries.c.rowguid)
)
"""The query of the refused rows to request again from a node, `of_source`; `group_retries` reads its rows."""


def group_retries(rows: Iterable[Mapping[Any, Any]]) -> dict[int, list[str]]:
    """Return refused rows by the table's nickname."""
    found: dict[int, list[str]] = {}
    for row in rows:
        if not isinstance(row["tablenick"], int) or not isinstance(row["rowguid"], str):
            raise TypeError("a row that was refused has no rowguid, or no article")
        found.setdefault(row["tablenick"], []).append(row["rowguid"])
    return found


def put_awaited(
    connection: Connection, own: int, articles: Sequence[int], awaited: Mapping[int, Sequence[str]]
) -> None:
    """Store which rows of this node, of some articles, its hub has refused and will request again.

    In the caller's transaction. They are listed as rows from the node itself.
    """
    remove_retries_of(connection, own, articles)
    values = [
        {"source": own, "tablenick": nickname, "rowguid": rowguid, "reason_code": "", "reason_text": ""}
        for nickname, rowguids in awaited.items()
        for rowguid in rowguids
    ]
    if values:
        connection.execute(insert(retries), values)


def list_retry_reasons(connection: Connection, source: int, nickname: int) -> dict[str, str]:
    """Return why a node's rows of a table were refused, by rowguid."""
    of_source = (retries.c.source == source) & (retries.c.tablenick == nickname)
    found = connection.execute(select(retries.c.rowguid, retries.c.reason_text).where(of_source))
    return {row.rowguid: row.reason_text for row in found}


def put_retry(connection: Connection, source: int, nickname: int, rowguid: str, code: str, reason: str) -> None:
    """Store a refused row, in the caller's transaction."""
    drop_retries(connection, source, nickname, [rowguid])
    connection.execute(
        insert(retries).values(source=source, tablenick=nickname, rowguid=rowguid, reason_code=code, reason_text=reason)
    )


def remove_retries_of(connection: Connection, source: int, articles: Sequence[int]) -> None:
    """Remove a node's refused rows of some articles, in the caller's transaction; other publications keep theirs."""
    connection.execute(delete(retries).where((retries.c.source == source) & retries.c.tablenick.in_(articles)))


def forget_retries(connection: Connection, nickname: int) -> None:
    """Remove all refused rows of a table that is no longer merged, in the caller's transaction."""
    connection.execute(delete(retries).where(retries.c.tablenick == nickname))


def drop_retries(connection: Connection, source: int, nickname: int, rowguids: Sequence[str]) -> None:
    """Remove rows from the list of refused rows, in the caller's transaction."""
    of_source = (retries.c.source == source) & (retries.c.tablenick == nickname)
    connection.execute(delete(retries).where(of_source & retries.c.rowguid.in_(rowguids)))


def put_received(connection: Connection, nickname: int, generation: int) -> None:
    """Record that a generation of another node was received, in the caller's transaction. Idempotent."""
    values = {"nickname": nickname, "generation": generation, "guidsrc": str(uuid4()), "genstatus": 2}
    connection.execute(_PUT_RECEIVED, values)


def _put_received() -> Insert:
    known, names = genhistory.alias(), ("nickname", "generation", "guidsrc", "genstatus")
    values = {name: bindparam(name, type_=genhistory.c[name].type) for name in names}
    of_node = (known.c.nickname == values["nickname"]) & (known.c.generation == values["generation"])
    unless_known = select(*values.values()).where(~select(known.c.generation).where(of_node).exists())
    return insert(genhistory).from_select(names, unless_known, include_defaults=False)


_PUT_RECEIVED = _put_received()


def read_subscription(row: Mapping[Any, Any]) -> Subscription:
    """Read a row of `select_subscriptions`."""
    waiting = None
    if row["waitinggen"] is not None:
        waiting = Waiting(read_count(row["waitinggen"]), read_count(row["waitingpubgen"]))
    partition = None
    if row["partition_id"] is not None:
        partition = Partition(row["HOST_NAME_FN"], row["SUSER_NAME_FN"])
    return Subscription(
        subid=row["subid"],
        pubid=row["pubid"],
        subscriber=row["subscriber_server"],
        nickname=read_count(row["replnickname"]),
        subscriber_type=SubscriberType(row["subscriber_type"]),
        priority=row["priority"],
        sent=read_count(row["sentgen"]),
        received=read_count(row["recgen"]),
        state=row["replicastate"],
        next_state=row["next_replicastate"],
        session=read_count(row["session"]),
        settled=read_count(row["settledgen"]),
        waiting=waiting,
        partition=partition,
        last_sync=None if row["last_sync_date"] is None else as_utc(row["last_sync_date"]),
        schema_version=read_count(row["schemaversion"]),
        schema_guid=row["schemaguid"],
    )

"""Named consumers: rows of `cdc.consumers` in the source database, where they hold back cleanup (beyond SQL Server).

A consumer reads some capture instances and acknowledges up to an LSN: one position over all of them. This is the only
position stored in the source database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Case, Column, Connection, Row, Select, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from rowtide.cdc.definitions import change_tables, consumer_instances, consumers
from rowtide.cdc.errors.jobs import ConsumerExists, ConsumerInvalid, ConsumerOwned, ConsumerUnknown
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.requests import AT_RISK, ConsumerChange, NewConsumer
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen

_HOUR = timedelta(hours=1)


@frozen
class ConsumedInstance:
    """An instance as it was given to a consumer; it counts as ended if it was disabled, or its name is another
    instance's.
    """

    name: str
    member_id: str
    is_enabled: bool = True


@frozen
class ListedConsumer:
    """A consumer, and how far it is behind what is published.

    `hours_left`: how long cleanup still waits if it acknowledges nothing; negative if cleanup no longer waits.
    """

    consumer: str
    instances: tuple[str, ...]
    acknowledged_lsn: CommitLsn | None
    acknowledged_time: datetime | None
    acknowledged_at: datetime | None
    lag_seconds: float
    limit_hours: int
    hours_left: float
    is_at_risk: bool
    role_name: str | None


@frozen
class Consumer:
    """A named consumer; times in UTC.

    Everything up to `acknowledged_lsn` is acknowledged, which the source had committed by `acknowledged_time`; both are
    None before the first acknowledgement. Cleanup waits for it for `limit`. Members of `role_name` may acknowledge.
    """

    name: str
    instances: tuple[ConsumedInstance, ...]
    limit: timedelta
    role_name: str | None
    acknowledged_lsn: CommitLsn | None
    acknowledged_time: datetime | None
    acknowledged_at: datetime | None
    created_at: datetime
    instance_names: tuple[str, ...]

    def describe(self, published_as_of: datetime | None) -> ListedConsumer:
        """Return how far it is behind what is published; before its first acknowledgement, since it was created."""
        since = self.acknowledged_time or self.created_at
        lag = max(published_as_of - since, timedelta()) if published_as_of is not None else timedelta()
        return ListedConsumer(
            consumer=self.name,
            instances=self.instance_names,
            acknowledged_lsn=self.acknowledged_lsn,
            acknowledged_time=self.acknowledged_time,
            acknowledged_at=self.acknowledged_at,
            lag_seconds=round(lag.total_seconds(), 1),
            limit_hours=self.limit // _HOUR,
            hours_left=round((self.limit - lag) / _HOUR, 1),
            is_at_risk=(self.limit - lag) * AT_RISK < self.limit,
            role_name=self.role_name,
        )


def list_consumers(connection: Connection) -> tuple[Consumer, ...]:
    """Return all consumers, by name."""
    return _read(connection, select(consumers).order_by(consumers.c.consumer_name))


def list_lags(connection: Connection, published_as_of: datetime | None) -> tuple[ListedConsumer, ...]:
    """Return all consumers, by name, with how far they are behind what was published by a time."""
    return tuple(consumer.describe(published_as_of) for consumer in list_consumers(connection))


def find_consumer(connection: Connection, name: str) -> Consumer:
    """Return one consumer. Raises `ConsumerUnknown`."""
    found = _read(connection, select(consumers).where(consumers.c.consumer_name == name))
    if not found:
        raise ConsumerUnknown(name)
    return found[0]


def add_consumer(connection: Connection, request: NewConsumer) -> None:
    """Create a consumer. Raises `ConsumerExists`, `ConsumerInvalid`, `InstanceUnknown`."""
    name, hours = request.name, request.limit_hours
    _require_valid(name, request.instances, hours)
    values = {"consumer_name": name, "limit_hours": hours, "role_name": request.role_name}
    try:
        connection.execute(insert(consumers).values(**values))
    except IntegrityError as error:
        raise ConsumerExists(name) from error
    _set_instances(connection, name, request.instances)


def change_consumer(connection: Connection, change: ConsumerChange) -> None:
    """Change the given values; acknowledgements stay. Raises as `add_consumer`, and `ConsumerUnknown`."""
    name = change.name
    known = find_consumer(connection, name)
    names = known.instance_names if change.instances is None else change.instances
    hours = change.limit_hours if change.limit_hours is not None else known.limit // _HOUR
    _require_valid(name, names, hours)
    connection.execute(update(consumers).where(consumers.c.consumer_name == name).values(limit_hours=hours))
    if change.instances is not None:
        connection.execute(delete(consumer_instances).where(consumer_instances.c.consumer_name == name))
        _set_instances(connection, name, names)


def drop_consumer(connection: Connection, name: str) -> None:
    """Remove a consumer. Raises `ConsumerUnknown`, `ConsumerOwned`."""
    try:
        found = connection.execute(delete(consumers).where(consumers.c.consumer_name == name)).rowcount
    except IntegrityError as error:
        raise ConsumerOwned(name) from error
    if found == 0:
        raise ConsumerUnknown(name)


def acknowledge(connection: Connection, known: Consumer, lsn: CommitLsn | None, time: datetime | None) -> bool:
    """Move a consumer from an expected position; return False if it is at another one, or may not be moved.

    Everything committed up to `time` is acknowledged with that.
    """
    columns = consumers.c
    expected = known.acknowledged_lsn.value if known.acknowledged_lsn is not None else None
    statement = (
        update(consumers)
        .where(columns.consumer_name == known.name, columns.acknowledged_lsn.is_not_distinct_from(expected))
        .values(
            acknowledged_lsn=lsn.value if lsn is not None else None,
            acknowledged_time=time,
            acknowledged_at=func.now(),
        )
    )
    return connection.execute(statement).rowcount == 1


def _require_valid(name: str, instances: Sequence[str], limit_hours: int) -> None:
    problems = {
        "it has no name": not name.strip(),
        "it has no instances": not instances,
        f"its limit is {limit_hours} hours": limit_hours < 1,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise ConsumerInvalid(name, problem)


def _set_instances(connection: Connection, name: str, instances: Iterable[str]) -> None:
    known = _enabled_members(connection)
    for instance in dict.fromkeys(instances):
        if instance not in known:
            raise InstanceUnknown(instance)
        values = {"consumer_name": name, "capture_instance": instance, "member_id": known[instance]}
        connection.execute(insert(consumer_instances).values(**values))


def _enabled_members(connection: Connection) -> Mapping[str, str]:
    rows = connection.execute(select(change_tables.c.capture_instance, change_tables.c.member_id))
    return {row.capture_instance: row.member_id for row in rows}


def _read(connection: Connection, query: Select[Any]) -> tuple[Consumer, ...]:
    enabled = _enabled_members(connection)
    consumed: dict[str, tuple[ConsumedInstance, ...]] = {}
    # Ordered so that the first consumer of each set precedes the others.
    for name, first, names, members in connection.execute(_sets_read()):
        if names is not None:
            given = sorted(zip(names, members, strict=True))
            consumed[name] = tuple(ConsumedInstance(one, member, enabled.get(one) == member) for one, member in given)
        else:
            consumed[name] = consumed[first]
    rows = connection.execute(query).all()
    return tuple(_as_consumer(row, consumed.get(row.consumer_name, ())) for row in rows)


def _sets_read() -> Select[Any]:
    """Select a row of each consumer, with another one that reads the same instances, or with these.

    Most consumers read what others do: fifty of five hundred instances took a third of a poll. Sets are compared by the
    number and hashes of 64 bits of their members.
    """
    columns = consumer_instances.c
    hashed = func.hashtextextended(columns.member_id, 0)
    sets = (
        select(columns.consumer_name, func.count().label("number"), func.bit_xor(hashed).label("hash"))
        .group_by(columns.consumer_name)
        .subquery()
    )
    alike = select(
        sets.c.consumer_name,
        func.min(sets.c.consumer_name).over(partition_by=(sets.c.number, sets.c.hash)).label("first"),
    ).subquery()
    is_own = columns.consumer_name == alike.c.consumer_name
    is_first = alike.c.first == alike.c.consumer_name

    def listed(column: Column[str]) -> Case[Any]:
        chosen = select(column).where(is_own).order_by(columns.capture_instance)
        return case((is_first, func.array(chosen.scalar_subquery())))

    return select(
        alike.c.consumer_name, alike.c.first, listed(columns.capture_instance), listed(columns.member_id)
    ).order_by(alike.c.first, is_first.desc())


def _as_consumer(row: Row[Any], instances: tuple[ConsumedInstance, ...]) -> Consumer:
    return Consumer(
        name=row.consumer_name,
        instances=instances,
        limit=timedelta(hours=row.limit_hours),
        role_name=row.role_name,
        acknowledged_lsn=CommitLsn(row.acknowledged_lsn) if row.acknowledged_lsn is not None else None,
        acknowledged_time=row.acknowledged_time,
        acknowledged_at=row.acknowledged_at,
        created_at=row.created_at,
        instance_names=tuple(instance.name for instance in instances),
    )

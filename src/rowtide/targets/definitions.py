"""Definitions of targets: rows of `cdc.targets` in the source database.

A target is a set: tables of several capture instances at one LSN. Its positions are with its data: `targets.applying`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from rowtide.cdc.consumers.consumers import Consumer, add_consumer, drop_consumer, list_consumers
from rowtide.cdc.definitions import SCHEMA, change_tables, consumer_instances, snapshots, targets
from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.instances import Instance
from rowtide.cdc.requests import LIMIT_HOURS, NewConsumer
from rowtide.core.json_records import JsonOf
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import has_table
from rowtide.databases.postgres.query_memo import made_once
from rowtide.targets.errors import TargetExists, TargetInvalid, TargetUnknown
from rowtide.targets.options import CURRENT, HISTORY, PYTHON, TargetOptions
from rowtide.targets.table_format import table_format

_UNFINISHED = ("requested", "copying")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SECRET = re.compile(r"(?:^|[.-])(?:token|credential|password|secret(?:[.-].*)?)$|^header\.", re.IGNORECASE)
"""Secret options of Iceberg's catalogues, in addition to the keys of object stores."""


_OPTIONS = JsonOf[TargetOptions](TargetOptions)


class TableState(StrEnum):
    """The state of a table in its set; set by each apply."""

    MEMBER = "member"
    """It is at the set's LSN."""
    STOPPED = "stopped"
    """It has left the set, for the reason in its note; it rejoins once it has caught up."""


@frozen
class Target:
    """A target as it is defined; its consumer has its instances, and how long cleanup waits for it.

    Tables record their position under `target_id`, which no other target ever has.
    """

    name: str
    target_id: str
    kind: str
    options: TargetOptions
    consumer: Consumer
    created_at: datetime

    @property
    def is_custom(self) -> bool:
        """Whether a class of the user's applies the changes."""
        return self.kind.startswith(PYTHON)


@made_once
def list_targets(connection: Connection) -> tuple[Target, ...]:
    """Return all targets, by name. Raises `DefinitionsIncomplete` if their table was dropped."""
    if not has_table(connection, SCHEMA, targets.name):
        raise DefinitionsIncomplete(targets.name)
    rows = connection.execute(select(targets).order_by(targets.c.target_name)).all()
    by_name = {consumer.name: consumer for consumer in list_consumers(connection)} if rows else {}
    return tuple(_as_target(row, by_name[row.consumer_name]) for row in rows)


def find_target(connection: Connection, name: str) -> Target:
    """Return one target. Raises `TargetUnknown`."""
    for target in list_targets(connection):
        if target.name == name:
            return target
    raise TargetUnknown(name)


def add_target(
    connection: Connection,
    name: str,
    instances: Sequence[str],
    kind: str,
    options: TargetOptions,
    limit_hours: int = LIMIT_HOURS,
) -> None:
    """Create a target and its consumer.

    Raises `TargetExists`, `TargetInvalid`, `InstanceUnknown`, `ConsumerInvalid`.
    """
    require_valid(name, kind, options)
    if any(target.name == name for target in list_targets(connection)):
        raise TargetExists(name)
    consumer = f"target:{name}"
    add_consumer(connection, NewConsumer(consumer, instances, limit_hours=limit_hours))
    values = {
        "target_name": name,
        "target_id": uuid.uuid4().hex,
        "consumer_name": consumer,
        "kind": kind,
        "options": _OPTIONS.encode(options),
    }
    try:
        connection.execute(insert(targets).values(**values))
    except IntegrityError as error:
        raise TargetExists(name) from error


def drop_target(connection: Connection, name: str) -> Target:
    """Remove a target and its consumer; its tables stay. Raises `TargetUnknown`."""
    found = find_target(connection, name)
    connection.execute(delete(targets).where(targets.c.target_name == name))
    drop_consumer(connection, found.consumer.name)
    return found


def has_later(connection: Connection, target: Target) -> bool:
    """Return whether a later instance exists for some table of a target that follows columns."""
    if not target.options.follow_columns:
        return False
    other, names = change_tables.alias(), target.consumer.instance_names
    wanted = (
        select(change_tables.c.object_id)
        .join(other, other.c.source_object_id == change_tables.c.source_object_id)
        .where(other.c.object_id > change_tables.c.object_id)
        .where(change_tables.c.capture_instance.in_(names), other.c.capture_instance.not_in(names))
    )
    return connection.execute(wanted.limit(1)).first() is not None


def hand_over(connection: Connection, target: Target, old: str, new: Instance, options: TargetOptions) -> None:
    """Let a target follow a newer instance instead of another one, in the same table, with options that fit it."""
    changed = _OPTIONS.encode(options)
    connection.execute(update(targets).where(targets.c.target_id == target.target_id).values(options=changed))
    columns = consumer_instances.c
    connection.execute(
        update(consumer_instances)
        .where(columns.consumer_name == target.consumer.name, columns.capture_instance == old)
        .values(capture_instance=new.capture_instance, member_id=new.member_id)
    )


def list_copied(connection: Connection) -> frozenset[str]:
    """Return the instances whose first copy is requested, but not finished."""
    columns = snapshots.c
    query = select(columns.capture_instance).where(columns.state.in_(_UNFINISHED))
    return frozenset(connection.execute(query).scalars())


def require_valid(name: str, kind: str, options: TargetOptions) -> None:
    """Raise `TargetInvalid` if options contradict each other."""
    for problem, is_there in _find_problems(name, kind, options):
        if is_there:
            raise TargetInvalid(name, problem)


def _find_problems(name: str, kind: str, options: TargetOptions) -> list[tuple[str, bool]]:
    is_custom = kind.startswith(PYTHON)
    is_history = kind == HISTORY
    has_tracked = options.track_history_column_list is not None
    secret = _find_secret(options)
    form = table_format(options.format)
    return [
        ("its name is not of letters, digits, _, . and -", _NAME.fullmatch(name) is None),
        (f"there is no kind {kind}", not is_custom and kind not in (CURRENT, HISTORY)),
        ("it has neither a path nor a catalogue", not is_custom and (options.path or options.catalog) is None),
        ("it has a path and a catalogue", options.path is not None and options.catalog is not None),
        ("its catalogue is not written NAME.NAMESPACE", options.catalog is not None and "." not in options.catalog),
        (
            f"every role that may connect could read its secret {secret}, which belongs in Spark's settings",
            bool(secret),
        ),
        (f"{form.title} tables are not clustered", not form.can_cluster and bool(options.cluster_by)),
        ("its tables are partitioned and clustered", bool(options.partition_by and options.cluster_by)),
        ("a table of a class is not partitioned", is_custom and bool(options.partition_by)),
        ("a history keeps deleted rows anyway", is_history and options.soft_delete is not None),
        (
            "only a history tracks columns",
            not is_history and (has_tracked or bool(options.track_history_except_column_list)),
        ),
        (
            "columns to track are named twice, with and without except",
            has_tracked and bool(options.track_history_except_column_list),
        ),
        (
            "columns are named twice, with and without except",
            options.column_list is not None and bool(options.except_column_list),
        ),
    ]


def _find_secret(options: TargetOptions) -> str | None:
    """Return the setting of the catalogue that is a secret, if one is."""
    for name, value in options.catalog_options.items():
        if _SECRET.search(name) or redact(text := f"{name}={value}") != text:
            catalog = (options.catalog or "NAME").partition(".")[0]
            return f"spark.sql.catalog.{catalog}.{name}"
    return None


def _as_target(row: Row[Any], consumer: Consumer) -> Target:
    options = _OPTIONS.decode(row.options)
    return Target(row.target_name, row.target_id, row.kind, options, consumer, row.created_at)

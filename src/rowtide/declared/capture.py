"""Capture as it is declared: the database, instances, rules, consumers, jobs, and the targets that follow instances."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlalchemy import Connection

from rowtide.cdc import definitions
from rowtide.cdc.consumers.consumers import list_consumers
from rowtide.cdc.enabling.instances import choose_key, decide_net_changes, list_followed
from rowtide.cdc.enabling.postgres import repeat_request
from rowtide.cdc.enabling.table_rules import list_rules
from rowtide.cdc.enabling.table_sets import parse_pattern
from rowtide.cdc.jobs.definitions import JobType, read_jobs
from rowtide.cdc.snapshot_requests import has_snapshot
from rowtide.core.formats import StoreFormat
from rowtide.core.options import values_of
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.databases.urls import parse_url
from rowtide.declared.kinds import CAPTURE, CONSUMER, INSTANCE, JOB, RULE, TARGET
from rowtide.declared.planning import (
    DeclaredChange,
    DeclaredObject,
    Effects,
    ObjectName,
    State,
    describe,
    list_of,
    refuse,
)
from rowtide.declared.values import spell_table, split_table
from rowtide.handle import Database
from rowtide.log.source_definition import SourceDefinition
from rowtide.targets.definitions import Target, list_targets
from rowtide.targets.options import follows_by_default

_PATTERN = re.compile(r'\s*((?:"(?:[^"]|"")*"|[^",])+?)\s*(?:,|$)')


def read(database: Database) -> Iterator[DeclaredObject]:
    """Yield the enabled objects of capture, and the targets that follow them."""
    with translated(), open_engine(database.url).connect() as connection:
        if not definitions.are_begun(connection):
            return
        source = definitions.read_source(connection, parse_url(database.url).name, StoreFormat.require_readable)
        yield _capture(connection, source)
        followed = list_followed(connection)
        for enabled in definitions.list_enabled(connection):
            table = find_by_id(connection, enabled.source_id)
            if table is not None and enabled.member_id not in followed:
                yield _instance(connection, enabled, table)
        yield from _rules(connection)
        yield from _consumers(connection)
        yield from _jobs(connection)
        yield from map(_target, list_targets(connection))


def find_owned(present: State, wanted: State) -> Iterator[ObjectName]:
    """Yield the instances of tables that declared rules enable."""
    rules = list(list_of(wanted, RULE))
    for instance in list_of(present, INSTANCE):
        parts = split_table(str(instance.options["table"]))
        if any(_is_ruled(rule, *parts) for rule in rules):
            yield instance.name


def _is_ruled(rule: DeclaredObject, schema: str, table: str) -> bool:
    excluding = rule.options.get("excluding", [])
    assert isinstance(excluding, list)
    matching, excluded = (
        any(parse_pattern(one).matches(schema, table, is_visible=False) for one in patterns)
        for patterns in (split_patterns(rule.names[-1]), excluding)
    )
    return matching and not excluded


def split_patterns(rule_name: str) -> list[str]:
    """Return the patterns that the name of a rule has."""
    return _PATTERN.findall(rule_name)


def _capture(connection: Connection, source: SourceDefinition) -> DeclaredObject:
    log_store = source.log_store if source.log_store != f"{source.lake}/log" else None
    values = {"lake": source.lake, "log_store": log_store, "widened": definitions.read_widened(connection)}
    return describe(CAPTURE, (), values)


def _instance(connection: Connection, enabled: definitions.EnabledTable, table: SourceTable) -> DeclaredObject:
    captured = definitions.read_captured_columns(connection, enabled.member_id)
    present = {column.number: column.name for column in table.columns}
    columns = [present[number] for number in captured if number in present]
    others = present.keys() - captured.keys()
    request = repeat_request(table, enabled, tuple(columns) if others else None)
    implied = _find_implied(table, request.index_name, enabled)
    values = values_of(type(request), request) | {
        "table": spell_table(table.schema, table.name),
        "snapshot": has_snapshot(connection, enabled.member_id),
        "widened": definitions.read_own(connection, enabled.member_id),
    }
    values = {name: value for name, value in values.items() if name in INSTANCE.keys}
    values |= {name: None for name, value in implied.items() if values.get(name) == value}
    # Columns that were added to the table since are in no instance of it, whatever was asked for.
    is_whole = all(number > max(captured, default=0) for number in others)
    return describe(
        INSTANCE,
        [enabled.capture_instance],
        values,
        implied=implied | {"columns": columns},
        tolerated=["columns"] if is_whole else [],
    )


def _find_implied(table: SourceTable, index_name: str | None, enabled: definitions.EnabledTable) -> dict[str, object]:
    """Return what an instance has where nothing else is asked for."""
    own = choose_key(table, None)
    key = own if index_name is None else choose_key(table, index_name)
    found: dict[str, object] = {"supports_net_changes": decide_net_changes(table, key, None)}
    if own.index_name is not None and enabled.index_name == own.index_name:
        found["index_name"] = own.index_name
    return found


def _rules(connection: Connection) -> Iterator[DeclaredObject]:
    for rule in list_rules(connection):
        values = {name: getattr(rule, name) for name in RULE.keys}
        yield describe(RULE, [rule.rule_name], values)


def _consumers(connection: Connection) -> Iterator[DeclaredObject]:
    of_targets = {target.consumer.name for target in list_targets(connection)}
    for consumer in list_consumers(connection):
        if consumer.name not in of_targets:
            lag = consumer.describe(None)
            values = {
                "instances": [one.name for one in consumer.instances if one.is_enabled],
                "limit_hours": lag.limit_hours,
                "role_name": consumer.role_name,
            }
            yield describe(CONSUMER, [consumer.name], values)


def _jobs(connection: Connection) -> Iterator[DeclaredObject]:
    """Yield the jobs whose parameters are not those that the first table's enabling gives them, and dropped ones."""
    jobs = read_jobs(connection)
    for job_type in JobType if definitions.list_enabled(connection) else ():
        if job_type not in jobs:
            yield describe(JOB, [job_type.value], {"is_dropped": True})
    for job_type, job in jobs.items():
        found = describe(JOB, [job_type.value], {name: getattr(job.parameters, name, None) for name in JOB.keys})
        if found.options:
            yield found


def _add_rule(database: Database, rule: DeclaredObject, _wanted: State) -> None:
    given = rule.arguments() | {"patterns": split_patterns(rule.names[-1])}
    failed = [one for one in database.cdc.enable_tables(**given, with_new_tables=True) if one.error is not None]
    for outcome in failed:
        assert outcome.error is not None
        raise outcome.error


def _change_rule(database: Database, change: DeclaredChange) -> None:
    _add_rule(database, change.wanted, {})


def _change_consumer(database: Database, change: DeclaredChange) -> None:
    # Setting the names again makes its instances those that have these names now.
    given = {"instances": change.wanted.arguments()["instances"], **change.arguments()}
    database.cdc.change_consumer(name=change.wanted.names[0], **given)


def _add_job(database: Database, job: DeclaredObject, _wanted: State) -> None:
    # The first table that is enabled creates the jobs.
    is_there = any(listed.job_type == job.names[0] for listed in database.cdc.list_jobs())
    given = job.arguments()
    if given.pop("is_dropped", False):
        if is_there:
            database.cdc.drop_job(job.names[0])
        return
    (database.cdc.change_job if is_there else database.cdc.add_job)(**given)


def _change_job(database: Database, change: DeclaredChange) -> None:
    if "is_dropped" in change.options:
        _add_job(database, change.wanted, {})
    else:
        database.cdc.change_job(job_type=change.wanted.names[0], **change.arguments())


def _target(target: Target) -> DeclaredObject:
    options, given = target.options, target.consumer.describe(None)
    values = {name: getattr(options, name) for name in TARGET.keys if hasattr(options, name)}
    values |= {
        # A table that went over to another instance has the name of the one that was given.
        "instances": [options.table_of(one.name) for one in target.consumer.instances if one.is_enabled],
        "kind": target.kind,
        "limit_hours": given.limit_hours,
    }
    implied = {"follow_columns": follows_by_default(target.kind, options.truncate)}
    if values["follow_columns"] == implied["follow_columns"]:
        values["follow_columns"] = None
    return describe(TARGET, [target.name], values, implied=implied)


EFFECTS = {
    CAPTURE.name: Effects(
        add=lambda database, capture, _wanted: database.cdc.enable_db(**capture.arguments()),
        change=lambda database, change: database.cdc.enable_db(
            **change.wanted.arguments() | {"widened": change.arguments()["widened"]}
        ),
        drop=lambda database, _capture: database.cdc.disable_db(),
    ),
    INSTANCE.name: Effects(
        add=lambda database, instance, _wanted: database.cdc.enable_table(**instance.arguments()),
        change=refuse,
        drop=lambda database, instance: database.cdc.disable_table(
            str(instance.options["table"]), capture_instance=instance.names[0]
        ),
    ),
    RULE.name: Effects(
        add=_add_rule,
        change=_change_rule,
        drop=lambda database, rule: database.cdc.drop_table_rule(rule.names[0]),
    ),
    CONSUMER.name: Effects(
        add=lambda database, consumer, _wanted: database.cdc.add_consumer(**consumer.arguments()),
        change=_change_consumer,
        drop=lambda database, consumer: database.cdc.drop_consumer(consumer.names[0]),
    ),
    JOB.name: Effects(
        add=_add_job,
        change=_change_job,
        drop=lambda database, job: database.cdc.drop_job(job.names[0]),
    ),
    TARGET.name: Effects(
        add=lambda database, target, _wanted: database.targets.add(**target.arguments()),
        change=refuse,
        drop=lambda database, target: database.targets.drop(target.names[0]),
    ),
}

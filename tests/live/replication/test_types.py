"""Every type arrives to the byte, through inserts and through updates, whatever the subscriber's role sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.values.typed_tables import COLUMNS, TABLE, create_typed_table, read_texts, write_typed_table
from rowtide.core.operations import Operation
from rowtide.databases.postgres.values import SAME_IN_BINARY
from rowtide.replication.articles.call_formats import CallFormat, Command, parse_command
from rowtide.replication.errors.delivery import RowNotFound
from rowtide.replication.subscription_settings import SyncType
from rowtide.replication.targets.postgres.delivery import sender

NONE, SQL = Command(CallFormat.NONE), Command(CallFormat.SQL)
CALLED = {Operation.DELETE: NONE}
STATED = {Operation.INSERT: SQL, Operation.UPDATE: SQL, Operation.DELETE: NONE}
"""Rows stay at the subscriber: the last thing that is delivered of each is its update."""
NAMES = tuple(COLUMNS)
HALF = len(NAMES) // 2
_BUILT_IN = ", ".join(map(str, sorted(SAME_IN_BINARY)))
OTHER_SETTINGS = """
do $$ begin
    execute format('alter database %I set datestyle to ''SQL, DMY''', current_database());
    execute format('alter database %I set extra_float_digits to 0', current_database());
end $$
"""


@pytest.mark.parametrize(
    ("names", "commands"),
    [(NAMES[:HALF], CALLED), (NAMES[HALF:], CALLED), (NAMES, CALLED), (NAMES, STATED)],
    ids=["1", "2", "wide", "stated"],
)
def test_every_value_of_every_type_is_the_same_at_the_subscriber(
    replicated: ReplicatedDatabase, names: Sequence[str], commands: Mapping[Operation, Command]
) -> None:
    for side in (replicated.publisher, replicated.subscriber):
        create_typed_table(side.session)
    replicated.begin(**{TABLE: {"columns": ("id", *names), "commands": commands}})
    replicated.subscriber.execute(OTHER_SETTINGS)
    write_typed_table(replicated.publisher.session)
    replicated.deliver()

    updated = read_texts(replicated.publisher.url, "kept", ("version", "id", *names))
    delivered = read_texts(replicated.subscriber.url, TABLE, ("1", "id", *names))
    assert sorted(delivered, key=str) == sorted((row for row in updated if row[0] == "1"), key=str)
    assert len(delivered) > 10


@pytest.mark.parametrize("listed", [NAMES[:HALF], NAMES[HALF:]], ids=["1", "2"])
def test_rows_written_many_at_a_time_are_the_same_to_the_byte(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch, listed: Sequence[str]
) -> None:
    monkeypatch.setattr(sender, "FEWEST_AS_COPY", 2)
    for side in (replicated.publisher, replicated.subscriber):
        create_typed_table(side.session)
    replicated.begin(**{TABLE: {"columns": ("id", *listed), "commands": CALLED}})
    replicated.subscriber.execute(OTHER_SETTINGS)
    write_typed_table(replicated.publisher.session)
    names = ", ".join(listed)
    replicated.publisher.execute(
        f"delete from {TABLE}",
        f"insert into {TABLE} (id, {names}) select id + 1000, {names} from kept where version = 1",
    )
    replicated.deliver()

    written = read_texts(replicated.publisher.url, TABLE, ("id", *listed))
    delivered = [
        row for row in read_texts(replicated.subscriber.url, TABLE, ("id", *listed)) if int(str(row[0])) >= 1000
    ]
    assert sorted(delivered, key=str) == sorted(written, key=str)
    assert len(delivered) > 10

    # Every row gets another's values.
    replicated.publisher.execute(
        f"update {TABLE} t set ({names}) = (select {names} from kept k "
        f"where version = 1 and id = (t.id - 999) % (select count(*) from {TABLE}))"
    )
    replicated.deliver()
    written = read_texts(replicated.publisher.url, TABLE, ("id", *listed))
    delivered = [
        row for row in read_texts(replicated.subscriber.url, TABLE, ("id", *listed)) if int(str(row[0])) >= 1000
    ]
    assert sorted(delivered, key=str) == sorted(written, key=str)


def test_rows_of_types_that_are_built_in_are_copied_to_the_byte(replicated: ReplicatedDatabase) -> None:
    create_typed_table(replicated.publisher.session)
    write_typed_table(replicated.publisher.session)
    replicated.publisher.execute(f"insert into {TABLE} select id, {', '.join(NAMES)} from kept where version = 0")
    built_in = replicated.publisher.execute(
        f"select attname from pg_attribute where attrelid = '{TABLE}'::regclass and atttypid = any(array[{_BUILT_IN}]) "
        "and attnum > 1 order by attnum"
    )
    names = ("id", *(name for (name,) in built_in))
    replicated.publish(**{TABLE: {"columns": names, "commands": CALLED}})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()

    copied = read_texts(replicated.subscriber.url, TABLE, names)
    assert sorted(copied, key=str) == sorted(read_texts(replicated.publisher.url, TABLE, names), key=str)
    assert len(names) > 20


@pytest.mark.parametrize(
    ("columns", "update"),
    [
        (98, "SCALL"),
        (99, "SCALL"),
        (100, "MCALL"),
        (100, "CALL"),
        (101, "CALL"),
        (500, "XCALL"),
        pytest.param(1600, "SCALL", marks=pytest.mark.exhaustive),
        pytest.param(1600, "SQL", marks=pytest.mark.exhaustive),
    ],
)
def test_tables_of_every_width_are_delivered(replicated: ReplicatedDatabase, columns: int, update: str) -> None:
    others = ", ".join(f"c{number} {'text' if number % 2 else 'int[]'}" for number in range(1, columns))
    commands = {Operation.UPDATE: parse_command(Operation.UPDATE, update)}
    if update == "XCALL":
        commands[Operation.DELETE] = parse_command(Operation.DELETE, update)
    replicated.begin(f"create table wide (id int primary key, {others})", wide={"commands": commands})
    replicated.publisher.execute(
        "insert into wide (id, c1, c2, c97) values "
        "(1, 'a\"b', '{1,null}', ''), (2, null, '{}', '\\'), (3, '{', null, 'NULL')",
        f"update wide set c{columns - 1} = c{columns - 1}, c1 = 'x, y' where id = 1",
        "update wide set id = 10, c3 = 'moved' where id = 2",
        "delete from wide where id = 3",
    )
    replicated.deliver()

    replicated.require_equal("wide")
    replicated.subscriber.execute("delete from wide where id = 10")
    replicated.publisher.execute("update wide set c1 = 'gone' where id = 10")
    with pytest.raises(RowNotFound, match="key id = 10 of public.wide"):
        replicated.deliver()

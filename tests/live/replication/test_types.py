"""Every type arrives to the byte, through inserts and through updates, whatever the subscriber's role sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from builders.replicated_databases import ReplicatedDatabase
from builders.typed_tables import COLUMNS, TABLE, create_typed_table, read_texts, write_typed_table
from rowtide.core.records import Operation
from rowtide.replication.call_formats import CallFormat, Command
from rowtide.replication.errors import ArticleTooWide

NONE, SQL = Command(CallFormat.NONE), Command(CallFormat.SQL)
CALLED = {Operation.DELETE: NONE}
STATED = {Operation.INSERT: SQL, Operation.UPDATE: SQL, Operation.DELETE: NONE}
"""Rows stay at the subscriber: the last thing that is delivered of each is its update."""
NAMES = tuple(COLUMNS)
HALF = len(NAMES) // 2
OTHER_SETTINGS = """
do $$ begin
    execute format('alter database %I set datestyle to ''SQL, DMY''', current_database());
    execute format('alter database %I set extra_float_digits to 0', current_database());
end $$
"""


@pytest.mark.parametrize(
    ("names", "commands"), [(NAMES[:HALF], CALLED), (NAMES[HALF:], CALLED), (NAMES, STATED)], ids=["1", "2", "stated"]
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


def test_a_table_that_is_too_wide_for_a_procedure_is_published_with_statements(replicated: ReplicatedDatabase) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1, 1600))
    definition = f"create table wide (id int primary key, {columns})"
    replicated.publisher.execute(definition)
    replicated.publisher.enable()
    replicated.replication.add_publication("other")
    with pytest.raises(ArticleTooWide, match="CALL of public.wide needs 1600 parameters, a procedure takes 100"):
        replicated.replication.add_article("other", "wide")
    replicated.publisher.execute("drop table wide")
    replicated.begin(definition, wide={"commands": dict.fromkeys((Operation.INSERT, Operation.UPDATE), SQL)})
    replicated.publisher.execute(
        "insert into wide (id, c1, c1599) values (1, 1, 1599), (2, null, 2)",
        "update wide set c800 = 800 where id = 1",
        "delete from wide where id = 2",
    )
    replicated.deliver()

    replicated.require_equal("wide")

"""A row that is missing at the subscriber is reported as 20598 by every format, whatever its key is."""

from __future__ import annotations

import pytest

from builders.replication.articles import commands
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.replication.errors.delivery import RowNotFound

TABLE = (
    "create table things (code bytea, tags int[], at timestamptz, flag bool, v int, primary key (code, tags, at, flag))"
)


@pytest.mark.parametrize("change", ["update things set v = 2", "update things set flag = false", "delete from things"])
@pytest.mark.parametrize(("update", "delete"), [("SCALL", "CALL"), ("XCALL", "XCALL"), ("SQL", "SQL")])
def test_a_missing_row_is_named_with_its_key(
    replicated: ReplicatedDatabase, change: str, update: str, delete: str
) -> None:
    replicated.begin(TABLE, things={"commands": commands(update=update, delete=delete)})
    replicated.publisher.execute("insert into things values ('\\x00ff', '{1,2}', '2024-02-29 00:00Z', true, 1)")
    replicated.deliver()
    replicated.subscriber.execute("delete from things")
    replicated.publisher.execute(change)
    with pytest.raises(RowNotFound) as raised:
        replicated.deliver()

    assert (raised.value.table, raised.value.command) == ("public.things", change.split(maxsplit=1)[0])
    assert raised.value.key.startswith("code = \\x00ff, tags = {1,2}, at = 2024-02-29 00:00:00+00")

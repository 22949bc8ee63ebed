"""The scenarios of PostgreSQL's own subscription tests that are about what is replicated, by their numbers.

Those about databases, publications and roles are in test_subscribed_databases.py. Others stand where their subject is,
in live/replication: types (002) in test_types.py, partitions (013) in test_published_shapes.py and test_delivery.py,
errors that are counted (026) in test_history.py, row filters (028) in test_filters.py, origins (030) in
test_loopback.py, column lists (031) in test_delivery.py and test_changed_articles.py, conflicts (035) in
test_conflicts.py and test_last_commit_time.py, sequences (036) in test_sequences.py; a table's schema that is changed
(025) in test_schema_changes.py.

Collations that are not deterministic (012) need ICU, which the embedded server does not have. A publication has tables
by name, never all of a schema (025) or all but some (037). How long a walsender may take to end (038) is the server's.
"""

from __future__ import annotations

from typing import Any

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.core.operations import Operation
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.delivery import CommandRefused, SchemaChanged
from rowtide.replication.errors.publishing import TableNotPublishable
from rowtide.replication.subscription_settings import IfExists, SyncType

INSERTS_ALONE = {operation: Command(CallFormat.NONE) for operation in (Operation.UPDATE, Operation.DELETE)}

_DECODED = """
select data from pg_logical_slot_get_binary_changes(
    'downstream', null, null, 'proto_version', '1', 'publication_names', 'downstream')
"""
_LENGTH_OF_ONE_DIGIT = 14
"""Of an insert of one column: its kind, the table, N, the number of columns, t, a length, the digit."""


def copied(replicated: ReplicatedDatabase, *definitions: str, **articles: Any) -> None:
    """Publish tables with their rows, and copy them."""
    replicated.publish(*definitions, **articles)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()


@pytest.mark.exhaustive
def test_pg_001_subscriber_with_reordered_and_more_columns(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table t (a int primary key, b text, c int)", t={})
    replicated.subscriber.execute("create table t (more text default 'local', c int, b text, a int primary key)")
    replicated.subscribe()
    replicated.publisher.execute("insert into t values (1, 'x', 2), (2, 'y', 3)", "update t set b = 'z' where a = 2")
    replicated.deliver()

    assert replicated.subscriber.execute("select * from t order by a") == [("local", 2, "x", 1), ("local", 3, "z", 2)]


def test_pg_001_rows_that_are_equal_in_a_table_without_key(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table t (a int)",
        "alter table t replica identity full",
        "insert into t values (1), (1)",
        t={"commands": INSERTS_ALONE},
    )
    replicated.publisher.execute("insert into t values (1), (null)")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_003_foreign_keys_hold_and_subscriber_triggers_fire(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table parent (id int primary key)",
        "create table child (id int primary key, of int references parent on delete cascade)",
        "insert into parent values (1), (2)",
        "insert into child values (1, 1), (2, 1), (3, 2)",
        child={},
        parent={},
    )
    replicated.subscriber.execute(
        "create table seen (id int)",
        "create function note() returns trigger language plpgsql as $$begin insert into seen values (old.id); "
        "return old; end$$",
        "create trigger note after delete on child for each row execute function note()",
    )
    replicated.publisher.execute("delete from parent where id = 1")
    replicated.deliver()

    replicated.require_equal("parent", "child")
    assert replicated.subscriber.execute("select id from seen order by id") == [(1,), (2,)]


def begin_copy(replicated: ReplicatedDatabase) -> None:
    """Publish a table of a thousand rows, and copy its first chunk to the subscriber."""
    replicated.publish(
        "create table t (a int primary key, b text)",
        "insert into t select i, repeat('b', 100) from generate_series(1, 1000) i",
        t={},
    )
    replicated.subscribe(SyncType.AUTOMATIC, chunk_bytes=8192)
    with replicated.open_agent() as agent:
        agent.step()


@pytest.mark.exhaustive
def test_pg_004_subscription_reinitialized_in_its_copy_completes(
    replicated: ReplicatedDatabase,
) -> None:
    begin_copy(replicated)
    replicated.replication.reinitialize("shop")
    replicated.deliver()

    replicated.require_equal("t")


@pytest.mark.exhaustive
def test_pg_004_subscription_dropped_in_its_copy_is_made_again(replicated: ReplicatedDatabase) -> None:
    begin_copy(replicated)
    [(copied_rows,)] = replicated.subscriber.execute("select count(*) from t")
    assert 0 < copied_rows < 1000
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    replicated.publisher.execute("delete from t where a % 2 = 0", "update t set b = 'later' where a % 3 = 0")
    replicated.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.DROP, chunk_bytes=8192)
    replicated.publisher.execute("insert into t values (2, 'again')")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_006_table_rewrite_without_changes_stops_nothing(
    replicated: ReplicatedDatabase,
) -> None:
    copied(replicated, "create table t (a int primary key, b text)", "insert into t values (1, 'x')", t={})
    replicated.publisher.execute("cluster t using t_pkey", "vacuum full t", "insert into t values (2, 'y')")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_008_subscriber_column_keeps_its_own_default(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table t (a int primary key, big text)", t={})
    replicated.subscriber.execute("create table t (a int primary key, big text, b int not null default 42)")
    replicated.subscribe()
    replicated.publisher.execute(
        "insert into t select 1, string_agg(md5(i::text), '') from generate_series(1, 3000) i",
        "update t set a = 2",
    )
    replicated.deliver()

    assert replicated.subscriber.execute("select a, b, length(big) from t") == [(2, 42, 96_000)]


def test_pg_009_a_materialized_view_is_no_article(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table t (a int primary key)", "create unlogged table u (a int primary key)", t={})
    with pytest.raises(TableNotPublishable, match="u is of kind unlogged"):
        replicated.replication.add_article("shop", "u")


def test_pg_010_tables_with_foreign_keys_are_truncated_together(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table a (id serial primary key, self int references a)",
        "create table b (id int primary key, a int references a)",
        "create table c (id int primary key, b int references b)",
        "insert into a (self) select 1 from generate_series(1, 10)",
        "insert into b select i, i from generate_series(1, 10) i",
        "insert into c select i, i from generate_series(1, 10) i",
        a={},
        b={},
        c={},
    )
    replicated.publisher.execute("truncate a restart identity cascade", "insert into a default values")
    replicated.deliver()
    replicated.publisher.execute("insert into b values (1, 1)", "truncate c, b", "insert into b values (2, 1)")
    replicated.deliver()

    replicated.require_equal("a", "b", "c")


def test_pg_011_generated_columns_are_computed_at_the_subscriber(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table t (a int primary key, b int generated always as (a * 2) stored, c text)",
        "insert into t values (1, default, 'x')",
        t={},
    )
    replicated.publisher.execute("insert into t values (2, default, 'y')", "update t set a = 3 where a = 1")
    replicated.deliver()

    replicated.require_equal("t")


@pytest.mark.parametrize("ends", ["rollback to inner_one", "release inner_one"])
def test_pg_017_018_ddl_of_a_large_subtransaction_goes_with_it(replicated: ReplicatedDatabase, ends: str) -> None:
    copied(replicated, "create table t (a int primary key, b text)", t={})
    with replicated.writer() as writer:
        writer.execute("insert into t select i, 'outer' from generate_series(1, 3000) i")
        writer.execute("savepoint inner_one")
        writer.execute("alter table t add c int default 7")
        writer.execute("insert into t select i, 'inner', i from generate_series(3001, 6000) i")
        writer.execute(ends)
        writer.execute("savepoint inner_two")
        writer.execute("alter table t drop column b")
        writer.execute("rollback to inner_two")
        writer.execute("update t set b = 'changed' where a % 3 = 0")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_023_ddl_of_a_prepared_transaction_is_made_with_it(replicated: ReplicatedDatabase) -> None:
    copied(replicated, "create table t (a int primary key)", "create table u (a int primary key)", t={}, u={})
    replicated.publisher.execute(
        "begin",
        "insert into t values (1)",
        "alter table t add b int default 5",
        "insert into t values (2, 2)",
        "prepare transaction 'two'",
        "insert into u values (1)",
    )
    replicated.deliver()
    assert replicated.subscriber.execute("table u") == [(1,)]
    replicated.publisher.execute("commit prepared 'two'", "insert into t values (3)")
    replicated.deliver()

    replicated.require_equal("t", "u")


@pytest.mark.parametrize("ends", ["rollback to inner_one", "release inner_one"])
def test_pg_015_019_only_kept_subtransactions_arrive(replicated: ReplicatedDatabase, ends: str) -> None:
    copied(replicated, "create table t (a int primary key, b text)", t={})
    with replicated.writer() as writer:
        writer.execute("insert into t select i, 'outer' from generate_series(1, 3000) i")
        writer.execute("savepoint inner_one")
        writer.execute("insert into t select i, 'inner' from generate_series(3001, 6000) i")
        writer.execute("update t set b = 'changed' where a % 3 = 0")
        writer.execute(ends)
        writer.execute("delete from t where a % 2 = 0")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_019_ddl_within_a_transaction_is_made_in_it(replicated: ReplicatedDatabase) -> None:
    copied(replicated, "create table t (a int primary key)", t={})
    replicated.publisher.execute("insert into t values (1)")
    with replicated.writer() as writer:
        writer.execute("insert into t values (2)")
        writer.execute("alter table t add b int")
        writer.execute("insert into t values (3, 3)")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_020_application_messages_do_not_reach_a_subscriber(replicated: ReplicatedDatabase) -> None:
    copied(replicated, "create table t (a int primary key)", t={})
    with replicated.writer() as writer:
        writer.execute("select pg_logical_emit_message(true, 'app', 'x'), pg_logical_emit_message(false, 'app', 'y')")
        writer.execute("insert into t values (1)")
    replicated.deliver()

    replicated.require_equal("t")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_pg_021_prepared_transaction_arrives_when_committed(replicated: ReplicatedDatabase, ends: str) -> None:
    copied(replicated, "create table t (a int primary key)", t={})
    replicated.publisher.execute("begin", "insert into t values (1)", "prepare transaction 'two'")
    replicated.publisher.execute("insert into t values (2)")
    replicated.deliver()
    assert replicated.subscriber.execute("table t") == [(2,)]
    replicated.publisher.execute(f"{ends} prepared 'two'")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_029_refused_change_resumes_where_it_stopped(replicated: ReplicatedDatabase) -> None:
    copied(replicated, "create table t (a int primary key)", t={})
    replicated.subscriber.execute("insert into t values (2)")
    replicated.publisher.execute("insert into t values (1)", "insert into t values (2)", "insert into t values (3)")
    with pytest.raises(CommandRefused, match="23505"):
        replicated.deliver()
    replicated.subscriber.execute("delete from t where a = 2")
    replicated.deliver()

    replicated.require_equal("t")


@pytest.mark.exhaustive
def test_pg_100_2_snapshot_rows_are_in_the_subscriber_log(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(
        "create publication downstream for all tables",
        "select pg_create_logical_replication_slot('downstream', 'pgoutput')",
    )
    try:
        copied(replicated, "create table t (a int primary key)", "insert into t values (1)", t={})
        replicated.publisher.execute("insert into t values (2)")
        replicated.deliver()
        messages = replicated.subscriber.execute(_DECODED)
    finally:
        replicated.subscriber.execute("select pg_drop_replication_slot('downstream')")

    inserts = [bytes(data) for (data,) in messages if bytes(data)[:1] == b"I"]
    assert [data[-1:] for data in inserts if len(data) == _LENGTH_OF_ONE_DIGIT] == [b"1", b"2"]


def test_pg_100_4_identity_switched_to_another_index_stops(
    replicated: ReplicatedDatabase,
) -> None:
    copied(replicated, "create table t (a int primary key, b int not null unique)", t={})
    replicated.publisher.execute("insert into t values (1, 1)", "alter table t replica identity using index t_b_key")
    replicated.publisher.execute("update t set a = 2")
    with pytest.raises(SchemaChanged, match="replica identity no longer has the key"):
        replicated.deliver()


def test_pg_100_6_column_dropped_earlier_is_harmless(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table t (gone int, a int primary key, b text)",
        "alter table t drop gone",
        "insert into t values (1, 'x')",
        t={},
    )
    replicated.publisher.execute("update t set b = 'y'", "insert into t values (2, null)", "delete from t where a = 1")
    replicated.deliver()

    replicated.require_equal("t")


def test_pg_100_7_default_of_a_later_column_is_not_null(replicated: ReplicatedDatabase) -> None:
    copied(
        replicated,
        "create table t (a int primary key)",
        "insert into t values (1), (2)",
        "alter table t add b int not null default 7",
        t={},
    )
    replicated.publisher.execute("update t set a = 3 where a = 1", "update t set b = b + 1 where a = 2")
    replicated.deliver()

    replicated.require_equal("t")

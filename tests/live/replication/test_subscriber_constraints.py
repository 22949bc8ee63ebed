"""A subscriber's own cascades and triggers: asked about, and then acting on what is delivered, or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import sql

from builders.commands.hints import run_printed
from builders.replication.articles import commands
from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from rowtide.databases.postgres.errors import RowsHidden
from rowtide.replication.errors.delivery import BatchRefused, RowNotFound
from rowtide.replication.errors.subscribing import ConstraintsFound, ConstraintsUnsupported, ReplicationRoleRefused
from rowtide.replication.subscription_settings import Constraints, IfExists, SyncType

PARENTS = "create table parents (id int primary key, name text)"
CHILDREN = "create table children (id int primary key, of int references parents on delete cascade)"
GRANDCHILDREN = "create table grandchildren (id int primary key, of int references children on delete cascade)"
FAMILY = (PARENTS, CHILDREN, GRANDCHILDREN)
NOTING = (
    "create table noted (id int)",
    (
        "create function note() returns trigger language plpgsql as $$begin insert into noted values (new.id); "
        "return new; end$$"
    ),
    "create trigger note after insert on parents for each row execute function note()",
)


def begin(
    replicated: ReplicatedDatabase, constraints: Constraints | None, *at_the_subscriber: str, delete: str = "CALL"
) -> None:
    """Replicate the family, which has rows on both sides."""
    filled = (
        "insert into parents values (1), (2), (3)",
        "insert into children values (10, 1), (11, 1), (20, 2), (30, 3)",
        "insert into grandchildren values (100, 10), (200, 20)",
    )
    replicated.subscriber.execute(*FAMILY, *filled, *at_the_subscriber)
    told = {"commands": commands(delete=delete)}
    replicated.publish(*FAMILY, *filled, parents=told, children=told, grandchildren=told)
    replicated.subscribe(constraints=constraints)


@pytest.fixture
def unprivileged(replicated: ReplicatedDatabase) -> Iterator[str]:
    """Yield the URL of the subscriber for a role that owns nothing but its database."""
    session, database = replicated.subscriber.session, replicated.subscriber.session.info.dbname
    role = f"plain_{database}"
    session.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
    session.execute(sql.SQL("grant create on database {} to {}").format(*map(sql.Identifier, (database, role))))
    separator = "&" if "?" in replicated.subscriber.url else "?"
    yield f"{replicated.subscriber.url}{separator}user={role}"
    session.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
    session.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def test_who_subscribes_is_asked_about_cascades_and_triggers(replicated: ReplicatedDatabase) -> None:
    with pytest.raises(ConstraintsFound) as raised:
        begin(replicated, None, *NOTING)

    assert raised.value.found == (
        "foreign key children_of_fkey of public.children with an action, "
        "foreign key grandchildren_of_fkey of public.grandchildren with an action, trigger note on public.parents"
    )
    assert list_subscriptions(replicated.publisher) == ()


@pytest.mark.parametrize(
    "at_the_subscriber",
    [
        "create table children (id int primary key, of int references parents)",
        "create table more (id int primary key, of int references parents on delete cascade)",
        f"{'; '.join(NOTING)}; alter table parents enable always trigger note",
        f"{'; '.join(NOTING)}; alter table parents enable replica trigger note",
        f"{'; '.join(NOTING)}; alter table parents disable trigger note",
    ],
)
def test_harmless_constraints_need_no_choice(replicated: ReplicatedDatabase, at_the_subscriber: str) -> None:
    replicated.subscriber.execute(PARENTS, at_the_subscriber)
    replicated.publish(PARENTS, parents={})
    replicated.subscribe()

    assert len(list_subscriptions(replicated.publisher)) == 1


@pytest.mark.parametrize("delete", ["CALL", "XCALL", "SQL"])
def test_a_delete_behind_a_cascade_of_its_batch_is_delivered(replicated: ReplicatedDatabase, delete: str) -> None:
    begin(replicated, Constraints.ENFORCE, delete=delete)
    replicated.publisher.execute("delete from parents where id < 3")
    replicated.deliver()

    replicated.require_equal("parents", "children", "grandchildren")
    assert replicated.subscriber.execute("select id from children") == [(30,)]


def test_many_deletes_behind_a_cascade_are_delivered_in_arrays(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.ENFORCE)
    replicated.publisher.execute(
        "insert into parents select i from generate_series(4, 50) i",
        "insert into children select 1000 + i, 4 + i % 40 from generate_series(1, 500) i",
        "delete from parents where id > 3",
    )
    replicated.deliver()

    replicated.require_equal("parents", "children", "grandchildren")


def test_a_delete_in_another_batch_than_the_cascade_is_an_error(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.ENFORCE)
    replicated.publisher.execute("alter table children drop constraint children_of_fkey")
    replicated.publisher.execute("delete from parents where id = 1")
    replicated.deliver()
    replicated.publisher.execute("delete from children where id = 10")

    with pytest.raises(
        RowNotFound, match="the row with key id = 10 of public.children was not found .* applying delete"
    ):
        replicated.deliver()


@pytest.mark.parametrize(
    ("missing", "change", "row"),
    [
        ("delete from children where id = 20", "update children set of = 3 where id = 20", "20.* of public.children"),
        ("delete from parents where id = 3", "delete from parents where id = 3", "3.* of public.parents"),
    ],
)
def test_what_no_cascade_explains_is_an_error_beside_one(
    replicated: ReplicatedDatabase, missing: str, change: str, row: str
) -> None:
    begin(replicated, Constraints.ENFORCE)
    replicated.subscriber.execute(missing)
    with replicated.writer() as writer:
        writer.execute("delete from parents where id = 1")
        writer.execute(change)

    with pytest.raises(RowNotFound, match=f"the row with key .*{row} was not found"):
        replicated.deliver()


def test_cascaded_delete_is_applied_when_errors_are_skipped(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.ENFORCE)
    replicated.subscriber.execute("insert into parents values (9)")
    with replicated.writer() as writer:
        writer.execute("insert into parents values (9)")
        writer.execute("delete from parents where id = 1")
    replicated.publisher.read_log(replicated.publisher.mark())
    replicated.replication.run(once=True, skip_errors="2627")

    assert [error.error_code for error in replicated.replication.list_errors()] == ["7114"]
    replicated.require_equal("parents", "children", "grandchildren")


def test_constraints_that_are_not_for_replication_do_nothing(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.NOT_FOR_REPLICATION, *NOTING)
    replicated.publisher.execute("insert into parents values (4)", "delete from parents where id = 1")
    replicated.deliver()

    replicated.require_equal("parents", "children", "grandchildren")
    assert replicated.subscriber.execute("select * from noted") == []


def test_a_row_may_come_before_what_it_refers_to(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.NOT_FOR_REPLICATION)
    replicated.publisher.execute("alter table children drop constraint children_of_fkey")
    replicated.publisher.execute("insert into children values (40, 4)")
    replicated.deliver()
    replicated.publisher.execute("insert into parents values (4)")
    replicated.deliver()

    replicated.require_equal("parents", "children")


def test_row_with_a_dangling_reference_is_refused_by_default(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.ENFORCE)
    replicated.publisher.execute("alter table children drop constraint children_of_fkey")
    replicated.publisher.execute("insert into children values (40, 4)")
    with pytest.raises(BatchRefused, match="23503"):
        replicated.deliver()


def test_tables_with_foreign_keys_are_kept_and_copied_to(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        PARENTS,
        CHILDREN,
        "insert into parents select i from generate_series(1, 50) i",
        "insert into children select i, i from generate_series(1, 50) i",
        children={},
        parents={},
    )
    replicated.subscriber.execute(PARENTS, CHILDREN, *NOTING)
    replicated.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP, constraints=Constraints.NOT_FOR_REPLICATION)
    replicated.deliver()

    replicated.require_equal("parents", "children")
    assert replicated.subscriber.execute("select * from noted") == []


def test_a_subscription_that_is_begun_again_keeps_the_choice(replicated: ReplicatedDatabase) -> None:
    begin(replicated, Constraints.NOT_FOR_REPLICATION, *NOTING)
    replicated.replication.reinitialize("shop", if_exists=IfExists.DELETE)
    replicated.publisher.execute("insert into parents values (4)")
    replicated.deliver()

    replicated.require_equal("parents", "children", "grandchildren")
    assert replicated.subscriber.execute("select * from noted") == []


def test_a_role_that_may_not_disable_constraints(replicated: ReplicatedDatabase, unprivileged: str) -> None:
    replicated.publish(PARENTS, parents={})
    with pytest.raises(ReplicationRoleRefused, match="role plain_.* may not set session_replication_role") as refused:
        replicated.replication.add_subscription("shop", unprivileged, constraints=Constraints.NOT_FOR_REPLICATION)

    (granted,) = replicated.subscriber.execute("select rolname::text from pg_roles where rolname like 'plain%'")
    replicated.subscriber.execute(f"grant create on schema public to {granted[0]}")
    run_printed(refused.value, replicated.subscriber.url)
    replicated.replication.add_subscription("shop", unprivileged, constraints=Constraints.NOT_FOR_REPLICATION)


def test_a_file_takes_no_choice(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(PARENTS, parents={})
    with pytest.raises(ConstraintsUnsupported):
        replicated_file.subscribe(SyncType.AUTOMATIC, constraints=Constraints.ENFORCE)


def test_policies_of_a_subscriber_are_named(replicated: ReplicatedDatabase, unprivileged: str) -> None:
    table = "create table orders (id int primary key, note text)"
    replicated.subscriber.execute(
        table,
        "alter table orders enable row level security",
        f"grant all on orders to {unprivileged.split('user=')[1]}",
    )
    replicated.publish(table, "insert into orders values (1, 'a')", orders={})
    replicated.replication.add_subscription("shop", unprivileged, if_exists=IfExists.KEEP)
    with pytest.raises(RowsHidden, match="RT-1040: .* public.orders at the subscriber has policies.*bypassrls"):
        replicated.deliver()

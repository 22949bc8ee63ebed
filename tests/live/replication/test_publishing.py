"""Publications, articles and subscriptions: made, refused, and taken away without a trace."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.core.errors import RowtideError
from rowtide.core.operations import Operation
from rowtide.log.errors import LogStillRead
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.publishing import (
    ArticleExists,
    ArticleNeedsKey,
    ArticleUnknown,
    NothingReadsLog,
    PartitionImagesVary,
    PublicationExists,
    PublicationSubscribed,
    PublicationUnknown,
)
from rowtide.replication.errors.subscribing import (
    ArticleTableMissing,
    NothingToSubscribe,
    PasswordGiven,
    ProcedureEndsTransaction,
    ProcedureTaken,
    ProcedureUnfit,
    SubscriptionExists,
    SubscriptionUnknown,
)

ORDERS = "create table orders (id int primary key, qty int, note text)"
APPLY = """
create procedure apply_order(c1 int, c2 int, c3 text, pkc1 int, bitmap bytea) language plpgsql as $$ begin
    {body}
end $$
"""


@pytest.fixture
def published(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A publication with one article, and a subscriber with its table, not subscribed yet."""
    replicated.publisher.execute(ORDERS)
    replicated.subscriber.execute(ORDERS)
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)
    replicated.replication.add_article(PUBLICATION, "orders")
    return replicated


def test_publication_needs_a_log_reader_and_a_unique_name(replicated: ReplicatedDatabase) -> None:
    with pytest.raises(NothingReadsLog):
        replicated.replication.add_publication(PUBLICATION)
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)

    with pytest.raises(PublicationExists):
        replicated.replication.add_publication(PUBLICATION)


def test_a_database_without_publications_has_nothing_to_deliver(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    replicated.replication.run(once=True)

    assert replicated.replication.status() == ()
    with pytest.raises(PublicationUnknown):
        replicated.replication.drop_publication(PUBLICATION)


def test_what_is_not_there_is_named(published: ReplicatedDatabase) -> None:
    replication, url = published.replication, published.subscriber.url
    refused: list[tuple[type[RowtideError], str, object]] = [
        (PublicationUnknown, "publication other does", lambda: replication.add_article("other", "orders")),
        (PublicationUnknown, "publication other does", lambda: replication.add_subscription("other", url)),
        (PublicationUnknown, "publication other does", lambda: replication.status("other")),
        (PublicationUnknown, "publication other does", lambda: replication.run("other", once=True)),
        (ArticleUnknown, "article others does", lambda: replication.drop_article(PUBLICATION, "others")),
        (SubscriptionUnknown, f"to publication {PUBLICATION}", lambda: replication.drop_subscription(PUBLICATION, url)),
    ]
    for error, problem, call in refused:
        with pytest.raises(error, match=problem):
            call()  # type: ignore[operator]


def test_a_table_is_an_article_once_and_needs_a_key_for_updates(published: ReplicatedDatabase) -> None:
    published.publisher.execute("create table keyless (id int)")

    with pytest.raises(ArticleExists):
        published.replication.add_article(PUBLICATION, "public.orders")
    with pytest.raises(ArticleNeedsKey):
        published.replication.add_article(PUBLICATION, "keyless")


def test_a_subscriber_subscribes_once_and_has_the_tables(published: ReplicatedDatabase) -> None:
    published.subscriber.execute("alter table orders drop column note")
    with pytest.raises(ArticleTableMissing, match="public.orders with the published columns: note"):
        published.subscribe()
    published.subscriber.execute("alter table orders add column note text")
    published.subscribe()

    with pytest.raises(SubscriptionExists):
        published.subscribe()


def test_password_is_refused_and_so_is_an_empty_publication(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)

    with pytest.raises(PasswordGiven) as raised:
        replicated.replication.add_subscription(PUBLICATION, "postgresql://me:secret@host/copy")
    assert "secret" not in str(raised.value)
    with pytest.raises(NothingToSubscribe):
        replicated.subscribe()


def test_subscribed_publication_and_capture_cannot_be_dropped(published: ReplicatedDatabase) -> None:
    published.subscribe()

    with pytest.raises(PublicationSubscribed):
        published.replication.drop_publication(PUBLICATION)
    with pytest.raises(LogStillRead, match="articles of publications too: shop/orders"):
        published.publisher.cdc.disable_db()


def test_all_that_was_made_is_taken_away_and_the_rows_stay(published: ReplicatedDatabase) -> None:
    identity = "select relreplident from pg_class where relname = 'orders'"
    published.subscribe()
    published.publisher.execute("insert into orders values (1, 1)")
    published.deliver()
    assert published.publisher.execute(identity) == [("f",)]
    assert len(published.publisher.manifest().state.readers) == 2
    published.replication.drop_subscription(PUBLICATION, published.subscriber.url)
    published.replication.drop_publication(PUBLICATION)

    schemas = "select nspname from pg_namespace where nspname in ('distribution', 'rowtide_subscriber')"
    assert published.publisher.execute(schemas) == published.subscriber.execute(schemas) == []
    assert published.publisher.execute(identity) == [("d",)]
    assert published.publisher.execute("select distinct tablename from pg_publication_tables") == [("control",)]
    assert list(published.publisher.manifest().state.readers) == ["cdc"]
    assert published.subscriber.execute("select id from orders") == [(1,)]


def test_a_subscriber_that_is_gone_can_be_dropped(published: ReplicatedDatabase) -> None:
    published.subscribe()
    published.subscriber.execute("drop schema rowtide_subscriber cascade")
    published.replication.drop_subscription(PUBLICATION, published.subscriber.url, ignore_subscriber=True)

    assert published.replication.status() == ()


def test_an_article_of_a_table_that_was_dropped_can_be_dropped(published: ReplicatedDatabase) -> None:
    published.publisher.execute("drop table orders")
    published.replication.drop_article(PUBLICATION, "public.orders")
    published.replication.drop_publication(PUBLICATION)

    assert published.publisher.execute("select * from rowtide.members where feature <> 'log'") == []


def test_tables_with_colliding_names_have_their_own_procedures(replicated: ReplicatedDatabase) -> None:
    tables = ("create schema a", "create schema ab", "create table a.bc (id int primary key)")
    replicated.begin(*tables, "create table ab.c (id int primary key)", **{"a.bc": {}, "ab.c": {}})
    replicated.publisher.execute("insert into a.bc values (1)", "insert into ab.c values (2)")
    replicated.deliver()

    replicated.require_equal("a.bc", "ab.c")


def test_a_procedure_of_anothers_article_is_not_replaced(published: ReplicatedDatabase) -> None:
    published.subscribe()
    published.subscriber.execute(
        "comment on procedure rowtide_subscriber.\"sp_MSupd_publicorders\" is 'rowtide: article of another'"
    )
    published.replication.drop_subscription(PUBLICATION, published.subscriber.url, ignore_subscriber=True)

    with pytest.raises(
        ProcedureTaken, match="sp_MSupd_publicorders that does not belong to this article of public.orders"
    ):
        published.subscribe()


def test_whole_row_commands_are_refused_for_partitioned_tables(published: ReplicatedDatabase) -> None:
    published.publisher.execute("create table parts (id int primary key) partition by range (id)")

    with pytest.raises(PartitionImagesVary, match="XCALL needs all values of public.parts"):
        published.replication.add_article(PUBLICATION, "parts", commands={Operation.UPDATE: Command(CallFormat.XCALL)})


def custom(published: ReplicatedDatabase) -> None:
    """Publish another table whose updates go to a procedure of the user's own."""
    published.replication.drop_article(PUBLICATION, "orders")
    commands = {Operation.UPDATE: Command(CallFormat.SCALL, "apply_order")}
    published.replication.add_article(PUBLICATION, "orders", commands=commands)


def test_a_custom_procedure_gets_what_the_call_format_says(published: ReplicatedDatabase) -> None:
    custom(published)
    published.subscriber.execute(
        "create table applied (c1 int, c2 int, c3 text, pkc1 int, bitmap bytea)",
        APPLY.format(body="insert into applied values (c1, c2, c3, pkc1, bitmap);"),
    )
    published.subscribe()
    published.publisher.execute(
        "insert into orders values (1, 10, 'a')",
        "update orders set qty = 11",
        "update orders set note = null, id = 2",
    )
    published.deliver()

    assert published.subscriber.execute("table applied") == [
        (None, 11, None, 1, b"\x02"),
        (2, None, None, 1, b"\x05"),
    ]


def test_unfit_custom_procedure_is_refused_with_the_signature(
    published: ReplicatedDatabase,
) -> None:
    custom(published)
    wanted = r"c1 integer, c2 integer, c3 text, pkc1 integer, bitmap bytea"
    with pytest.raises(ProcedureUnfit, match=f"no procedure apply_order that takes updates: .*apply_order.{wanted}."):
        published.subscribe()
    published.subscriber.execute(APPLY.format(body="null;").replace("c2 int", "c2 date"))
    with pytest.raises(ProcedureUnfit):
        published.subscribe()
    published.subscriber.execute("drop procedure apply_order", APPLY.format(body="perform 1; commit;"))
    with pytest.raises(ProcedureEndsTransaction, match="apply_order ends its transaction: commit"):
        published.subscribe()
    # Another of the name, which the call does not find, hides nothing.
    published.subscriber.execute("create procedure apply_order(int) language sql begin atomic select 1; end")
    with pytest.raises(ProcedureEndsTransaction):
        published.subscribe()
    published.subscriber.execute("drop procedure apply_order(int)")
    published.subscriber.execute("drop procedure apply_order", APPLY.format(body="perform 'x; commit;'; -- rollback;"))
    published.subscribe()


def test_capture_job_shows_which_feature_scans_the_log(
    replicated: ReplicatedDatabase,
) -> None:
    def scan() -> list[str | None]:
        return [job.log_scan for job in replicated.publisher.cdc.list_jobs()]

    replicated.publisher.execute("create table orders (id int primary key)")
    replicated.publisher.enable("orders")
    assert scan() == ["capture", None]
    replicated.replication.add_publication(PUBLICATION)
    replicated.replication.add_article(PUBLICATION, "orders")
    assert scan() == ["replication", None]
    replicated.replication.drop_publication(PUBLICATION)
    assert scan() == ["capture", None]

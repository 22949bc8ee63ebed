"""The commands in the log store, as a person reads them."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.core.operations import Operation
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.errors.publishing import ArticleUnknown, PublicationUnknown
from rowtide.replication.inspection.row_places import BrowsedCommand

ORDERS = "create table orders (id int primary key, note text, price numeric)"
LINES = "create table lines (id int primary key, born timestamptz)"


def browse(replicated: ReplicatedDatabase, **chosen: object) -> list[BrowsedCommand]:
    replicated.publisher.read_log()
    return list(replicated.replication.browse_commands(**chosen))  # type: ignore[call-overload]


def test_commands_are_listed_in_commit_order_in_their_formats(replicated: ReplicatedDatabase) -> None:
    mcall = {Operation.UPDATE: Command(CallFormat.MCALL, "apply_line"), Operation.DELETE: Command(CallFormat.XCALL)}
    replicated.subscriber.execute(
        "create procedure apply_line(int, timestamptz, int, bytea) language plpgsql as 'begin end'"
    )
    replicated.begin(ORDERS, LINES, orders={}, lines={"commands": mcall})
    with replicated.writer() as writer:
        writer.execute("insert into orders values (1, 'it''s', 2.50)")
        writer.execute("insert into lines values (7, '2024-01-01 00:00+00')")
        writer.execute("update orders set note = null")
    replicated.publisher.execute("update lines set born = null", "delete from lines", "truncate orders")

    commands = browse(replicated)
    assert [(found.article, found.operation, found.command) for found in commands] == [
        ("orders", "insert", """{CALL "sp_MSins_publicorders" (1, 'it''s', 2.50)}"""),
        ("lines", "insert", """{CALL "sp_MSins_publiclines" (7, '2024-01-01 00:00:00+00')}"""),
        ("orders", "update", """{SCALL "sp_MSupd_publicorders" (null, null, null, 1, 0x02)}"""),
        ("lines", "update", """{MCALL apply_line (7, null, 7, 0x02)}"""),
        ("lines", "delete", """{XCALL "sp_MSdel_publiclines" (7, null)}"""),
        ("orders", "truncate", """truncate "public"."orders\""""),
    ]
    assert [found.command_id for found in commands] == [1, 2, 3, 1, 1, 1]


def test_statements_are_listed_with_their_values(replicated: ReplicatedDatabase) -> None:
    chosen = {operation: Command(CallFormat.SQL) for operation in list(Operation)[:3]}
    replicated.begin(ORDERS, orders={"commands": chosen, "columns": ("id", "note")})
    replicated.publisher.execute(
        "insert into orders values (1, 'x')", "update orders set id = 2, note = null", "delete from orders"
    )

    assert [found.command for found in browse(replicated)] == [
        """insert into "public"."orders" ("id", "note") values (1, 'x')""",
        """update "public"."orders" set "id" = 2, "note" = null where "id" = 1""",
        """delete from "public"."orders" where "id" = 2""",
    ]


def test_a_range_and_an_article_are_chosen(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, LINES, orders={}, lines={})
    for number in range(4):
        replicated.publisher.execute(f"insert into orders values ({number})", f"insert into lines values ({number})")
    every = browse(replicated, publication="shop", article="public.orders")

    second, third = every[1].xact_seqno, every[2].xact_seqno
    assert browse(replicated, article="orders", from_lsn=second, to_lsn=third) == every[1:3]
    assert [found.article for found in every] == ["orders"] * 4
    words = ("--article", "orders", "--from", str(second), "--to", str(int(third)), "--format", "jsonl")
    ended = rowtide("replication", "browse-commands", *words, "--db", replicated.publisher.url)
    assert [json.loads(line)["xact_seqno"] for line in ended.output.splitlines()] == [str(second), str(third)]


def test_filtered_rows_and_rows_before_the_article_are_unlisted(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.publisher.execute(ORDERS)
    replicated.publisher.enable()
    replicated.publisher.cdc.enable_table("orders", columns=("id",))
    replicated.publisher.execute("insert into orders values (1, 'early')")
    replicated.subscriber.execute(ORDERS)
    replicated.begin(orders={"where": "note = 'in'"})
    replicated.publisher.execute("insert into orders values (2, 'in'), (3, 'out')")

    assert [found.command for found in browse(replicated)] == ["""{CALL "sp_MSins_publicorders" (2, 'in', null)}"""]


def test_names_that_are_unknown_are_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    with pytest.raises(ArticleUnknown):
        replicated.replication.browse_commands(article="nothing")
    with pytest.raises(PublicationUnknown):
        replicated.replication.browse_commands("nothing")

"""What published tables need of a subscriber: types are created, what rowtide does not create is listed at once."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from rowtide.replication.errors.subscribing import SubscriberLacks
from rowtide.replication.subscription_settings import SyncType

TYPES = (
    "create schema kinds",
    "create type kinds.\"it's\" as enum ('sad', 'so ''so', 'glad')",
    "create collation kinds.plain (provider = libc, locale = 'C')",
    (
        "create domain kinds.email as text collate kinds.plain default 'x@y' not null "
        "constraint at check (value like '%@%')"
    ),
    "create type kinds.place as (town text, mail kinds.email)",
    "create domain at as kinds.place",
    "create type kinds.span as range (subtype = float8, subtype_diff = float8mi)",
)
OF_OTHERS = (
    "create schema kinds",
    "create type kinds.mood as enum ('sad', 'glad')",
    "set search_path = kinds",
    "create domain kinds.usual as mood default 'sad' check (value <> 'glad')",
    "reset search_path",
    "create collation kinds.\"bytes\" (provider = libc, locale = 'C')",
    (
        "create type kinds.words as range (subtype = text, subtype_opclass = text_pattern_ops, "
        'collation = kinds."bytes", multirange_type_name = kinds."many words")'
    ),
    'create type kinds.named as (name text collate kinds."bytes", feels kinds.usual)',
    "create type kinds.spans as range (subtype = float8, subtype_diff = float8mi)",
)
PEOPLE = (
    'create table people (id int primary key, feels kinds."it\'s"[], mail kinds.email, lives at, at kinds.span, '
    "name text collate kinds.plain)"
)
ROW = """insert into people values (1, '{glad,so ''so}', 'a@b', row('here', 'a@b'), '[1,2)', 'Ann')"""


def test_types_that_a_subscriber_lacks_are_created(replicated: ReplicatedDatabase) -> None:
    replicated.publish(*TYPES, PEOPLE, ROW, people={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into people (id, feels, mail) values (2, '{sad}', 'q@r')")
    replicated.deliver()

    replicated.require_equal("people")
    collated = "select attcollation::regcollation::text from pg_attribute where attrelid = 'people'::regclass"
    assert ("kinds.plain",) in replicated.subscriber.execute(collated)
    described = "select pg_get_constraintdef(oid) from pg_constraint where contypid = 'kinds.email'::regtype order by 1"
    assert replicated.subscriber.execute(described) == replicated.publisher.execute(described)


def test_created_types_are_as_they_are_at_the_publisher(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        *OF_OTHERS,
        'create table said (id int primary key, at kinds.words, ats kinds."many words", by kinds.named, '
        "feels kinds.usual, of kinds.spans)",
        "insert into said values (1, '[a,b)', '{[B,a)}', '(Ann,sad)', 'sad', '[1,2)')",
        said={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()

    replicated.require_equal("said")
    for described in (
        (
            "select rngtypid::regtype, rngsubopc, rngcollation::regcollation, rngmultitypid::regtype, "
            "rngsubdiff::text from pg_range where rngtypid >= 16384 order by 1"
        ),
        (
            "select attname, attcollation::regcollation::text from pg_attribute "
            "where attrelid = (select typrelid from pg_type where typname = 'named') order by 1"
        ),
        "select pg_get_expr(typdefaultbin, 0) from pg_type where typname = 'usual'",
    ):
        assert replicated.subscriber.execute(described) == replicated.publisher.execute(described)


def test_values_may_violate_a_constraint_that_is_not_valid(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create domain amount as int constraint small check (value < 100)",
        "create table stock (id int primary key, of amount)",
        "insert into stock values (1, -5)",
        "alter domain amount add constraint positive check (value > 0) not valid",
        stock={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into stock values (2, 5)")
    replicated.deliver()

    replicated.require_equal("stock")
    checked = "select conname from pg_constraint where contypid = 'amount'::regtype and contype = 'c'"
    assert replicated.subscriber.execute(checked) == [("small",)]


def test_functions_of_a_range_type_are_listed(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create function apart(text, text) returns float8 language sql immutable as 'select length($1) - length($2)'",
        "create type words as range (subtype = text, subtype_diff = apart)",
        "create table said (id int primary key, at words)",
        said={},
    )
    with pytest.raises(SubscriberLacks, match=r"function public\.apart\(text,text\)"):
        replicated.subscribe(SyncType.AUTOMATIC)


def test_all_that_a_subscriber_must_be_given_is_listed(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        # The server of the tests has no extension with types: its only one gets one, under another name.
        "update pg_extension set extname = 'words' where extname = 'plpgsql'",
        "create domain word as text",
        "alter extension words add domain word",
        "create type mood as enum ('sad', 'glad', 'calm')",
        "create function is_short(text) returns bool language sql immutable as 'select length($1) < 9'",
        "create function twice(int) returns int language sql immutable as 'select $1 * 2'",
        "create domain short as text check (is_short(value))",
        "create table people (id int primary key, name word, nick short, feels mood, "
        "of int generated always as (twice(id)) stored)",
        people={},
    )
    replicated.subscriber.execute("create type mood as enum ('sad')")
    with pytest.raises(SubscriberLacks) as raised:
        replicated.subscribe(SyncType.AUTOMATIC)

    assert raised.value.objects == (
        "extension words (create extension words schema pg_catalog); function public.is_short(text); "
        "function public.twice(integer); label glad of enum public.mood (alter type public.mood add value 'glad'); "
        "label calm of enum public.mood (alter type public.mood add value 'calm')"
    )
    assert replicated.subscriber.execute("select to_regtype('short'), to_regclass('people')") == [(None, None)]
    assert list_subscriptions(replicated.publisher) == ()


def test_a_renamed_label_is_to_be_renamed_at_the_subscriber(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create type mood as enum ('sad', 'ok')",
        "create table people (id int primary key, feels mood)",
        "insert into people values (1, 'sad'), (2, 'ok')",
        people={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.publisher.execute(
        "alter type mood rename value 'sad' to 'it''s blue'", "insert into people values (3, 'it''s blue')"
    )
    renaming = "alter type public.mood rename value 'sad' to 'it''s blue'"
    with pytest.raises(SubscriberLacks) as raised:
        replicated.deliver()

    assert raised.value.objects == f"label it's blue of enum public.mood ({renaming})"
    replicated.subscriber.execute(renaming)
    replicated.deliver()
    replicated.require_equal("people")
    labels = "select enum_range(null::mood)::text"
    assert replicated.subscriber.execute(labels) == replicated.publisher.execute(labels)


def test_labels_in_another_order_are_to_be_added(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create type mood as enum ('sad', 'ok', 'glad')",
        "create table people (id int primary key, feels mood)",
        people={},
    )
    replicated.subscriber.execute("create type mood as enum ('ok', 'sad', 'calm')")
    with pytest.raises(SubscriberLacks, match=r"\(alter type public.mood add value 'glad'\)"):
        replicated.subscribe(SyncType.AUTOMATIC)

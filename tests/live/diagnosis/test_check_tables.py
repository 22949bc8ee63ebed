"""Tables and rights on a real server: each finding is brought about, and is gone when its statement has run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, run_mend, stopping
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.diagnosis.postgres.views import read_facts
from rowtide.diagnosis.result import CheckResult, State
from rowtide.handle import connect

_numbers = itertools.count(1)

MENDABLE = {
    "create unlogged table a (id int primary key)": "public.a cannot be captured: it is unlogged",
    'create table b (id int primary key, "__$seqval" int)': "column __$seqval of public.b has the name",
    'create table c ("__$exact" int primary key)': "column __$exact of public.c has the name",
    'create table "It\'s; odd" (id int primary key)': '"public_It\'s; odd" cannot name a capture instance',
    'create table "D" (id int primary key)': "its capture instance would be called public_d",
    "create table d (a int, b int not null, c int not null)": "table public.d: it has no primary key",
}
"""How tables are made, and how it is reported."""


def check(logged: LoggedDatabase, *tables: str) -> tuple[CheckResult, ...]:
    return connect(logged.url).check(tables)


def test_what_tables_lack_is_mended_by_what_is_printed(logged: LoggedDatabase) -> None:
    logged.execute(
        *MENDABLE,
        "create unique index on d (a)",
        "create unique index on d (b) where a > 0",
        "create unique index on d (c, b) include (a)",
    )
    logged.enable()
    findings = check(logged)
    for words in MENDABLE.values():
        run_mend(only(findings, words), logged.url)
    after = check(logged, "a", "b", "c", "d", '"It\'s; odd"')
    assert [words for words in MENDABLE.values() if matching(after, words)] == []
    assert logged.execute("select conkey from pg_constraint where conrelid = 'd'::regclass and contype = 'p'") == [
        ([3, 2],)
    ]


def test_virtual_columns_become_stored_ones(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int primary key, twice int generated always as (id * 2) virtual, "
        "label text generated always as ('no. ' || id::text || ':') virtual)",
        "insert into item values (7)",
    )
    assert [finding.state for finding in stopping(check(logged, "item"))] == [State.FAILING] * 2
    for finding in stopping(check(logged, "item")):
        run_mend(finding, logged.url)
    assert stopping(check(logged, "item")) == []
    assert logged.execute("select id, twice, label from item") == [(7, 14, "no. 7:")]
    logged.enable("item")


def test_the_cost_of_old_rows_comes_from_what_the_server_knows(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table wide (id int primary key, body text)",
        "alter table wide alter body set storage external",
        "insert into wide select id, repeat('x', 8000) from generate_series(1, 100) id",
        "create table narrow (id int primary key, n bigint)",
        "insert into narrow values (1, 1)",
        "analyze wide, narrow",
    )
    findings = check(logged)
    assert "the whole old row, 8." in only(findings, "table public.wide").message
    assert only(findings, "for public.narrow").message.endswith("12 bytes to 12 bytes on average")
    logged.enable("wide", "narrow")
    assert matching(check(logged), "whole old row") == []


def test_how_columns_are_held_is_reported(logged: LoggedDatabase) -> None:
    logged.execute('create table item (id int primary key, "ID" numeric, tags text[], name varchar(9))')
    findings = check(logged)
    assert only(findings, "only in case").message.endswith("ID is ID_2")
    assert only(findings, "as the text").message.endswith("ID (numeric), tags (text[])")


def test_uncapturable_tables_stop_only_if_they_are_named(logged: LoggedDatabase) -> None:
    logged.execute(
        "create unlogged table item (id int primary key)",
        "create temporary table session (id int primary key)",
        "create foreign data wrapper files",
        "create server elsewhere foreign data wrapper files",
        "create foreign table remote (id int) server elsewhere",
    )
    findings = check(logged)
    assert stopping(findings) == []
    assert only(findings, "foreign").message.startswith("the rows of public.remote are on another server")
    assert matching(findings, "session") == []
    assert only(check(logged, "item"), "unlogged").state is State.FAILING
    with pytest.raises(TableNotFound):
        check(logged, "nowhere")


def test_the_partitions_of_a_root_are_read_with_their_identities(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int primary key) partition by range (id)",
        "create table low partition of item for values from (0) to (10)",
        "create table high partition of item for values from (10) to (90) partition by range (id)",
        "create table higher partition of high for values from (10) to (20)",
        "alter table low replica identity full",
    )
    (facts,) = read_facts(logged.url).tables
    assert [(partition.name, partition.identity) for partition in facts.partitions] == [("higher", "d"), ("low", "f")]


@pytest.fixture
def role(logged: LoggedDatabase) -> Iterator[str]:
    """A role without rights, gone after the test with what it owns."""
    name = f"app {next(_numbers)}"
    logged.execute(f'create role "{name}" login')
    yield name
    logged.execute(f'drop owned by "{name}"', f'drop role "{name}"')


def test_printed_statements_grant_the_rights_a_role_lacks(logged: LoggedDatabase, role: str) -> None:
    owner = f"{role} owner"
    logged.execute(
        "create table item (id int primary key)",
        f'create role "{owner}"',
        "create table other (id int primary key)",
        f'alter table other owner to "{owner}"',
    )
    url = logged.url.replace("postgres@", f"{role.replace(' ', '%20')}@")
    findings = stopping(connect(url).check(["item", "other"]))
    assert [finding.message.partition(":")[0].partition(",")[0] for finding in findings] == [
        "it has no replication right",
        f"it may not create schemas and publications in database {logged.session.info.dbname}",
        f"it lacks the rights of {owner}",
        "it lacks the rights of postgres",
    ]
    for finding in findings:
        run_mend(finding, logged.url)
    assert stopping(connect(url).check(["item", "other"])) == []
    cdc = connect(url).cdc
    cdc.enable_db(str(logged.lake))
    assert [cdc.enable_table(table) for table in ("item", "other")] == ["public_item", "public_other"]
    logged.execute("drop schema cdc, rowtide cascade", "drop publication if exists " + cdc_publication(logged))
    logged.execute(f'drop owned by "{owner}"', f'drop role "{owner}"')


def cdc_publication(logged: LoggedDatabase) -> str:
    return str(logged.execute("select quote_ident(pubname) from pg_publication")[0][0])


def test_postgresql_16_is_checked_too(logged_16: LoggedDatabase) -> None:
    logged_16.execute("create unlogged table item (id int)", "create unique index on item (id)")
    assert only(check(logged_16, "item"), "unlogged").state is State.FAILING
    logged_16.enable()
    run_mend(only(check(logged_16), "unlogged"), logged_16.url)
    assert stopping(check(logged_16, "item")) == []
    logged_16.cdc.enable_table("item")
    assert stopping(check(logged_16)) == []


def test_a_partition_gets_its_identity_back_as_printed(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table part (id int primary key, name text) partition by range (id)",
        "create table low partition of part for values from (0) to (10)",
    )
    logged.enable("part")
    logged.execute("alter table low replica identity default")
    run_mend(only(check(logged), "the replica identity of partition public.low is not full"), logged.url)
    assert matching(check(logged), "public.low") == []

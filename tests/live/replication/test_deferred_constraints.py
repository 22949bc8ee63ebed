"""Constraints that the publisher checks late: what its transactions may do, they may do at a subscriber."""

from __future__ import annotations

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.replication.articles import commands
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.errors.publishing import KeyCheckedLate
from rowtide.replication.subscription_settings import SyncType

PLACES = "create table places (id int primary key, place int not null unique deferrable initially deferred)"
SEATS = "create table seats (id int primary key, place int not null unique deferrable initially immediate)"
PARENTS = "create table parents (id int primary key)"
CHILDREN = "create table children (id int primary key references parents on delete cascade)"


def copied(replicated: ReplicatedDatabase | ReplicatedFile, *definitions: str, rows: str) -> None:
    """Publish tables with rows, and copy them."""
    tables = [sql.split()[2] for sql in definitions]
    replicated.publish(*definitions, **{table: {} for table in tables})
    replicated.publisher.execute(rows)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()


@pytest.mark.parametrize("name", ["replicated", "replicated_16"])
def test_a_truncate_comes_behind_rows_of_its_batch(name: str, request: pytest.FixtureRequest) -> None:
    replicated: ReplicatedDatabase = request.getfixturevalue(name)
    copied(replicated, PARENTS, CHILDREN, rows="insert into parents values (1), (2)")
    replicated.publisher.execute(
        "insert into parents values (9)",
        "insert into children values (1), (9)",
        "truncate children",
        "insert into children values (2)",
        "truncate parents cascade",
        "insert into parents values (3)",
        "insert into children values (3)",
    )
    replicated.deliver()

    replicated.require_equal("parents", "children")
    assert replicated.subscriber.execute("table children") == [(3,)]


def test_a_file_takes_values_that_rows_hand_on(replicated_file: ReplicatedFile) -> None:
    copied(replicated_file, PLACES, rows="insert into places values (1, 1), (2, 2)")
    replicated_file.publisher.execute("update places set place = 3 - place")
    replicated_file.deliver()

    replicated_file.require_equal("places")


def test_a_unique_constraint_that_a_file_is_not_given_is_named(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(PLACES, places={})
    publisher, file = replicated_file.publisher.url, replicated_file.subscriber.url
    added = rowtide("replication", "add-subscription", PUBLICATION, "--subscriber", file, "--db", publisher)

    assert added.code == 0
    assert "Without unique index: places_place_key of public.places is deferrable" in added.errors


def test_a_database_takes_values_that_rows_hand_on(replicated: ReplicatedDatabase) -> None:
    copied(replicated, PLACES, rows="insert into places values (1, 1), (2, 2)")
    replicated.publisher.execute("update places set place = 3 - place")
    replicated.deliver()

    replicated.require_equal("places")
    with pytest.raises(psycopg.errors.UniqueViolation):
        replicated.subscriber.execute("insert into places values (3, 1)")


@pytest.mark.parametrize("name", ["replicated", "replicated_16"])
def test_rows_hand_values_on_in_one_statement(name: str, request: pytest.FixtureRequest) -> None:
    replicated: ReplicatedDatabase = request.getfixturevalue(name)
    copied(replicated, SEATS, rows="insert into seats values (1, 1), (2, 2)")
    replicated.publisher.execute("update seats set place = 3 - place")
    replicated.deliver()

    replicated.require_equal("seats")
    with pytest.raises(psycopg.errors.UniqueViolation):
        replicated.subscriber.execute("insert into seats values (4, 1)")


def test_a_deferrable_key_does_not_identify_rows(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table chain (id int primary key deferrable)")
    with pytest.raises(KeyCheckedLate, match=r"the primary key of public\.chain is deferrable"):
        replicated.replication.add_article(PUBLICATION, "chain")
    replicated.replication.add_article(PUBLICATION, "chain", commands=commands(update="NONE", delete="NONE"))

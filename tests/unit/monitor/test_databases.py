"""Databases have the names that their metrics have."""

from __future__ import annotations

import pytest

from rowtide.configuration.settings import DatabaseSettings
from rowtide.databases.urls import parse_url
from rowtide.monitor.databases import NamedUrl, find_operator_urls, name_databases
from rowtide.monitor.errors import DatabaseGivenTwice
from rowtide.monitor.labels import without_users


def names(*urls: str) -> list[str]:
    return [one.name for one in name_databases(urls)]


def test_a_database_has_its_own_name() -> None:
    assert names("postgresql://u:secret@db1:5433/shop", "sqlite:////data/field.db") == ["shop", "field.db"]


def test_databases_of_one_name_have_that_of_their_server() -> None:
    assert names("postgresql://u@db1/shop", "postgresql://u@db2:5433/shop") == ["db1/shop", "db2:5433/shop"]


def test_a_database_is_given_once() -> None:
    with pytest.raises(DatabaseGivenTwice, match="db1/shop"):
        name_databases(["postgresql://a@db1/shop", "postgresql://b@db1/shop"])


def test_operators_act_through_urls_of_the_same_database() -> None:
    """A database that was given by its URL may have the name of another one in the file."""
    url, operator = parse_url("postgresql://watcher@db1/shop"), parse_url("postgresql://anna@db1/shop")
    settings = {"shop": DatabaseSettings(url=url, operator_url=operator), "crm": DatabaseSettings(url=url)}
    assert find_operator_urls([NamedUrl("shop", str(url)), NamedUrl("crm", str(url))], settings) == {
        "shop": str(operator)
    }
    assert find_operator_urls([NamedUrl("shop", "postgresql://watcher@db2/shop")], settings) == {}


@pytest.mark.parametrize(
    ("stored", "label"),
    [
        ("postgresql://bob@db1/shop", "postgresql://db1/shop"),
        ("postgresql://bob@/shop?host=/run&port=5432", "postgresql:///shop?host=/run&port=5432"),
        ("postgresql:///shop?user=bob&host=/run", "postgresql:///shop?host=/run"),
        ("host=db1 user=bob dbname=shop", "host=db1 dbname=shop"),
        ("host=db1 user='b o b' dbname=shop", "host=db1 dbname=shop"),
        ("postgresql://b o b@[::1]:5433/my shop", "postgresql://[::1]:5433/my shop"),
        (
            "postgresql:///shop?application_name=a&host=/run&sslmode=require",
            "postgresql:///shop?application_name=a&host=/run",
        ),
        ("postgresql://h/shop?options=-c+x%3D1&passfile=/x&port=5433", "postgresql://h/shop?port=5433"),
        ("sqlite:////data/field.db?mode=ro", "sqlite:////data/field.db"),
        ("subscription shop to postgresql://bob@db1/shop", "subscription shop to postgresql://db1/shop"),
        ("postgresql://db1/shop?sslmode=require is late", "postgresql://db1/shop is late"),
    ],
)
def test_a_subscriber_is_named_without_its_user(stored: str, label: str) -> None:
    assert without_users(stored) == label

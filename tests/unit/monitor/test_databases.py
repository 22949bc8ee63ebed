"""Databases have the names that their metrics have."""

from __future__ import annotations

import pytest

from rowtide.listening import Address, ListenAddressInvalid
from rowtide.monitor.databases import name_databases
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


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8080", Address("127.0.0.1", 8080)), ("[::1]:80", Address("::1", 80)), ("host:0", Address("host", 0))],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no port"),
        ("8080", "it has no port"),
        (":8080", "it has no port"),
        ("::1:80", "an IPv6 address is written in brackets"),
        ("host:", " is no port"),
        ("host:x", "x is no port"),
        ("host:65536", "65536 is no port"),
        ("host:-1", "-1 is no port"),
        ("host:²", "² is no port"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ListenAddressInvalid, match=reason):
        Address.parse(text)


@pytest.mark.parametrize(
    ("stored", "label"),
    [
        ("postgresql://bob@db1/shop", "postgresql://db1/shop"),
        ("postgresql://bob@/shop?host=/run&port=5432", "postgresql:///shop?host=/run&port=5432"),
        ("postgresql:///shop?user=bob&host=/run", "postgresql:///shop?host=/run"),
        ("host=db1 user=bob dbname=shop", "host=db1 dbname=shop"),
        ("host=db1 user='b o b' dbname=shop", "host=db1 dbname=shop"),
        ("sqlite:////data/field.db", "sqlite:////data/field.db"),
        ("subscription shop to postgresql://bob@db1/shop", "subscription shop to postgresql://db1/shop"),
    ],
)
def test_a_subscriber_is_named_without_its_user(stored: str, label: str) -> None:
    assert without_users(stored) == label

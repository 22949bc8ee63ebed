"""Connections of ours: both ends notice within a minute that the network was cut without a word."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from rowtide.databases.postgres.connect import open_engine, open_replication_connection


def network_parameters(url: str) -> dict[str, str]:
    """Return what libpq was told about the network by a connection of ours, and what the server was."""
    with open_engine(url).connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        told = driver.info.get_parameters()
        options = dict(option.split("=") for option in told["options"].split(" ") if option.startswith("tcp_"))
    return {name: value for name, value in (told | options).items() if name.startswith(("keepalives_", "tcp_"))}


PROBED = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "60000"}


def test_the_network_is_probed_from_both_ends(database: str) -> None:
    ours = network_parameters(database)
    assert ours == PROBED | {f"tcp_{name}": value for name, value in PROBED.items() if name.startswith("keep")}


def test_what_the_url_says_of_the_network_stays(database: str) -> None:
    assert network_parameters(f"{database}&keepalives_idle=77")["keepalives_idle"] == "77"


@pytest.mark.parametrize("addition", ["", "&keepalives_idle=77"])
def test_the_stream_is_probed_too(database: str, addition: str) -> None:
    connection = open_replication_connection(database + addition, application_name="a test")
    told = {option.keyword.decode(): option.val for option in connection.info}
    assert told["keepalives_idle"] == (b"77" if addition else b"30")
    assert told["tcp_user_timeout"] == b"60000"
    connection.finish()

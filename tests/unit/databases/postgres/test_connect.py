from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from rowtide.databases.postgres.connect import libpq_url


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("postgresql+psycopg://app@db:5433/shop", {"user": "app", "host": "db", "port": "5433", "dbname": "shop"}),
        (
            "postgresql://my%20app:p%40%20%2B+:%3F@db/a%20b%2Fc",
            {"user": "my app", "password": "p@ ++:?", "host": "db", "dbname": "a b/c"},
        ),
        (
            "postgresql://a+b@/shop?host=/run/my%20sockets%2B",
            {"user": "a+b", "dbname": "shop", "host": "/run/my sockets+"},
        ),
    ],
)
def test_libpq_parses_names_and_passwords_as_sqlalchemy_does(url: str, parts: dict[str, str]) -> None:
    assert conninfo_to_dict(libpq_url(url)) == parts

"""URLs of databases: every form that is accepted, what is refused, and that no form shows its password."""

from __future__ import annotations

import pickle

import pytest
import sqlalchemy
from hypothesis import example, given, strategies as st
from psycopg.conninfo import conninfo_to_dict

from rowtide.core.errors import RowtideError
from rowtide.databases.urls import (
    DatabaseKind,
    DatabaseKindUnknown,
    DatabaseUrl,
    UrlNotRead,
    find_kind,
    find_kind_of_driver,
    parse_url,
)

SECRET = "s3cr3t"
SERVERS = [
    ("postgresql://app@db:5433/shop", {"user": "app", "host": "db", "port": "5433", "dbname": "shop"}),
    ("postgres://app@db/shop", {"user": "app", "host": "db", "dbname": "shop"}),
    ("postgresql+psycopg://app@db/shop", {"user": "app", "host": "db", "dbname": "shop"}),
    ("postgresql://h1,h2:5433/shop", {"host": "h1,h2", "port": ",5433", "dbname": "shop"}),
    ("postgresql:///shop?host=h1:1&host=h2:2", {"host": "h1,h2", "port": "1,2", "dbname": "shop"}),
    ("postgresql:///shop?service=x", {"dbname": "shop", "service": "x"}),
    ("postgresql://", {}),
    ("postgresql://[::1]:5433/shop", {"host": "::1", "port": "5433", "dbname": "shop"}),
    ("postgresql://%2Frun%2Fmy%20sockets/shop", {"host": "/run/my sockets", "dbname": "shop"}),
    ("postgresql://a+b@/shop?host=/run/my%20sockets%2B", {"user": "a+b", "dbname": "shop", "host": "/run/my sockets+"}),
    ("postgresql://h:5432/shop?user=me@azure", {"user": "me@azure", "host": "h", "port": "5432", "dbname": "shop"}),
    ("postgresql://me:a/b@h/shop", {"user": "me", "password": "a/b", "host": "h", "dbname": "shop"}),
    ("postgresql://me:a?b@h/shop", {"user": "me", "password": "a?b", "host": "h", "dbname": "shop"}),
    ("postgresql://h?password=p%26q&sslmode=require", {"host": "h", "password": "p&q", "sslmode": "require"}),
    (
        "postgresql://my%20app:p%40%20%2B+:%3F@db/a%20b%2Fc",
        {"user": "my app", "password": "p@ ++:?", "host": "db", "dbname": "a b/c"},
    ),
    ("host=db dbname=shop", {"host": "db", "dbname": "shop"}),
    ("host=/tmp port=5433 user = me", {"host": "/tmp", "port": "5433", "user": "me"}),
    (r"host=db password='it\'s a \\' dbname=s\ t", {"host": "db", "password": "it's a \\", "dbname": "s t"}),
    ("host=h1,h2 port=5433", {"host": "h1,h2", "port": "5433,5433"}),
    ("service=x", {"service": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("url", "parameters"), SERVERS)
def test_a_server_is_named_in_all_forms_of_libpq(url: str, parameters: dict[str, str]) -> None:
    parsed = parse_url(url)

    assert parsed.kind == DatabaseKind.POSTGRESQL
    assert parsed.parameters == parameters
    assert conninfo_to_dict(parsed.reveal()) == parameters
    assert parse_url(parsed.reveal()) == parsed


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///field.db", "field.db"),
        ("sqlite:////data/field.db", "/data/field.db"),
        ("sqlite:///a%20b/ü.db", "a b/ü.db"),
        ("sqlite+pysqlite:///field.db?timeout=1", "field.db"),
        ("sqlite://", None),
        ("sqlite:///", None),
        ("sqlite:///:memory:", ":memory:"),
    ],
)
def test_a_file_is_named_by_its_path(url: str, path: str | None) -> None:
    parsed = parse_url(url)

    assert (parsed.kind, parsed.database) == (DatabaseKind.SQLITE, path)
    assert parse_url(str(parsed)) == parsed


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        f"me:{SECRET}@host/shop",
        f"postgresql:/me:{SECRET}@host",
        f"postgresql://me:p@{SECRET}@host/shop",
        f"postgresql://me:p@h/{SECRET}@host/shop",
        f"postgresql://me:a/{SECRET}?c:d@h/shop",
        f"postgresql://h:{SECRET}/shop",
        f"postgresql://h:1:{SECRET}/shop",
        f"postgresql://h/shop?x-{SECRET}=1",
        f"postgresql://me:%ff{SECRET}@h/shop",
        f"postgresql://me:%00{SECRET}@h/shop",
        f"postgresql://me:{SECRET}\n@h/shop",
        f"postgresql://me:{SECRET}\udcff@h/shop",
        f"host=db password='{SECRET}",
        f"host=db password={SECRET} dbname",
        f"host=db port={SECRET}",
        f"postgresql://db/shop?connect_timeout={SECRET}",
        f"host=db connect_timeout={SECRET}",
        "field.db",
        "/data/field.db",
        "sqlite://field.db",
        "sqlite:field.db",
    ],
)
def test_text_that_names_no_database_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UrlNotRead) as raised:
        parse_url(url)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("url", [None, 5, b"postgresql://"])
def test_what_is_no_text_is_refused(url: object) -> None:
    with pytest.raises(UrlNotRead, match="of the type"):
        parse_url(url)  # type: ignore[arg-type]


def test_a_path_is_answered_with_its_url() -> None:
    with pytest.raises(UrlNotRead, match="sqlite:////data/field.db"):
        parse_url("/data/field.db")


@pytest.mark.parametrize("url", ["mysql://me:s3cr3t@h/shop", "postgresqlx://h/shop", "mariadb+pymysql://h/shop"])
def test_other_kinds_of_databases_are_refused(url: str) -> None:
    with pytest.raises(DatabaseKindUnknown, match="postgresql, sqlite") as raised:
        parse_url(url)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@h/shop",
        f"postgresql://:{SECRET}@h/shop",
        f"postgresql://me@h/shop?password={SECRET}",
        f"postgresql://me@h/shop?sslpassword={SECRET}&sslmode=require",
        f"host=h user=me password='{SECRET}'",
    ],
)
def test_no_form_of_a_url_shows_its_password(url: str) -> None:
    parsed = parse_url(url)

    assert parsed.has_secret
    for shown in (str(parsed), repr(parsed), f"{parsed}", str([parsed]), str(parsed.without_secrets())):
        assert SECRET not in shown
    assert "***" in str(parsed)
    assert not parsed.without_secrets().has_secret
    assert SECRET in pickle.loads(pickle.dumps(parsed)).reveal()


def test_a_url_of_sqlalchemys_is_taken_with_its_password() -> None:
    parsed = parse_url(sqlalchemy.make_url(f"postgresql+psycopg://me:{SECRET}@h/shop"))

    assert parsed == DatabaseUrl(DatabaseKind.POSTGRESQL, "me", SECRET, "h", "shop")


@pytest.mark.parametrize(
    "url", ["postgresql://me@h:5433/a b?host=%2Ftmp&application_name=x", "postgresql://a+b@/shop?host=%2Frun%2Fpg+1"]
)
def test_a_url_is_stored_as_sqlalchemy_renders_it(url: str) -> None:
    assert str(parse_url(url)) == sqlalchemy.make_url(url).render_as_string()


@example(text="¹=")
@given(st.text(max_size=40) | st.from_regex(r"(postgresql|sqlite|x)(\+\w+)?://[a:@/?=&%,\[\]' ]{0,30}", fullmatch=True))
def test_any_text_is_read_or_refused_with_a_number(text: str) -> None:
    try:
        parsed = parse_url(text)
    except RowtideError:
        return
    assert parse_url(parsed.reveal()) == parsed


PARTS = [
    ("rowtide.databases", "connect", "open_url"),
    ("rowtide.merge.nodes", "node", "open_node"),
    ("rowtide.diagnosis", "views", "check"),
    ("rowtide.diagnosis", "views", "read_health"),
    ("rowtide.tracking", "tracking", "open_tracking"),
]
"""Every part that is loaded by its kind, with the name that its package uses."""


@pytest.mark.parametrize("kind", DatabaseKind)
@pytest.mark.parametrize(("package", "module", "name"), PARTS)
def test_a_package_has_its_part_for_each_kind(kind: DatabaseKind, package: str, module: str, name: str) -> None:
    assert callable(getattr(kind.load_part(package, module), name))


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        ("postgresql", DatabaseKind.POSTGRESQL),
        ("POSTGRES", DatabaseKind.POSTGRESQL),
        ("sqlite", DatabaseKind.SQLITE),
        ("mysql", None),
    ],
)
def test_a_scheme_names_a_kind(scheme: str, kind: DatabaseKind | None) -> None:
    assert find_kind(scheme) is kind


@pytest.mark.parametrize(
    ("driver", "kind"), [("psycopg", DatabaseKind.POSTGRESQL), ("sqlite3", DatabaseKind.SQLITE), ("pymysql", None)]
)
def test_a_driver_connects_to_a_kind(driver: str, kind: DatabaseKind | None) -> None:
    assert find_kind_of_driver(driver) is kind

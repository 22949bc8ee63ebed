"""Database URLs, parsed in one place and shown without secrets, and the kinds of databases that they name.

Accepted are SQLAlchemy's URLs (also `postgresql+psycopg://...`), libpq's (`postgres://`, several hosts), libpq's
keyword strings (`host=... dbname=...`) and `sqlite:///path`. Pure, and without a driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from itertools import zip_longest
from typing import Any, Protocol
from urllib.parse import quote, quote_plus, unquote

from rowtide.core.errors import Invalid, RowtideError
from rowtide.core.exports import naming_extras
from rowtide.core.redaction import MASK, SECRET_PARAMETERS
from rowtide.core.values import frozen

# The kinds of databases: their URL schemes and drivers, and where a package has its code for each. A package that
# depends on the kind has one folder per kind, `postgres` and `sqlite`, with modules of the same names.


class DatabaseKind(StrEnum):
    """A kind of database; its value is the URL scheme that rowtide writes."""

    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"

    @property
    def is_file(self) -> bool:
        """Whether such a database is a file: reachable only on its machine, and valid if empty."""
        return self in _FILES

    def load_part(self, package: str, module: str | None = None) -> Any:
        """Import a package's module for this kind, or one of its folder for this kind. Raises `ExtraMissing`."""
        part = f"{package}.{_FOLDERS[self]}"
        with naming_extras():
            return import_module(part if module is None else f"{part}.{module}")


_FILES = frozenset({DatabaseKind.SQLITE})
_FOLDERS = {DatabaseKind.POSTGRESQL: "postgres", DatabaseKind.SQLITE: "sqlite"}
_SCHEMES = {"postgres": DatabaseKind.POSTGRESQL} | {kind.value: kind for kind in DatabaseKind}
_DRIVERS = {"psycopg": DatabaseKind.POSTGRESQL, "sqlite3": DatabaseKind.SQLITE}


def find_kind(scheme: str) -> DatabaseKind | None:
    """Return the kind of a URL scheme; None if it is unknown."""
    return _SCHEMES.get(scheme.lower())


def find_kind_of_driver(driver: str) -> DatabaseKind | None:
    """Return the kind of database of a driver, given its package name; None if it is unknown."""
    return _DRIVERS.get(driver)


class UrlNotRead(Invalid, number=1020):
    """The text is not a database URL. It may contain a password anywhere, so it is not shown."""

    fact = "the database's URL cannot be read: {problem}"
    hint = """Write postgresql://user@host:port/name, 'host=... dbname=...', sqlite:///folder/file.db, or on the command
        line a name of the configuration file. In names and passwords write @ as %40, : as %3A, / as %2F, ? as %3F and %
        as %25."""
    problem: str


class DatabaseKindUnknown(Invalid, number=1021):
    """The URL's scheme is not a kind of database that rowtide supports."""

    fact = 'there is no support for databases of the kind "{kind}"'
    hint = "Use a URL of one of these kinds: {known}."
    kind: str
    known: str


class PostgresNeeded(Invalid, number=1022):
    """Capture and transactional replication need a PostgreSQL database."""

    fact = "{url} is not a PostgreSQL database"
    hint = "Name one: postgresql://user@host/name. SQLite files are tracked, merged, checked and subscribers."
    url: str


_SHOWN_PARAMETERS = "host|hostaddr|port|dbname|service|application_name"
NAMING = (
    ("(?<=//)[^/?#@]*@", ""),
    (f"[?&](?!(?:{_SHOWN_PARAMETERS})=)[A-Za-z0-9_]+=[^&# ]*", ""),
    (f"(//[^?&]*)&(?=(?:{_SHOWN_PARAMETERS})=)", r"\1?"),
)
"""Patterns and replacements, one after the other, that make a stored URL a database's name: without user, secrets and
settings. In syntax that Python and PostgreSQL share.
"""

_URL = re.compile(r"(?P<scheme>[A-Za-z]\w*)(?:\+\w+)?://(?P<rest>.*)", re.DOTALL)
_REST = re.compile(
    r"(?:(?P<username>[^:/?@]*)(?::(?P<password>(?:(?!/[^@]*\?)[^@])*))?@)?"
    r"(?P<hosts>[^/?]*)(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
"""As in SQLAlchemy, a password may have an unescaped / or ?, but not both: h:5432/db?user=a@b is a path and a query."""
_HOST = re.compile(r"(?P<host>\[[^\[\]/?]+\]|[^\[\]:]*)(?::(?P<port>\d*))?")
_PARAMETER_NAME = re.compile(r"[A-Za-z0-9_]+")
_KEYWORD = re.compile(
    r"\s*(?P<name>[A-Za-z0-9_]+)\s*=\s*(?:'(?P<quoted>(?:[^'\\]|\\.)*)'|(?P<bare>(?:[^\s'\\]|\\.)*))(?=\s|$)\s*",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_IN_MEMORY = re.compile(r"sqlite:///?(:memory:)?", re.IGNORECASE)
_PLAIN_PATH = re.compile(r"[^:@=?&\s]+")
_NO_TEXT = re.compile(r"[\x00-\x1f\ud800-\udfff]")


class Rendered(Protocol):
    """A SQLAlchemy URL."""

    def render_as_string(self, hide_password: bool = True) -> str: ...  # noqa: FBT001, FBT002 - SQLAlchemy's


@frozen
class DatabaseUrl:
    """A database's address. `str` and `repr` show passwords as `***`; pickling keeps them.

    `hosts` are as in libpq's URLs; `database` is the path of a SQLite file, None for an in-memory one.
    """

    kind: DatabaseKind
    username: str | None = None
    password: str | None = None
    hosts: str = ""
    database: str | None = None
    query: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self._render(MASK, dict.fromkeys(SECRET_PARAMETERS, MASK))

    def __repr__(self) -> str:
        return f"DatabaseUrl({str(self)!r})"

    @property
    def has_secret(self) -> bool:
        """Whether it contains a password or another secret."""
        return self.password is not None or not SECRET_PARAMETERS.isdisjoint(dict(self.query))

    @property
    def name(self) -> str:
        """The database's name in messages."""
        given = self.parameters
        return next((given[name] for name in ("dbname", "service", "user") if name in given), self.kind)

    @property
    def parameters(self) -> Mapping[str, str]:
        """libpq's connection parameters; the query's override the rest."""
        hosts, ports = zip(*_split_hosts(self.hosts), strict=True)
        own = {
            "user": self.username,
            "password": self.password,
            "host": ",".join(hosts),
            "port": ",".join(ports) if any(ports) else None,
            "dbname": self.database,
        }
        return {name: value for name, value in own.items() if value} | dict(self.query)

    def without_secrets(self) -> DatabaseUrl:
        """Return it for storing; the password then comes from elsewhere when connecting."""
        kept = tuple(pair for pair in self.query if pair[0] not in SECRET_PARAMETERS)
        return replace(self, password=None, query=kept)

    def reveal(self) -> str:
        """Return it with its secrets, in libpq's form: for connecting, never for display."""
        place, mark, query = self._render(quote(self.password or "", safe=""), {}).partition("?")
        return place.replace(" ", "%20") + mark + query.replace("+", "%20")

    def _render(self, password: str, masked: Mapping[str, str]) -> str:
        """Render as SQLAlchemy does, so that records stored under its URLs are found."""
        user = "" if self.username is None else quote(self.username, safe=" +")
        user += "" if self.password is None else f":{password}"
        database = "" if self.database is None else "/" + quote(self.database, safe=" +/")
        shown = ((name, masked.get(name) or quote_plus(value)) for name, value in sorted(self.query))
        query = "&".join(f"{quote_plus(name)}={value}" for name, value in shown)
        at = "" if self.username is None and self.password is None else "@"
        return f"{self.kind}://{user}{at}{self.hosts}{database}{'?' * bool(query)}{query}"


def parse_url(url: str | DatabaseUrl | Rendered) -> DatabaseUrl:
    """Parse a database URL. Raises `UrlNotRead`, `DatabaseKindUnknown`."""
    if isinstance(url, DatabaseUrl):
        return url
    text = url if isinstance(url, str) else _text_of(url)
    _require_text(text)
    found = _URL.fullmatch(text)
    if found is None:
        return _parse_keywords(text)
    kind = find_kind(found["scheme"])
    if kind is None:
        raise DatabaseKindUnknown(found["scheme"], ", ".join(DatabaseKind))
    return _PARSERS[kind](found["rest"])


def name_of(database: str) -> str:
    """Return a database's name in messages, given its URL or name."""
    try:
        return parse_url(database).name
    except RowtideError:
        return database


def _text_of(url: object) -> str:
    render = getattr(url, "render_as_string", None)
    if render is None:
        raise UrlNotRead(f"it is no text but of the type {type(url).__name__}")
    return str(render(hide_password=False))


def _require_text(text: str) -> None:
    if not text.strip():
        raise UrlNotRead("it is empty")
    if _NO_TEXT.search(text):
        raise UrlNotRead("it has control characters, or bytes that are not UTF-8")


def _parse_postgres(rest: str) -> DatabaseUrl:
    found = _REST.fullmatch(rest)
    if found is None or "@" in found["hosts"] or (found["password"] is not None and "@" in (found["database"] or "")):
        raise UrlNotRead("the user's name or the password has characters that must be escaped")
    query = _parse_query(found["query"])
    hosts = [value for name, value in query if name == "host"]
    others = [(name, value) for name, value in query if name != "password" and (name != "host" or len(hosts) == 1)]
    _require_numbers(others)
    password = next((value for name, value in query if name == "password"), _unescape(found["password"]))
    return DatabaseUrl(
        DatabaseKind.POSTGRESQL,
        _unescape(found["username"]) or None,
        password,
        # Several hosts as SQLAlchemy writes them, ?host=h1:5432&host=h2:5433.
        _join_hosts(_split_hosts(",".join(hosts) if len(hosts) > 1 else found["hosts"])),
        _unescape(found["database"]),
        tuple(dict(others).items()),
    )


def _parse_sqlite(rest: str) -> DatabaseUrl:
    host, slash, path = rest.partition("/")
    if host.partition("?")[0]:
        raise UrlNotRead("the path of a SQLite file follows three slashes, and a fourth if it begins at the root")
    path, _, query = (path if slash else "").partition("?")
    return DatabaseUrl(DatabaseKind.SQLITE, database=_unescape(path) or None, query=_parse_query(query))


_PARSERS: Mapping[DatabaseKind, Callable[[str], DatabaseUrl]] = {
    DatabaseKind.POSTGRESQL: _parse_postgres,
    DatabaseKind.SQLITE: _parse_sqlite,
}


def _parse_keywords(text: str) -> DatabaseUrl:
    """Parse libpq's keyword string."""
    if "=" not in text:
        looks = f'; "{text}" looks like a path: sqlite:///{text}' if _PLAIN_PATH.fullmatch(text) else ""
        raise UrlNotRead(f"it does not begin with the kind of database{looks}")
    given: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _KEYWORD.match(text, at)
        if found is None:
            raise UrlNotRead("a keyword string is name=value ..., with values that have spaces in single quotes")
        given[found["name"]] = _ESCAPE.sub(r"\1", found["quoted"] if found["quoted"] is not None else found["bare"])
        at = found.end()
    _require_numbers(given.items())
    hosts = ""
    if given.get("host") and "/" not in given["host"]:
        names, ports = given.pop("host").split(","), given.pop("port", "").split(",")
        hosts = _join_hosts(zip_longest(names, ports * len(names) if len(ports) == 1 else ports, fillvalue=""))
    own = (given.pop("user", None), given.pop("password", None), hosts, given.pop("dbname", None))
    return DatabaseUrl(DatabaseKind.POSTGRESQL, *own, tuple(given.items()))


def _split_hosts(text: str) -> list[tuple[str, str]]:
    """Return hosts with their ports; an IPv6 address without its brackets."""
    hosts = []
    for part in text.split(","):
        found = _HOST.fullmatch(part)
        if found is None:
            raise UrlNotRead("the port is not a number, or the user's name or password must be escaped")
        hosts.append((unquote(found["host"]).strip("[]"), found["port"] or ""))
    return hosts


def _join_hosts(hosts: Iterable[tuple[str, str]]) -> str:
    written = ((f"[{host}]" if ":" in host else quote(host, safe=" "), port) for host, port in hosts)
    return ",".join(f"{host}:{port}" if port else host for host, port in written)


def _require_numbers(parameters: Iterable[tuple[str, str]]) -> None:
    for name, value in parameters:
        if name == "port" and not all(port == "" or port.isdecimal() for port in value.split(",")):
            raise UrlNotRead("the port is not a number")
        if name == "connect_timeout" and not value.removeprefix("-").isdecimal():
            raise UrlNotRead("connect_timeout is not a number of seconds")


def _parse_query(query: str | None) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in (query or "").split("&"):
        name, _, value = part.partition("=")
        if part and _PARAMETER_NAME.fullmatch(name) is None:
            raise UrlNotRead("a parameter behind ? has a name that is no word")
        if part:
            pairs.append((name, _unescape(value.replace("+", " ")) or ""))
    return tuple(pairs)


def _unescape(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        plain = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UrlNotRead("its %-escapes are not UTF-8") from None
    _require_text(plain or "-")
    return plain


def lasting(url: str) -> str:
    """Refuse a database in memory, which would end with the command (`ValueError`). Other URLs are parsed later."""
    if _IN_MEMORY.fullmatch(url.strip()):
        raise ValueError("it names no file, and a database in memory ends with the command")
    return url

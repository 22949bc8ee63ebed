"""Settings that are pinned in every session, so that texts of values mean the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowtide.databases.postgres.errors import TransactionsPooled
from rowtide.databases.postgres.functions import FIND_MONITORED, MONITORED, PATH
from rowtide.databases.postgres.poolers import PooledConnection, lends_transactions, place_of_pooler
from rowtide.databases.postgres.silent_sessions import SESSION, WatchedConnection


def require_session(connection: object) -> None:
    """Refuse a connection that has another session for each transaction. Raises `TransactionsPooled`."""
    if isinstance(connection, PooledConnection):
        connection.refuse()


NO_TIME_LIMITS = dict.fromkeys(
    ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"), "0"
)
"""Disables timeouts that roles and databases set for applications; sessions that need one set it later."""


PINNED_SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "TimeZone": "UTC",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "array_nulls": "on",
    "xmlbinary": "base64",
    "xmloption": "content",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "session_replication_role": "origin",
    "synchronous_commit": "local",
    **NO_TIME_LIMITS,
    "transaction_timeout": "0",
}
"""Session settings that fix the text of values and types, the meaning of statements, and disable timeouts.

They override those of role, database and server.
"""


WHOLE_TABLES = {"row_security": "off"}
"""With it, reading a table fails if a row-level security policy would hide rows."""


STREAM_SETTINGS = PINNED_SETTINGS | {"search_path": PATH, "restrict_nonsystem_relation_kind": "view"}
"""PINNED_SETTINGS for sessions that read the log or copy tables: they need no path of the role's own, and no view.

The owner of a table could put a view in its place, whose functions would be called with the rights of the reader.
"""


REFUSE_VIEWS = """
select case when current_setting('restrict_nonsystem_relation_kind', true) is not null
            then set_config('restrict_nonsystem_relation_kind', 'view', true) end
"""
"""The statement after which a transaction reads no view, as sessions of `STREAM_SETTINGS` do not."""


SCHEMAS_FOUND = "rowtide_schemas"
"""Key in the `info` of an engine's connections: the value of `USERS_SCHEMAS` as the session began.

Code of other roles that runs in a session can change the setting, but not this.
"""


DECODING_MEMORY = "256MB"
"""The `logical_decoding_work_mem` of a database's walsender; the server's own setting if that is more."""


_PINNED_IF = {
    "session_replication_role": "{current} operator(pg_catalog.<>) {value}",
    "synchronous_commit": "{current} operator(pg_catalog.=) 'off'",
    "logical_decoding_work_mem": (
        "pg_catalog.pg_size_bytes({current}) operator(pg_catalog.<) pg_catalog.pg_size_bytes({value})"
    ),
}
"""When to set a setting; others are set if the server has them.

Only superusers may set the first, so it is set only if it differs; of the second, every value but `off` is safe.
"""


_KEEP_SCHEMAS = f"""
pg_catalog.set_config('rowtide.schemas',
    pg_catalog.format('%s', pg_catalog.array_remove(pg_catalog.current_schemas(false), 'pg_catalog')), {{is_local}}),
pg_catalog.set_config('search_path', '{PATH}', {{is_local}})
"""
"""Keeps the schemas of the role's own path in a setting of rowtide's before it sets another.

The role's search_path is in force until this has run, so every name here and in `_PINNED_IF` has its schema.
"""


def pin_settings(settings: Mapping[str, str]) -> str:
    """Return the statement that sets a session's settings, if the server has them, and returns their values.

    Startup parameters do not suffice: libpq overrides them with PGTZ and PGDATESTYLE, and poolers drop them.
    """
    return f"select {_pin_all(settings)}"


def pin_again(settings: Mapping[str, str]) -> str:
    """Return the statement that sets a session's settings after code of other roles ran in it, under any of its own.

    That code can change each setting of the session for longer than its own call: the path, so that names mean other
    functions, or `standard_conforming_strings`, so that a literal ends elsewhere.
    """
    return pin_settings({"search_path": PATH, **settings})


def _pin_all(settings: Mapping[str, str], *, is_local: bool = False) -> str:
    return ", ".join(_pinning(name, value, str(is_local).lower()) for name, value in settings.items())


def _pinning(name: str, value: str, is_local: str) -> str:
    current = f"pg_catalog.current_setting('{name}', true)"
    needed = _PINNED_IF.get(name, "{current} is not null").format(current=current, value=f"'{value}'")
    return f"case when {needed} then pg_catalog.set_config('{name}', '{value}', {is_local}) else '{value}' end"


def stream_settings(server_encoding: str) -> dict[str, str]:
    """Return the settings of the log's stream for a database of this encoding.

    With SQL_ASCII, bytes are passed unchanged: otherwise the server would fail on bytes that are not UTF-8. A
    transaction that does not fit the memory for decoding is written to the server's disk and read again, which takes
    more than half as much of its processor time as all the rest.
    """
    return {
        **STREAM_SETTINGS,
        "client_encoding": "SQL_ASCII" if server_encoding == "SQL_ASCII" else "UTF8",
        "logical_decoding_work_mem": DECODING_MEMORY,
    }


Found = Mapping[str, Any]
"""What is found as a session is pinned, as in an engine's `info`: `SCHEMAS_FOUND` and `MONITORED`."""


def pin_session(connection: WatchedConnection, settings: Mapping[str, str]) -> Found:
    """Pin the settings of a session that belongs to a connection. Raises `TransactionsPooled`."""
    found = _pin(connection, settings, f" where {_PROCESS} operator(pg_catalog.=) {connection.pgconn.backend_pid}")
    if found is None:
        if lends_transactions(connection):
            raise TransactionsPooled(place_of_pooler(connection))
        found = _pin(connection, settings)
    assert found is not None
    return found


_PROCESS = "pg_catalog.pg_backend_pid()"


def _pin(connection: WatchedConnection, settings: Mapping[str, str], condition: str = "") -> Found | None:
    """Pin a session's settings under a condition; None, and nothing is set, if it does not hold.

    Found are the schemas of the role's own path, as `USERS_SCHEMAS` has them, and those that it reads through views.
    """
    keeping = "" if "search_path" in settings else f", {_KEEP_SCHEMAS.format(is_local='false')}"
    query = f"{pin_settings(settings)}, {SESSION}, {FIND_MONITORED}{keeping}{condition}"
    row = connection.execute(query.encode()).fetchone()
    if row is None:
        return None
    pid, silence, monitored, *kept = row[len(settings) :]
    connection.begin_watch(pid, silence)
    return _found(str(kept[0]) if kept else None, monitored)


def pin_each_transaction(connection: PooledConnection, settings: Mapping[str, str]) -> Found:
    """Pin the settings of each transaction of a connection."""
    keeps = "search_path" not in settings
    keeping = f", {_KEEP_SCHEMAS.format(is_local='true')}" if keeps else ""
    connection.pin(f"{_pin_all(settings, is_local=True)}{keeping}")
    kept = "pg_catalog.current_setting('rowtide.schemas', true)" if keeps else "null"
    row = connection.execute(f"select {kept}, {FIND_MONITORED}".encode()).fetchone()
    assert row is not None
    return _found(*row)


def _found(schemas: str | None, monitored: str | None) -> Found:
    return {SCHEMAS_FOUND: schemas, MONITORED: frozenset((monitored or "").split(",")) - {""}}

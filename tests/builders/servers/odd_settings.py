"""Databases that set everything a role or a database may set: what of it would break sessions of rowtide."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import sql

TIME_LIMITS = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "300ms",
    "idle_session_timeout": "300ms",
    "transaction_timeout": "300ms",
}
MEANINGS = {
    "array_nulls": "off",
    "bytea_output": "escape",
    "client_min_messages": "debug1",
    "DateStyle": "German, DMY",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "extra_float_digits": "-15",
    "IntervalStyle": "postgres_verbose",
    "lc_monetary": "C.utf8",
    "plpgsql.extra_errors": "all",
    "quote_all_identifiers": "on",
    "search_path": "public, pg_catalog",
    "session_replication_role": "replica",
    "standard_conforming_strings": "off",
    "synchronous_commit": "off",
    "TimeZone": "Asia/Kathmandu",
    "transform_null_equals": "on",
    "xmlbinary": "hex",
    "xmloption": "document",
}
"""Settings under which the same SQL means something else, or values have other texts."""


def set_for_database(session: psycopg.Connection[tuple[Any, ...]], settings: dict[str, str]) -> None:
    """Let sessions that are opened from now on in the session's database begin with settings, those that exist."""
    name = sql.Identifier(session.info.dbname)
    for setting, value in settings.items():
        if session.execute("select current_setting(%s, true)", [setting]).fetchone() == (None,):
            continue
        values = sql.SQL(", ").join(part.strip() for part in value.split(","))
        session.execute(sql.SQL("alter database {} set {} = {}").format(name, sql.SQL(setting), values))


@contextmanager
def open_program(url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Open a connection of an application that lives with all of it, but for the limits and the replication role."""
    unset = {name: "0" for name in TIME_LIMITS if name != "transaction_timeout"} | {
        "session_replication_role": "origin"
    }
    options = " ".join(f"-c {name}={value}" for name, value in unset.items())
    with closing(psycopg.connect(url, autocommit=True, options=options)) as program:
        program.execute("select set_config(name, '0', false) from pg_settings where name = 'transaction_timeout'")
        yield program

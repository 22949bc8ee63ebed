"""What a command does, beside what its dry run prints: on PostgreSQL noted at the driver, on SQLite done by another."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.commands.command_lines import rowtide

_UNNOTED = re.compile(
    r"(select|show|savepoint|release|rollback|begin|commit)\b(?!.*pg_(create|drop)_)",
    re.IGNORECASE | re.DOTALL,
)
_READS = re.compile(r"with\b(?!.*\b(insert into|update|delete from)\b)", re.IGNORECASE | re.DOTALL)
_APPLIES_LOG = re.compile(r"\browtide_applied\b|delete from \"rowtide_merge\"\.\"MSmerge_log\" where tablenick in")
"""What merge does with pending changes whenever it looks at a table."""
_OF_THE_TRANSACTION = (
    "set constraints all immediate;",
    "set local lock_timeout = '2s';",
    "set local search_path ",
    "set local idle_in_transaction_session_timeout ",
    "set local transaction_timeout ",
    "set idle_session_timeout ",
    "set idle_in_transaction_session_timeout ",
)
"""What sets only how the transaction continues."""
_VARIES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\d[ T][\d:.+]+"
    r"|(?<=_)[0-9a-f]{8}\b|\d{5,}"
)
"""Ids that are made up, times, and the numbers of what has just been made."""


def require_true_dry_run(url: str, *command: str) -> list[str]:
    """Run a command dry, then really: the first leaves nothing, and prints what the second executes; return that."""
    before = catalogue(url)
    dry = rowtide(*command, "--dry-run", "--db", url)
    assert dry.code == 0, dry.errors
    assert catalogue(url) == before
    with noting() as executed:
        done = rowtide(*command, "--db", url, *(["--yes"] if command == ("adopt",) else []))
    assert done.code == 0, done.errors
    assert dry.output, command
    really = "".join(f"{sql};\n" for sql in executed)
    differences = list(unified_diff(_without_varying(dry.output), _without_varying(really), "dry", "really", n=0))
    assert not differences, "\n".join(differences)
    return executed


def require_true_dry_run_of_file(path: Path, *command: str) -> None:
    """Run a command on a SQLite file, dry and really: what the first prints makes the same of a copy of the file."""
    before, copy = _dump(path), path.with_name(f"copy of {path.name}")
    with closing(sqlite3.connect(path)) as original, closing(sqlite3.connect(copy)) as made:
        original.backup(made)
    dry = rowtide(*command, "--dry-run", "--db", f"sqlite:///{path}")
    assert dry.code == 0, dry.errors
    assert _dump(path) == before
    assert rowtide(*command, "--db", f"sqlite:///{path}").code == 0
    with closing(sqlite3.connect(copy)) as program:
        program.executescript(dry.output)
    differences = list(unified_diff(_dump(copy), _dump(path), "dry", "really", n=0))
    assert not differences, "\n".join(differences)
    assert _dump(path) != before


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as program:
        return _without_varying("\n".join(program.iterdump()))


@contextmanager
def noting() -> Iterator[list[str]]:
    """Yield what this process executes on any connection from now on, but for what only reads."""
    executed: list[str] = []
    original = psycopg.Cursor.execute

    def execute(cursor: psycopg.Cursor[Any], query: Any, params: Any = None, **options: Any) -> Any:
        sql = psycopg.ClientCursor(cursor.connection).mogrify(query, params).strip()
        if not (_UNNOTED.match(sql) or _READS.match(sql) or _APPLIES_LOG.search(sql)):
            executed.append(sql)
        return original(cursor, query, params, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", execute)
        yield executed


def catalogue(url: str) -> list[tuple[Any, ...]]:
    """Return the versions of a database's objects, rows and slots: another version is another row."""
    with psycopg.connect(url, autocommit=True) as session:
        rows = [
            row
            for table in ("class", "attribute", "proc", "trigger", "namespace", "event_trigger", "publication")
            for row in session.execute(f"select '{table}', ctid::text, xmin::text from pg_{table} order by 2".encode())
        ]
        rows += session.execute("select slot_name::text, slot_type from pg_replication_slots order by 1")
        tables = "select oid::regclass::text from pg_class where relkind = 'r' and oid >= 16384 order by 1"
        for (table,) in session.execute(tables).fetchall():
            rows += session.execute(f"select '{table}', ctid::text, xmin::text from {table} order by 2".encode())
    return rows


def _without_varying(text: str) -> list[str]:
    lines = _VARIES.sub("<>", text).splitlines()
    # A dry run has no end of a transaction at which constraints are checked, and waits for nothing.
    return [line for line in lines if not line.startswith(_OF_THE_TRANSACTION)]

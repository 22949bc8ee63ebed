"""Names that are not UTF-8, in a database without an encoding (SQL_ASCII): no command can read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.errors import translated
from rowtide.findings.finding import Advice, Finding, Severity

Names = tuple[bytes, bytes, bytes]
"""Of a schema, a table and a column, as the server has them."""


def read_names(url: str) -> tuple[Names, ...]:
    """Return the names of the user's tables and their columns."""
    with open_url(url, application_name="rowtide check") as connection, translated():
        return tuple(connection.execute(_NAMES).fetchall())


def find_in_names(names: Iterable[Names]) -> Iterator[Finding]:
    """Say of each name that is not UTF-8 which it is, once. Pure."""
    found: set[tuple[bytes, ...]] = set()
    for parts in names:
        for kind, length in (("schema", 1), ("table", 2), ("column", 3)):
            named = parts[:length]
            if named not in found and not _is_readable(named[-1]):
                found.add(named)
                shown = ".".join(part.decode(errors="backslashreplace") for part in named)
                yield Finding(Severity.STOPS, f"{kind} {shown}", _FACT, Advice(_MEND))


def _is_readable(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


_FACT = "its name is not UTF-8: no command of rowtide reads it (RT-2152), and this one looked at nothing else"
_MEND = "Rename it, in a session with `set client_encoding to 'SQL_ASCII'` and its name as the server has it."

_NAMES = """
select convert_to(n.nspname::text, 'SQL_ASCII'), convert_to(c.relname::text, 'SQL_ASCII'),
       convert_to(a.attname::text, 'SQL_ASCII')
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p', 'f', 'v', 'm') and n.nspname not in ('pg_catalog', 'information_schema')
order by n.nspname, c.relname, a.attnum
"""

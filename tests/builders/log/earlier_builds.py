"""A database as a build left it that announced by logical messages."""

from __future__ import annotations

import json
from pathlib import Path

from builders.capture.captured_databases import LoggedDatabase
from rowtide.cdc.definitions import read_source
from rowtide.cdc.enabling.instances import InstanceRequest
from rowtide.cdc.enabling.postgres import plan_enable_table
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.connect import open_engine

_TRIGGER = """
create function rowtide.rowtide_announce_ddl() returns event_trigger language plpgsql as $$
begin
    perform pg_logical_emit_message(true, 'rowtide.ddl', '{}');
end $$
"""


def enable_as_before(logged: LoggedDatabase, *tables: str) -> None:
    """Enable a database and tables: announced by messages, triggers that emit such, and no table of announcements."""
    logged.enable()
    logged.execute(
        "drop function rowtide.rowtide_announce_ddl, rowtide.rowtide_announce_drop cascade",
        "drop function rowtide.rowtide_note_rewrite cascade",
        f"alter publication {logged.cdc.get_source().publication} drop table rowtide.control",
        "drop table rowtide.control",
        "delete from rowtide.members where feature = 'log'",
    )
    _open_as_before(Path(logged.cdc.get_source().log_store) / "manifest")
    for table in tables:
        _enable_table(logged, table)
    own = "select pubname::text from pg_publication where pubname ~ '^rowtide_[0-9]+_'"
    logged.execute(
        *(f"drop publication {name}" for (name,) in logged.execute(own)), "drop table rowtide.table_publications"
    )
    logged.execute(
        _TRIGGER,
        "create event trigger rowtide_announce_ddl on ddl_command_end "
        "when tag in ('ALTER TABLE') execute function rowtide.rowtide_announce_ddl()",
    )


def emit(logged: LoggedDatabase, kind: str, content: str) -> None:
    """Announce by a message."""
    logged.session.execute("select pg_logical_emit_message(true, %s, %s)", [f"rowtide.{kind}", content])


def _open_as_before(manifest: Path) -> None:
    (opened,) = (path for path in manifest.iterdir() if '"opened"' in path.read_text())
    entry = json.loads(opened.read_text())
    del entry["reads_messages"]
    opened.write_text(json.dumps(entry))


def _enable_table(logged: LoggedDatabase, table: str) -> None:
    engine = open_engine(logged.url)
    with engine.begin() as connection:
        source = read_source(connection, logged.url)
        _, (*steps, announcement) = plan_enable_table(
            connection, source, find_table(connection, table), InstanceRequest(snapshot=False)
        )
        for step in steps:
            connection.execute(step)
        emitted = "select pg_logical_emit_message(true, %s, %s)"
        told = announcement.compile().params  # type: ignore[attr-defined]
        connection.exec_driver_sql(emitted, (f"rowtide.{told['kind']}", told["content"]))

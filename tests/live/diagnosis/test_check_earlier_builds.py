"""What an earlier build made lacks something: a check says so, and what it prints completes it.

Functions and triggers have no format: those of another build are replaced by this one's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, printed_command, run_line, run_mend
from builders.commands.command_lines import rowtide
from builders.servers.ddl import forget_triggers
from rowtide.databases.postgres.quoting import quote
from rowtide.diagnosis.result import CheckResult
from rowtide.handle import connect
from rowtide.merge.errors.nodes import NodeOutdated

ITEM = "create table item (id int primary key, name text)"
OLDER = """
create or replace function {function}() returns event_trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as 'begin end'
"""


def check(database: LoggedDatabase) -> tuple[CheckResult, ...]:
    return connect(database.url).check()


def test_event_triggers_of_an_earlier_build_are_made_again(logged: LoggedDatabase) -> None:
    logged.execute(ITEM)
    logged.enable("item")
    logged.execute(OLDER.format(function="rowtide.rowtide_announce_ddl"))
    run_mend(only(check(logged), "or of another build, which log what"), logged.url)
    assert matching(check(logged), "another build") == []
    logged.execute("alter table item rename column name to label")
    (renamed,) = logged.read_log().members
    assert "label" in str(renamed)


def test_a_rules_trigger_of_an_earlier_build_is_made_again(logged: LoggedDatabase) -> None:
    logged.enable()
    assert rowtide("cdc", "enable-table", "public.*", "--with-new-tables", "--db", logged.url).code == 0
    logged.execute(OLDER.format(function="cdc.rowtide_note_new_tables"))
    older = only(check(logged), "new tables are enabled by the running capture only")
    run_mend(older, logged.url)
    assert matching(check(logged), older.subject) == []


def test_a_log_of_publications_gets_its_triggers_by_another(logged: LoggedDatabase) -> None:
    replication = connect(logged.url).replication
    replication.add_publication("shop", lake=str(logged.lake))
    forget_triggers(logged)
    assert str(only(check(logged), "event triggers are missing").remediation).startswith("Add a publication")
    replication.add_publication("spare")
    replication.drop_publication("spare")
    assert matching(check(logged), "event triggers") == []


def test_a_hubs_functions_of_another_build_are_replaced(
    logged: LoggedDatabase, make_role: Callable[[str], str]
) -> None:
    role = make_role("login in role pg_read_all_data")
    logged.execute(ITEM)
    merge = connect(logged.url).merge
    merge.add_publication("field")
    merge.add_article("field", "item")
    watching = make_url(logged.url).set(username=role).render_as_string(hide_password=False)
    logged.execute(f"grant usage on schema rowtide_merge to {quote(role)}")
    assert matching(connect(watching).check(), "of another build") == []
    logged.execute("comment on schema rowtide_merge is 'rowtide merge of another build'")
    outdated = only(connect(watching).check(), "are of another build, and cannot be replaced")
    assert str(outdated.remediation).endswith(NodeOutdated.hint)
    run_line(printed_command(outdated), logged.url)
    assert matching(connect(watching).check(), "of another build") == []
    logged.execute("drop schema rowtide_merge cascade", f"drop owned by {quote(role)}")


def test_a_devices_triggers_of_another_build_are_replaced(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute(ITEM)
    device = f"sqlite:///{tmp_path}/device.db"
    merge = connect(logged.url).merge
    merge.add_publication("field")
    merge.add_article("field", "item")
    merge.add_subscription("field", device)
    merge.sync("field", device)
    triggers = "select name, sql from sqlite_schema where type = 'trigger' and tbl_name = 'item' order by 1"
    with closing(sqlite3.connect(tmp_path / "device.db", isolation_level=None)) as program:
        made = program.execute(triggers).fetchall()
        inserting = next(name for name, _ in made if name.startswith("MSmerge_ins"))
        program.execute(f'drop trigger "{inserting}"')
        program.execute(f'create trigger "{inserting}" after insert on item begin select 1; end')
        program.execute("drop view MSmerge_form")
        assert rowtide("merge", "status", "--db", device).code == 0
        assert program.execute(triggers).fetchall() == made

"""What capture keeps in its database has a format: a newer one is refused, what has none is only removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.formats import NEWER, NEWER_READABLE, forgetting, recording
from rowtide.core.errors import RowtideError
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.handle import connect

ITEM = "create table item (id int primary key, name text)"
VIEW = "rowtide.rowtide_format"
LEFT = r"""
select 'schema', nspname::text from pg_namespace where nspname ~ '^(rowtide|cdc)'
union all select 'slot', slot_name::text from pg_replication_slots where database = current_database()
union all select 'publication', pubname::text from pg_publication
union all select 'event trigger', evtname::text from pg_event_trigger
union all select 'trigger', tgname::text from pg_trigger where not tgisinternal
"""


def refuse(database: LoggedDatabase, error: type[RowtideError], *reading: Callable[[], object]) -> None:
    """All that writes is refused, and the given ways of reading."""
    cdc = connect(database.url).cdc
    writing = (
        lambda: cdc.enable_db(str(database.lake)),
        lambda: cdc.enable_table("item", capture_instance="again"),
        cdc.scan,
        cdc.cleanup,
        lambda: cdc.reinitialize("a test"),
        lambda: cdc.drop_consumer("any"),
        lambda: connect(database.url).targets.drop("any"),
    )
    for use in (*writing, *reading):
        with pytest.raises(error):
            use()


def test_a_newer_captured_database_is_read_where_it_may_be(logged: LoggedDatabase) -> None:
    logged.execute(ITEM)
    logged.enable("item")
    cdc = connect(logged.url).cdc
    logged.execute(*recording(VIEW, NEWER_READABLE))
    before = set(logged.execute(LEFT))
    refuse(logged, FormatNewer, cdc.disable_db, lambda: cdc.disable_table("item"))
    assert [one.capture_instance for one in cdc.list_instances()] == ["public_item"]
    logged.execute(*recording(VIEW, NEWER))
    refuse(logged, FormatNewer, cdc.list_instances, cdc.status)
    assert set(logged.execute(LEFT)) == before


def test_a_captured_database_without_a_format_is_only_disabled(logged: LoggedDatabase) -> None:
    before = set(logged.execute(LEFT))
    logged.execute(ITEM, "create table other (id int primary key)")
    logged.enable("item", "other")
    cdc = connect(logged.url).cdc
    assert cdc.list_instances()
    logged.execute(forgetting(VIEW))
    made = set(logged.execute(LEFT))
    refuse(logged, FormatUnnumbered, cdc.list_instances, cdc.status)
    assert set(logged.execute(LEFT)) == made
    cdc.disable_table("item")
    assert logged.execute("select capture_instance from cdc.change_tables") == [("public_other",)]
    cdc.disable_db()
    assert set(logged.execute(LEFT)) == before

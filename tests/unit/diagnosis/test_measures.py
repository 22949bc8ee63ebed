"""What a message says in figures is there as values with units, for metrics and monitors."""

from __future__ import annotations

from collections.abc import Iterable

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import GIBIBYTE, TRACKED, database, server, settings, slot, table
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.diagnosis import CheckResult, Code, Unit
from rowtide.diagnosis.postgres.access import check_owners, check_subscriber
from rowtide.diagnosis.postgres.access_facts import NodeFacts, TableAccess
from rowtide.diagnosis.postgres.server import check_failover, check_server
from rowtide.diagnosis.postgres.server_facts import OpenTransaction, PreparedTransaction, RoleFacts
from rowtide.diagnosis.postgres.tables import check_tables
from rowtide.diagnosis.tracked_tables import Tombstones, TrackedFacts, check_tracked

HOUR_S = 3600.0


def measured(results: Iterable[CheckResult]) -> dict[Code, dict[str, float]]:
    """Return the values by code; each name says the unit."""
    endings = {Unit.BYTES: "_bytes", Unit.SECONDS: "_s", Unit.BYTES_PER_SECOND: "_bytes_per_s", Unit.COUNT: ""}
    found = {result.code: result.measures for result in results if result.measures}
    assert all(one.name.endswith(endings[one.unit]) for measures in found.values() for one in measures), found
    return {code: {one.name: one.value for one in measures} for code, measures in found.items()}


def test_results_of_a_server_have_its_figures() -> None:
    full = server(
        settings=settings(wal_keep_bytes=GIBIBYTE, idle_slot_timeout_s=600, sender_timeout_s=1.0),
        slots=(slot("a", is_physical=True, is_active=True), *(slot(f"s{number}") for number in range(9))),
        senders_used=9,
        wal_bytes_per_s=1024.0,
        transactions=(
            OpenTransaction(1, "app", "psql", 2 * HOUR_S, has_written=True),
            OpenTransaction(2, "app", "rowtide snapshot", 3 * HOUR_S, has_written=False),
        ),
        prepared=(PreparedTransaction("gid", "app", "shop", HOUR_S),),
    )
    assert measured(check_server(full, None)) == {
        Code.SLOTS_USED_UP: {"used": 10, "limit": 10, "idle": 9},
        Code.WAL_SENDERS_USED_UP: {"used": 9, "limit": 10},
        Code.WAL_LIMIT: {"limit_bytes": GIBIBYTE, "wal_bytes_per_s": 1024.0, "lasts_s": GIBIBYTE / 1024.0},
        Code.IDLE_SLOT_TIMEOUT: {"timeout_s": 600},
        Code.SENDER_TIMEOUT_UNFIT: {"timeout_s": 1.0},
        Code.PREPARED_FORGOTTEN: {"age_s": HOUR_S},
        Code.TRANSACTION_LONG: {"age_s": 2 * HOUR_S},
        Code.COPY_LONG: {"age_s": 3 * HOUR_S},
    }
    ours, present = slot("ours", has_failover=True), slot("a", is_physical=True, is_active=True)
    waiting = server(settings=settings(standby_slots="a, b"), slots=(ours, present))
    assert measured(check_failover(waiting, "ours")) == {Code.STANDBYS_AWAY: {"standbys": 2, "away": 1}}


def test_results_of_a_role_count_what_it_may_not_use() -> None:
    others = tuple(table(source_table(name=f"t{number}"), owner="x", is_owned=False) for number in range(3))
    assert measured(check_owners("app", others)) == {Code.TABLE_OWNER_RIGHTS_MISSING: {"tables": 3}}
    facts = NodeFacts(
        ServerIdentity("7001", 1, 5, "shop", in_recovery=False, wal_level="replica", version=18),
        RoleFacts("app", may_replicate=True, may_create=True, is_superuser=False),
        is_made=False,
        is_named=True,
        tables=others,
        accesses=(TableAccess("public.t0", '"public"."t0"', ("insert",)),),
        unusable_schemas=("a", "b"),
        closed_schemas=("c",),
    )
    assert measured(check_subscriber(facts, "rowtide_replication")) == {
        Code.OWNER_NOT_HELD: {"tables": 3},
        Code.TABLE_RIGHTS_MISSING: {"tables": 1},
        Code.SCHEMA_USAGE_MISSING: {"schemas": 2},
        Code.SCHEMA_CREATE_MISSING: {"schemas": 1},
    }


def test_results_of_tables_have_their_sizes() -> None:
    wide = table(source_table(name="wide"), row_width=100, row_count=10, out_of_line_bytes=1000)
    small, smaller = (table(source_table(name=f"t{width}"), row_width=width) for width in (40, 20))
    found = measured(check_tables(database(tables=(wide, small, smaller), foreign_tables=("public.away",))))
    assert found[Code.TOAST_LOGGED] == {"row_bytes": 200.0, "toast_bytes": 1000}
    assert found[Code.IDENTITY_CHANGES] == {"tables": 2, "least_row_bytes": 20, "most_row_bytes": 40}
    assert found[Code.FOREIGN_TABLES] == {"tables": 1}


def test_results_of_tombstones_have_their_numbers() -> None:
    facts = TrackedFacts(TRACKED, None, Tombstones(300_000, 200_000, 31.0))
    assert measured(check_tracked(facts)) == {
        Code.TOMBSTONES_MANY: {"tombstones": 300_000, "old_tombstones": 200_000, "oldest_s": 31 * 24 * HOUR_S}
    }

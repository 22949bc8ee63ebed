"""Every mend that a check or health prints is run by a test as it is printed; a new one fails here until one does."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "rowtide"
BUILDERS = {"Sql", "ShellCommand", "shell", "as_superuser", "set_and_reload", "set_and_restart"}
"""What makes a mend of statements or commands."""
RUNNERS = {"run_mend", "run_line", "run_statements", "run_until", "mend", "_mend_articles"}
"""What runs one as it is printed."""
CHECK, HEALTH = "live/diagnosis/test_check", "live/diagnosis/test"
_SETTINGS = f"{CHECK}_server.py::test_settings_are_mended_by_the_printed_statements"
_LEFT_OPEN = f"{CHECK}_server.py::test_what_is_left_open_is_named_and_ended_by_what_is_printed"
_STANDBYS = f"{CHECK}_server.py::test_printed_statements_make_capture_wait_for_live_standbys"
_TABLES = f"{CHECK}_tables.py::test_what_tables_lack_is_mended_by_what_is_printed"
_RIGHTS = f"{CHECK}_tables.py::test_printed_statements_grant_the_rights_a_role_lacks"
_SUBSCRIBER = f"{CHECK}_purposes.py::test_a_subscribers_role_is_granted_what_is_printed"
_READER = f"{CHECK}_purposes.py::test_a_reader_is_told_what_it_may_not_read"
_TRACKED_READER = f"{CHECK}_purposes.py::test_a_reader_of_tracked_tables_needs_their_owners_rights"
_NODE = f"{CHECK}_purposes.py::test_a_nodes_role_owns_its_tables"
_MEMBERS = f"{CHECK}_members.py::test"
_TRACKING = f"{CHECK}_tracking.py::test"
_SQLITE = "integration/diagnosis/test_check_sqlite.py::test"
_CAPTURE_LATE = f"{HEALTH}_mends.py::test_a_late_capture_catches_up_by_what_is_printed"
_DELIVERY_LATE = f"{HEALTH}_mends.py::test_a_late_delivery_catches_up_by_what_is_printed"
_IDENTITIES = f"{HEALTH}_mends.py::test_published_identities_are_mended_by_what_is_printed"
_LOST_KEY = f"{HEALTH}_mends.py::test_a_lost_key_is_mended_by_what_is_printed"

_NOT_RUN = "not run: it opens a folder to a group, in which the user of the tests would have to be, and no superuser"

RUN_BY: dict[str, tuple[str, ...]] = {
    "diagnosis/places.py:_check_mode": (
        "integration/databases/test_access.py::test_check_warns_of_places_that_everybody_reads",
    ),
    "diagnosis/postgres/access.py:check_monitor": (
        "live/rights/test_granting.py::test_a_grant_that_was_revoked_is_granted_by_what_is_printed",
        f"{CHECK}_purposes.py::test_a_monitor_without_pg_monitor_is_told_so",
    ),
    "diagnosis/postgres/access.py:check_reader": (
        _READER,
        _TRACKED_READER,
        _NOT_RUN,
    ),
    "diagnosis/postgres/access.py:_check_enumeration": (_TRACKED_READER,),
    "diagnosis/postgres/access.py:check_subscriber": (_SUBSCRIBER,) * 5,
    "diagnosis/postgres/access.py:_check_tables_of_owners": (
        f"{CHECK}_purposes.py::test_a_subscribers_role_becomes_a_member_of_an_owner",
    ),
    "diagnosis/postgres/access.py:_check_node": (_NODE, _NODE),
    "diagnosis/postgres/capture.py:check_capture": (
        f"{CHECK}_capture.py::test_a_schema_of_our_name_is_renamed_by_what_is_printed",
    ),
    "diagnosis/postgres/capture.py:run_reader": (_DELIVERY_LATE,),
    "diagnosis/postgres/capture.py:_repeat": (
        f"{CHECK}_capture.py::test_missing_event_triggers_are_made_by_what_is_printed",
    ),
    "diagnosis/postgres/capture.py:_remediate_blocker": (
        f"{HEALTH}_mends.py::test_a_log_of_publications_goes_on_by_what_is_printed",
        f"{CHECK}_capture.py::test_what_was_lost_is_named_and_reinitializing_goes_on",
    ),
    "diagnosis/postgres/capture.py:check_instances": (_CAPTURE_LATE,),
    "diagnosis/postgres/capture.py:_remediate_identity": (
        f"{CHECK}_capture.py::test_changed_captured_tables_are_named_before_capture_stops",
    ),
    "diagnosis/postgres/capture.py:_disable": (
        f"{CHECK}_capture.py::test_changed_captured_tables_are_named_before_capture_stops",
    ),
    "diagnosis/postgres/tables.py:_remediate_kind": (_TABLES,),
    "diagnosis/postgres/tables.py:_remediate_column": (f"{CHECK}_tables.py::test_virtual_columns_become_stored_ones",),
    "diagnosis/postgres/tables.py:_exclude": (_TABLES,),
    "diagnosis/postgres/tables.py:_enable": (_TABLES,),
    "diagnosis/postgres/server.py:check_standby": (
        "live/log/test_failover.py::test_a_standby_is_made_to_keep_the_slot_by_what_is_printed",
    ),
    "diagnosis/postgres/server.py:_set_standby_slots": (_STANDBYS,),
    "diagnosis/postgres/server.py:_make_failover_slot": (_STANDBYS,),
    "diagnosis/postgres/tables.py:_remediate_name": (f"{_MEMBERS}_table_recreated_under_a_dropped_name_is_reported",),
    "diagnosis/postgres/tables.py:_BEGIN": (
        f"{_MEMBERS}_a_table_that_was_swapped_in_is_named",
        f"{_MEMBERS}_published_names_are_judged_as_captured_ones",
    ),
    "diagnosis/postgres/access.py:_check_owner": (
        f"{CHECK}_purposes.py::test_a_hubs_role_is_granted_the_owner_of_its_table",
    ),
    "diagnosis/postgres/access.py:check_role": (_RIGHTS, _RIGHTS),
    "diagnosis/postgres/access.py:_share_ownership": (_RIGHTS,),
    "diagnosis/postgres/server.py:_check_wal_level": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_slots": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_senders": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_length_of_stop": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_idle_timeout": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_sender_timeout": (_SETTINGS,),
    "diagnosis/postgres/server.py:_check_prepared": (_LEFT_OPEN,),
    "diagnosis/postgres/server.py:_check_long_transactions": (_LEFT_OPEN,),
    "diagnosis/postgres/tables.py:_check_partitions": (
        f"{CHECK}_tables.py::test_a_partition_gets_its_identity_back_as_printed",
    ),
    "diagnosis/postgres/tables.py:_remediate_holder": (
        "live/cdc/test_partitions.py::test_a_partition_that_is_no_longer_logged_is_named",
    ),
    "diagnosis/postgres/tables.py:_check_key": (_TABLES,),
    "diagnosis/postgres/tracking.py:_check_server": (f"{_TRACKING}_a_standby_and_commit_times_are_distinguished",),
    "diagnosis/postgres/tracking.py:_check_stamps": (f"{_TRACKING}_an_index_that_is_missing_or_half_built_is_built",),
    "diagnosis/postgres/tracking.py:_check_scattered": (
        f"{_TRACKING}_scattered_changes_of_a_big_table_get_an_index_of_rows",
    ),
    "diagnosis/postgres/tracking.py:_check_rights": (
        f"{_TRACKING}_printed_statements_grant_the_rights_tracking_needs",
    ),
    "diagnosis/sqlite/views.py:_check_mode": (f"{_SQLITE}_a_merge_subscriber_that_everybody_can_read_is_warned_of",),
    "diagnosis/sqlite/views.py:_check_journal": (f"{_SQLITE}_writers_wait_for_enumerations_without_write_ahead_log",),
    "diagnosis/tracked_tables.py:resume": (f"{_TRACKING}_lost_tracking_is_found_and_resumed",),
    "diagnosis/tracked_tables.py:enable": (f"{_SQLITE}_what_is_recommended_before_enabling_does_what_it_says",),
    "diagnosis/tracked_tables.py:move_beside": (f"{_TRACKING}_stamps_are_kept_beside_rows_that_a_publication_sends",),
    "diagnosis/tracked_tables.py:remediate_loss": (f"{_SQLITE}_a_table_that_was_dropped_is_tracked_no_more",),
    "diagnosis/tracked_tables.py:_check_tombstones": (f"{_TRACKING}_old_tombstones_are_purged_when_there_are_many",),
    "diagnosis/capture.py:_describe_capturing": (_CAPTURE_LATE,),
    "diagnosis/capture.py:check_outdated": (
        "live/cdc/test_partitions.py::test_rows_of_an_attached_partition_are_missed_aloud",
    ),
    "diagnosis/capture.py:check_lost_keys": (_LOST_KEY, _LOST_KEY),
    "diagnosis/capture.py:check_targets": (f"{HEALTH}_mends.py::test_a_stopped_target_is_listed_by_what_is_printed",),
    "diagnosis/capture.py:check_cleanup": (
        f"{HEALTH}_health.py::test_a_cleanup_that_is_overdue_is_mended_by_what_is_printed",
    ),
    "diagnosis/delivery.py:_describe": (_DELIVERY_LATE,),
    "diagnosis/delivery.py:_of_one": (f"{HEALTH}_health.py::test_a_deactivated_subscription_fails",),
    "diagnosis/merge.py:_check_device": (
        "conformance/gateway/test_synchronising.py::test_health_says_of_a_device_that_is_refused_for_hours",
    ),
    "diagnosis/merge.py:_command": (
        "conformance/merge/test_health.py::test_subscription_not_synchronised_for_long_has_expired",
    ),
    "diagnosis/delivery.py:check_articles": (_IDENTITIES, _IDENTITIES),
}
"""By the place that makes mends, a test for each of them."""


def find_made() -> Iterator[str]:
    """Yield the place of each statement or command that is made in what a check and health find."""
    for path in (SOURCES / "diagnosis").rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        if name not in ("diagnosis/result.py", "diagnosis/result.py"):
            yield from (f"{name}:{place}" for place in _find_calls(ast.parse(path.read_text(encoding="utf-8")), ""))


def _find_calls(node: ast.AST, place: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        within = place
        if isinstance(child, ast.FunctionDef):
            within = child.name
        elif not place and isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
            within = child.targets[0].id
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in BUILDERS:
            yield within
        yield from _find_calls(child, within)


def test_every_mend_has_a_test_that_runs_it() -> None:
    assert Counter(find_made()) == {place: len(tests) for place, tests in RUN_BY.items()}


@pytest.mark.parametrize("test", sorted({test for tests in RUN_BY.values() for test in tests} - {_NOT_RUN}))
def test_the_test_runs_what_is_printed(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    called = {
        node.func.id for node in ast.walk(found) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & RUNNERS, called

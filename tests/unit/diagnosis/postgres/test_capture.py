from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from builders.capture.capture_instances import instance, source_table, unique_index
from builders.commands.check_facts import GIBIBYTE, capture, captured_instance, database, server, table
from builders.log.log_stores import open_state
from rowtide.cdc.enabling.table_rules import RuledTable
from rowtide.core.errors import RowtideError
from rowtide.core.tables import BeforeImages
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.postgres.capture import check_capture
from rowtide.diagnosis.postgres.capture_facts import CapturedInstance, RuleFacts, SlotFacts
from rowtide.diagnosis.result import Advice, CheckResult, State
from rowtide.log.errors import (
    HistoryDiverged,
    LogStoreMoved,
    ManifestCorrupt,
    ManifestMissing,
    PublicationAltered,
    ServerPromoted,
    SlotAdvanced,
    SlotInvalidated,
    SlotMissing,
)

MADE = source_table()
NOW = replace(MADE, identity="f")
DEFINED = captured_instance(definition=instance(table=MADE))
COMPARABLE = captured_instance(definition=instance(table=MADE), is_copied=True)


def findings_of_slot(slot: SlotFacts, rate: float | None = None) -> list[CheckResult]:
    return list(check_capture(database(server=server(wal_bytes_per_s=rate), capture=capture(slot=slot))))


def findings_of_instance(present: SourceTable | None, recorded: CapturedInstance = DEFINED) -> list[CheckResult]:
    tables = (table(present, is_captured=True),) if present is not None else ()
    return list(check_capture(database(tables=tables, capture=capture(instances=(recorded,)))))


def mend_of(present: SourceTable) -> str:
    (result,) = findings_of_instance(present)
    assert result.state is State.FAILING
    return str(result.remediation)


def test_a_schema_of_our_name_stops_enabling() -> None:
    (result,) = check_capture(database(taken_schemas=("cdc",)))
    assert (result.state, result.message) == (
        State.FAILING,
        "the database has a schema cdc that rowtide did not make, or that was restored without its rows",
    )
    assert str(result.remediation) == 'alter schema "cdc" rename to "cdc_earlier"; -- as its owner'


@pytest.mark.parametrize(
    ("blocker", "subject"),
    [
        (SlotMissing("s"), "slot"),
        (SlotInvalidated("s", "WAL was removed"), "slot"),
        (SlotAdvanced("s", "0/2", "0/1"), "slot"),
        (PublicationAltered("p", "it was dropped"), "publication"),
    ],
)
def test_what_only_a_new_epoch_mends_is_reinitialized(blocker: RowtideError, subject: str) -> None:
    (result,) = check_capture(database(capture=capture(blockers=(blocker,))))
    assert (result.state, result.subject, str(result.remediation)) == (
        State.FAILING,
        subject,
        "rowtide cdc reinitialize",
    )


@pytest.mark.parametrize(
    ("blocker", "subject"),
    [
        (HistoryDiverged("its log ends at 0/1", "0/2"), "server"),
        (ServerPromoted(2, 1, "no slot"), "server"),
        (LogStoreMoved("/lake/log", "rowtide_1", "2"), "log store"),
    ],
)
def test_possible_copy_of_a_server_is_adopted_not_reinitialized(blocker: RowtideError, subject: str) -> None:
    (result,) = check_capture(database(capture=capture(blockers=(blocker,))))
    assert (result.state, result.subject, str(result.remediation)) == (State.FAILING, subject, blocker.filled_hint)
    assert "rowtide adopt" in blocker.filled_hint
    assert "reinitialize`" not in blocker.filled_hint


@pytest.mark.parametrize(("enabled", "options"), [(COMPARABLE, " --difference"), (DEFINED, "")])
def test_lost_slot_is_bridged_where_tables_can_be_compared(enabled: CapturedInstance, options: str) -> None:
    found = check_capture(database(capture=capture(blockers=(SlotMissing("s"),), instances=(enabled,))))
    assert f"rowtide cdc reinitialize{options}" in [str(result.remediation) for result in found]


def test_enabling_that_was_interrupted_is_completed() -> None:
    found = check_capture(database(capture=capture(slot=None, blockers=(ManifestMissing("/log"), SlotMissing("s")))))
    assert [str(result.remediation) for result in found] == ["rowtide cdc enable-db --lake /lake"] * 2


def test_a_damaged_log_store_is_not_mended_by_a_command() -> None:
    error = ManifestCorrupt("manifest/1", "it is missing")
    (result,) = check_capture(database(capture=capture(blockers=(error,))))
    assert (result.subject, result.remediation) == ("log store", Advice(error.filled_hint))


def test_a_slot_with_room_has_no_findings() -> None:
    assert findings_of_slot(SlotFacts("s", "reserved", None, 1000)) == []
    assert findings_of_slot(SlotFacts("s", "reserved", 13 * GIBIBYTE, 1000), rate=GIBIBYTE) == []
    assert findings_of_slot(SlotFacts("s", "lost", 0, None)) == []


@pytest.mark.parametrize(
    ("slot", "rate", "words"),
    [
        (SlotFacts("s", "unreserved", 0, 0), None, "beyond max_slot_wal_keep_size"),
        (SlotFacts("s", "extended", 12 * GIBIBYTE, 0), None, "lost when 12 GiB more of WAL are written"),
        (SlotFacts("s", "extended", 9 * GIBIBYTE, 0), GIBIBYTE / 300, "written, at the average rate in 45 minutes"),
    ],
)
def test_a_slot_that_is_soon_lost_is_warned_of(slot: SlotFacts, rate: float | None, words: str) -> None:
    (result,) = findings_of_slot(slot, rate)
    assert (result.state, str(result.remediation)) == (State.WARNING, "rowtide cdc run")
    assert words in result.message


def test_much_wal_that_is_kept_for_the_slot_is_reported() -> None:
    (result,) = findings_of_slot(SlotFacts("s", "extended", None, 3 * GIBIBYTE))
    assert (result.state, result.message) == (State.HEALTHY, "the server keeps 3 GiB of WAL for it")


def test_a_table_that_is_as_it_was_has_no_findings() -> None:
    assert findings_of_instance(NOW) == []


def test_an_instance_the_log_reader_has_not_read_is_reported() -> None:
    for log_reader, severity in {None: State.WARNING, "host pid 1": State.HEALTHY}.items():
        facts = capture(instances=(captured_instance(),), log_reader=log_reader, state=open_state())
        (result,) = check_capture(database(tables=(table(NOW, is_captured=True),), capture=facts))
        assert (result.state, str(result.remediation)) == (severity, "rowtide cdc run")


def test_without_the_log_store_nothing_is_said_of_an_instance() -> None:
    facts = capture(instances=(captured_instance(),), state=None)
    assert not list(check_capture(database(tables=(table(NOW, is_captured=True),), capture=facts)))


def test_an_identity_that_is_no_longer_full_is_made_full() -> None:
    assert mend_of(MADE).startswith('alter table "public"."t1" replica identity full;')


@pytest.mark.parametrize(
    "altered",
    [
        replace(NOW, schema="Old", name="t2"),
        source_table([("id", "bigint"), ("label", "text")]),
        source_table([("code", "integer"), ("name", "text")], key=("code",)),
    ],
)
def test_names_and_types_follow_and_are_no_finding(altered: SourceTable) -> None:
    assert findings_of_instance(replace(altered, identity="f")) == []


def test_captured_columns_that_are_gone_are_reported() -> None:
    (result,) = findings_of_instance(replace(NOW, columns=NOW.columns[:1]))
    assert (result.state, result.message) == (
        State.HEALTHY,
        "captured columns are gone from its table, and null since: name",
    )


def test_missing_event_triggers_are_warned_of() -> None:
    (result,) = check_capture(database(capture=capture(has_triggers=False)))
    assert (result.state, str(result.remediation)) == (State.WARNING, "rowtide cdc enable-db --lake /lake")
    assert "statements are inferred from the rows that follow" in result.message


def test_rules_whose_tables_join_late_or_not_are_warned_of() -> None:
    failed = RuledTable("public.*", "public", "A b", "failed", "RT-22932: no name.", datetime.now(UTC))
    late, table = check_capture(database(capture=capture(rules=RuleFacts(("public.*",), False, (failed,)))))  # noqa: FBT003
    assert (late.state, late.subject) == (State.WARNING, "rule public.*")
    assert str(late.remediation) == "rowtide cdc enable-db --lake /lake"
    assert (table.subject, table.message) == ("table public.A b", "rule public.* cannot enable it: RT-22932: no name.")
    assert list(check_capture(database(capture=capture(rules=RuleFacts(("public.*",), has_triggers=True))))) == []


def test_a_key_that_no_index_keeps_any_more_is_warned_of() -> None:
    (result,) = findings_of_instance(replace(NOW, indexes=()))
    assert (result.state, result.message) == (
        State.WARNING,
        "no valid unique index of its table identifies rows by id any more",
    )


def test_keys_of_an_index_in_the_log_are_judged_by_that_index() -> None:
    by_name = unique_index("by_name", "name")
    made = replace(MADE, columns=tuple(replace(one, is_nullable=False) for one in MADE.columns), indexes=(by_name,))
    definition = instance(table=made, index_name="by_name", before_images=BeforeImages.KEY)
    recorded = captured_instance(definition=definition)
    assert findings_of_instance(replace(made, identity="i", identity_index="by_name"), recorded) == []
    (result,) = findings_of_instance(replace(made, identity="d"), recorded)
    assert result.message.startswith("its replica identity no longer has the key")


def test_an_instance_whose_table_was_dropped_is_disabled() -> None:
    (result,) = findings_of_instance(None, replace(DEFINED, is_dropped=True))
    assert result.state is State.WARNING
    assert str(result.remediation) == """rowtide cdc disable-table '"public"."t1"' --capture-instance public_t1"""


def test_tables_that_were_not_asked_for_are_left_alone() -> None:
    assert findings_of_instance(None) == []

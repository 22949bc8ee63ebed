from __future__ import annotations

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import capture, database, table
from rowtide.diagnosis.postgres.access import find_in_role
from rowtide.diagnosis.postgres.facts import DatabaseFacts, RoleFacts
from rowtide.diagnosis.result import CheckResult, State

WITHOUT_RIGHTS = RoleFacts('a"b', may_replicate=False, may_create=False, is_superuser=True)


def only(facts: DatabaseFacts) -> CheckResult:
    (finding,) = find_in_role(facts)
    return finding


def test_a_role_with_all_rights_has_no_findings() -> None:
    assert list(find_in_role(database(tables=(table(),)))) == []


def test_missing_rights_stop() -> None:
    findings = list(find_in_role(database(role=WITHOUT_RIGHTS)))
    assert [finding.state for finding in findings] == [State.FAILING, State.FAILING]
    assert [str(finding.remediation) for finding in findings] == [
        'alter role "a""b" replication; -- as a superuser',
        'grant create on database "shop" to "a""b"; -- as the database\'s owner',
    ]


def test_role_without_event_triggers_is_noted_before_enabling() -> None:
    plain = RoleFacts("app", may_replicate=True, may_create=True, is_superuser=False)
    finding = only(database(role=plain))
    assert finding.state is State.HEALTHY
    assert "no superuser" in finding.message
    assert "`rowtide cdc enable-db --lake PATH`" in str(finding.remediation)
    assert "`rowtide replication add-publication`" in str(finding.remediation)
    assert list(find_in_role(database(role=plain, capture=capture()))) == []


def test_nothing_is_created_once_the_database_is_enabled() -> None:
    assert only(database(role=WITHOUT_RIGHTS, capture=capture())).message == "it has no replication right"


def test_the_tables_of_an_owner_are_named_together() -> None:
    others = tuple(
        table(source_table(name=name), owner=owner, is_owned=False)
        for name, owner in (("a", "erp"), ("b", "crm"), ("c", "erp"))
    )
    findings = list(find_in_role(database(tables=(*others, table()))))
    assert [finding.message.partition(":")[0] for finding in findings] == [
        "it has not the rights of crm, which owns public.b",
        "it has not the rights of erp, which owns public.a, public.c",
    ]
    assert str(findings[1].remediation) == 'grant "erp" to "app"; -- as a superuser'


def test_only_a_table_that_was_named_stops_for_its_owner() -> None:
    other = table(owner="erp", is_owned=False)
    assert only(database(tables=(other,))).state is State.WARNING
    named = table(owner="erp", is_owned=False, is_wanted=True)
    assert only(database(tables=(named,))).state is State.FAILING


def test_captured_table_of_another_owner_is_only_a_warning() -> None:
    captured = table(owner="erp", is_owned=False, is_wanted=True, is_captured=True)
    assert only(database(tables=(captured,), capture=capture())).state is State.WARNING


def test_nobody_becomes_a_superuser_for_a_table() -> None:
    other = table(owner="postgres", owner_is_superuser=True, is_owned=False)
    assert (
        str(only(database(tables=(other,))).remediation)
        == 'alter table "public"."t1" owner to "app"; -- as a superuser'
    )

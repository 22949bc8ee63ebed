from __future__ import annotations

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import capture, database, table
from rowtide.findings.finding import Finding, Severity
from rowtide.findings.postgres.facts import DatabaseFacts, RoleFacts
from rowtide.findings.postgres.role_findings import find_in_role

WITHOUT_RIGHTS = RoleFacts('a"b', may_replicate=False, may_create=False, is_superuser=True)


def only(facts: DatabaseFacts) -> Finding:
    (finding,) = find_in_role(facts)
    return finding


def test_a_role_with_all_rights_has_no_findings() -> None:
    assert list(find_in_role(database(tables=(table(),)))) == []


def test_missing_rights_stop() -> None:
    findings = list(find_in_role(database(role=WITHOUT_RIGHTS)))
    assert [finding.severity for finding in findings] == [Severity.STOPS, Severity.STOPS]
    assert [str(finding.mend) for finding in findings] == [
        'alter role "a""b" replication; -- as a superuser',
        'grant create on database "shop" to "a""b"; -- as the database\'s owner',
    ]


def test_role_without_event_triggers_is_noted_before_enabling() -> None:
    plain = RoleFacts("app", may_replicate=True, may_create=True, is_superuser=False)
    finding = only(database(role=plain))
    assert finding.severity is Severity.TELLS
    assert "no superuser" in finding.fact
    assert "`rowtide cdc enable-db --lake PATH`" in str(finding.mend)
    assert "`rowtide replication add-publication`" in str(finding.mend)
    assert list(find_in_role(database(role=plain, capture=capture()))) == []


def test_nothing_is_created_once_the_database_is_enabled() -> None:
    assert only(database(role=WITHOUT_RIGHTS, capture=capture())).fact == "it has no replication right"


def test_the_tables_of_an_owner_are_named_together() -> None:
    others = tuple(
        table(source_table(name=name), owner=owner, is_owned=False)
        for name, owner in (("a", "erp"), ("b", "crm"), ("c", "erp"))
    )
    findings = list(find_in_role(database(tables=(*others, table()))))
    assert [finding.fact.partition(":")[0] for finding in findings] == [
        "it has not the rights of crm, which owns public.b",
        "it has not the rights of erp, which owns public.a, public.c",
    ]
    assert str(findings[1].mend) == 'grant "erp" to "app"; -- as a superuser'


def test_only_a_table_that_was_named_stops_for_its_owner() -> None:
    other = table(owner="erp", is_owned=False)
    assert only(database(tables=(other,))).severity is Severity.WARNS
    named = table(owner="erp", is_owned=False, is_wanted=True)
    assert only(database(tables=(named,))).severity is Severity.STOPS


def test_captured_table_of_another_owner_is_only_a_warning() -> None:
    captured = table(owner="erp", is_owned=False, is_wanted=True, is_captured=True)
    assert only(database(tables=(captured,), capture=capture())).severity is Severity.WARNS


def test_nobody_becomes_a_superuser_for_a_table() -> None:
    other = table(owner="postgres", owner_is_superuser=True, is_owned=False)
    assert str(only(database(tables=(other,))).mend) == 'alter table "public"."t1" owner to "app"; -- as a superuser'

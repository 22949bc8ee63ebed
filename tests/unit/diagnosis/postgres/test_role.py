from __future__ import annotations

from builders.capture.capture_instances import source_table
from builders.commands.check_facts import capture, database, table
from rowtide.diagnosis.postgres.access import check_role
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.server_facts import RoleFacts
from rowtide.diagnosis.result import CheckResult, State

WITHOUT_RIGHTS = RoleFacts('a"b', may_replicate=False, may_create=False, is_superuser=True)


def only(facts: DatabaseFacts) -> CheckResult:
    (result,) = check_role(facts)
    return result


def test_a_role_with_all_rights_has_no_findings() -> None:
    assert list(check_role(database(tables=(table(),)))) == []


def test_missing_rights_stop() -> None:
    results = list(check_role(database(role=WITHOUT_RIGHTS)))
    assert [result.state for result in results] == [State.FAILING, State.FAILING]
    assert [str(result.remediation) for result in results] == [
        'alter role "a""b" replication; -- as a superuser',
        'grant create on database "shop" to "a""b"; -- as the database\'s owner',
    ]


def test_role_without_event_triggers_is_noted_before_enabling() -> None:
    plain = RoleFacts("app", may_replicate=True, may_create=True, is_superuser=False)
    result = only(database(role=plain))
    assert result.state is State.HEALTHY
    assert "not a superuser" in result.message
    assert "`rowtide cdc enable-db --lake PATH`" in str(result.remediation)
    assert "`rowtide replication add-publication`" in str(result.remediation)
    assert list(check_role(database(role=plain, capture=capture()))) == []


def test_nothing_is_created_once_the_database_is_enabled() -> None:
    assert only(database(role=WITHOUT_RIGHTS, capture=capture())).message == "it has no replication right"


def test_the_tables_of_an_owner_are_named_together() -> None:
    others = tuple(
        table(source_table(name=name), owner=owner, is_owned=False)
        for name, owner in (("a", "erp"), ("b", "crm"), ("c", "erp"))
    )
    results = list(check_role(database(tables=(*others, table()))))
    assert [result.message.partition(":")[0] for result in results] == [
        "it lacks the rights of crm, which owns public.b",
        "it lacks the rights of erp, which owns public.a, public.c",
    ]
    assert str(results[1].remediation) == 'grant "erp" to "app"; -- as a superuser'


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

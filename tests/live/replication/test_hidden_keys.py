"""Keys and values of rows are where SECURITY.md says, and nowhere with --hide-keys."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from builders.replication.said import KEY, VALUE, deliver, said_by
from rowtide.core.redaction import are_hidden
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.delivery import CopyRefused, RowNotFound
from rowtide.replication.subscription_settings import IfExists, SubscriptionSettings, SyncType

TABLE = "create table accounts (id text primary key, note text, n int)"
INSERT = f"insert into accounts values ('{KEY}', '{VALUE}', 1)"
UPDATE = f"update accounts set n = 2 where id = '{KEY}'"
RAISE = """
create function refuse() returns trigger language plpgsql as $$
begin
    raise exception 'refused % %', new.id, new.note using detail = new.note, hint = new.id;
end $$
"""
TRIGGER = "create trigger refuse before insert or update on accounts for each row execute function refuse()"


GENERATED = "alter table accounts add number int generated always as (note::int) stored"


@dataclass(frozen=True)
class Failure:
    """How a subscriber comes to refuse a change, and what of key and value its error says without --hide-keys."""

    prepare: tuple[str, ...]
    number: int
    says: frozenset[str]
    change: str = INSERT


FAILURES = {
    "missing row": Failure(("delete from accounts",), 20598, frozenset({KEY}), UPDATE),
    "unique key": Failure((f"insert into accounts values ('{KEY}', 'x')",), 7114, frozenset({KEY})),
    "unique value": Failure(
        ("create unique index on accounts (note)", f"insert into accounts values ('x', '{VALUE}')"),
        7114,
        frozenset({KEY}),
    ),
    "check": Failure(("alter table accounts add check (n < 0)",), 7114, frozenset({KEY})),
    "not null": Failure(("alter table accounts add missing text not null",), 7114, frozenset({KEY})),
    "too long": Failure(("alter table accounts alter note type varchar(3)",), 7114, frozenset({KEY})),
    "type": Failure((GENERATED,), 7114, frozenset({KEY, VALUE})),
    "trigger": Failure((RAISE, TRIGGER), 7114, frozenset({KEY, VALUE})),
    "deferred trigger": Failure(
        (
            RAISE,
            TRIGGER.replace("before", "after")
            .replace("trigger", "constraint trigger", 1)
            .replace("for each row", "deferrable initially deferred for each row"),
        ),
        7110,
        frozenset({KEY, VALUE}),
    ),
}


def begin(replicated: ReplicatedDatabase, failure: Failure) -> None:
    replicated.begin(TABLE, accounts={})
    if failure.change is UPDATE:
        replicated.publisher.execute(INSERT)
        replicated.deliver()
    replicated.subscriber.execute(*failure.prepare)
    replicated.publisher.execute(failure.change)


@pytest.mark.parametrize("name", FAILURES)
def test_a_refused_change_shows_neither_key_nor_value(replicated: ReplicatedDatabase, name: str) -> None:
    failure = FAILURES[name]
    begin(replicated, failure)
    ended = deliver(replicated, "--hide-keys", "--debug")
    assert ended.code == 1
    assert f"RT-{failure.number}" in ended.errors
    said = said_by(ended, replicated)
    assert [secret for secret in (KEY, VALUE) if secret in said] == []


@pytest.mark.parametrize("name", FAILURES)
def test_without_the_option_errors_name_what_security_md_says(replicated: ReplicatedDatabase, name: str) -> None:
    failure = FAILURES[name]
    begin(replicated, failure)
    ended = deliver(replicated, "--debug")
    said = said_by(ended, replicated)
    assert {secret for secret in (KEY, VALUE) if secret in said} == failure.says


@pytest.mark.parametrize("hides", [True, False])
def test_a_conflict_is_kept_without_its_rows(replicated: ReplicatedDatabase, *, hides: bool) -> None:
    replicated.publish(TABLE, accounts={})
    replicated.subscriber.execute(TABLE, f"insert into accounts values ('{KEY}', 'x')")
    replicated.subscribe(settings=SubscriptionSettings(conflicts=Resolver.STOP))
    replicated.publisher.execute(INSERT)
    ended = deliver(replicated, *(["--hide-keys"] if hides else []))
    assert "RT-22815" in ended.errors
    said = said_by(ended, replicated)
    assert (KEY in said, VALUE in said) == (not hides, not hides)
    ((kept,),) = replicated.subscriber.execute('select new_row from rowtide_subscriber."MSconflicts"')
    assert (kept["id"], kept["n"]) == (("***", "***") if hides else (KEY, "1"))


@pytest.mark.parametrize("hides", [True, False])
def test_a_refused_copy_names_its_place(replicated: ReplicatedDatabase, *, hides: bool) -> None:
    replicated.publish(TABLE, accounts={})
    replicated.publisher.execute(INSERT)
    replicated.subscriber.execute(TABLE, "alter table accounts add check (note = '')")
    replicated.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.DELETE)
    with pytest.raises(CopyRefused) as refused:
        replicated.replication.run(once=True, hide_keys=hides)
    assert not are_hidden()
    assert "violates check constraint" in refused.value.reason
    assert ("COPY" in refused.value.reason) is not hides
    assert (refused.value.__cause__ is None) or not hides
    assert not [secret for secret in (KEY, VALUE) if secret in str(refused.value)]


CHECKED = "create table accounts (id text primary key, note text check (note = ''), n int)"
REFUSING = f"create trigger refuse before insert on accounts begin select raise(abort, 'refused {VALUE}'); end"
FILE_FAILURES = {
    "missing row": (("delete from accounts",), UPDATE),
    "unique key": ((f"insert into accounts (id) values ('{KEY}')",), INSERT),
    "check": (("drop table accounts", CHECKED), INSERT),
    "trigger": ((REFUSING,), INSERT),
}


@pytest.mark.parametrize("name", FILE_FAILURES)
@pytest.mark.parametrize("hides", [True, False])
def test_a_file_that_refuses_a_change_shows_nothing(replicated_file: ReplicatedFile, name: str, *, hides: bool) -> None:
    prepare, change = FILE_FAILURES[name]
    replicated_file.begin(TABLE, accounts={})
    if change is UPDATE:
        replicated_file.publisher.execute(INSERT)
        replicated_file.deliver()
    replicated_file.subscriber.execute(*prepare)
    replicated_file.publisher.execute(change)
    ended = deliver(replicated_file, "--debug", *(["--hide-keys"] if hides else []))
    assert ended.code == 1
    said = said_by(ended, replicated_file)
    expected = set() if hides else {KEY, *([VALUE] if name == "trigger" else [])}
    assert {secret for secret in (KEY, VALUE) if secret in said} == expected


def test_an_error_that_python_raises_has_no_key(replicated: ReplicatedDatabase) -> None:
    begin(replicated, FAILURES["missing row"])
    with pytest.raises(RowNotFound) as missing:
        replicated.replication.run(once=True, hide_keys=True)
    assert missing.value.key == "***"
    assert not are_hidden()
